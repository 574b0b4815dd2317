// registry.cpp - all tasks of all families; see benchmark.h. A new family is one line here and one in families.h.
#include <iterator>
#include <utility>

#include "benchmarks/families.h"

namespace pith::benchmarks {
namespace {

using MakeTasks = Tasks (*)();

constexpr MakeTasks kFamilies[] = {ruler_tasks,     needle_tasks,          needlebench_tasks,   world_tasks,
                                   longbench_tasks, longbench_v2_tasks,    infinitebench_tasks, babilong_tasks,
                                   scbench_tasks,   multiple_choice_tasks, document_tasks};

}  // namespace

std::span<const std::unique_ptr<Task>> all_tasks() {
    static const Tasks all = [] {
        Tasks out;
        for (const MakeTasks make : kFamilies) {
            Tasks tasks = make();
            out.insert(out.end(), std::make_move_iterator(tasks.begin()), std::make_move_iterator(tasks.end()));
        }
        return out;
    }();
    return all;
}

std::string full_name(const TaskRules & rules) {
    return rules.family + "/" + rules.name;
}

const Task * find_task(std::string_view family, std::string_view name) {
    for (const auto & task : all_tasks()) {
        if (task->rules().family == family && task->rules().name == name) { return task.get(); }
    }
    return nullptr;
}

}  // namespace pith::benchmarks
