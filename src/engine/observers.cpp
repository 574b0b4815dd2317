// observers.cpp - tokens that run behind a prompt as queries only, and are taken back. Stage: engine.
#include <algorithm>
#include <utility>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "engine/model_parts.h"
#include "engine/session_impl.h"

namespace pith {

Result<bool> Session::prefill_for_questions(std::span<const int32_t> tokens, std::span<const int32_t> questions,
                                            const RunHooks & hooks) {
    const Stopwatch watch;
    const double evidence_before = impl_->forward->evidence_s();
    Result<bool> seen = guarded([&] { return impl_->feed_for(tokens, questions, hooks); });
    impl_->ledger.prefill_s += watch.seconds();
    impl_->ledger.evidence_s += impl_->forward->evidence_s() - evidence_before;
    if (seen.ok()) { impl_->ledger.n_prompt += std::ssize(tokens); }
    impl_->update_ledger();
    return seen;
}

Result<bool> Session::Impl::feed_for(std::span<const int32_t> tokens, std::span<const int32_t> questions,
                                     const RunHooks & hooks) {
    if (questions.empty()) {
        return {ErrorCode::kInvalidArgument,
                "prefill_for_questions() was given no questions: prefill() reads a prompt without"};
    }
    PITH_RETURN_IF_ERROR(check_tokens(questions));
    if (seq.n_tokens != 0 || hooks.n_question != 0) {
        return {ErrorCode::kInvalidArgument,
                "prefill_for_questions() is for an empty session, and for a prompt that ends in no question (n_question 0)"};
    }
    const Observing observing(*this, questions);
    PITH_RETURN_IF_ERROR(feed(tokens, /*is_prompt=*/true, hooks));
    return end_observing();
}

// They run behind the prompt that is read from now on, which may still find that they cannot.
void Session::Impl::begin_observing(std::span<const int32_t> questions) {
    // Gates that evict decide what is cached before a layer's attention: observers that are taken back again have no place
    // there.
    const bool evict = known_gates(gates ? &gates->gate() : nullptr) == KnownGates::kThreshold;
    const bool may_turn = seq.policy_asked.is_auto() && !evict;  // to a policy that asks none
    const bool asks_gates = gates && ((seq.policy.needs_gate() && !may_turn) || gate_observer || (evict && !observed.empty()));
    observers = asks_gates ? std::span<const int32_t>() : questions;
}

// The prompt has been read. Whether it was in their sight.
bool Session::Impl::end_observing() {
    if (observers.empty()) { return false; }
    observers = {};
    // Without memory for it, the session goes on with what it had.
    static_cast<void>(guarded([&]() -> Status {
        seq.evidence.narrow(all_needs(seq.policy.needs()));
        return {};
    }));
    return true;
}

// With observers there, the last queries are all of them, and so is the last.
EvidenceNeeds Session::Impl::needs_in_sight() const {
    EvidenceNeeds needs = seq.policy.needs();
    if (observers.empty()) { return needs; }
    const auto n = static_cast<int>(observers.size());
    if (needs.any_window() || needs.last_query) { needs.window = std::max(needs.window, n); }
    if (needs.last_query) { needs.window_mean = true; }
    if (needs.running_last > 0) { needs.running_last = std::max(needs.running_last, n); }
    return needs;
}

// The observers through one layer, behind the prompt that its lanes hold. states [n][D]: theirs, from layer to layer.
Status Session::Impl::observe(int layer, std::span<float> states) {
    const auto width = static_cast<size_t>(file->hparams().n_embd);
    const auto n = static_cast<int>(observers.size());
    for (int i = 0; i < n; i += seq.plan->chunk) {
        const int m = std::min(seq.plan->chunk, n - i);
        const auto rows = states.subspan(static_cast<size_t>(i) * width, static_cast<size_t>(m) * width);
        const int n_out = layer + 1 == n_layers() ? 1 : m;
        PITH_RETURN_IF_ERROR(run_layer(layer, observers.subspan(static_cast<size_t>(i), static_cast<size_t>(m)), rows, m,
                                       static_cast<int32_t>(seq.n_tokens - n + i), n_out, n - i - m));
    }
    return {};
}

// before: the layer's evidence without them.
void Session::Impl::take_back(int layer, EvidenceState::Layer before) {
    std::vector<int> lengths;
    for (int h = 0; h < seq.cache->n_kv_heads(layer); ++h) {
        lengths.push_back(seq.cache->length(seq.cache->lane(0, layer, h)) - static_cast<int>(observers.size()));
    }
    seq.cache->truncate(0, layer, lengths);
    seq.evidence.restore(layer, std::move(before), lengths);
}

// Plans that were made while tokens stood at the lanes' ends that are no longer there.
void Session::Impl::leave_out_observers(std::vector<LayerPlan> & plans) const {
    for (LayerPlan & one : plans) {
        Ragged<int32_t> keep;
        for (int h = 0; h < shape().n_kv_heads; ++h) {
            const auto row = one.keep.row(h);
            const int length = seq.cache->length(seq.cache->lane(0, one.layer, h));
            keep.push_row(row.first(static_cast<size_t>(std::ranges::lower_bound(row, length) - row.begin())));
        }
        one.keep = std::move(keep);
    }
}

}  // namespace pith
