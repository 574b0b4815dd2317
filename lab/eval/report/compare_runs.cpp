// compare_runs.cpp - pairs of scores, their differences and tests. Stage: eval.
#include "eval/report/compare_runs.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/text.h"
#include "figures/text_table.h"
#include "statistics/significance.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

// The settings on which the samples hang; the rest (policy, schedule, model …) is what one compares.
constexpr std::array kSampleSettings = {"FAMILY", "--samples", "--seed", "--samples-file", "--haystack", "--text", "--data"};

std::string value_of(const RunInfo & info, const std::string & name) {
    for (const auto & [known, value] : info.settings) {
        if (known == name) { return value; }
    }
    return "nothing";
}

double mean(const std::vector<double> & values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Sample id → score; the id, not the place, says that it is the same sample.
std::map<std::string, double> scores_by_id(const RunFolder & run, const std::string & task, int length, const EvalCase & one) {
    const std::map<int, std::string> ids = sample_ids(run.answers(), task, length);
    std::map<std::string, double> scores;
    for (const auto & [index, score] : sample_scores(run.answers(), task, length, one)) { scores[ids.at(index)] = score; }
    return scores;
}

struct Pairs {
    std::vector<double> first, second, differences;
};

Pairs pairs_of(const RunFolder & first, const RunFolder & second, const CompareRow & row) {
    Pairs pairs;
    const auto theirs = scores_by_id(second, row.task, row.length, row.second);
    for (const auto & [id, score] : scores_by_id(first, row.task, row.length, row.first)) {
        const auto at = theirs.find(id);
        if (at == theirs.end()) { continue; }
        pairs.first.push_back(score);
        pairs.second.push_back(at->second);
        pairs.differences.push_back(at->second - score);
    }
    return pairs;
}

// The tasks' means and differences, of one pair of cases.
struct Overall {
    std::vector<double> first, second;
    std::vector<std::vector<double>> strata;

    void add(const Pairs & pairs) {
        first.push_back(mean(pairs.first));
        second.push_back(mean(pairs.second));
        strata.push_back(pairs.differences);
    }
};

void set_means(CompareRow & row, double first, double second, const std::vector<std::vector<double>> & strata,
               bool is_perplexity) {
    const double scale = is_perplexity ? 1 : 100;
    for (const std::vector<double> & stratum : strata) { row.n_samples += static_cast<int>(stratum.size()); }
    row.first_score = first * scale;
    row.second_score = second * scale;
    const PairedDifference paired = paired_difference(strata, is_perplexity);
    row.difference = paired.difference;
    row.interval = paired.interval;
    row.p = paired.p;
    row.is_exact = paired.is_exact;
}

using CasePair = std::pair<EvalCase, EvalCase>;

// Those that `policies` names, in its order.
void add_case_pairs(const RunInfo & first, const RunInfo & second, const ComparePolicies & policies,
                    std::vector<CasePair> & pairs) {
    for (const EvalCase & one : first.cases) {
        if (!policies.first.empty() && one.policy != policies.first) { continue; }
        const std::string wanted = policies.second.empty() ? one.policy : policies.second;
        for (const EvalCase & other : second.cases) {
            // A policy without a budget (full) can stand against any budget of the other.
            const bool same_budget =
                one.budget == other.budget || (!policies.second.empty() && (one.budget.empty() || other.budget.empty()));
            if (other.policy == wanted && same_budget) { pairs.emplace_back(one, other); }
        }
    }
}

// Which case of the second run each case of the first is held against.
std::vector<CasePair> case_pairs(const RunInfo & first, const RunInfo & second, const std::vector<ComparePolicies> & policies) {
    std::vector<CasePair> pairs;
    if (policies.empty()) { add_case_pairs(first, second, {}, pairs); }
    for (const ComparePolicies & one : policies) { add_case_pairs(first, second, one, pairs); }
    return pairs;
}

bool has_perplexity(const RunInfo & info) {
    return std::any_of(info.tasks.begin(), info.tasks.end(), [](const EvalTask & task) { return task.is_perplexity; });
}

template <class T>
bool contains(const std::vector<T> & values, const T & value) {
    return std::find(values.begin(), values.end(), value) != values.end();
}

// Of those named, or of all.
Result<std::vector<EvalTask>> tasks_of_both(const RunInfo & first, const RunInfo & second,
                                            const std::vector<std::string> & named) {
    std::vector<EvalTask> tasks;
    std::vector<std::string_view> names;
    for (const EvalTask & task : first.tasks) {
        if (!contains(second.tasks, task)) { continue; }
        names.push_back(task.name);
        if (named.empty() || contains(named, task.name)) { tasks.push_back(task); }
    }
    for (const std::string & name : named) {
        if (std::ranges::find(names, name) != names.end()) { continue; }
        return {ErrorCode::kInvalidArgument,
                "--tasks: '" + name + "' is no task of both runs; " +
                    (names.empty() ? std::string("they share none") : "they have " + join(names, ", "))};
    }
    return tasks;
}

std::string case_text(const EvalCase & one) {
    return one.policy + (one.budget.empty() ? "" : " " + one.budget);
}

std::string pair_text(const CompareRow & row) {
    return row.first == row.second ? case_text(row.first) : case_text(row.first) + " / " + case_text(row.second);
}

std::string test_text(const CompareRow & row) {
    return row.is_exact ? "sign flips" : "drawn flips";
}

}  // namespace

std::string differing_samples(const RunInfo & first, const RunInfo & second) {
    std::string text;
    for (const char * name : kSampleSettings) {
        const std::string a = value_of(first, name);
        const std::string b = value_of(second, name);
        if (a != b) { text += (text.empty() ? "" : "; ") + std::string(name) + " " + a + " and " + b; }
    }
    return text;
}

