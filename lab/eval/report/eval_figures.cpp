// eval_figures.cpp - an evaluation's figures. Stage: eval.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "eval/report/eval_report.h"
#include "eval/report/run_tables.h"
#include "figures/svg.h"
#include "pith/budget.h"

namespace pith {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr const char * kDepth = "depth";

// Where the budgets stand: to scale where all are of one kind, else at equal distances.
struct BudgetAxis {
    std::vector<std::string> names;  // ascending where to scale, else in the run's order
    std::vector<double> values;      // empty: equal distances
    std::string label = "budget";
};

BudgetAxis budget_axis(const RunInfo & info) {
    BudgetAxis axis;
    axis.names = budgets_of(info);
    std::vector<std::pair<double, std::string>> sorted;
    std::set<BudgetKind> kinds;
    for (const std::string & name : axis.names) {
        const auto budget = Budget::parse(name);
        if (!budget.ok()) { return axis; }
        kinds.insert(budget->kind);
        sorted.emplace_back(budget->value, name);
    }
    if (kinds.size() != 1) { return axis; }
    std::sort(sorted.begin(), sorted.end());
    axis.names.clear();
    constexpr double kMiB = 1024.0 * 1024.0;
    const bool is_bytes = *kinds.begin() == BudgetKind::kBytes;
    for (const auto & [value, name] : sorted) {
        axis.names.push_back(name);
        axis.values.push_back(is_bytes ? value / kMiB : value);
    }
    axis.label = is_bytes                                 ? "budget (MiB of KV memory)"
                 : *kinds.begin() == BudgetKind::kPercent ? "budget (% of what is compressed)"
                                                          : "budget (tokens per head)";
    return axis;
}

// A policy's scores over the budgets, with their intervals. Without a budget (the full cache): a level line.
std::optional<report::Series> series_of(const EvalTable & table, const BudgetAxis & axis, const std::string & policy,
                                        const std::string & task, int length) {
    report::Series series{policy, std::vector<double>(axis.names.size(), kNone), true, {}, {}};
    series.low = series.high = series.values;
    bool any = false;
    for (size_t i = 0; i < table.info.cases.size(); ++i) {
        const EvalCase & one = table.info.cases[i];
        const EvalRow * row = one.policy == policy ? table.find(task, length, i) : nullptr;
        if (row == nullptr || !row->score) { continue; }
        any = true;
        if (!one.budget.empty()) { series.reference = false; }
        for (size_t b = 0; b < axis.names.size(); ++b) {
            if (!one.budget.empty() && one.budget != axis.names[b]) { continue; }
            series.values[b] = *row->score;
            series.low[b] = row->interval ? row->interval->low : kNone;
            series.high[b] = row->interval ? row->interval->high : kNone;
        }
    }
    return any ? std::optional(std::move(series)) : std::nullopt;
}

// Score against budget, a line for each policy; the full cache is a level one.
std::optional<report::LineChart> chart_of(const EvalTable & table, const std::string & task, int length) {
    const BudgetAxis axis = budget_axis(table.info);
    report::LineChart chart;
    chart.title = task.empty() ? "average of the tasks" : task;
    chart.x_label = axis.label;
    chart.y_label = table.is_perplexity ? "perplexity; bars: 95 %" : "score (0 to 100); bars: 95 %";
    chart.ticks = axis.names;
    chart.x = axis.values;
    chart.log_x = report::wants_log(axis.values);
    std::vector<std::string> policies;
    for (const EvalCase & one : table.info.cases) {
        if (std::find(policies.begin(), policies.end(), one.policy) == policies.end()) { policies.push_back(one.policy); }
    }
    std::vector<double> all;
    for (const std::string & policy : policies) {
        auto series = series_of(table, axis, policy, task, length);
        if (!series) { continue; }
        std::copy_if(series->values.begin(), series->values.end(), std::back_inserter(all),
                     [](double value) { return std::isfinite(value); });
        chart.series.push_back(std::move(*series));
    }
    if (chart.ticks.empty() || chart.series.empty()) { return std::nullopt; }
    chart.log_y = table.is_perplexity && report::wants_log(all);
    return chart;
}

// The tasks of one length side by side.
void add_charts(report::SvgPage & page, const EvalTable & table, const std::vector<std::string> & tasks, int length) {
    report::ChartGroup group;
    group.title = (length > 0 ? std::to_string(length) + " tokens: " : "All samples: ") +
                  (table.is_perplexity ? "perplexity" : "score") + " against budget";
    for (const std::string & task : tasks) {
        if (auto chart = chart_of(table, task, length)) { group.charts.push_back(std::move(*chart)); }
    }
    page.add(group);
}

// A needle's score by length and depth: a map for each policy and budget, nothing where a cell has no score.
std::optional<report::HeatMap> depths_of(const EvalTable & table, const EvalTask & task, size_t index) {
    report::HeatMap map;
    std::map<std::pair<std::string, int>, double> scores;
    for (const EvalRow & row : table.rows) {
        if (row.task != task.name || row.index != index || row.group != kDepth || !row.score) { continue; }
        scores[{row.value, row.length}] = *row.score;
        if (std::find(map.row_names.begin(), map.row_names.end(), row.value) == map.row_names.end()) {
            map.row_names.push_back(row.value);
        }
    }
    for (const int length : table.info.lengths) { map.column_names.push_back(std::to_string(length)); }
    if (scores.empty() || scores.size() != map.row_names.size() * map.column_names.size()) { return std::nullopt; }
    const EvalCase & one = table.info.cases[index];
    map.title = one.policy + " " + one.budget;
    map.row_label = "depth";
    map.column_label = "tokens";
    map.n_rows = static_cast<int>(map.row_names.size());
    map.n_columns = static_cast<int>(map.column_names.size());
    for (const std::string & depth : map.row_names) {
        for (const int length : table.info.lengths) { map.values.push_back(scores[{depth, length}]); }
    }
    return map;
}

void add_depths(report::SvgPage & page, const EvalTable & table) {
    for (const EvalTask & task : table.info.tasks) {
        report::MapGroup group{task.name + ": score by the needle's depth (%) and the length", "score (0 to 100)", {}, 0, 100};
        for (size_t i = 0; i < table.info.cases.size(); ++i) {
            if (auto map = depths_of(table, task, i)) { group.maps.push_back(std::move(*map)); }
        }
        group.keep_first();
        page.add(group);
    }
}

// Entries kept by layer and KV head, mean over all samples of all tasks and lengths; policies of one budget are compared.
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
    for (const std::string & budget : budgets_of(table.info)) {
        report::MapGroup group{"Entries kept, budget " + budget, "tokens per head (mean over samples)", {}, 0, 0};
        for (const EvalCase & one : table.info.cases) {
            const auto at = sums.find({one.policy, one.budget});
            if (one.budget != budget || at == sums.end()) { continue; }
            const Sum & sum = at->second;
            report::HeatMap map;
            map.title = one.policy;
            map.row_label = "layer";
            map.column_label = "KV head";
            map.n_columns = sum.n_kv_heads;
            map.n_rows = static_cast<int>(sum.lanes.size()) / std::max(1, sum.n_kv_heads);
            for (const double lane : sum.lanes) { map.values.push_back(lane / sum.n); }
            group.maps.push_back(std::move(map));
        }
        group.keep_first();
        page.add(group);
    }
}

