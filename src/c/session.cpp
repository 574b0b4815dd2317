// session.cpp - sessions, from C. Stage: façade.
#include "c/handles.h"
#include "c/session_options.h"

using pith::ErrorCode;
using pith::Result;
using pith::Status;
using namespace pith::c;

namespace {

// The hooks of a caller whose callback may say no.
class Hooks {
public:
    Hooks(const pith_run_options & run, const pith_session & session) : given_(run), call_(session.cancel) {
        hooks_.cancel = call_.get();
        hooks_.n_question = given_.n_question;
        hooks_.is_answer = given_.is_answer;
        hooks_.repair = given_.repair;
        if (given_.progress != nullptr) {
            hooks_.progress = [this](int64_t n_done, int64_t n_total) {
                if (!given_.progress(n_done, n_total, given_.user)) { call_.end(); }
            };
        }
    }
    Hooks(const Hooks &) = delete;
    Hooks & operator=(const Hooks &) = delete;

    const pith::RunHooks & get() const { return hooks_; }

private:
    pith_run_options given_;
    CancelFlag::Call call_;
    pith::RunHooks hooks_;
};

}  // namespace

void pith_run_options_init(struct pith_run_options * options, size_t size) {
    init(options, size, pith_run_options{});
}

pith_code pith_session_new(const pith_model * model, const struct pith_session_options * options, pith_session ** session) {
    return guarded([&]() -> Status {
        if (model == nullptr || session == nullptr) { return missing(model == nullptr ? "model" : "session"); }
        *session = nullptr;
        PITH_ASSIGN_OR_RETURN(const pith::SessionOptions wanted, session_options(options));
        PITH_ASSIGN_OR_RETURN(pith::Session made, model->model.session(wanted));
        *session = new pith_session{std::move(made)};
        return {};
    });
}

pith_code pith_session_free(pith_session * session) {
    return free_handle(session);
}

pith_code pith_prefill(pith_session * session, const int32_t * tokens, size_t n_tokens, const struct pith_run_options * run) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || (tokens == nullptr && n_tokens > 0)) {
            return missing(session == nullptr ? "session" : "tokens");
        }
        PITH_ASSIGN_OR_RETURN(const pith_run_options given, with_defaults(run, pith_run_options{}));
        return session->session.prefill({tokens, n_tokens}, Hooks(given, *session).get());
    });
}

pith_code pith_prefill_for_questions(pith_session * session, const int32_t * tokens, size_t n_tokens, const int32_t * questions,
                                     size_t n_questions, const struct pith_run_options * run, bool * seen) {
    return alone(session, [&]() -> Status {
        if (seen != nullptr) { *seen = false; }
        if (session == nullptr || (tokens == nullptr && n_tokens > 0) || (questions == nullptr && n_questions > 0)) {
            return missing(session == nullptr ? "session" : "tokens or questions");
        }
        PITH_ASSIGN_OR_RETURN(const pith_run_options given, with_defaults(run, pith_run_options{}));
        PITH_ASSIGN_OR_RETURN(
            const bool in_sight,
            session->session.prefill_for_questions({tokens, n_tokens}, {questions, n_questions}, Hooks(given, *session).get()));
        if (seen != nullptr) { *seen = in_sight; }
        return {};
    });
}

pith_code pith_append(pith_session * session, int32_t token) {
    return alone(session, [&]() -> Status { return session == nullptr ? missing("session") : session->session.append(token); });
}

pith_code pith_decode(pith_session * session, int32_t * token) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || token == nullptr) { return missing(session == nullptr ? "session" : "token"); }
        PITH_ASSIGN_OR_RETURN(*token, session->session.decode());
        return {};
    });
}

const float * pith_logits(const pith_session * session, size_t * n) {
    const auto logits = value_of(session, std::span<const float>(), [&] { return session->session.logits(); });
    if (n != nullptr) { *n = logits.size(); }
    return logits.data();
}

int64_t pith_n_tokens(const pith_session * session) {
    return value_of(session, int64_t{0}, [&] { return session->session.n_tokens(); });
}

pith_code pith_evict(pith_session * session, const char * policy, const char * budget) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || policy == nullptr) { return missing(session == nullptr ? "session" : "policy"); }
        pith::Budget wanted;
        if (budget != nullptr) { PITH_ASSIGN_OR_RETURN(wanted, pith::Budget::parse(budget)); }
        return session->session.evict(policy, wanted, CancelFlag::Call(session->cancel).get());
    });
}

