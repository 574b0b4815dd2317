// policy_speed.cpp - a session for each policy, with a watch on it. Stage: speed.
#include "speed/policy_speed.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/stopwatch.h"
#include "engine/probe/policy_cases.h"
#include "speed/random_prompt.h"

namespace pith {
namespace {

constexpr int kWarmUpTokens = 128;

class SpeedRunner {
public:
    SpeedRunner(const Model & model, const PolicySpeedOptions & options) : model_(model), options_(options) {
        hooks_.cancel = options.cancel;
    }

    Result<std::vector<PolicySpeed>> run() {
        std::vector<PolicyChoice> policies = {"full"};
        std::ranges::copy_if(options_.policies, std::back_inserter(policies),
                             [](const PolicyChoice & one) { return one.name() != "full"; });
        PITH_ASSIGN_OR_RETURN(cases_, make_cases(policies, options_.budgets));
        PITH_RETURN_IF_ERROR(warm_up());
        for (const int length : options_.lengths) {
            for (const int chunk : options_.chunks) { PITH_RETURN_IF_ERROR(measure(length, chunk)); }
        }
        return std::move(rows_);
    }

private:
    // Touches the weights and starts the threads.
    Status warm_up() {
        SessionOptions full = options_.session;
        full.policy = "full";
        full.budget = Budget();
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(full));
        return session.prefill(random_prompt(model_, kWarmUpTokens, options_.seed), hooks_);
    }

    Status measure(int length, int chunk) {
        const size_t first_row = rows_.size();
        for (const PolicyCase & one : cases_) {
            PolicySpeed row;
            row.length = length;
            row.chunk = chunk;
            row.policy = one.policy.name();
            row.budget = one.budget.kind == BudgetKind::kNone ? "" : one.budget.to_string();
            rows_.push_back(std::move(row));
        }
        const std::vector<int32_t> tokens = random_prompt(model_, length + options_.n_generate, options_.seed);
        for (int round = 0; round < options_.n_repetitions; ++round) {
            for (size_t i = 0; i < cases_.size(); ++i) {
                PolicySpeed & row = rows_[first_row + i];
                if (options_.progress) {
                    options_.progress(row.policy + " at " + std::to_string(length) + " tokens, round " +
                                      std::to_string(round + 1) + " of " + std::to_string(options_.n_repetitions));
                }
                if (row.note.empty()) { PITH_RETURN_IF_ERROR(measure_once(cases_[i], tokens, row)); }
            }
        }
        return {};
    }

    Status measure_once(const PolicyCase & one, const std::vector<int32_t> & tokens, PolicySpeed & row) {
        SessionOptions options = options_.session;
        options.policy = one.policy;
        options.budget = one.budget;
        options.chunk = row.chunk;
        options.max_context = std::max(options.max_context, static_cast<int>(tokens.size()));
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(options));
        const auto n_prompt = static_cast<size_t>(row.length);
        const Stopwatch prefill;
        const Status status = session.prefill(std::span(tokens).first(n_prompt), hooks_);
        if (status.code() == ErrorCode::kBudget) {
            row.note = status.message();
            return {};
        }
        PITH_RETURN_IF_ERROR(status);
        row.first_s.push_back(prefill.seconds());
        row.eviction_s.push_back(session.ledger().evidence_s + session.ledger().plan_s + session.ledger().compact_s);
        const Stopwatch decode;
        for (size_t i = n_prompt; i < tokens.size(); ++i) {
            if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
            PITH_RETURN_IF_ERROR(session.append(tokens[i]));
        }
        if (options_.n_generate > 0) { row.token_s.push_back(decode.seconds() / options_.n_generate); }
        const Ledger & ledger = session.ledger();
        row.kv_peak_bytes = std::max(row.kv_peak_bytes, ledger.kv_peak_bytes);
        row.kv_bytes = ledger.kv_allocated_bytes;
        row.compute_bytes = std::max(row.compute_bytes, ledger.evidence_peak_bytes + ledger.activation_peak_bytes);
        return {};
    }

    const Model & model_;
    const PolicySpeedOptions & options_;
    RunHooks hooks_;
    std::vector<PolicyCase> cases_;
    std::vector<PolicySpeed> rows_;
};

Status check(const PolicySpeedOptions & options) {
    for (const int length : options.lengths) { PITH_RETURN_IF_ERROR(check_at_least("a prompt's length", length, 1)); }
    for (const int chunk : options.chunks) { PITH_RETURN_IF_ERROR(check_at_least("a chunk", chunk, 1)); }
    PITH_RETURN_IF_ERROR(check_at_least("the number of measurements", options.n_repetitions, 1));
    return check_at_least("the number of decoded tokens", options.n_generate, 0);
}

}  // namespace

Result<std::vector<PolicySpeed>> measure_policy_speed(const Model & model, const PolicySpeedOptions & options) {
    PITH_RETURN_IF_ERROR(check(options));
    return SpeedRunner(model, options).run();
}

}  // namespace pith
