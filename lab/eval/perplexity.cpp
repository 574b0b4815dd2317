// perplexity.cpp - teacher-forced continuations after a compressed prompt. Stage: eval.
#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "engine/probe/likelihood.h"
#include "engine/probe/policy_cases.h"
#include "eval/plain_text.h"

namespace pith {
namespace {

constexpr int kResamples = 2000;

struct CaseLosses {
    std::vector<double> losses;  // [text] mean over its tokens
    double kept_entries = 0;
    std::string note;
};

double mean(std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of exp(mean losses) − exp(mean full losses), texts drawn together.
Interval difference_interval(std::span<const double> losses, std::span<const double> full, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<double> differences(kResamples);
    for (double & difference : differences) {
        double sum = 0;
        double sum_full = 0;
        for (size_t i = 0; i < losses.size(); ++i) {
            const size_t pick = random() % losses.size();
            sum += losses[pick];
            sum_full += full[pick];
        }
        const auto n = static_cast<double>(losses.size());
        difference = std::exp(sum / n) - std::exp(sum_full / n);
    }
    std::sort(differences.begin(), differences.end());
    const auto at = [&differences](double share) { return differences[static_cast<size_t>(share * (kResamples - 1) + 0.5)]; };
    return {at(0.025), at(0.975)};
}

PerplexityRow summary(const PolicyCase & one, const CaseLosses & result, std::span<const double> full) {
    PerplexityRow row;
    row.policy = one.policy.name();
    row.budget = one.budget.kind == BudgetKind::kNone ? "" : one.budget.to_string();
    row.n_texts = static_cast<int>(result.losses.size());
    row.note = result.note;
    if (!row.note.empty()) { return row; }
    row.kept_entries = result.kept_entries / row.n_texts;
    row.perplexity = std::exp(mean(result.losses));
    row.difference = row.perplexity - std::exp(mean(full));
    row.difference_interval = difference_interval(result.losses, full, 1);
    return row;
}

Status check(const PerplexityOptions & options) {
    const auto bad = [](const char * what, int value) {
        return Status(ErrorCode::kInvalidArgument,
                      "a perplexity over " + std::to_string(value) + " " + what + ": give 1 or more");
    };
    if (options.n_texts < 1) { return bad("texts", options.n_texts); }
    if (options.n_tokens < 1) { return bad("tokens", options.n_tokens); }
    if (options.n_continuation < 1) { return bad("tokens of continuation", options.n_continuation); }
    return {};
}

}  // namespace

Result<std::vector<PerplexityRow>> run_perplexity(const Model & model, const Tokenizer & tokenizer,
                                                  const PerplexityOptions & options) {
    PITH_RETURN_IF_ERROR(check(options));
    std::vector<PolicyChoice> policies = {"full"};
    std::copy_if(options.policies.begin(), options.policies.end(), std::back_inserter(policies),
                 [](const PolicyChoice & one) { return one.name() != "full"; });
    PITH_ASSIGN_OR_RETURN(const std::vector<PolicyCase> cases, make_cases(policies, options.budgets));
    SessionOptions session_options;
    session_options.n_threads = options.n_threads;
    session_options.heads_file = options.heads_file;
    session_options.prefill = PrefillSchedule::kOneShot;
    session_options.evict_every = 0;
    RunHooks hooks;
    hooks.cancel = options.cancel;
    std::vector<CaseLosses> results(cases.size());
    const int n_total = static_cast<int>(cases.size()) * options.n_texts;
    int n_done = 0;
    for (int i = 0; i < options.n_texts; ++i) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                              make_plain_tokens(tokenizer, options.seed, i, options.n_tokens + options.n_continuation));
        const auto prompt = std::span(tokens).first(static_cast<size_t>(options.n_tokens));
        const auto rest = std::span(tokens).subspan(static_cast<size_t>(options.n_tokens));
        const VisitCase visit = [&](size_t index, Session & session, const Status & ran) -> Status {
            CaseLosses & result = results[index];
            if (options.progress) { options.progress(++n_done, n_total); }
            if (!ran.ok()) {
                result.note = ran.message();
                return {};
            }
            result.kept_entries +=
                static_cast<double>(session.ledger().kept_entries) / static_cast<double>(session.ledger().n_lanes);
            PITH_ASSIGN_OR_RETURN(const double loss, sum_of_losses(session, rest, hooks));
            result.losses.push_back(loss / static_cast<double>(rest.size()));
            return {};
        };
        PITH_RETURN_IF_ERROR(for_each_case(model, session_options, prompt, cases, hooks, visit));
    }
    std::vector<PerplexityRow> rows;
    for (size_t i = 0; i < cases.size(); ++i) { rows.push_back(summary(cases[i], results[i], results[0].losses)); }
    return rows;
}

}  // namespace pith
