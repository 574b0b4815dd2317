#include <gtest/gtest.h>

#include <set>

#include "benchmarks/benchmark.h"

namespace pith::benchmarks::registry_test {
namespace {

TEST(TaskRegistry, FindsEveryTaskByFamilyAndName) {
    std::set<std::pair<std::string, std::string>> seen;
    for (const auto & task : all_tasks()) {
        const TaskRules & rules = task->rules();
        EXPECT_TRUE(seen.emplace(rules.family, rules.name).second) << rules.family << " has two tasks " << rules.name;
        EXPECT_EQ(find_task(rules.family, rules.name), task.get());
        EXPECT_FALSE(rules.help.empty()) << rules.name;
        EXPECT_FALSE(rules.metric.empty()) << rules.name;
    }
    EXPECT_EQ(find_task("ruler", "niah_single_9"), nullptr);
    EXPECT_EQ(find_task("ruller", "niah_single_1"), nullptr);
}

}  // namespace
}  // namespace pith::benchmarks::registry_test
