// memory_page.cpp - score against the memory that a run held. Stage: eval.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "core/text.h"
#include "eval/report/eval_report.h"
#include "eval/report/run_tables.h"
#include "figures/svg.h"

namespace pith {
namespace {

// Two panels side by side on a page as wide as a telephone's screen; twice as large where there is room.
constexpr double kNarrowPage = 436;
constexpr double kScale = 2;
constexpr double kPlotWidth = 152;
constexpr double kPlotHeight = 150;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kMiB = 1024.0 * 1024.0;

// What the x axis counts, the same for all panels.
struct Memory {
    bool in_bytes = true;
    double unit = kMiB;
    std::string label = "KV cache held (MiB)";

    double of(const EvalRow & row) const { return in_bytes ? *row.kv_bytes / unit : row.kept; }
};

// Of all tasks; nullptr: no score for every one of them.
const EvalRow * average_of(const EvalTable & table, int length, size_t index) {
    const EvalRow * row = table.find(table.info.tasks.size() > 1 ? "" : table.info.tasks.front().name, length, index);
    return row != nullptr && row->score ? row : nullptr;
}

// Calls visit(const EvalCase &, const EvalRow *) with what average_of() finds.
template <class Do>
void for_each_average(const std::vector<RunTable> & runs, const Do & visit) {
    for (const RunTable & run : runs) {
        for (const int length : run.table.info.lengths) {
            for (size_t i = 0; i < run.table.info.cases.size(); ++i) {
                visit(run.table.info.cases[i], average_of(run.table, length, i));
            }
        }
    }
}

Memory memory_of(const std::vector<RunTable> & runs) {
    Memory memory;
    double most = 0;
    for_each_average(runs, [&](const EvalCase &, const EvalRow * row) {
        if (row == nullptr) { return; }
        memory.in_bytes = memory.in_bytes && row->kv_bytes.has_value();
        most = std::max(most, row->kv_bytes.value_or(0));
    });
    if (!memory.in_bytes) {
        memory.label = "tokens kept a head";
    } else if (most >= 4096 * kMiB) {
        memory.unit = 1024 * kMiB;
        memory.label = "KV cache held (GiB)";
    }
    return memory;
}

struct Point {
    double x, value, low, high;
};

// Each policy holds its own number of bytes under a budget: the axis has a point for each that occurs.
report::LineChart chart_of(const EvalTable & table, int length, const Memory & memory) {
    std::vector<std::string> policies;
    std::map<std::string, std::vector<Point>> points;
    std::map<std::string, bool> evicts;
    report::LineChart chart;
    for (size_t i = 0; i < table.info.cases.size(); ++i) {
        const EvalCase & one = table.info.cases[i];
        const EvalRow * row = average_of(table, length, i);
        if (row == nullptr || !(memory.of(*row) > 0)) { continue; }
        if (points.count(one.policy) == 0) { policies.push_back(one.policy); }
        points[one.policy].push_back({memory.of(*row), *row->score, row->interval ? row->interval->low : kNone,
                                      row->interval ? row->interval->high : kNone});
        evicts[one.policy] = !one.budget.empty();
        chart.x.push_back(memory.of(*row));
    }
    std::sort(chart.x.begin(), chart.x.end());
    chart.x.erase(std::unique(chart.x.begin(), chart.x.end()), chart.x.end());
    for (const std::string & policy : policies) {
        const std::vector<double> none(chart.x.size(), kNone);
        report::Series series{policy, none, !evicts[policy], none, none};
        for (const Point & point : points[policy]) {
            const auto at = static_cast<size_t>(std::lower_bound(chart.x.begin(), chart.x.end(), point.x) - chart.x.begin());
            series.values[at] = point.value;
            series.low[at] = point.low;
            series.high[at] = point.high;
        }
        chart.series.push_back(std::move(series));
    }
    chart.x_label = memory.label;
    chart.y_label = table.is_perplexity ? "perplexity" : "score (0 to 100)";
    chart.log_x = report::wants_log(chart.x);
    chart.wide_x = true;
    chart.plot_width = kPlotWidth;
    chart.plot_height = kPlotHeight;
    return chart;
}

// "h2o 5%": asked, and without a score for every task.
std::string without_point(const std::vector<RunTable> & runs) {
    std::vector<std::string> names;
    for_each_average(runs, [&](const EvalCase & one, const EvalRow * row) {
        if (row != nullptr) { return; }
        const std::string name = one.policy + (one.budget.empty() ? "" : " " + one.budget);
        if (std::find(names.begin(), names.end(), name) == names.end()) { names.push_back(name); }
    });
    return names.empty() ? "" : " Not drawn, refused or unfinished: " + join(names, ", ") + ".";
}

}  // namespace

std::string memory_svg(const std::vector<RunTable> & runs) {
    const Memory memory = memory_of(runs);
    const EvalTable & first = runs.front().table;
    const size_t n_tasks = first.info.tasks.size();
    std::string about = first.info.family;
    if (!model_name(first.info).empty()) { about += " on " + model_name(first.info); }
    // Said once where it is the same for all panels.
    const bool one_length = std::all_of(runs.begin(), runs.end(), [&](const RunTable & run) {
        return run.table.info.lengths.size() == 1 && run.table.info.lengths == first.info.lengths;
    });
    if (one_length && first.info.lengths.front() > 0) { about += ", " + length_text(first.info.lengths.front()); }
    if (n_tasks > 1) { about += ", mean of " + std::to_string(n_tasks) + " tasks"; }
    const std::string samples = samples_text(first, first.info.lengths.front());
    if (!samples.empty()) { about += ", " + samples; }
    report::SvgPage page(first.is_perplexity ? "Perplexity against memory" : "Score against memory",
                         about + "; bars: 95 %." + without_point(runs), kNarrowPage, kScale);
    report::ChartGroup group;
    for (const RunTable & run : runs) {
        for (const int length : run.table.info.lengths) {
            report::LineChart chart = chart_of(run.table, length, memory);
            const std::string tokens = one_length ? "" : length_text(length);
            chart.title = run.label + (run.label.empty() || tokens.empty() ? "" : ", ") + tokens;
            if (!chart.series.empty()) { group.charts.push_back(std::move(chart)); }
        }
    }
    page.add(group);
    return page.str();
}

}  // namespace pith
