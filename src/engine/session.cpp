// session.cpp - the public face of a session. Stage: engine.
#include "pith/session.h"

#include <algorithm>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "device/resident.h"
#include "engine/generate_tokens.h"
#include "engine/session_impl.h"

namespace pith {
namespace {

Status must_be_prefilled() {
    return {ErrorCode::kInvalidArgument, "a session must be prefilled before it can decode"};
}

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session &&) noexcept = default;
Session & Session::operator=(Session &&) noexcept = default;
Session::~Session() = default;

Status Session::prefill(std::span<const int32_t> tokens, const RunHooks & hooks) {
    const Stopwatch watch;
    const double evidence_before = impl_->forward->evidence_s();
    Status status = guarded([&] { return impl_->feed(tokens, /*is_prompt=*/!hooks.is_answer, hooks); });
    impl_->ledger.prefill_s += watch.seconds();
    impl_->ledger.evidence_s += impl_->forward->evidence_s() - evidence_before;
    if (status.ok()) { impl_->ledger.n_prompt += static_cast<int64_t>(tokens.size()); }
    impl_->update_ledger();
    return status;
}

Status Session::append(int32_t token) {
    const Stopwatch watch;
    const double evidence_before = impl_->forward->evidence_s();
    Status status = guarded([&]() -> Status {
        if (impl_->seq.n_tokens == 0) { return must_be_prefilled(); }
        return impl_->feed(std::span(&token, 1), /*is_prompt=*/false, {});
    });
    impl_->ledger.decode_s += watch.seconds();
    impl_->ledger.evidence_s += impl_->forward->evidence_s() - evidence_before;
    if (status.ok()) { ++impl_->ledger.n_generated; }
    impl_->update_ledger();
    return status;
}

Result<int32_t> Session::decode() {
    if (impl_->seq.logits.empty()) {
        return guarded([]() -> Result<int32_t> { return must_be_prefilled(); });
    }
    const int32_t best = likeliest_token(impl_->seq.logits);
    PITH_RETURN_IF_ERROR(append(best));
    return best;
}

std::span<const float> Session::logits() const {
    return impl_->seq.logits;
}
int64_t Session::n_tokens() const {
    return impl_->seq.n_tokens;
}
int Session::n_layers() const {
    return impl_->n_layers();
}
bool Session::is_governed(int layer) const {
    return impl_->layout.governs(layer);
}
int Session::n_kv_heads() const {
    return impl_->shape().n_kv_heads;
}

std::span<const int32_t> Session::lane_positions(int layer, int kv_head) const {
    if (!impl_->seq.cache || !impl_->seq.cache->has_lane(layer, kv_head)) { return {}; }
    return impl_->seq.cache->positions(impl_->seq.cache->lane(0, layer, kv_head));
}

const Ledger & Session::ledger() const {
    const ResidentBytes resident = resident_bytes();
    impl_->ledger.rss_peak_bytes = resident.peak;
    impl_->ledger.rss_anonymous_bytes = resident.anonymous;
    return impl_->ledger;
}

void Session::Impl::tell_device_bytes() const {
    for (DeviceUse & use : ledger.devices) {
        use.kv_bytes = 0;
        for (int l = use.first_layer; seq.cache && l < use.first_layer + use.n_layers; ++l) {
            use.kv_bytes += seq.cache->in_buckets(l) ? seq.cache->allocated_bytes(l) : 0;
        }
    }
}

void Session::Impl::see_evidence_peak() const {
    ledger.evidence_peak_bytes =
        std::max(ledger.evidence_peak_bytes, seq.evidence.size_bytes() + seq.undo_evidence_bytes() + output->size_bytes());
}

void Session::Impl::update_ledger() const {
    if (seq.cache) {
        const size_t saved = seq.saved_bytes();
        ledger.kept_entries = seq.cache->n_entries();
        ledger.peak_lane_entries = seq.cache->peak_lane_entries();
        ledger.kv_needed_bytes = seq.cache->needed_bytes();
        ledger.n_lanes = shape().n_lanes();
        ledger.n_tokens = seq.n_tokens;
        ledger.kv_state_bytes = seq.states.size_bytes();
        ledger.kv_window_bytes = seq.cache->allocated_bytes(Layers::kWindows);
        ledger.kv_full_bytes = static_cast<size_t>(seq.n_tokens * ledger.n_lanes) * layout.entry_bytes() +
                               seq.cache->needed_bytes(Layers::kWindows) + ledger.kv_state_bytes;
        ledger.kv_needed_bytes += ledger.kv_state_bytes;
        ledger.kv_allocated_bytes = seq.cache->allocated_bytes() + ledger.kv_state_bytes + saved;
        ledger.kv_saved_bytes = saved;
        ledger.kv_peak_bytes =
            std::max({ledger.kv_peak_bytes, std::max(seq.cache->peak_bytes(), seq.peak_bytes()) + 2 * ledger.kv_state_bytes,
                      ledger.kv_allocated_bytes + ledger.kv_state_bytes});  // a call keeps those that it began with
    }
    tell_device_bytes();
    see_evidence_peak();
    ledger.activation_peak_bytes =
        std::max(ledger.activation_peak_bytes, forward->activation_bytes() + hidden.capacity() * sizeof(float));
}

}  // namespace pith
