// bench_turns.cpp - sessions that grow, rounds that visit all of them. Stage: speed.
#include "speed/bench_turns.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/check.h"
#include "core/stopwatch.h"
#include "policy/named_policy.h"
#include "speed/random_prompt.h"

namespace pith {
namespace {

constexpr int kUntimedTokens = 2;  // after a restore, before the clock starts

struct Case {
    SessionOptions session_options;  // of a prompt's row; the others go on from `start`
    size_t session = 0;
    std::shared_ptr<Session::Snapshot> start;
    TurnsRow row;
};

class TurnsRunner {
public:
    TurnsRunner(const Model & model, const TurnsOptions & options) : model_(model), options_(options), depths_(options.depths) {
        std::ranges::sort(depths_);
        depths_.erase(std::unique(depths_.begin(), depths_.end()), depths_.end());
        const int64_t n_tokens = depths_.back() + kUntimedTokens + options.n_generate;
        prompt_ = random_prompt(model, std::max<int64_t>(n_tokens, options.n_prompt), options.seed);
        hooks_.cancel = options.cancel;
    }

    Result<std::vector<TurnsRow>> run() {
        for (const PolicyChoice & choice : options_.policies) {
            PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
            const std::vector<Budget> budgets = policy.evicts() ? options_.budgets : std::vector<Budget>{Budget()};
            for (const Budget & budget : budgets) { PITH_RETURN_IF_ERROR(grow(choice, policy.evicts(), budget)); }
        }
        for (int round = 0; round < options_.n_repetitions; ++round) {
            if (options_.next_round && !options_.next_round(round)) { break; }
            for (Case & one : cases_) {
                tell(one.row, "round " + std::to_string(round + 1) + " of " + std::to_string(options_.n_repetitions));
                PITH_RETURN_IF_ERROR(one.row.n_prompt > 0 ? time_prompt(one) : time_decode(one));
            }
            if (options_.round_done) { options_.round_done(round, rows()); }
        }
        return rows();
    }

private:
    std::vector<TurnsRow> rows() const {
        std::vector<TurnsRow> out;
        for (const Case & one : cases_) { out.push_back(one.row); }
        return out;
    }

    void tell(const TurnsRow & row, const std::string & what) const {
        if (!options_.progress) { return; }
        options_.progress(row.policy + (row.budget.empty() ? "" : " " + row.budget) + " at depth " + std::to_string(row.depth) +
                          ", " + what);
    }

    // One prompt through all depths.
    Status grow(const PolicyChoice & policy, bool evicts, const Budget & budget) {
        SessionOptions options = options_.session;
        options.policy = policy;
        options.budget = budget;
        PITH_ASSIGN_OR_RETURN(Session made, model_.session(options));
        sessions_.push_back(std::move(made));
        Session & session = sessions_.back();
        if (options_.n_prompt > 0) {
            Case one;
            one.session_options = options;
            one.row.n_prompt = options_.n_prompt;
            one.row.policy = policy.name();
            one.row.budget = evicts ? budget.to_string() : "";
            cases_.push_back(std::move(one));
        }
        int64_t seen = 0;
        for (const int64_t depth : depths_) {
            Case one;
            one.session = sessions_.size() - 1;
            one.row.depth = depth;
            one.row.policy = policy.name();
            one.row.budget = evicts ? budget.to_string() : "";
            tell(one.row, "prompt");
            const auto more = std::span(prompt_).subspan(static_cast<size_t>(seen), static_cast<size_t>(depth - seen));
            PITH_RETURN_IF_ERROR(session.prefill(more, hooks_));
            seen = depth;
            const auto n_lanes = static_cast<double>(session.ledger().n_lanes);
            one.row.n_entries = static_cast<double>(session.ledger().kept_entries) / n_lanes;
            PITH_ASSIGN_OR_RETURN(one.start, session.snapshot());
            cases_.push_back(std::move(one));
        }
        return {};
    }

    Status time_prompt(Case & one) {
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(one.session_options));
        const Stopwatch watch;
        PITH_RETURN_IF_ERROR(session.prefill(std::span(prompt_).first(static_cast<size_t>(options_.n_prompt)), hooks_));
        one.row.token_s.push_back(watch.seconds() / options_.n_prompt);
        return {};
    }

    Status time_decode(Case & one) {
        Session & session = sessions_[one.session];
        PITH_RETURN_IF_ERROR(session.restore(one.start));
        const auto tokens = std::span(prompt_).last(static_cast<size_t>(kUntimedTokens + options_.n_generate));
        for (const int32_t token : tokens.first(kUntimedTokens)) { PITH_RETURN_IF_ERROR(session.append(token)); }
        const Stopwatch watch;
        for (const int32_t token : tokens.subspan(kUntimedTokens)) {
            if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
            PITH_RETURN_IF_ERROR(session.append(token));
        }
        one.row.token_s.push_back(watch.seconds() / options_.n_generate);
        return {};
    }

    const Model & model_;
    const TurnsOptions & options_;
    std::vector<int64_t> depths_;
    std::vector<int32_t> prompt_;
    RunHooks hooks_;
    std::vector<Session> sessions_;
    std::vector<Case> cases_;  // behind the sessions, whose snapshots they hold
};

}  // namespace

Result<std::vector<TurnsRow>> measure_turns(const Model & model, const TurnsOptions & options) {
    PITH_RETURN_IF_ERROR(check_at_least("--n-predict", options.n_generate, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--repetitions", options.n_repetitions, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--n-prompt", options.n_prompt, 0));
    PITH_RETURN_IF_ERROR(check_at_least("the number of depths", std::ssize(options.depths), 1));
    for (const int64_t depth : options.depths) { PITH_RETURN_IF_ERROR(check_at_least("--depth", depth, 1)); }
    return TurnsRunner(model, options).run();
}

LinearFit fit_line(std::span<const double> x, std::span<const double> y) {
    const auto n = static_cast<double>(x.size());
    double mean_x = 0;
    double mean_y = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        mean_x += x[i] / n;
        mean_y += y[i] / n;
    }
    double xx = 0;
    double xy = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    LinearFit fit;
    fit.slope = xy / xx;
    fit.at_zero = mean_y - fit.slope * mean_x;
    for (size_t i = 0; i < x.size(); ++i) {
        const double on_line = fit.at_zero + fit.slope * x[i];
        fit.worst = std::max(fit.worst, std::abs(y[i] - on_line) / on_line);
    }
    return fit;
}

}  // namespace pith
