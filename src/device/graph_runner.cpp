// graph_runner.cpp - one graph after another on one back end.
#include "device/graph_runner.h"

#include <string>

#include "core/items.h"
#include "device/backend.h"
#include "device/device_work.h"

namespace pith {

namespace {

Status cancelled() {
    return {ErrorCode::kCancelled, "cancelled"};
}

}  // namespace

GraphRunner::~GraphRunner() {
    scheduled_.clear();
    if (build_.ctx_ != nullptr) { ggml_free(build_.ctx_); }
    if (gallocr_ != nullptr) { ggml_gallocr_free(gallocr_); }
}

bool GraphRunner::on_cpu() const {
    return ggml_backend_dev_type(ggml_backend_get_device(backend_)) == GGML_BACKEND_DEVICE_TYPE_CPU;
}

size_t GraphRunner::buffer_bytes() const {
    return (gallocr_ != nullptr ? ggml_gallocr_get_buffer_size(gallocr_, 0) : 0) + scheduled_.cpu_bytes() + meta_.capacity() +
           scratch_.capacity() + (workspace_ != nullptr ? workspace_->size_bytes() : 0);
}

Result<GraphBuild *> GraphRunner::begin(size_t n_nodes) {
    scheduled_.clear();
    if (build_.ctx_ != nullptr) { ggml_free(build_.ctx_); }
    build_ = GraphBuild();
    planned_ = false;
    pieces_.clear();
    begun_ = Stopwatch();
    if (workspace_ != nullptr) { workspace_->begin_graph(); }
    build_.workspace_ = &workspace_;
    build_.cancel_ = &cancel_;
    build_.custom_operations_ = custom_operations_;
    // Views, inputs and leaves count as tensors too: twice the nodes is room for all of them.
    const size_t size = 2 * n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false);
    if (meta_.size() < size) { meta_.resize(size); }
    build_.ctx_ = ggml_init({meta_.size(), meta_.data(), true});
    if (build_.ctx_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for a compute graph"}; }
    build_.graph_ = ggml_new_graph_custom(build_.ctx_, n_nodes, false);
    return &build_;
}

Status GraphRunner::plan() {
    if (!devices_.empty() && needs_devices(build_.graph_)) {
        PITH_RETURN_IF_ERROR(scheduled_.plan(build_.graph_, devices_, backend_));
        planned_ = true;
        return {};
    }
    if (gallocr_ == nullptr) { gallocr_ = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend_)); }
    if (gallocr_ == nullptr || !ggml_gallocr_reserve(gallocr_, build_.graph_) ||
        !ggml_gallocr_alloc_graph(gallocr_, build_.graph_)) {
        return {ErrorCode::kOutOfMemory, "no memory for the activations of a compute graph: use a smaller " + item::kChunk};
    }
    planned_ = true;
    return {};
}

ggml_status GraphRunner::compute() {
    struct Cancelling {
        ggml_backend_t backend;  // null: nobody may cancel
        ~Cancelling() {
            if (backend != nullptr) { pith::set_cancel(backend, nullptr); }
        }
    } const cancelling{cancel_ != nullptr ? backend_ : nullptr};
    if (cancel_ != nullptr) { pith::set_cancel(backend_, cancel_); }
    if (scheduled_.planned()) {
        const Stopwatch whole;  // what the scheduler cuts is not cut once more
        const ggml_status status = scheduled_.compute(build_.graph_);
        if (profile_ != nullptr) { profile_->rest_s += whole.seconds(); }
        return status;
    }
    if (profile_ == nullptr) { return ggml_backend_graph_compute(backend_, build_.graph_); }
    const Stopwatch watch;
    if (pieces_.empty() && !pieces_.cut(build_.graph_)) { return GGML_STATUS_ALLOC_FAILED; }
    profile_->profiling_s += watch.seconds();
    return pieces_.run(backend_, *profile_);
}

std::string GraphRunner::device_names() const {
    std::string names;
    for (ggml_backend_t device : devices_) { names += (names.empty() ? "" : ", ") + std::string(ggml_backend_name(device)); }
    return names;
}

Status GraphRunner::run() {
    if (is_cancelled()) { return cancelled(); }
    const Stopwatch watch = planned_ ? Stopwatch() : begun_;
    const bool on_cpu_alone = devices_.empty() || !(planned_ ? scheduled_.planned() : needs_devices(build_.graph_));
    if (on_cpu_alone) { return run_planned(watch); }
    Status status = on_devices([&] { return run_planned(watch); });
    if (status.code() != ErrorCode::kIo) { return status; }
    return {ErrorCode::kIo, status.wording() + "; the model lies on " + device_names() +
                                ": load it again once they are well, or without them. The session is as before the call"};
}

Status GraphRunner::run_planned(const Stopwatch & watch) {
    if (!planned_) { PITH_RETURN_IF_ERROR(plan()); }
    for (const auto & fill : build_.fills_) { fill(scratch_); }
    if (profile_ != nullptr) { profile_->build_s += watch.seconds(); }

    const ggml_status status = compute();
    if (is_cancelled()) { return cancelled(); }  // whatever came of it: operations may have been left out
    if (status == GGML_STATUS_ALLOC_FAILED) { return {ErrorCode::kOutOfMemory, "no memory for a compute graph's work buffer"}; }
    if (status != GGML_STATUS_SUCCESS) {
        return {ErrorCode::kInternal, std::string("a compute graph failed: ") + ggml_status_to_string(status)};
    }
    if (workspace_ != nullptr && !workspace_->finished()) {
        return {ErrorCode::kOutOfMemory, "no memory to attend in: use a smaller " + item::kChunk};
    }
    const Stopwatch reading;
    for (const auto & read : build_.reads_) { read(); }
    if (profile_ != nullptr) { profile_->build_s += reading.seconds(); }
    return {};
}

}  // namespace pith
