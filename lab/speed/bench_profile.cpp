// bench_profile.cpp - runs plain and profiled, and divides the time. Stage: speed.
#include "speed/bench_profile.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/stopwatch.h"
#include "engine/generate_tokens.h"
#include "engine/layer_probe.h"
#include "policy/named_policy.h"
#include "speed/random_prompt.h"

namespace pith {
namespace {

// What is timed while some tokens run.
struct Meter {
    GraphProfile graphs;
    double total_s = 0;
    double sampling_s = 0;
    double evidence_s = 0;
    double plan_s = 0;
    double compact_s = 0;

    // REQUIRES: work returns a Status; the session is the same for every call.
    template <class Work>
    Status time(Session & session, Work && work) {
        LayerProbe layers(session);
        const Ledger before = session.ledger();
        layers.set_profile(&graphs);
        const Stopwatch watch;
        const Status status = work();
        total_s += watch.seconds();
        layers.set_profile(nullptr);
        const Ledger & after = session.ledger();
        evidence_s += after.evidence_s - before.evidence_s;
        plan_s += after.plan_s - before.plan_s;
        compact_s += after.compact_s - before.compact_s;
        return status;
    }

    PhaseProfile phase(const std::string & name, int64_t n_tokens, double plain_s) const {
        PhaseProfile out;
        out.name = name;
        out.n_tokens = n_tokens;
        out.plain_s = plain_s;
        out.total_s = total_s - graphs.profiling_s;
        out.parts = {{"weights", graphs.weights_s},
                     {"attention", graphs.attention_s},
                     {"activations", graphs.rest_s},
                     {"evidence", graphs.evidence_s + evidence_s},
                     {"policy", plan_s},
                     {"compaction", compact_s},
                     {"sampling", sampling_s},
                     {"graphs", graphs.build_s}};
        double known = 0;
        for (const TimePart & part : out.parts) { known += part.seconds; }
        out.parts.push_back({"other", out.total_s - known});
        return out;
    }
};

class CaseProfiler {
public:
    CaseProfiler(const Model & model, const ProfileOptions & options, const PolicyChoice & policy, ProfileRow & row)
        : model_(model), options_(options), row_(row), prompt_(random_prompt(model, row.depth, options.seed)) {
        session_options_ = options.session;
        session_options_.policy = policy;
        if (row.budget.empty()) { session_options_.budget = Budget(); }
        hooks_.cancel = options.cancel;
    }

    Status run() {
        PITH_RETURN_IF_ERROR(warm_up());
        Stopwatch watch;
        {
            PITH_ASSIGN_OR_RETURN(Session plain, model_.session(session_options_));
            watch = Stopwatch();
            PITH_RETURN_IF_ERROR(plain.prefill(prompt_, hooks_));
        }
        const double plain_s = watch.seconds();
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(session_options_));
        Meter meter;
        PITH_RETURN_IF_ERROR(meter.time(session, [&] { return session.prefill(prompt_, hooks_); }));
        row_.phases.push_back(meter.phase("prefill", row_.depth, plain_s));
        return options_.n_generate > 0 ? decode(session) : Status();
    }

private:
    // Touches the weights and starts the threads.
    Status warm_up() const {
        SessionOptions full = session_options_;
        full.policy = "full";
        full.budget = Budget();
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(full));
        const auto n = std::min<size_t>(prompt_.size(), 128);
        PITH_RETURN_IF_ERROR(session.prefill(std::span(prompt_).first(n), hooks_));
        return session.append(0);
    }

    Status generate(Session & session, double & sampling_s) const {
        GenerateRules rules;
        rules.n_predict = options_.n_generate;
        rules.cancel = options_.cancel;
        rules.choose = [&sampling_s](std::span<const float> logits) -> Result<int32_t> {
            const Stopwatch watch;
            const int32_t best = likeliest_token(logits);
            sampling_s += watch.seconds();
            return best;
        };
        rules.feeds_last = true;
        PITH_ASSIGN_OR_RETURN(const GeneratedTokens done, generate_tokens(session, rules));
        return done.end == GenerateEnd::kCancelled ? Status(ErrorCode::kCancelled, "cancelled") : Status();
    }

    // Plain and profiled in turns, from the same state.
    Status decode(Session & session) const {
        PITH_ASSIGN_OR_RETURN(const auto start, session.snapshot());
        Meter meter;
        double plain_s = 0;
        for (int i = 0; i < options_.n_repetitions; ++i) {
            double ignored = 0;
            const Stopwatch watch;
            PITH_RETURN_IF_ERROR(generate(session, ignored));
            plain_s += watch.seconds();
            PITH_RETURN_IF_ERROR(session.restore(start));
            PITH_RETURN_IF_ERROR(meter.time(session, [&] { return generate(session, meter.sampling_s); }));
            if (i + 1 < options_.n_repetitions) { PITH_RETURN_IF_ERROR(session.restore(start)); }
        }
        row_.phases.push_back(meter.phase("decode", int64_t{options_.n_generate} * options_.n_repetitions, plain_s));
        return {};
    }

    const Model & model_;
    const ProfileOptions & options_;
    ProfileRow & row_;
    std::vector<int32_t> prompt_;
    SessionOptions session_options_;
    RunHooks hooks_;
};

}  // namespace

Result<std::vector<ProfileRow>> measure_profile(const Model & model, const ProfileOptions & options) {
    std::vector<ProfileRow> rows;
    for (const int64_t depth : options.depths) {
        if (depth < 1 || options.n_generate < 0 || options.n_repetitions < 1) {
            return Status(ErrorCode::kInvalidArgument, "a profile of " + std::to_string(depth) + " prompt tokens and " +
                                                           std::to_string(options.n_repetitions) + " times " +
                                                           std::to_string(options.n_generate) +
                                                           " decoded ones: give 1, 1 and 0 or more");
        }
        for (const PolicyChoice & choice : options.policies) {
            PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
            if (options.progress) { options.progress(choice.name() + " at depth " + std::to_string(depth)); }
            ProfileRow row;
            row.depth = depth;
            row.policy = policy.name();
            row.budget = policy.evicts() ? options.session.budget.to_string() : "";
            PITH_RETURN_IF_ERROR(CaseProfiler(model, options, choice, row).run());
            rows.push_back(std::move(row));
        }
    }
    return rows;
}

}  // namespace pith
