// train_figure.cpp - see train_figure.h.
#include "train_figure.h"

#include <cstdio>
#include <limits>
#include <map>
#include <vector>

#include "errors.h"
#include "model/write_file.h"
#include "report/svg.h"
#include "train/training_curve.h"

namespace pith::app {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The rows of one step.
struct Column {
    int n_tokens = 0;
    std::string tick;  // tokens seen, and the length where it begins
    std::map<std::string, double> values;
};

std::vector<Column> columns_of(const std::vector<train::CurvePoint> & points) {
    std::vector<Column> columns;
    int64_t step = -1;
    for (const auto & point : points) {
        if (point.step != step) {
            step = point.step;
            char tick[32];
            std::snprintf(tick, sizeof tick, "%.0f M", static_cast<double>(point.tokens_seen) / 1e6);
            columns.push_back({point.n_tokens, tick, {}});
        }
        columns.back().values[point.what] = point.value;
    }
    return columns;
}

report::LineChart chart_of(const std::vector<Column> & columns, const std::string & title, const std::string & prefix) {
    report::LineChart chart;
    chart.title = title;
    chart.x_label = "tokens seen";
    std::map<std::string, std::vector<double>> series;
    for (size_t c = 0; c < columns.size(); ++c) {
        chart.ticks.push_back(columns[c].tick);
        for (const auto & [what, value] : columns[c].values) {
            if (!what.starts_with(prefix)) { continue; }
            auto & values = series[what.substr(prefix.size())];
            values.resize(columns.size(), kNone);
            values[c] = value;
        }
    }
    for (auto & [name, values] : series) { chart.series.push_back({name, std::move(values), false}); }
    return chart;
}

}  // namespace

int draw_training_curve(const std::string & csv, const std::string & name, const std::string & svg) {
    const auto points = train::read_curve(csv);
    if (!points.ok()) { return fail(points.status()); }
    const auto columns = columns_of(*points);
    report::SvgPage page("Training of " + name);
    report::LineChart loss =
        chart_of(columns, "Loss on documents that training never saw; each length begins where it jumps", "held-out loss");
    for (auto & series : loss.series) { series.name = "held out"; }
    report::LineChart lengths;
    lengths.title = "Length of the documents (tokens)";
    lengths.x_label = loss.x_label;
    lengths.ticks = loss.ticks;
    lengths.series = {{"length", {}, false}};
    for (const auto & column : columns) { lengths.series[0].values.push_back(column.n_tokens); }
    page.add(loss);
    page.add(chart_of(columns, "Share of the answers' tokens that were the best token, by kind of document", "answers of "));
    page.add(lengths);
    if (const Status status = write_file(svg, page.str()); !status.ok()) { return fail(status); }
    std::fprintf(stderr, "%s written\n", svg.c_str());
    return kExitOk;
}

}  // namespace pith::app
