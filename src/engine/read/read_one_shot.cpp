// read_one_shot.cpp - the cascade over layers.
#include "engine/read/read_one_shot.h"

#include <algorithm>
#include <utility>

#include "core/stopwatch.h"
#include "device/cpu_threads.h"
#include "engine/evict/evict.h"
#include "engine/evict/evict_as.h"
#include "engine/evict/observers.h"
#include "engine/evict/reread.h"
#include "engine/evict/turn.h"
#include "engine/pass/session_ledger.h"
#include "engine/pass/token_pass.h"

namespace pith {

OneShotReader::OneShotReader(LiveSession & session, std::span<const int32_t> tokens, const RunHooks & hooks)
    : session_(session),
      tokens_(tokens),
      hooks_(hooks),
      n_(static_cast<int>(tokens.size())),
      n_layers_(session.n_layers()),
      must_evict_(session.seq.must_evict(n_)),
      cascade_(!session.seq.policy.wants_all_layers()),
      rereads_(must_evict_ ? session.seq.policy.rereads() : !session.seq.evicts() && session.seq.evidence.wants_reread()) {
    session.seq.n_tokens = n_ + std::ssize(session.observers);
    EvictionTarget target = eviction_target(session);
    // Layers that run meanwhile may want the observer.
    if (!session.seq.policy.needs().values) { target.run_tasks = tasks_on(session.forward->observer_there()); }
    pass_.emplace(session.seq.policy, std::move(target), cascade_, static_cast<int>(session.seq.n_tokens));
    const auto width = static_cast<size_t>(session.file->hparams().n_embd);
    session.pass.states_there().release();
    session.pass.states().resize(tokens.size() * width);
    observing_.resize(session.observers.size() * width);
    before_.resize(session.observers.empty() ? 0 : static_cast<size_t>(n_layers_));
}

void OneShotReader::without_observers(int layer) {
    if (!session_.observers.empty()) { take_back_observers(session_, layer, std::move(before_[static_cast<size_t>(layer)])); }
}

Status OneShotReader::advance() {
    pass_->set_cancel(session_.forward->cancel());  // from call to call another
    PITH_RETURN_IF_ERROR(run_unit());
    if (first_ < n_) { return {}; }
    const int end = end_of_run();
    for (int layer = layer_; layer < end; ++layer) { PITH_RETURN_IF_ERROR(end_layer(layer)); }
    first_ = 0;
    layer_ = end;
    return done() ? end_prompt() : Status();
}

// In front of the first chunk of a run of layers.
Status OneShotReader::begin_layers() {
    if (session_.gates) {
        PITH_RETURN_IF_ERROR(
            session_.gates->ask(session_, layer_, {tokens_, session_.pass.states(), n_}, 0, session_.seq, session_.ledger));
    }
    if (layer_ == 0) { PITH_ASSIGN_OR_RETURN(room_, room_there(session_, n_, must_evict_ && cascade_ && !rereads_)); }
    const int end = end_of_run();
    Status reserved = reserve_layers(end);
    if (reserved.code() == ErrorCode::kOutOfMemory && in_flight_.any()) {  // one whole layer at a time, then
        PITH_RETURN_IF_ERROR(land());
        reserved = reserve_layers(end);
    }
    PITH_RETURN_IF_ERROR(reserved);
    chunk_ = are_there(session_, layer_, end) ? room_.chunk : session_.seq.plan->chunk;
    return room_.for_states ? session_.pass.states_there().begin_layers(session_, layer_, end, n_) : Status();
}

// On a device once, and not again for every chunk.
Status OneShotReader::reserve_layers(int end) {
    for (int layer = layer_; layer < end; ++layer) {
        if (session_.seq.cache->in_buckets(layer)) { PITH_RETURN_IF_ERROR(session_.seq.cache->reserve(0, layer, n_)); }
    }
    return {};
}

Status OneShotReader::run_unit() {
    if (first_ == 0) { PITH_RETURN_IF_ERROR(begin_layers()); }
    const auto width = static_cast<size_t>(session_.file->hparams().n_embd);
    const int end = end_of_run();
    const bool last_layer = end == n_layers_;
    const bool all_logits = static_cast<bool>(hooks_.on_logits);
    const int m = std::min(chunk_, n_ - first_);
    const auto rows =
        std::span(session_.pass.states()).subspan(static_cast<size_t>(first_) * width, static_cast<size_t>(m) * width);
    const auto tokens = tokens_.subspan(static_cast<size_t>(first_), static_cast<size_t>(m));
    const bool newest = first_ + m == n_;
    const auto run_layers = [&]() -> Status {
        for (int layer = layer_; layer < end; ++layer) {
            const int n_out = layer + 1 == n_layers_ && !all_logits ? 1 : m;
            PITH_RETURN_IF_ERROR(
                run_layer(session_, layer,
                          {tokens, rows, first_, n_out, n_ - first_ - m,
                           session_.pass.states_there().rows(layer, first_, /*read_behind=*/all_logits || newest)}));
        }
        return {};
    };
    if (in_flight_.any()) {
        PITH_RETURN_IF_ERROR(in_flight_.score_beside(
            *session_.forward, [this](const LayerEvidence & seen) { return score(seen); }, run_layers));
        PITH_RETURN_IF_ERROR(apply_scored());
    } else {
        PITH_RETURN_IF_ERROR(run_layers());
    }
    if (last_layer && (all_logits || newest)) { PITH_RETURN_IF_ERROR(run_head(session_, rows, m, first_, hooks_.on_logits)); }
    first_ += m;
    PITH_RETURN_IF_ERROR(session_.seq.prepare_trim(layer_, end, first_, /*is_last=*/false));
    session_.seq.trim(layer_, end, first_);
    return {};
}

int OneShotReader::end_of_run() const {
    return session_.file->hparams().end_of_run(layer_);
}

Status OneShotReader::end_layer(int layer) {
    if (!must_evict_ || rereads_) { return {}; }
    if (!session_.observers.empty()) {
        before_[static_cast<size_t>(layer)] = session_.seq.evidence.layer(layer);
        if (session_.file->hparams().layer(layer).recurrent) { states_before_ = session_.seq.states; }
        // Behind the last layer with keys of its own nobody asks what the observers pay.
        if (session_.layout.source(layer) == layer) { PITH_RETURN_IF_ERROR(observe(session_, layer, observing_)); }
        if (session_.file->hparams().layer(layer).recurrent) { session_.seq.states.take(layer, states_before_); }
    }
    if (!session_.layout.governs(layer)) {
        if (cascade_) { without_observers(layer); }
        return {};
    }
    PITH_ASSIGN_OR_RETURN(LayerEvidence seen, gather_evidence(session_, layer));
    in_flight_.hold(std::move(seen));
    if (may_be_in_flight(layer)) { return {}; }
    PITH_RETURN_IF_ERROR(in_flight_.score([this](const LayerEvidence & one) { return score(one); }));
    if (!cascade_) { return {}; }  // what a selector will read of the lanes must stay till then: the observers, too
    without_observers(layer);
    leave_out_observers(session_, scored_);
    return apply_scored();
}

// Whether the next layers' first chunk runs on a device, and nothing but that, while the layer is scored.
bool OneShotReader::may_be_in_flight(int layer) const {
    const int next = end_of_run();
    if (next == n_layers_ || layer + 1 != next || !session_.observers.empty() || session_.seq.policy.needs().values ||
        session_.forward->is_watched()) {
        return false;
    }
    if (cascade_ && (!room_.two_layers || session_.bytes_are_bounded())) { return false; }
    return are_there(session_, layer, next) && are_there(session_, next, session_.file->hparams().end_of_run(next));
}

Status OneShotReader::score(const LayerEvidence & seen) {
    const Stopwatch watch;
    PITH_RETURN_IF_ERROR(pass_->add_layer(seen));
    if (cascade_) {
        PITH_ASSIGN_OR_RETURN(std::vector<LayerPlan> plans, pass_->cascade());
        scored_ = session_.of_model(std::move(plans));
    }
    session_.ledger.plan_s += watch.seconds();
    return {};
}

Status OneShotReader::apply_scored() {
    return apply_plans(session_, std::exchange(scored_, {}), /*is_last=*/false);
}

// While nothing else runs.
Status OneShotReader::land() {
    PITH_RETURN_IF_ERROR(in_flight_.score([this](const LayerEvidence & seen) { return score(seen); }));
    return apply_scored();
}

Status OneShotReader::read_again() {
    PITH_RETURN_IF_ERROR(pith::read_again(session_, [this](int64_t n_done, int64_t) {
        n_read_again_ = n_done;
        if (hooks_.progress) { hooks_.progress(this->n_done(), n_); }
    }));
    n_read_again_ = n_;
    return {};
}

Status OneShotReader::end_prompt() {
    session_.seq.since_eviction = 0;
    if (rereads_) { PITH_RETURN_IF_ERROR(read_again()); }
    if (rereads_ && must_evict_) {
        PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> plans, plan_cascade(session_));
        PITH_RETURN_IF_ERROR(apply_plans(session_, plans, /*is_last=*/true));
    } else if (must_evict_) {
        const Stopwatch watch;
        PITH_ASSIGN_OR_RETURN(std::vector<LayerPlan> plans, pass_->finish());
        plans = session_.of_model(std::move(plans));
        session_.ledger.plan_s += watch.seconds();
        for (int layer = 0; !cascade_ && layer < n_layers_; ++layer) { without_observers(layer); }
        leave_out_observers(session_, plans);
        PITH_RETURN_IF_ERROR(apply_plans(session_, plans, /*is_last=*/true));
    }
    session_.seq.n_tokens = n_;
    PITH_RETURN_IF_ERROR(turn_if_due(session_, /*is_last=*/true));
    update_ledger(session_);  // counts the prompt's hidden states, which nobody needs any more
    session_.pass.release_states();
    return {};
}

}  // namespace pith
