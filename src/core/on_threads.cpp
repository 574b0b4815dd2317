// on_threads.cpp - see on_threads.h.
#include "core/on_threads.h"

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/guarded.h"

namespace pith {

Status on_threads(int n, const std::function<Status(int i)> & part) {
    std::vector<Status> ends(static_cast<size_t>(n));
    const auto run = [&](int i) noexcept { ends[static_cast<size_t>(i)] = guarded([&] { return part(i); }); };
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(n));
    int next = 1;
    try {
        for (; next < n; ++next) { threads.emplace_back(run, next); }
    } catch (const std::exception &) {  // no more threads, or no memory for one: what is left runs here
    }
    if (n > 0) { run(0); }
    for (; next < n; ++next) { run(next); }
    for (std::thread & thread : threads) { thread.join(); }
    for (Status & end : ends) {
        if (!end.ok()) { return std::move(end); }
    }
    return {};
}

}  // namespace pith
