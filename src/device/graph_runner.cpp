// graph_runner.cpp - one graph after another on one back end.
#include "device/graph_runner.h"

#include <algorithm>
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

GraphRunner::GraphRunner(ggml_backend_t backend, std::span<const ggml_backend_t> devices)
    : backend_(backend), devices_(devices.begin(), devices.end()), custom_operations_(on_cpu()) {
    for (ggml_backend_t device : devices_) { of_devices_.push_back(std::make_unique<DeviceGraph>(device)); }
}

GraphRunner::~GraphRunner() {
    scheduled_.clear();
    if (build_.ctx_ != nullptr) { ggml_free(build_.ctx_); }
    if (gallocr_ != nullptr) { ggml_gallocr_free(gallocr_); }
}

bool GraphRunner::on_cpu() const {
    return ggml_backend_dev_type(ggml_backend_get_device(backend_)) == GGML_BACKEND_DEVICE_TYPE_CPU;
}

size_t GraphRunner::buffer_bytes() const {
    size_t n = (gallocr_ != nullptr ? ggml_gallocr_get_buffer_size(gallocr_, 0) : 0) + scheduled_.cpu_bytes() +
               meta_.capacity() + scratch_.capacity() + (workspace_ != nullptr ? workspace_->size_bytes() : 0);
    for (const auto & one : of_devices_) { n += one->cpu_bytes(); }
    return n;
}

size_t GraphRunner::device_bytes(size_t device) const {
    return of_devices_[device]->device_bytes() + scheduled_.device_bytes(device);
}

void GraphRunner::release_devices() {
    if (over_devices()) { planned_ = false; }
    whole_ = nullptr;
    scheduled_.clear();
    for (const auto & one : of_devices_) { one->release(); }
}

Result<GraphBuild *> GraphRunner::begin(size_t n_nodes) {
    scheduled_.clear();
    whole_ = nullptr;
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
        const auto has_all = std::ranges::find_if(of_devices_, [&](const auto & one) { return one->can_run(build_.graph_); });
        if (has_all != of_devices_.end()) {
            PITH_RETURN_IF_ERROR((*has_all)->plan(build_.graph_, build_.inputs_, build_.outputs_, build_.growth_));
            whole_ = has_all->get();
        } else if (whole_only_) {
            return {ErrorCode::kUnsupported, "no device runs all of a compute graph"};
        } else {
            PITH_RETURN_IF_ERROR(scheduled_.plan(build_.graph_, devices_, backend_));
        }
        planned_ = true;
        return {};
    }
    if (whole_only_) { return {ErrorCode::kUnsupported, "a compute graph is for no device"}; }
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
    } const cancelling{cancel_ != nullptr && whole_ == nullptr ? backend_ : nullptr};
    if (cancelling.backend != nullptr) { pith::set_cancel(backend_, cancel_); }
    if (over_devices()) {
        const Stopwatch watch;  // what is sent there, or cut by the scheduler, is not cut once more
        const ggml_status status = whole_ != nullptr ? whole_->compute(build_.graph_) : scheduled_.compute(build_.graph_);
        if (profile_ != nullptr) { profile_->rest_s += watch.seconds(); }
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
    const bool on_cpu_alone = devices_.empty() || !(planned_ ? over_devices() : needs_devices(build_.graph_));
    if (on_cpu_alone) {
        if (before_here_) { before_here_(); }
        return run_planned(watch);
    }
    Status status;
    if (before_here_) {  // devices are not held meanwhile: who is waited for may need them
        if (!planned_) {
            status = on_devices([&] { return plan(); });
        }
        if (status.ok() && whole_ == nullptr) { before_here_(); }
    }
    if (status.ok()) {
        status = on_devices([&] { return run_planned(watch); });
    }
    if (status.code() != ErrorCode::kIo) { return status; }
    return {ErrorCode::kIo, status.wording() + "; the model lies on " + device_names() +
                                ": load it again once they are well, or without them. The session is as before the call"};
}

void GraphRunner::fill_inputs() {
    if (whole_ != nullptr) { return whole_->send(build_.inputs_); }
    for (const GraphInput & input : build_.inputs_) {
        if (input.tensor == nullptr) {
            input.fill({});
        } else if (input.tensor->buffer == nullptr) {  // nobody reads it: lanes that gates left empty
            continue;
        } else if (input.data != nullptr) {
            ggml_backend_tensor_set(input.tensor, input.data, 0, ggml_nbytes(input.tensor));
        } else {
            scratch_.resize(ggml_nbytes(input.tensor));
            input.fill(scratch_);
            ggml_backend_tensor_set(input.tensor, scratch_.data(), 0, scratch_.size());
        }
    }
}

void GraphRunner::read_outputs() const {
    if (whole_ != nullptr) { return whole_->read(build_.outputs_); }
    for (const GraphOutput & output : build_.outputs_) {
        for (size_t row = 0; row < output.n_rows(); ++row) {
            ggml_backend_tensor_get(output.tensor, output.to(row), row * output.row_bytes, output.row_bytes);
        }
    }
}

Status GraphRunner::run_planned(const Stopwatch & watch) {
    if (!planned_) { PITH_RETURN_IF_ERROR(plan()); }
    fill_inputs();
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
    read_outputs();
    if (profile_ != nullptr) { profile_->build_s += reading.seconds(); }
    return {};
}

}  // namespace pith
