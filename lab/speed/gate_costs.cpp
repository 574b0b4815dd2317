// gate_costs.cpp - prompts and decoded tokens with gates and without, in turns. Stage: speed.
#include "speed/gate_costs.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/median.h"
#include "core/stopwatch.h"
#include "policy/named_policy.h"
#include "speed/random_prompt.h"

namespace pith {
namespace {

constexpr int kWarmUpTokens = 128;
constexpr int kUntimedTokens = 2;  // before the clock of the decoded ones starts

Status check(const GateCostOptions & options) {
    PITH_RETURN_IF_ERROR(check_at_least("--n-predict", options.n_generate, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--repetitions", options.n_repetitions, 1));
    for (const int length : options.lengths) { PITH_RETURN_IF_ERROR(check_at_least("--n-prompt", length, 1)); }
    return {};
}

class GateCosts {
public:
    GateCosts(const Model & model, const GateCostOptions & options)
        : model_(model),
          options_(options),
          tokens_(random_prompt(model, *std::ranges::max_element(options.lengths) + kUntimedTokens + options.n_generate,
                                options.seed)) {
        hooks_.cancel = options.cancel;
    }

    Result<std::vector<GateCostRow>> run() {
        std::vector<GateCostRow> rows;
        for (const int length : options_.lengths) {
            const size_t first = rows.size();
            for (const PolicyChoice & choice : options_.policies) {
                rows.push_back({.n_tokens = length, .policy = choice.name()});
            }
            for (int round = 0; round < options_.n_repetitions; ++round) {
                for (size_t i = first; i < rows.size(); ++i) {
                    if (options_.progress) {
                        options_.progress(rows[i].policy + ", " + std::to_string(length) + " tokens, round " +
                                          std::to_string(round + 1) + " of " + std::to_string(options_.n_repetitions));
                    }
                    const PolicyChoice & choice = options_.policies[i - first];
                    if (round == 0) { PITH_RETURN_IF_ERROR(warm_up(choice)); }
                    PITH_RETURN_IF_ERROR(measure(choice, rows[i]));
                }
            }
        }
        return rows;
    }

private:
    Result<Session> open(const PolicyChoice & choice) const {
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        SessionOptions options = options_.session;
        options.policy = choice;
        if (!policy.evicts()) { options.budget = Budget(); }
        if (options.prefill == PrefillSchedule::kAuto) { options.prefill = PrefillSchedule::kOneShot; }
        return model_.session(options);
    }

    Status warm_up(const PolicyChoice & choice) {
        PITH_ASSIGN_OR_RETURN(Session session, open(choice));
        return session.prefill(std::span(tokens_).first(std::min<size_t>(tokens_.size(), kWarmUpTokens)), hooks_);
    }

    Status measure(const PolicyChoice & choice, GateCostRow & row) {
        PITH_ASSIGN_OR_RETURN(Session session, open(choice));
        const auto n = static_cast<size_t>(row.n_tokens);
        PITH_RETURN_IF_ERROR(session.prefill(std::span(tokens_).first(n), hooks_));
        const Ledger after = session.ledger();
        row.prefill_s.push_back(after.prefill_s);
        row.gate_s.push_back(after.gate_s);
        row.kept = static_cast<double>(after.kept_entries) /
                   (static_cast<double>(row.n_tokens) * session.n_layers() * session.n_kv_heads());
        row.kv_allocated_bytes = after.kv_allocated_bytes;
        row.kv_peak_bytes = after.kv_peak_bytes;
        row.gate_peak_bytes = after.gate_peak_bytes;
        const auto more = std::span(tokens_).subspan(n, size_t{kUntimedTokens} + static_cast<size_t>(options_.n_generate));
        for (const int32_t token : more.first(kUntimedTokens)) { PITH_RETURN_IF_ERROR(session.append(token)); }
        const Stopwatch watch;
        for (const int32_t token : more.subspan(kUntimedTokens)) {
            if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
            PITH_RETURN_IF_ERROR(session.append(token));
        }
        row.token_s.push_back(watch.seconds() / options_.n_generate);
        return {};
    }

    const Model & model_;
    const GateCostOptions & options_;
    std::vector<int32_t> tokens_;
    RunHooks hooks_;
};

}  // namespace

double GateCostRow::gate_share() const {
    std::vector<double> shares;
    for (size_t i = 0; i < prefill_s.size(); ++i) { shares.push_back(gate_s[i] / prefill_s[i]); }
    return median(std::move(shares));
}

std::optional<double> GateCostRow::tokens_until_even(const GateCostRow & full) const {
    const double longer_s = median(prefill_s) - median(full.prefill_s);
    if (longer_s <= 0) { return 0.0; }
    const double gained_s = median(full.token_s) - median(token_s);
    return gained_s > 0 ? std::optional(longer_s / gained_s) : std::nullopt;
}

Result<std::vector<GateCostRow>> measure_gate_costs(const Model & model, const GateCostOptions & options) {
    PITH_RETURN_IF_ERROR(check(options));
    if (options.lengths.empty() || options.policies.empty()) {
        return {ErrorCode::kInvalidArgument, "no length or no policy to measure"};
    }
    return GateCosts(model, options).run();
}

}  // namespace pith