constexpr const char * kAverage = "average";
constexpr const char * kDepths = "depths";
constexpr const char * kHeads = "heads";

}  // namespace

std::vector<std::string> figure_names(const EvalTable & table) {
    std::vector<std::string> names;
    if (table.info.tasks.size() > 1) { names.emplace_back(kAverage); }
    for (const EvalTask & task : table.info.tasks) { names.push_back(task.name); }
    names.emplace_back(kDepths);
    names.emplace_back(kHeads);
    return names;
}

std::string eval_svg(const EvalTable & table, const std::vector<Answer> & answers, const std::vector<std::string> & only) {
    const auto wanted = [&](const std::string & name) { return only.empty() || std::ranges::find(only, name) != only.end(); };
    report::SvgPage page(table.info.family);
    std::vector<std::string> tasks;
    if (table.info.tasks.size() > 1 && wanted(kAverage)) { tasks.emplace_back(); }
    for (const EvalTask & task : table.info.tasks) {
        if (wanted(task.name)) { tasks.push_back(task.name); }
    }
    for (const int length : table.info.lengths) { add_charts(page, table, tasks, length); }
    if (wanted(kDepths)) { add_depths(page, table); }
    if (wanted(kHeads)) { add_retention(page, table, answers); }
    return page.str();
}

}  // namespace pith
