// eval_table.cpp - answers into rows. Stage: eval.
#include "eval/report/eval_table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "core/text.h"
#include "policy/named_policy.h"
#include "policy/policy.h"
#include "statistics/significance.h"

namespace pith {
namespace {

constexpr const char * kTurn = "turn";  // the group that samples of several turns have

double mean(const std::vector<double> & values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<Interval> times(const std::optional<Interval> & interval, double factor) {
    if (!interval) { return {}; }
    return Interval{interval->low * factor, interval->high * factor};
}

// A perplexity has no range; and resampling a single value says nothing.
std::optional<Interval> resampled(const std::vector<double> & values) {
    return values.size() < 2 ? std::optional<Interval>() : bootstrap_interval(values);
}

using CellKey = std::tuple<std::string, int, std::string, std::string>;  // task, length, policy, budget

// The answers of one task, length and case, by sample and turn.
struct Cell {
    std::vector<const Answer *> answers;

    void sort() {
        std::sort(answers.begin(), answers.end(),
                  [](const Answer * a, const Answer * b) { return std::tie(a->index, a->turn) < std::tie(b->index, b->turn); });
    }
};

// Sample index → mean over the turns that `keep` says yes to and that were answered.
template <class Keep>
std::map<int, double> scores_of(const Cell & cell, const Keep & keep) {
    std::map<int, std::pair<double, int>> sums;
    for (const Answer * answer : cell.answers) {
        if (!answer->refused.empty() || !keep(*answer)) { continue; }
        auto & [sum, n] = sums[answer->index];
        sum += answer->score;
        ++n;
    }
    std::map<int, double> scores;
    for (const auto & [index, sum] : sums) { scores[index] = sum.first / sum.second; }
    return scores;
}

std::vector<double> values_of(const std::map<int, double> & scores) {
    std::vector<double> values;
    for (const auto & [index, score] : scores) { values.push_back(score); }
    return values;
}

// Score minus the full cache's, of the samples that both have.
std::vector<double> paired(const std::map<int, double> & scores, const std::map<int, double> & full) {
    std::vector<double> differences;
    for (const auto & [index, score] : scores) {
        const auto at = full.find(index);
        if (at != full.end()) { differences.push_back(score - at->second); }
    }
    return differences;
}

class TableMaker {
public:
    TableMaker(const RunInfo & info, const std::vector<Answer> & answers) {
        table_.info = info;
        table_.is_perplexity =
            std::any_of(info.tasks.begin(), info.tasks.end(), [](const EvalTask & t) { return t.is_perplexity; });
        scale_ = table_.is_perplexity ? 1 : 100;
        for (const EvalCase & one : info.cases) {
            auto policy = named_policy(one.policy);  // `auto` is none
            policies_.push_back(policy.ok() ? std::optional<Policy>(std::move(*policy)) : std::nullopt);
        }
        for (const Answer & answer : answers) {
            if (answer.is_left_out()) {
                EvalSkips & skips = left_out_[{answer.task, answer.length}];
                if (answer.sample.empty()) {
                    skips.why = answer.refused;
                } else {
                    ++skips.n_left_out;
                }
                continue;
            }
            cells_[{answer.task, answer.length, answer.policy, answer.budget}].answers.push_back(&answer);
            if (answer.n_cut > 0) { cut_[{answer.task, answer.length}].insert(answer.index); }
            if (answer.turn > 0) { several_turns_.insert(answer.task); }
        }
        for (auto & [key, cell] : cells_) { cell.sort(); }
    }

    EvalTable make() {
        for (const int length : table_.info.lengths) {
            for (const EvalTask & task : table_.info.tasks) {
                for (size_t i = 0; i < table_.info.cases.size(); ++i) { add_rows(task, length, i); }
                add_skips(task, length);
            }
            for (size_t i = 0; table_.info.tasks.size() > 1 && i < table_.info.cases.size(); ++i) { add_average(length, i); }
        }
        return std::move(table_);
    }

private:
    const Cell & cell(const std::string & task, int length, size_t index) const {
        static const Cell kNone;
        const EvalCase & one = table_.info.cases[index];
        const auto at = cells_.find({task, length, one.policy, one.budget});
        return at == cells_.end() ? kNone : at->second;
    }

    // Of a text that was evicted: so many entries a lane stayed.
    std::string no_choice(size_t index, double kept, double n_prompt) const {
        if (!policies_[index] || kept >= n_prompt) { return ""; }
        return policies_[index]->why_no_choice(std::llround(kept));
    }

    template <class Keep>
    EvalRow row_of(const EvalTask & task, int length, size_t index, const Keep & keep) const {
        const Cell & here = cell(task.name, length, index);
        EvalRow row;
        row.task = task.name;
        row.length = length;
        row.index = index;
        std::set<int> refused;
        std::set<std::string> chosen;
        std::vector<double> per_character;
        std::vector<double> kv_bytes;
        std::vector<std::vector<double>> blocks;  // logarithms, [block][document]
        int n = 0;
        for (const Answer * answer : here.answers) {
            if (!keep(*answer)) { continue; }
            if (!answer->refused.empty()) {
                refused.insert(answer->index);
                row.note = answer->refused;
                continue;
            }
            ++n;
            row.kept += answer->kept;
            row.n_prompt += answer->n_prompt;
            if (!answer->chosen.empty()) { chosen.insert(answer->chosen); }
            if (answer->kv_bytes > 0) { kv_bytes.push_back(static_cast<double>(answer->kv_bytes)); }
            for (size_t i = 0; i < answer->blocks.size(); ++i) {
                if (i == blocks.size()) { blocks.emplace_back(); }
                blocks[i].push_back(std::log(answer->blocks[i]));
            }
            if (answer->score_per_character) { per_character.push_back(*answer->score_per_character); }
        }
        row.no_choice = n > 0 ? no_choice(index, row.kept / n, row.n_prompt / n) : "";
        for (const auto & block : blocks) { row.blocks.push_back(std::exp(mean(block))); }
        row.n_refused = static_cast<int>(refused.size());
        row.chosen = join(chosen, ",");
        const std::map<int, double> scores = scores_of(here, keep);
        row.n_samples = static_cast<int>(scores.size());
        if (scores.empty()) { return row; }
        row.kept /= n;
        row.n_prompt /= n;
        if (kv_bytes.size() == static_cast<size_t>(n)) { row.kv_bytes = mean(kv_bytes); }
        const std::vector<double> values = values_of(scores);
        row.score = mean(values) * scale_;
        row.interval = times(table_.is_perplexity ? resampled(values) : score_interval(values), scale_);
        if (!per_character.empty()) { row.per_character = mean(per_character) * scale_; }
        const std::vector<double> differences = paired(scores, scores_of(cell(task.name, length, 0), keep));
        if (index > 0 && !differences.empty()) { add_difference({differences}, row); }
        return row;
    }

    void add_difference(const std::vector<std::vector<double>> & differences, EvalRow & row) const {
        const PairedDifference paired = paired_difference(differences, table_.is_perplexity);
        row.difference = paired.difference;
        row.difference_interval = paired.interval;
        row.p = paired.p;
    }

    void add_rows(const EvalTask & task, int length, size_t index) {
        const EvalRow all = row_of(task, length, index, [](const Answer &) { return true; });
        if (all.n_samples == 0 && all.n_refused == 0) { return; }  // not answered yet
        table_.rows.push_back(all);
        for (const std::string & group : task.group_by) {
            for (const std::string & value : values_of_group(task.name, length, group)) {
                add_group(task, length, index, group, value, [&](const Answer & a) {
                    const auto at = a.groups.find(group);
                    return at != a.groups.end() && at->second == value;
                });
            }
        }
        if (several_turns_.count(task.name) == 0) { return; }
        int n_turns = 0;
        for (const Answer * answer : cell(task.name, length, index).answers) { n_turns = std::max(n_turns, answer->turn + 1); }
        for (int turn = 0; turn < n_turns; ++turn) {
            add_group(task, length, index, kTurn, std::to_string(turn + 1), [&](const Answer & a) { return a.turn == turn; });
        }
    }

    template <class Keep>
    void add_group(const EvalTask & task, int length, size_t index, const std::string & group, const std::string & value,
                   const Keep & keep) {
        EvalRow row = row_of(task, length, index, keep);
        if (row.n_samples == 0 && row.n_refused == 0) { return; }
        row.group = group;
        row.value = value;
        table_.rows.push_back(std::move(row));
    }

    // All values of any case; numbers by size, words by the alphabet.
    std::vector<std::string> values_of_group(const std::string & task, int length, const std::string & group) const {
        std::set<std::string> found;
        for (size_t i = 0; i < table_.info.cases.size(); ++i) {
            for (const Answer * answer : cell(task, length, i).answers) {
                const auto at = answer->groups.find(group);
                if (at != answer->groups.end()) { found.insert(at->second); }
            }
        }
        std::vector<std::string> values(found.begin(), found.end());
        std::stable_sort(values.begin(), values.end(), [](const std::string & a, const std::string & b) {
            return std::strtod(a.c_str(), nullptr) < std::strtod(b.c_str(), nullptr);
        });
        return values;
    }

    void add_skips(const EvalTask & task, int length) {
        EvalSkips skips;
        if (const auto at = left_out_.find({task.name, length}); at != left_out_.end()) { skips = at->second; }
        skips.task = task.name;
        skips.length = length;
        if (const auto at = cut_.find({task.name, length}); at != cut_.end()) {
            skips.n_cut = static_cast<int>(at->second.size());
        }
        if (skips.n_left_out > 0 || skips.n_cut > 0 || !skips.why.empty()) { table_.skips.push_back(skips); }
    }

    bool fits(const EvalTask & task, int length) const {
        const auto at = left_out_.find({task.name, length});
        return at == left_out_.end() || at->second.why.empty();
    }

    void add_average(int length, size_t index) {
        EvalRow row;
        row.length = length;
        row.index = index;
        std::vector<Estimate> scores;
        std::vector<std::vector<double>> differences;
        std::vector<double> kv_bytes;
        std::set<std::string> chosen;
        const auto all = [](const Answer &) { return true; };
        for (const EvalTask & task : table_.info.tasks) {
            if (!fits(task, length)) { continue; }
            const std::map<int, double> here = scores_of(cell(task.name, length, index), all);
            const std::map<int, double> full = scores_of(cell(task.name, length, 0), all);
            if (here.empty()) { return; }
            const std::vector<double> values = values_of(here);
            scores.push_back({mean(values), score_interval(values)});
            differences.push_back(paired(here, full));
            row.n_samples += static_cast<int>(here.size());
            const EvalRow * one = table_.find(task.name, length, index);
            row.n_refused += one->n_refused;
            if (!one->no_choice.empty()) { row.no_choice = one->no_choice; }
            for (const std::string_view name : split(one->chosen, ',')) {
                if (!name.empty()) { chosen.emplace(name); }
            }
            row.kept += one->kept;
            row.n_prompt += one->n_prompt;
            if (one->kv_bytes) { kv_bytes.push_back(*one->kv_bytes); }
        }
        if (scores.empty()) { return; }
        row.kept /= static_cast<double>(scores.size());
        row.n_prompt /= static_cast<double>(scores.size());
        row.chosen = join(chosen, ",");
        if (kv_bytes.size() == scores.size()) { row.kv_bytes = mean(kv_bytes); }
        const Estimate score = mean_of(scores);
        row.score = score.mean * scale_;
        row.interval = times(score.interval, scale_);
        const bool comparable = std::none_of(differences.begin(), differences.end(), [](const auto & d) { return d.empty(); });
        if (index > 0 && comparable) { add_difference(differences, row); }
        table_.rows.push_back(std::move(row));
    }

    EvalTable table_;
    double scale_ = 1;
    std::vector<std::optional<Policy>> policies_;  // of the cases
    std::map<CellKey, Cell> cells_;
    std::map<std::pair<std::string, int>, EvalSkips> left_out_;
    std::map<std::pair<std::string, int>, std::set<int>> cut_;
    std::set<std::string> several_turns_;
};

}  // namespace

std::string length_text(int length) {
    return length > 0 ? std::to_string(length) + " tokens" : "whole samples";
}

PairedDifference paired_difference(const std::vector<std::vector<double>> & tasks, bool is_perplexity) {
    const PairedTest test = paired_test(tasks);
    const double scale = is_perplexity ? 1 : 100;
    PairedDifference out{.difference = test.difference * scale, .interval = {}, .p = test.p, .is_exact = test.is_exact};
    if (!is_perplexity) {
        out.interval = Interval{std::max(test.interval.low, -1.0) * scale, std::min(test.interval.high, 1.0) * scale};
    } else if (std::isfinite(test.interval.low)) {
        out.interval = test.interval;
    }
    return out;
}

const EvalRow * EvalTable::find(const std::string & task, int length, size_t index) const {
    const auto at = std::find_if(rows.begin(), rows.end(), [&](const EvalRow & row) {
        return row.task == task && row.length == length && row.index == index && row.group.empty();
    });
    return at == rows.end() ? nullptr : &*at;
}

EvalTable make_eval_table(const RunInfo & info, const std::vector<Answer> & answers) {
    return TableMaker(info, answers).make();
}

std::map<int, std::string> sample_ids(const std::vector<Answer> & answers, const std::string & task, int length) {
    std::map<int, std::string> ids;
    for (const Answer & answer : answers) {
        if (!answer.is_left_out() && answer.task == task && answer.length == length) { ids[answer.index] = answer.sample; }
    }
    return ids;
}

std::vector<std::pair<int, double>> sample_scores(const std::vector<Answer> & answers, const std::string & task, int length,
                                                  const EvalCase & one) {
    Cell cell;
    for (const Answer & answer : answers) {
        if (!answer.is_left_out() && answer.task == task && answer.length == length && answer.policy == one.policy &&
            answer.budget == one.budget) {
            cell.answers.push_back(&answer);
        }
    }
    cell.sort();
    const std::map<int, double> scores = scores_of(cell, [](const Answer &) { return true; });
    return {scores.begin(), scores.end()};
}

}  // namespace pith
