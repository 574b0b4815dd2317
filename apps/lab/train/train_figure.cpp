// train_figure.cpp - see train_figure.h.
#include "app/train/train_figure.h"

#include <cstdio>
#include <limits>
#include <map>
#include <vector>

#include "common/base/errors.h"
#include "figures/svg.h"
#include "file/write_file.h"
#include "train/training_curve.h"

namespace pith::app {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The rows of one step.
struct Column {
    int n_tokens = 0;
    double seen = 0;  // millions of tokens
    std::map<std::string, double> values;
};

std::vector<Column> columns_of(const std::vector<train::CurvePoint> & points) {
    std::vector<Column> columns;
    int64_t step = -1;
    for (const auto & point : points) {
        if (point.step != step) {
            step = point.step;
            columns.push_back({point.n_tokens, static_cast<double>(point.tokens_seen) / 1e6, {}});
        }
        columns.back().values[point.what] = point.value;
    }
    return columns;
}

report::LineChart empty_chart(const std::vector<Column> & columns, const std::string & title, const std::string & y_label) {
    report::LineChart chart;
    chart.title = title;
    chart.x_label = "tokens seen (millions)";
    chart.y_label = y_label;
    for (const Column & column : columns) { chart.x.push_back(column.seen); }
    return chart;
}

// A line for each measure whose name begins with `prefix`.
report::LineChart chart_of(const std::vector<Column> & columns, const std::string & title, const std::string & y_label,
                           const std::string & prefix) {
    report::LineChart chart = empty_chart(columns, title, y_label);
    std::map<std::string, std::vector<double>> series;
    for (size_t c = 0; c < columns.size(); ++c) {
        for (const auto & [what, value] : columns[c].values) {
            if (!what.starts_with(prefix)) { continue; }
            auto & values = series[what.substr(prefix.size())];
            values.resize(columns.size(), kNone);
            values[c] = value;
        }
    }
    for (auto & [name, values] : series) { chart.series.push_back({name, std::move(values), false, {}, {}}); }
    return chart;
}

}  // namespace

int draw_training_curve(const std::string & csv, const std::string & name, const std::string & svg) {
    const auto points = train::read_curve(csv);
    if (!points.ok()) { return fail(points.status()); }
    const auto columns = columns_of(*points);
    report::SvgPage page("Training of " + name);
    report::LineChart loss = chart_of(columns, "Loss on held-out documents; it jumps where they become longer",
                                      "loss (nats per token)", "held-out loss");
    for (auto & series : loss.series) { series.name = "held-out documents"; }
    report::LineChart lengths = empty_chart(columns, "Length of the documents", "length (tokens)");
    lengths.log_y = true;
    lengths.series = {{"length", {}, false, {}, {}}};
    for (const auto & column : columns) { lengths.series[0].values.push_back(column.n_tokens); }
    page.add(report::ChartGroup{
        "",
        {std::move(loss), std::move(lengths),
         chart_of(columns, "Share of the answers' tokens that were the best token", "share (0 to 1)", "answers of ")}});
    if (const Status status = write_file(svg, page.str()); !status.ok()) { return fail(status); }
    std::fprintf(stderr, "%s written\n", svg.c_str());
    return kExitOk;
}

}  // namespace pith::app
