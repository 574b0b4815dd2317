// eval_figures.cpp - an evaluation's figures. Stage: eval.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "eval/eval_report.h"
#include "report/svg.h"

namespace pith {
namespace {

constexpr size_t kMostMaps = 24;  // of each kind: a page of dozens of policies would be too long to look at
constexpr const char * kDepth = "depth";

std::string where(const std::string & task, int length) {
    return (task.empty() ? "average" : task) + (length > 0 ? ", " + std::to_string(length) + " tokens" : "");
}

std::vector<std::string> budgets_of(const RunInfo & info) {
    std::vector<std::string> budgets;
    for (const EvalCase & one : info.cases) {
        const bool known = std::find(budgets.begin(), budgets.end(), one.budget) != budgets.end();
        if (!one.budget.empty() && !known) { budgets.push_back(one.budget); }
    }
    return budgets;
}

// Score against budget, a line for each policy; the full cache is a level one.
void add_chart(report::SvgPage & page, const EvalTable & table, const std::string & task, int length) {
    report::LineChart chart;
    chart.title = where(task, length) + (table.is_perplexity ? ": perplexity" : ": score");
    chart.x_label = "budget";
    chart.ticks = budgets_of(table.info);
    std::vector<std::string> policies;
    for (const EvalCase & one : table.info.cases) {
        if (std::find(policies.begin(), policies.end(), one.policy) == policies.end()) { policies.push_back(one.policy); }
    }
    for (const std::string & policy : policies) {
        report::Series series{policy, std::vector<double>(chart.ticks.size(), std::numeric_limits<double>::quiet_NaN())};
        series.reference = true;  // until there is a budget: the full cache
        bool any = false;
        for (size_t i = 0; i < table.info.cases.size(); ++i) {
            const EvalCase & one = table.info.cases[i];
            const EvalRow * row = one.policy == policy ? table.find(task, length, i) : nullptr;
            if (row == nullptr || !row->score) { continue; }
            any = true;
            if (!one.budget.empty()) { series.reference = false; }
            for (size_t b = 0; b < chart.ticks.size(); ++b) {
                if (one.budget.empty() || one.budget == chart.ticks[b]) { series.values[b] = *row->score; }
            }
        }
        if (any) { chart.series.push_back(std::move(series)); }
    }
    if (!chart.ticks.empty() && !chart.series.empty()) { page.add(chart); }
}

// A needle's score by length and depth.
void add_depths(report::SvgPage & page, const EvalTable & table) {
    size_t n_maps = 0;
    for (const EvalTask & task : table.info.tasks) {
        for (size_t i = 0; i < table.info.cases.size(); ++i) {
            report::HeatMap map;
            std::map<std::pair<std::string, int>, double> scores;
            for (const EvalRow & row : table.rows) {
                if (row.task != task.name || row.index != i || row.group != kDepth || !row.score) { continue; }
                scores[{row.value, row.length}] = *row.score;
                if (std::find(map.row_names.begin(), map.row_names.end(), row.value) == map.row_names.end()) {
                    map.row_names.push_back(row.value);
                }
            }
            for (const int length : table.info.lengths) { map.column_names.push_back(std::to_string(length)); }
            const size_t n_cells = map.row_names.size() * map.column_names.size();
            if (scores.empty() || scores.size() != n_cells || ++n_maps > kMostMaps) { continue; }
            const EvalCase & one = table.info.cases[i];
            map.title = task.name + ": " + one.policy + " " + one.budget;
            map.row_label = "depth";
            map.column_label = "tokens";
            map.n_rows = static_cast<int>(map.row_names.size());
            map.n_columns = static_cast<int>(map.column_names.size());
            map.low = 0;
            map.high = 100;
            for (const std::string & depth : map.row_names) {
                for (const int length : table.info.lengths) { map.values.push_back(scores[{depth, length}]); }
            }
            page.add(map);
        }
    }
}

// Entries kept by layer and KV head, mean over all samples of all tasks and lengths.
void add_retention(report::SvgPage & page, const EvalTable & table, const std::vector<Answer> & answers) {
    struct Sum {
        std::vector<double> lanes;
        int n = 0;
        int n_kv_heads = 0;
    };
    // Added in the samples' order, so that rounding does not hang on which answer came first.
    std::vector<const Answer *> ordered;
    for (const Answer & answer : answers) {
        if (!answer.lanes.empty()) { ordered.push_back(&answer); }
    }
    std::sort(ordered.begin(), ordered.end(), [](const Answer * a, const Answer * b) {
        return std::tie(a->task, a->length, a->index, a->turn) < std::tie(b->task, b->length, b->index, b->turn);
    });
    std::map<std::pair<std::string, std::string>, Sum> sums;
    for (const Answer * answer : ordered) {
        Sum & sum = sums[{answer->policy, answer->budget}];
        sum.lanes.resize(answer->lanes.size(), 0);
        for (size_t i = 0; i < answer->lanes.size(); ++i) { sum.lanes[i] += answer->lanes[i]; }
        sum.n_kv_heads = answer->n_kv_heads;
        ++sum.n;
    }
    size_t n_maps = 0;
    for (const EvalCase & one : table.info.cases) {
        const auto at = sums.find({one.policy, one.budget});
        if (at == sums.end() || ++n_maps > kMostMaps) { continue; }
        const Sum & sum = at->second;
        report::HeatMap map;
        map.title = "entries kept: " + one.policy + " " + one.budget;
        map.row_label = "layer";
        map.column_label = "KV head";
        map.n_columns = sum.n_kv_heads;
        map.n_rows = static_cast<int>(sum.lanes.size()) / std::max(1, sum.n_kv_heads);
        for (const double lane : sum.lanes) { map.values.push_back(lane / sum.n); }
        page.add(map);
    }
}

constexpr const char * kAverage = "average";
constexpr const char * kDepths = "depths";
constexpr const char * kLanes = "lanes";

}  // namespace

std::vector<std::string> figure_names(const EvalTable & table) {
    std::vector<std::string> names;
    if (table.info.tasks.size() > 1) { names.emplace_back(kAverage); }
    for (const EvalTask & task : table.info.tasks) { names.push_back(task.name); }
    names.emplace_back(kDepths);
    names.emplace_back(kLanes);
    return names;
}

std::string eval_svg(const EvalTable & table, const std::vector<Answer> & answers, const std::vector<std::string> & only) {
    const auto wanted = [&](const std::string & name) { return only.empty() || std::ranges::find(only, name) != only.end(); };
    report::SvgPage page(table.info.family);
    for (const int length : table.info.lengths) {
        if (table.info.tasks.size() > 1 && wanted(kAverage)) { add_chart(page, table, "", length); }
        for (const EvalTask & task : table.info.tasks) {
            if (wanted(task.name)) { add_chart(page, table, task.name, length); }
        }
    }
    if (wanted(kDepths)) { add_depths(page, table); }
    if (wanted(kLanes)) { add_retention(page, table, answers); }
    return page.str();
}

}  // namespace pith
