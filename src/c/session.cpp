// session.cpp - sessions, from C. Stage: façade.
#include <algorithm>
#include <atomic>
#include <string>

#include "c/handles.h"

using pith::ErrorCode;
using pith::Result;
using pith::Status;
using namespace pith::c;

namespace {

Result<pith::SessionOptions> session_options(const pith_session_options & given) {
    pith::SessionOptions options;
    options.policy = text_of(given.policy);
    if (given.budget != nullptr) { PITH_ASSIGN_OR_RETURN(options.budget, pith::Budget::parse(given.budget)); }
    PITH_ASSIGN_OR_RETURN(options.type_k, pith::parse_kv_type(text_of(given.type_k)));
    PITH_ASSIGN_OR_RETURN(options.type_v, pith::parse_kv_type(text_of(given.type_v)));
    const std::string prefill = text_of(given.prefill);
    if (prefill == "one-shot") {
        options.prefill = pith::PrefillSchedule::kOneShot;
    } else if (prefill == "chunked") {
        options.prefill = pith::PrefillSchedule::kChunked;
    } else if (prefill != "auto") {
        return {ErrorCode::kInvalidArgument, "prefill is '" + prefill + "': use auto, one-shot or chunked"};
    }
    options.n_threads = given.n_threads;
    options.max_context = given.max_context;
    options.chunk = given.chunk;
    options.evict_every = given.evict_every;
    options.n_snapshots = given.n_snapshots;
    for (size_t i = 0; given.pinned != nullptr && i < given.n_pinned; ++i) {
        options.pinned.push_back({given.pinned[i].begin, given.pinned[i].end});
    }
    options.heads_file = text_of(given.heads_file);
    const std::string observe = text_of(given.observe);
    for (size_t begin = 0; begin < observe.size();) {
        const size_t end = std::min(observe.find(',', begin), observe.size());
        options.observe.push_back(observe.substr(begin, end - begin));
        begin = end + 1;
    }
    return options;
}

// The hooks of a caller whose callback may say no.
class Hooks {
public:
    explicit Hooks(const pith_run_options * run) : given_(with_defaults(run, pith_run_options{})) {
        hooks_.cancel = &cancel_;
        hooks_.n_question = given_.n_question;
        hooks_.is_answer = given_.is_answer;
        if (given_.progress != nullptr) {
            hooks_.progress = [this](int64_t n_done, int64_t n_total) {
                if (!given_.progress(n_done, n_total, given_.user)) { cancel_ = true; }
            };
        }
    }
    Hooks(const Hooks &) = delete;
    Hooks & operator=(const Hooks &) = delete;

    const pith::RunHooks & get() const { return hooks_; }

private:
    pith_run_options given_;
    std::atomic<bool> cancel_ = false;
    pith::RunHooks hooks_;
};

pith_session_options default_session_options() {
    const pith::SessionOptions defaults;
    pith_session_options options{};
    options.policy = "auto";
    options.type_k = options.type_v = "f16";
    options.prefill = "auto";
    options.chunk = defaults.chunk;
    options.evict_every = defaults.evict_every;
    return options;
}

}  // namespace

void pith_session_options_init(struct pith_session_options * options, size_t size) {
    init(options, size, default_session_options());
}

void pith_run_options_init(struct pith_run_options * options, size_t size) {
    init(options, size, pith_run_options{});
}

pith_code pith_session_new(const pith_model * model, const struct pith_session_options * options, pith_session ** session) {
    return guarded([&]() -> Status {
        if (model == nullptr || session == nullptr) { return missing(model == nullptr ? "model" : "session"); }
        *session = nullptr;
        PITH_ASSIGN_OR_RETURN(const pith::SessionOptions wanted,
                              session_options(with_defaults(options, default_session_options())));
        PITH_ASSIGN_OR_RETURN(pith::Session made, model->model.session(wanted));
        *session = new pith_session{std::move(made)};
        return {};
    });
}

void pith_session_free(pith_session * session) {
    delete session;
}

pith_code pith_prefill(pith_session * session, const int32_t * tokens, size_t n_tokens, const struct pith_run_options * run) {
    return guarded([&]() -> Status {
        if (session == nullptr || (tokens == nullptr && n_tokens > 0)) {
            return missing(session == nullptr ? "session" : "tokens");
        }
        return session->session.prefill({tokens, n_tokens}, Hooks(run).get());
    });
}

pith_code pith_prefill_for_questions(pith_session * session, const int32_t * tokens, size_t n_tokens, const int32_t * questions,
                                     size_t n_questions, const struct pith_run_options * run, bool * seen) {
    return guarded([&]() -> Status {
        if (seen != nullptr) { *seen = false; }
        if (session == nullptr || (tokens == nullptr && n_tokens > 0) || (questions == nullptr && n_questions > 0)) {
            return missing(session == nullptr ? "session" : "tokens or questions");
        }
        PITH_ASSIGN_OR_RETURN(const bool in_sight, session->session.prefill_for_questions(
                                                       {tokens, n_tokens}, {questions, n_questions}, Hooks(run).get()));
        if (seen != nullptr) { *seen = in_sight; }
        return {};
    });
}

