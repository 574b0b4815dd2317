// session.cpp - the public face of a session. Stage: engine.
#include "pith/session.h"

#include <algorithm>
#include <utility>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "device/resident.h"
#include "engine/evict/evict_as.h"
#include "engine/evict/repair.h"
#include "engine/evict/second_stage.h"
#include "engine/generate_tokens.h"
#include "engine/pass/live_session.h"
#include "engine/pass/session_ledger.h"
#include "engine/read/feed.h"
#include "engine/rest/session_file.h"
#include "engine/settle/auto.h"
#include "engine/settle/make_session.h"

namespace pith {
namespace {

Status must_be_prefilled() {
    return {ErrorCode::kInvalidArgument, "a session must be prefilled before it can decode"};
}

}  // namespace

struct Session::Impl {
    std::unique_ptr<LiveSession> session;

    static LiveSession & live(Session & of) { return *of.impl_->session; }
    static Session hand_out(std::unique_ptr<LiveSession> live) {
        return Session(std::make_unique<Impl>(Impl{std::move(live)}));
    }
};

LiveSession & live_session(Session & session) {
    return Session::Impl::live(session);
}
Session hand_out(std::unique_ptr<LiveSession> session) {
    return Session::Impl::hand_out(std::move(session));
}

Result<Session> Model::session(const SessionOptions & options) const {
    return guarded([&]() -> Result<Session> {
        PITH_ASSIGN_OR_RETURN(auto session, make_session(*this, options, nullptr));
        return hand_out(std::move(session));
    });
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session &&) noexcept = default;
Session & Session::operator=(Session &&) noexcept = default;
Session::~Session() = default;

namespace {

// A call that feeds tokens: its time goes to `spent`, and what it has done to the books.
template <class Call>
auto timed(LiveSession & session, double Ledger::*spent, int64_t Ledger::*counted, int64_t n, const Call & call) {
    const Stopwatch watch;
    const double evidence_before = session.forward->evidence_s();
    Ledger & ledger = session.ledger;
    const double repair_before = ledger.repair_s;
    auto outcome = guarded(call);
    ledger.*spent += watch.seconds() - (ledger.repair_s - repair_before);
    ledger.evidence_s += session.forward->evidence_s() - evidence_before;
    if (outcome.ok()) { ledger.*counted += n; }
    if (counted == &Ledger::n_prompt) { release_graphs(session); }
    update_ledger(session);
    return outcome;
}

}  // namespace

Status Session::prefill(std::span<const int32_t> tokens, const RunHooks & hooks) {
    LiveSession & session = *impl_->session;
    return timed(session, &Ledger::prefill_s, &Ledger::n_prompt, std::ssize(tokens),
                 [&] { return feed(session, tokens, /*is_prompt=*/!hooks.is_answer, hooks); });
}

Result<bool> Session::prefill_for_questions(std::span<const int32_t> tokens, std::span<const int32_t> questions,
                                            const RunHooks & hooks) {
    LiveSession & session = *impl_->session;
    return timed(session, &Ledger::prefill_s, &Ledger::n_prompt, std::ssize(tokens),
                 [&] { return feed_for(session, tokens, questions, hooks); });
}

Status Session::append(int32_t token) {
    LiveSession & session = *impl_->session;
    return timed(session, &Ledger::decode_s, &Ledger::n_generated, 1, [&]() -> Status {
        if (session.seq.n_tokens == 0) { return must_be_prefilled(); }
        return feed(session, std::span(&token, 1), /*is_prompt=*/false, {});
    });
}

Result<int32_t> Session::decode() {
    const std::vector<float> & logits = impl_->session->seq.logits;
    if (logits.empty()) {
        return guarded([]() -> Result<int32_t> { return must_be_prefilled(); });
    }
    const int32_t best = likeliest_token(logits);
    PITH_RETURN_IF_ERROR(append(best));
    return best;
}

Status Session::evict(const PolicyChoice & policy, const Budget & budget, const std::atomic<bool> * cancel) {
    LiveSession & session = *impl_->session;
    const Stopwatch watch;
    const CancelScope cancelling(*session.forward, cancel);
    PITH_RETURN_IF_ERROR(guarded([&] { return evict_as(session, policy, budget); }));
    session.ledger.prefill_s += watch.seconds();
    release_graphs(session);
    update_ledger(session);
    return {};
}

Status Session::evict_for_questions(std::span<const int32_t> questions, const PolicyChoice & policy, const Budget & budget,
                                    const std::atomic<bool> * cancel) {
    LiveSession & session = *impl_->session;
    const Stopwatch watch;
    const CancelScope cancelling(*session.forward, cancel);
    const Status status = guarded([&] { return evict_for(session, questions, policy, budget); });
    session.ledger.prefill_s += watch.seconds();
    release_graphs(session);
    update_ledger(session);
    return status;
}

Status Session::repair(std::span<const int32_t> question, bool brings_back, const std::atomic<bool> * cancel) {
    LiveSession & session = *impl_->session;
    const CancelScope cancelling(*session.forward, cancel);
    const Status status = guarded([&] { return repair_for(session, question, brings_back); });
    release_graphs(session);
    update_ledger(session);
    return status;
}

bool Session::looks_back() const {
    return impl_->session->options.look_back;
}

Result<std::shared_ptr<Session::Snapshot>> Session::snapshot() {
    return guarded([&]() -> Result<std::shared_ptr<Snapshot>> { return impl_->session->seq.snapshot(); });
}

Status Session::restore(const std::shared_ptr<Snapshot> & snapshot) {
    LiveSession & session = *impl_->session;
    Status restored = guarded([&]() -> Status {
        if (!snapshot || snapshot->sequence != session.seq.id()) {
            return {ErrorCode::kInvalidArgument, "a snapshot can only be restored into the session it was taken from"};
        }
        PolicyNames names = policy_names(snapshot->state);
        PITH_RETURN_IF_ERROR(session.seq.restore(*snapshot));
        tell_policy(std::move(names), session.ledger);
        return {};
    });
    if (!restored.ok()) { return restored; }
    tell_budget(session);
    update_ledger(session);
    return {};
}

Status Session::save(const std::string & path, const CacheNotes & notes) const {
    return guarded([&] { return save_session(*impl_->session, path, notes); });
}

Status Session::load(const std::string & path) {
    return guarded([&]() -> Status {
        PITH_ASSIGN_OR_RETURN(impl_->session, load_session(*impl_->session, path));
        return {};
    });
}

Status Session::set_draft_ngram(int most) {
    PITH_RETURN_IF_ERROR(check_draft(most));
    impl_->session->options.draft_ngram = most;
    return {};
}

Status Session::set_repair_every(int n_tokens) {
    PITH_RETURN_IF_ERROR(check_repair_every(n_tokens));
    impl_->session->options.repair_every = n_tokens;
    return {};
}

void Session::watch_hidden(HiddenWatcher watcher) {
    LiveSession & session = *impl_->session;
    if (!watcher) { return session.forward->set_input_observer({}); }
    session.forward->set_input_observer(
        [watcher = std::move(watcher), governed = session.governed, n_embd = session.file->hparams().n_embd](
            int layer, std::span<const float> rows, int n, int32_t first_position) {
            const auto index = std::ranges::lower_bound(governed, layer) - governed.begin();
            return watcher({static_cast<int>(index), n_embd, n, first_position, rows});
        });
}

std::vector<int32_t> Session::tokens() const {
    return impl_->session->seq.tokens.all();
}

std::span<const float> Session::logits() const {
    return impl_->session->seq.logits;
}
int64_t Session::n_tokens() const {
    return impl_->session->seq.n_tokens;
}
int Session::n_layers() const {
    return impl_->session->n_layers();
}
bool Session::is_governed(int layer) const {
    return impl_->session->layout.governs(layer);
}
int Session::n_kv_heads() const {
    return impl_->session->shape().n_kv_heads;
}

std::span<const int32_t> Session::lane_positions(int layer, int kv_head) const {
    const auto & cache = impl_->session->seq.cache;
    if (!cache || !cache->has_lane(layer, kv_head)) { return {}; }
    return cache->positions(cache->lane(0, layer, kv_head));
}

const Ledger & Session::ledger() const {
    Ledger & ledger = impl_->session->ledger;
    const ResidentBytes resident = resident_bytes();
    ledger.rss_peak_bytes = resident.peak;
    ledger.rss_anonymous_bytes = resident.anonymous;
    return ledger;
}

}  // namespace pith
