// families.h - one function for each family of tasks; registry.cpp calls them all. Stage: benchmarks.
#pragma once

#include <memory>
#include <vector>

#include "benchmarks/benchmark.h"

namespace pith::benchmarks {

using Tasks = std::vector<std::unique_ptr<Task>>;

Tasks ruler_tasks();
Tasks needle_tasks();
Tasks needlebench_tasks();
Tasks world_tasks();
Tasks longbench_tasks();
Tasks longbench_v2_tasks();
Tasks infinitebench_tasks();
Tasks babilong_tasks();
Tasks scbench_tasks();
Tasks multiple_choice_tasks();
Tasks document_tasks();

}  // namespace pith::benchmarks