pith_code pith_append(pith_session * session, int32_t token) {
    return guarded([&]() -> Status { return session == nullptr ? missing("session") : session->session.append(token); });
}

pith_code pith_decode(pith_session * session, int32_t * token) {
    return guarded([&]() -> Status {
        if (session == nullptr || token == nullptr) { return missing(session == nullptr ? "session" : "token"); }
        PITH_ASSIGN_OR_RETURN(*token, session->session.decode());
        return {};
    });
}

const float * pith_logits(const pith_session * session, size_t * n) {
    const auto logits = session == nullptr ? std::span<const float>() : session->session.logits();
    if (n != nullptr) { *n = logits.size(); }
    return logits.data();
}

int64_t pith_n_tokens(const pith_session * session) {
    return session == nullptr ? 0 : session->session.n_tokens();
}

pith_code pith_evict(pith_session * session, const char * policy, const char * budget) {
    return guarded([&]() -> Status {
        if (session == nullptr || policy == nullptr) { return missing(session == nullptr ? "session" : "policy"); }
        pith::Budget wanted;
        if (budget != nullptr) { PITH_ASSIGN_OR_RETURN(wanted, pith::Budget::parse(budget)); }
        return session->session.evict(policy, wanted);
    });
}

pith_code pith_lane_positions(const pith_session * session, int32_t layer, int32_t kv_head, const int32_t ** positions,
                              size_t * n) {
    return guarded([&]() -> Status {
        if (session == nullptr || positions == nullptr || n == nullptr) { return missing("session, positions or n"); }
        const pith::Session & s = session->session;
        if (layer < 0 || layer >= s.n_layers() || kv_head < 0 || kv_head >= s.n_kv_heads()) {
            return {ErrorCode::kInvalidArgument, "layer " + std::to_string(layer) + ", KV head " + std::to_string(kv_head) +
                                                     ": there are " + std::to_string(s.n_layers()) + " layers of " +
                                                     std::to_string(s.n_kv_heads()) + " KV heads"};
        }
        const auto lane = s.lane_positions(layer, kv_head);
        *positions = lane.data();
        *n = lane.size();
        return {};
    });
}

pith_code pith_session_snapshot(pith_session * session, pith_snapshot ** snapshot) {
    return guarded([&]() -> Status {
        if (session == nullptr || snapshot == nullptr) { return missing(session == nullptr ? "session" : "snapshot"); }
        *snapshot = nullptr;
        PITH_ASSIGN_OR_RETURN(auto state, session->session.snapshot());
        *snapshot = new pith_snapshot{std::move(state)};
        return {};
    });
}

pith_code pith_session_restore(pith_session * session, pith_snapshot * snapshot) {
    return guarded([&]() -> Status {
        if (session == nullptr || snapshot == nullptr) { return missing(session == nullptr ? "session" : "snapshot"); }
        return session->session.restore(snapshot->state);
    });
}

void pith_snapshot_free(pith_snapshot * snapshot) {
    delete snapshot;
}

pith_code pith_get_ledger(const pith_session * session, struct pith_ledger * ledger) {
    return guarded([&]() -> Status {
        if (session == nullptr || ledger == nullptr) { return missing(session == nullptr ? "session" : "ledger"); }
        const pith::Ledger & l = session->session.ledger();
        pith_ledger all{};
        all.budget_entries = l.budget_entries;
        all.n_prompt = l.n_prompt;
        all.n_generated = l.n_generated;
        all.n_evictions = l.n_evictions;
        all.evicted_entries = l.evicted_entries;
        all.kept_entries = l.kept_entries;
        all.peak_lane_entries = l.peak_lane_entries;
        all.kv_needed_bytes = l.kv_needed_bytes;
        all.kv_allocated_bytes = l.kv_allocated_bytes;
        all.kv_saved_bytes = l.kv_saved_bytes;
        all.kv_peak_bytes = l.kv_peak_bytes;
        all.evidence_peak_bytes = l.evidence_peak_bytes;
        all.activation_peak_bytes = l.activation_peak_bytes;
        all.rss_peak_bytes = l.rss_peak_bytes;
        all.rss_anonymous_bytes = l.rss_anonymous_bytes;
        all.gate_seen_entries = l.gate_seen_entries;
        all.gate_kept_entries = l.gate_kept_entries;
        all.gate_peak_bytes = l.gate_peak_bytes;
        all.prefill_s = l.prefill_s;
        all.decode_s = l.decode_s;
        all.evidence_s = l.evidence_s;
        all.plan_s = l.plan_s;
        all.compact_s = l.compact_s;
        all.gate_s = l.gate_s;
        all.policy = l.policy.c_str();
        all.policy_reason = l.policy_reason.c_str();
        all.schedule = l.schedule.c_str();
        all.n_lanes = l.n_lanes;
        all.n_tokens = l.n_tokens;
        all.kv_full_bytes = l.kv_full_bytes;
        return give(all, ledger);
    });
}
