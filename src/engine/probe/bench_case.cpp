// bench_case.cpp - measures one case in this process. Stage: probe.
#include "engine/probe/bench_case.h"

#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "device/resident.h"

namespace pith {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int kWarmUpTokens = 128;

class CaseRunner {
public:
    CaseRunner(const BenchOptions & options, const BenchCase & bench_case, Model model)
        : options_(options), model_(std::move(model)), depth_(bench_case.depth), random_(options.seed) {
        session_options_ = options.session;
        session_options_.policy = bench_case.policy;
        if (!bench_case.evicts) { session_options_.budget = Budget(); }
    }

    Result<BenchMeasurement> run(int n_repetitions) {
        PITH_RETURN_IF_ERROR(warm_up());
        out_.rss_anonymous_before_bytes = resident_bytes().anonymous;
        PITH_RETURN_IF_ERROR(depth_ > 0 ? at_depth(n_repetitions) : from_nothing(n_repetitions));
        return std::move(out_);
    }

private:
    std::vector<int32_t> random_tokens(int64_t n) {
        std::uniform_int_distribution<int32_t> pick(0, model_.info().n_vocab - 1);
        std::vector<int32_t> tokens(static_cast<size_t>(n));
        for (int32_t & token : tokens) { token = pick(random_); }
        return tokens;
    }

    // Touches the weights and starts the threads.
    Status warm_up() {
        SessionOptions full = session_options_;
        full.policy = "full";
        full.budget = Budget();
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(full));
        PITH_RETURN_IF_ERROR(session.prefill(random_tokens(kWarmUpTokens)));
        return session.append(0);
    }

    Status time_prompt(Session & session) {
        const std::vector<int32_t> tokens = random_tokens(options_.n_prompt);
        const auto start = Clock::now();
        PITH_RETURN_IF_ERROR(session.prefill(tokens));
        out_.prefill_tps.push_back(options_.n_prompt / seconds_since(start));
        return {};
    }

    Status time_decode(Session & session) {
        const std::vector<int32_t> tokens = random_tokens(options_.n_generate);
        const auto start = Clock::now();
        for (const int32_t token : tokens) { PITH_RETURN_IF_ERROR(session.append(token)); }
        out_.decode_tps.push_back(options_.n_generate / seconds_since(start));
        return {};
    }

    void note_prefill(const Ledger & ledger) {
        out_.prefill_s = ledger.prefill_s;
        out_.evidence_s = ledger.evidence_s;
        out_.plan_s = ledger.plan_s;
        out_.compact_s = ledger.compact_s;
    }

    void note_end(const Ledger & ledger) {
        out_.ledger = ledger;
        out_.rss_peak_bytes = ledger.rss_peak_bytes;
    }

    Status at_depth(int n_repetitions) {
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(session_options_));
        PITH_RETURN_IF_ERROR(session.prefill(random_tokens(depth_)));
        note_prefill(session.ledger());
        PITH_ASSIGN_OR_RETURN(const std::shared_ptr<Session::Snapshot> start, session.snapshot());
        for (int i = 0; i < n_repetitions && options_.n_prompt > 0; ++i) {
            PITH_RETURN_IF_ERROR(time_prompt(session));
            PITH_RETURN_IF_ERROR(session.restore(start));
        }
        for (int i = 0; i < n_repetitions && options_.n_generate > 0; ++i) {
            PITH_RETURN_IF_ERROR(time_decode(session));
            if (i + 1 < n_repetitions) { PITH_RETURN_IF_ERROR(session.restore(start)); }
        }
        note_end(session.ledger());
        return {};
    }

    Status from_nothing(int n_repetitions) {
        for (int i = 0; i < n_repetitions && options_.n_prompt > 0; ++i) {
            PITH_ASSIGN_OR_RETURN(Session session, model_.session(session_options_));
            PITH_RETURN_IF_ERROR(time_prompt(session));
            note_prefill(session.ledger());
            note_end(session.ledger());
        }
        for (int i = 0; i < n_repetitions && options_.n_generate > 0; ++i) {
            SessionOptions full = session_options_;  // one token: nothing to evict, and less than any window
            full.policy = "full";
            full.budget = Budget();
            PITH_ASSIGN_OR_RETURN(Session session, model_.session(full));
            PITH_RETURN_IF_ERROR(session.prefill(random_tokens(1)));
            PITH_RETURN_IF_ERROR(time_decode(session));
            if (options_.n_prompt == 0) { note_end(session.ledger()); }
        }
        return {};
    }

    const BenchOptions & options_;
    Model model_;
    int64_t depth_;
    std::mt19937 random_;
    SessionOptions session_options_;
    BenchMeasurement out_;
};

}  // namespace

Result<BenchMeasurement> measure_here(const BenchOptions & options, const BenchCase & bench_case, int n_repetitions) {
    PITH_ASSIGN_OR_RETURN(Model model, Model::load(options.model_path, options.model));
    return CaseRunner(options, bench_case, std::move(model)).run(n_repetitions);
}

}  // namespace pith
