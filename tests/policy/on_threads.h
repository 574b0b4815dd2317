// on_threads.h - tasks side by side on threads of the test's own, the last task first.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "core/tasks.h"

namespace pith::test {

inline Status run_on_three_threads(int n_tasks, const std::function<void(int i)> & task) {
    std::atomic<int> left{n_tasks};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            for (int i = --left; i >= 0; i = --left) task(i);
        });
    }
    for (std::thread & thread : threads) thread.join();
    return {};
}

}  // namespace pith::test
