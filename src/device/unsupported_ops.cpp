// unsupported_ops.cpp - where operations were meant to run, and where they run.
#include "device/unsupported_ops.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "pith/log.h"

namespace pith {
namespace {

// Whether nobody has been told of it.
bool is_news(const std::string & what) {
    static std::mutex mutex;
    static std::set<std::string> told;
    const std::lock_guard lock(mutex);
    return told.insert(what).second;
}

ggml_backend_t placed_at(ggml_backend_sched_t sched, ggml_tensor * tensor) {
    ggml_backend_t place = ggml_backend_sched_get_tensor_backend(sched, tensor);
    if (place != nullptr || tensor->view_src == nullptr) { return place; }
    return ggml_backend_sched_get_tensor_backend(sched, tensor->view_src);
}

}  // namespace

void UnsupportedOps::expect(ggml_tensor * node, ggml_backend_t at) {
    Operation & one = operations_.emplace_back(Operation{node, at, {}});
    std::ranges::copy(node->src, one.sources.begin());
}

void UnsupportedOps::tell(ggml_backend_sched_t sched, ggml_backend_t cpu) const {
    for (const Operation & one : operations_) {
        ggml_backend_t place = ggml_backend_sched_get_tensor_backend(sched, one.node);
        ggml_backend_t wanted = one.at;
        if (place == nullptr || place == wanted) { continue; }
        if (wanted == nullptr && place != cpu) { continue; }
        for (ggml_tensor * source : one.sources) {
            if (wanted != nullptr || source == nullptr) { continue; }
            ggml_backend_t made_at = placed_at(sched, source);
            const bool there = made_at != nullptr && made_at != cpu;
            if (there && !ggml_backend_supports_op(made_at, one.node)) { wanted = made_at; }
        }
        if (wanted == nullptr) { continue; }
        const std::string what = std::string(ggml_backend_name(wanted)) + " does not run " + ggml_op_desc(one.node);
        if (!is_news(what)) { continue; }
        log_line(LogLevel::kWarning, what + " as this model asks for it: it runs on " +
                                         (place == cpu ? "the CPU" : ggml_backend_name(place)) +
                                         ", and what it reads and makes crosses each time; fewer layers there may be faster");
    }
}

}  // namespace pith
