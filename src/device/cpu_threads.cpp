// cpu_threads.cpp - a graph of one operation.
#include "device/cpu_threads.h"

#include <atomic>
#include <new>

namespace pith {
namespace {

struct Work {
    const std::function<void(int)> & part;
    std::atomic<bool> has_memory{true};
    std::atomic<bool> threw_other{false};
};

void run_part(ggml_tensor * /*dst*/, int ith, int /*nth*/, void * data) {
    auto & work = *static_cast<Work *>(data);
    try {
        work.part(ith);
    } catch (const std::bad_alloc &) { work.has_memory = false; } catch (...) {
        work.threw_other = true;
    }
}

}  // namespace

Status run_on_threads(GraphRunner & runner, GraphBuild & build, const std::function<void(int ith)> & part) {
    ggml_tensor * nothing = nullptr;
    Work work{part};
    ggml_build_forward_expand(
        build.graph(), ggml_custom_4d(build.ctx(), GGML_TYPE_F32, 1, 1, 1, 1, &nothing, 0, run_part, GGML_N_TASKS_MAX, &work));
    PITH_RETURN_IF_ERROR(runner.run());
    if (work.threw_other) { return {ErrorCode::kInternal, "an exception ended what a thread was asked to do"}; }
    if (!work.has_memory) { return {ErrorCode::kOutOfMemory, "no memory for what the heads of a layer are asked"}; }
    return {};
}

Status run_tasks(GraphRunner & runner, int n_tasks, const std::function<void(int i)> & task) {
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(8));
    std::atomic<int> next{0};
    return run_on_threads(runner, *build, [&](int) {
        for (int i = next++; i < n_tasks && !runner.is_cancelled(); i = next++) { task(i); }
    });
}

RunTasks tasks_on(GraphRunner & runner) {
    if (runner.custom_operations()) { return std::bind_front(run_tasks, std::ref(runner)); }
    return [&runner](int n_tasks, const std::function<void(int i)> & task) -> Status {
        for (int i = 0; i < n_tasks && !runner.is_cancelled(); ++i) { task(i); }
        return runner.is_cancelled() ? Status(ErrorCode::kCancelled, "cancelled") : Status();
    };
}

}  // namespace pith