std::vector<ComparePolicies> parse_pairs(std::string_view pairs) {
    std::vector<ComparePolicies> out;
    for (const std::string_view pair : split(pairs, ',')) {
        const size_t sign = pair.find('<');
        if (sign == std::string_view::npos) { continue; }
        out.push_back({std::string(pair.substr(0, sign)), std::string(pair.substr(sign + 1))});
    }
    return out;
}

Result<Comparison> compare_runs(const RunFolder & first, const RunFolder & second, const CompareWhat & what) {
    Comparison out;
    PITH_ASSIGN_OR_RETURN(const std::vector<EvalTask> compared, tasks_of_both(first.info(), second.info(), what.tasks));
    out.is_perplexity = has_perplexity(first.info());
    if (out.is_perplexity != has_perplexity(second.info())) {
        return {ErrorCode::kInvalidArgument, "a perplexity cannot be compared with a score: '" + first.path() + "' and '" +
                                                 second.path() + "' are evaluations of different kinds"};
    }
    const auto cases = case_pairs(first.info(), second.info(), what.policies);
    for (const int length : first.info().lengths) {
        if (!contains(second.info().lengths, length)) { continue; }
        std::vector<Overall> overall(cases.size());
        size_t n_asked = 0;  // tasks; one that no sample is short enough for is in no average
        for (const EvalTask & task : compared) {
            bool is_asked = false;
            for (size_t i = 0; i < cases.size(); ++i) {
                CompareRow row{.task = task.name, .length = length, .first = cases[i].first, .second = cases[i].second};
                const Pairs pairs = pairs_of(first, second, row);
                if (pairs.differences.empty()) { continue; }
                set_means(row, mean(pairs.first), mean(pairs.second), {pairs.differences}, out.is_perplexity);
                overall[i].add(pairs);
                is_asked = true;
                if (!what.overall || compared.size() == 1) { out.rows.push_back(row); }
            }
            n_asked += is_asked ? 1 : 0;
        }
        for (size_t i = 0; i < cases.size(); ++i) {
            const Overall & all = overall[i];
            if (compared.size() < 2 || n_asked == 0 || all.strata.size() != n_asked) { continue; }
            CompareRow row{.length = length, .first = cases[i].first, .second = cases[i].second};
            set_means(row, mean(all.first), mean(all.second), all.strata, out.is_perplexity);
            out.rows.push_back(row);
        }
    }
    if (out.rows.empty()) {
        return {ErrorCode::kInvalidArgument, "'" + first.path() + "' and '" + second.path() +
                                                 "' have no sample in common under the policies and budgets to compare"};
    }
    std::vector<double> p;
    for (const CompareRow & row : out.rows) { p.push_back(row.p); }
    const std::vector<double> adjusted = holm(p);
    for (size_t i = 0; i < out.rows.size(); ++i) { out.rows[i].p_holm = adjusted[i]; }
    return out;
}

std::string compare_text(const Comparison & comparison, bool markdown) {
    const int digits = comparison.is_perplexity ? 3 : 1;
    TextTable table;
    table.header = {"task", "context", "policy", "first", "second", "difference", "95 %", "p", "p (Holm)", "test", "pairs"};
    table.n_left = 3;
    for (const CompareRow & row : comparison.rows) {
        table.rows.push_back({row.task.empty() ? "average" : row.task, std::to_string(row.length), pair_text(row),
                              fixed(row.first_score, digits), fixed(row.second_score, digits),
                              (row.difference > 0 ? "+" : "") + fixed(row.difference, digits),
                              row.interval ? interval_text(row.interval->low, row.interval->high, digits) : "-", p_text(row.p),
                              p_text(row.p_holm), test_text(row), std::to_string(row.n_samples)});
    }
    return markdown ? to_markdown(table) : to_text(table);
}

std::string compare_csv(const Comparison & comparison) {
    TextTable table;
    table.header = {"task",          "context", "first_policy", "first_budget", "second_policy",
                    "second_budget", "first",   "second",       "difference",   "low",
                    "high",          "p",       "p_holm",       "test",         "pairs"};
    for (const CompareRow & row : comparison.rows) {
        table.rows.push_back({row.task.empty() ? "average" : row.task, std::to_string(row.length), row.first.policy,
                              row.first.budget, row.second.policy, row.second.budget, fixed(row.first_score, 4),
                              fixed(row.second_score, 4), fixed(row.difference, 4),
                              row.interval ? fixed(row.interval->low, 4) : "", row.interval ? fixed(row.interval->high, 4) : "",
                              p_text(row.p), p_text(row.p_holm), test_text(row), std::to_string(row.n_samples)});
    }
    return to_csv(table);
}

std::string compare_json(const Comparison & comparison) {
    Json rows = Json::array();
    for (const CompareRow & row : comparison.rows) {
        rows.push_back({{"task", row.task.empty() ? "average" : row.task},
                        {"context", row.length},
                        {"first", {{"policy", row.first.policy}, {"budget", row.first.budget}, {"score", row.first_score}}},
                        {"second", {{"policy", row.second.policy}, {"budget", row.second.budget}, {"score", row.second_score}}},
                        {"difference", row.difference},
                        {"interval", row.interval ? Json{row.interval->low, row.interval->high} : Json()},
                        {"p", row.p},
                        {"p_holm", row.p_holm},
                        {"test", test_text(row)},
                        {"pairs", row.n_samples}});
    }
    return Json{{"rows", rows}}.dump(2) + "\n";
}

}  // namespace pith
