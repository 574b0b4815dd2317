// states_there.cpp - who reads what behind which layer, and memory for it.
#include "engine/pass/states_there.h"

#include "engine/pass/execution.h"
#include "engine/pass/live_session.h"

namespace pith {

bool are_there(const LiveSession & session, int begin, int end) {
    const Placement * placement = session.file->placement();
    if (placement == nullptr || session.gates || session.forward->is_tapped()) { return false; }
    for (int layer = begin; layer < end; ++layer) {
        if (placement->of_layer[static_cast<size_t>(layer)] == Placement::kCpu) { return false; }
        const bool attends = session.file->hparams().layer(layer).has_attention();
        if (attends && !session.seq.cache->in_buckets(session.layout.source(layer))) { return false; }
    }
    return true;
}

Status StatesThere::begin_layers(const LiveSession & session, int begin, int end, int64_t n) {
    const Placement * placement = session.file->placement();
    if (placement == nullptr) { return {}; }
    of_layer_ = placement->of_layer;
    if (begin == 0) { stay_behind_.clear(); }  // another prompt, or chunk
    stay_behind_.resize(of_layer_.size(), false);
    there_.resize(placement->devices.size());
    const auto device_of = [&](int layer) { return of_layer_[static_cast<size_t>(layer)]; };
    for (size_t device = 0; device < there_.size(); ++device) {
        bool used = false;
        for (int layer = begin; layer < end; ++layer) { used = used || device_of(layer) == static_cast<int>(device); }
        if (!used) { there_[device].reset(); }
    }
    for (int layer = begin; layer < end; ++layer) {
        const bool goes_on = layer + 1 < session.n_layers() && device_of(layer) == device_of(layer + 1);
        if (!goes_on || !are_there(session, layer, layer + 1) || !are_there(session, layer + 1, layer + 2)) { continue; }
        const auto device = static_cast<size_t>(device_of(layer));
        PITH_RETURN_IF_ERROR(hold(session, device, n));
        stay_behind_[static_cast<size_t>(layer)] = there_[device] != nullptr;
    }
    return {};
}

Status StatesThere::hold(const LiveSession & session, size_t device, int64_t n) {
    if (there_[device] != nullptr && there_[device]->n_rows() >= n) { return {}; }
    there_[device].reset();
    auto made = DeviceRows::make(session.execution->devices[device].get(), session.file->hparams().n_embd, n);
    if (made.ok()) {
        there_[device] = std::move(*made);
    } else if (made.status().code() != ErrorCode::kOutOfMemory) {
        return made.status();
    }
    return {};
}

RowsThere StatesThere::rows(int layer, int64_t first, bool read_behind) const {
    if (of_layer_.empty() || of_layer_[static_cast<size_t>(layer)] == Placement::kCpu) { return {}; }
    const auto l = static_cast<size_t>(layer);
    const DeviceRows * there = there_[static_cast<size_t>(of_layer_[l])].get();
    if (there == nullptr) { return {}; }
    const bool is_last = l + 2 == of_layer_.size();  // of_layer_ counts the output, too
    return {there, first, layer > 0 && stay_behind_[l - 1], stay_behind_[l] || (is_last && !read_behind)};
}

void StatesThere::release() noexcept {
    there_.clear();
    stay_behind_.clear();
    of_layer_.clear();
}

size_t StatesThere::size_bytes(size_t device) const {
    return device < there_.size() && there_[device] != nullptr ? there_[device]->size_bytes() : 0;
}

size_t StatesThere::size_bytes() const {
    size_t n = 0;
    for (size_t device = 0; device < there_.size(); ++device) { n += size_bytes(device); }
    return n;
}

}  // namespace pith
