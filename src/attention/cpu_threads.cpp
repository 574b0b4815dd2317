// cpu_threads.cpp - a graph of one operation.
#include "attention/cpu_threads.h"

namespace pith {
namespace {

void run_part(ggml_tensor * /*dst*/, int ith, int /*nth*/, void * part) {
    (*static_cast<const std::function<void(int)> *>(part))(ith);
}

}  // namespace

Status run_on_threads(GraphRunner & runner, GraphBuild & build, const std::function<void(int ith)> & part) {
    ggml_tensor * nothing = nullptr;
    auto * data = const_cast<std::function<void(int)> *>(&part);
    ggml_build_forward_expand(
        build.graph(), ggml_custom_4d(build.ctx(), GGML_TYPE_F32, 1, 1, 1, 1, &nothing, 0, run_part, GGML_N_TASKS_MAX, data));
    return runner.run();
}

}  // namespace pith