pith_code pith_evict_for_questions(pith_session * session, const int32_t * questions, size_t n_questions, const char * policy,
                                   const char * budget) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || policy == nullptr || budget == nullptr || (questions == nullptr && n_questions > 0)) {
            return missing("session, questions, policy or budget");
        }
        PITH_ASSIGN_OR_RETURN(const pith::Budget wanted, pith::Budget::parse(budget));
        return session->session.evict_for_questions({questions, n_questions}, policy, wanted,
                                                    CancelFlag::Call(session->cancel).get());
    });
}

pith_code pith_repair(pith_session * session, const int32_t * question, size_t n_question, bool brings_back) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || (question == nullptr && n_question > 0)) { return missing("session or question"); }
        return session->session.repair({question, n_question}, brings_back, CancelFlag::Call(session->cancel).get());
    });
}

pith_code pith_lane_positions(const pith_session * session, int32_t layer, int32_t kv_head, const int32_t ** positions,
                              size_t * n) {
    return from_hooks_too(session, [&]() -> Status {
        if (session == nullptr || positions == nullptr || n == nullptr) { return missing("session, positions or n"); }
        const pith::Session & s = session->session;
        PITH_RETURN_IF_ERROR(check_lane(layer, kv_head, s.n_layers(), s.n_kv_heads()));
        const auto lane = s.lane_positions(layer, kv_head);
        *positions = lane.data();
        *n = lane.size();
        return {};
    });
}

pith_code pith_session_snapshot(pith_session * session, pith_snapshot ** snapshot) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || snapshot == nullptr) { return missing(session == nullptr ? "session" : "snapshot"); }
        *snapshot = nullptr;
        PITH_ASSIGN_OR_RETURN(auto state, session->session.snapshot());
        *snapshot = new pith_snapshot{std::move(state)};
        return {};
    });
}

pith_code pith_session_restore(pith_session * session, pith_snapshot * snapshot) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || snapshot == nullptr) { return missing(session == nullptr ? "session" : "snapshot"); }
        return session->session.restore(snapshot->state);
    });
}

void pith_snapshot_free(pith_snapshot * snapshot) {
    delete snapshot;
}

pith_code pith_session_save(const pith_session * session, const char * path) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || path == nullptr) { return missing(session == nullptr ? "session" : "path"); }
        return session->session.save(path);
    });
}

pith_code pith_session_open(const pith_model * model, const char * path, int32_t n_threads, pith_session ** session) {
    return guarded([&]() -> Status {
        if (model == nullptr || session == nullptr) { return missing(model == nullptr ? "model" : "session"); }
        *session = nullptr;
        if (path == nullptr) { return missing("path"); }
        PITH_ASSIGN_OR_RETURN(pith::Session opened, model->model.open_session(path, n_threads));
        *session = new pith_session{std::move(opened)};
        return {};
    });
}

pith_code pith_session_file_open(const char * path, pith_session_file ** file) {
    return guarded([&]() -> Status {
        if (file == nullptr) { return missing("file"); }
        *file = nullptr;
        if (path == nullptr) { return missing("path"); }
        PITH_ASSIGN_OR_RETURN(pith::SessionFile opened, pith::SessionFile::open(path));
        *file = new pith_session_file{std::move(opened)};
        return {};
    });
}

pith_code pith_session_file_session(const pith_session_file * file, const pith_model * model, int32_t n_threads,
                                    pith_session ** session) {
    return guarded([&]() -> Status {
        if (session == nullptr) { return missing("session"); }
        *session = nullptr;
        if (file == nullptr || model == nullptr) { return missing(file == nullptr ? "file" : "model"); }
        PITH_ASSIGN_OR_RETURN(pith::Session opened, file->file.session(model->model, n_threads));
        *session = new pith_session{std::move(opened)};
        return {};
    });
}

void pith_session_file_free(pith_session_file * file) {
    delete file;
}

pith_code pith_session_load(pith_session * session, const char * path) {
    return alone(session, [&]() -> Status {
        if (session == nullptr || path == nullptr) { return missing(session == nullptr ? "session" : "path"); }
        return session->session.load(path);
    });
}

pith_code pith_session_tokens(const pith_session * session, int32_t * tokens, size_t * n_tokens) {
    return from_hooks_too(session, [&]() -> Status {
        if (session == nullptr || n_tokens == nullptr) { return missing(session == nullptr ? "session" : "n_tokens"); }
        return copy_out(session->session.tokens(), tokens, n_tokens);
    });
}

pith_code pith_get_ledger(const pith_session * session, struct pith_ledger * ledger) {
    return from_hooks_too(session, [&]() -> Status {
        if (session == nullptr || ledger == nullptr) { return missing(session == nullptr ? "session" : "ledger"); }
        return give(ledger_of(session->session.ledger()), ledger);
    });
}
