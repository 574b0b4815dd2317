// svg_chart.cpp - draws a line chart and the legend of several.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "figures/svg_axis.h"
#include "figures/svg_panels.h"

namespace pith::report {
namespace {

constexpr double kRight = 10;
constexpr double kInside = 14;     // from the y axis to the first point: bars and marks stay clear of it
constexpr double kMarkRoom = 9;    // between two marks of a line; what is nearer is there to be pointed at only
constexpr double kDodge = 4;       // lines with error bars stand so far apart at one point
constexpr double kAboveTitle = 4;  // between the title's last line and the plot
constexpr double kBelowPlot = 34;  // tick names and the axis' name
constexpr double kNameGap = 7;     // between two names of ticks

bool drawn(const LineChart & chart, double value) {
    return std::isfinite(value) && (!chart.log_y || value > 0);
}

double end_of(const std::vector<double> & ends, size_t i) {
    return i < ends.size() ? ends[i] : std::numeric_limits<double>::quiet_NaN();
}

LineStyle reference_mark() {
    return {"rm", "", 0};
}

bool stands_at_one_point(const LineChart & chart, const Series & series) {
    return chart.n_points() > 1 &&
           std::count_if(series.values.begin(), series.values.end(), [&](double value) { return drawn(chart, value); }) == 1;
}

class ChartDrawer {
public:
    ChartDrawer(const LineChart & chart, const StyleOf & style_of) : chart_(chart), style_of_(style_of) {}

    Drawing draw() {
        scale_y();
        double tick_width = 0;
        for (const double tick : y_.ticks) { tick_width = std::max(tick_width, text_width(number(tick))); }
        left_ = (chart_.y_label.empty() ? 0 : kLineHeight) + tick_width + 10;
        right_ = left_ + chart_.plot_width;
        double y = 0;
        Drawing out;
        if (!chart_.title.empty()) { out.body = paragraph(left_, y, chart_.title, chart_.plot_width, kTextSize, ""); }
        top_ = y + kAboveTitle;
        bottom_ = top_ + chart_.plot_height;
        y_.from = bottom_;
        y_.to = top_;
        scale_x();
        out.body += y_axis() + x_axis();
        double dodge = dodge_width();
        double shift = -dodge * (static_cast<double>(n_with_bars()) - 1) / 2;
        for (const Series & series : chart_.series) {
            if (series.reference) {
                out.body += reference(series);
                continue;
            }
            const bool has_bars = !series.low.empty();
            out.body += line(series, has_bars ? shift : 0);
            if (has_bars) { shift += dodge; }
        }
        out.width = right_ + kRight;
        out.height = bottom_ + kBelowPlot;
        return out;
    }

private:
    void scale_y() {
        double low = std::numeric_limits<double>::infinity();
        double high = -low;
        for (const Series & series : chart_.series) {
            for (const auto * values : {&series.values, &series.low, &series.high}) {
                for (const double value : *values) {
                    if (!drawn(chart_, value)) { continue; }
                    low = std::min(low, value);
                    high = std::max(high, value);
                }
            }
        }
        if (low > high) { low = high = 1; }
        y_ = axis_around(low, high, chart_.log_y);
    }

    void scale_x() {
        const size_t n = chart_.n_points();
        if (!chart_.x.empty()) {
            x_ = (chart_.wide_x ? axis_around : axis_between)(chart_.x.front(), chart_.x.back(), chart_.log_x);
        } else {
            x_ = axis_between(0, std::max<double>(1, static_cast<double>(n) - 1), false);
        }
        x_.from = left_ + kInside;
        x_.to = right_ - kInside;
        is_single_ = n == 1;
    }

    double x_of(size_t i) const {
        if (is_single_) { return (left_ + right_) / 2; }
        return x_.at(chart_.x.empty() ? static_cast<double>(i) : chart_.x[i]);
    }

    std::string name_of(size_t i) const { return i < chart_.ticks.size() ? chart_.ticks[i] : number(chart_.x[i]); }

    std::string y_axis() const {
        std::string body;
        for (const double tick : y_.ticks) {
            const double y = y_.at(tick);
            body += line_between(left_, y, right_, y, "g");
            body += text_at(left_ - 5, y + 4, number(tick), "end", "q");
        }
        body += line_between(left_, top_, left_, bottom_, "a");
        if (!chart_.y_label.empty()) { body += vertical_text(10, (top_ + bottom_) / 2, chart_.y_label); }
        return body;
    }

    std::string x_axis() const {
        std::string body = line_between(left_, bottom_, right_, bottom_, "a");
        double free_from = 0;  // where the next name may begin
        const auto tick = [&](double x, const std::string & name) {
            body += line_between(x, bottom_, x, bottom_ + 4, "a");
            const double half = text_width(name) / 2;
            if (x - half < free_from) { return; }
            body += text_at(x, bottom_ + 15, name, "middle", "q");
            free_from = x + half + kNameGap;
        };
        if (chart_.ticks.empty()) {
            for (const double value : x_.ticks) { tick(x_.at(value), number(value)); }
        } else {
            for (size_t i = 0; i < chart_.n_points(); ++i) { tick(x_of(i), name_of(i)); }
        }
        const std::string label = chart_.x_label + (chart_.log_x ? ", log scale" : "");
        return body + text_at((left_ + right_) / 2, bottom_ + 29, label, "middle", "q");
    }

    size_t n_with_bars() const {
        return static_cast<size_t>(std::count_if(chart_.series.begin(), chart_.series.end(),
                                                 [](const Series & s) { return !s.reference && !s.low.empty(); }));
    }

    // All lines' bars of one point stay within half the way to the next point.
    double dodge_width() const {
        double nearest = chart_.plot_width / 2;
        for (size_t i = 1; i < chart_.n_points(); ++i) { nearest = std::min(nearest, x_of(i) - x_of(i - 1)); }
        return std::min(kDodge, nearest / 2 / static_cast<double>(std::max<size_t>(1, n_with_bars())));
    }

    std::string point_title(const Series & series, size_t i) const {
        std::string title = series.name + ", " + chart_.x_label + " " + name_of(i) + ": " + number(series.values[i]);
        const double low = end_of(series.low, i);
        const double high = end_of(series.high, i);
        if (std::isfinite(low) && std::isfinite(high)) { title += " (" + number(low) + " to " + number(high) + ")"; }
        return title;
    }

    std::string line(const Series & series, double shift) const {
        const LineStyle style = line_style(style_of_(series.name));
        std::string bars;
        std::string marks;
        std::string points;
        double last_mark = -kMarkRoom;
        for (size_t i = 0; i < series.values.size(); ++i) {
            if (!drawn(chart_, series.values[i])) { continue; }
            const double x = x_of(i) + shift;
            const double y = y_.at(series.values[i]);
            points += (points.empty() ? "" : " ") + coordinate(x) + "," + coordinate(y);
            const double low = end_of(series.low, i);
            const double high = end_of(series.high, i);
            if (drawn(chart_, low) && drawn(chart_, high)) {
                const std::string css_class = "e " + style.css_class;
                bars += line_between(x, y_.at(low), x, y_.at(high), css_class);
                for (const double end : {y_.at(low), y_.at(high)}) { bars += line_between(x - 2, end, x + 2, end, css_class); }
            }
            if (x - last_mark >= kMarkRoom) {
                marks += mark_at(style, x, y, point_title(series, i));
                last_mark = x;
            } else {
                marks += rect_at(x - 2, y - 2, 4, 4, "hit", point_title(series, i));
            }
        }
        return bars + "<polyline class=\"l " + style.css_class + "\"" + style.dashes + " points=\"" + points + "\"/>\n" + marks;
    }

    // Level lines go from side to side.
    std::string reference(const Series & series) const {
        std::string body;
        std::string points;
        std::set<double> values;
        for (size_t i = 0; i < series.values.size(); ++i) {
            if (!drawn(chart_, series.values[i])) { continue; }
            const double y = y_.at(series.values[i]);
            if (values.insert(series.values[i]).second && values.size() == 1) {
                const double low = end_of(series.low, i);
                const double high = end_of(series.high, i);
                if (drawn(chart_, low) && drawn(chart_, high)) {
                    body += rect_at(left_, y_.at(high), chart_.plot_width, y_.at(low) - y_.at(high), "band");
                }
            }
            points += coordinate(x_of(i)) + "," + coordinate(y) + " ";
            body += stands_at_one_point(chart_, series) ? mark_at(reference_mark(), x_of(i), y, point_title(series, i))
                                                        : rect_at(x_of(i) - 2, y - 2, 4, 4, "hit", point_title(series, i));
        }
        if (values.empty()) { return ""; }
        const std::string level = coordinate(y_.at(*values.begin()));
        if (values.size() == 1) {
            points = coordinate(left_) + "," + level + " " + coordinate(right_) + "," + level;
        } else {
            points.pop_back();
        }
        return body + "<polyline class=\"r\" points=\"" + points + "\"/>\n";
    }

    const LineChart & chart_;
    const StyleOf & style_of_;
    Axis x_, y_;
    double left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;
    bool is_single_ = false;
};

}  // namespace

bool wants_log(const std::vector<double> & values) {
    if (values.empty()) { return false; }
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return *low > 0 && *high >= 4 * *low;
}

Drawing draw_chart(const LineChart & chart, const StyleOf & style_of) {
    return ChartDrawer(chart, style_of).draw();
}

Drawing draw_legend(const std::vector<LineChart> & charts, const StyleOf & style_of, double width) {
    constexpr double kSample = 30;
    std::vector<Drawing> entries;
    std::set<std::string> seen;
    for (const LineChart & chart : charts) {
        for (const Series & series : chart.series) {
            if (!seen.insert(series.name).second) { continue; }
            Drawing entry;
            if (series.reference) {
                entry.body = "<polyline class=\"r\" points=\"0,8 " + coordinate(kSample) + ",8\"/>\n" +
                             (stands_at_one_point(chart, series) ? mark_at(reference_mark(), kSample / 2, 8) : "");
            } else {
                const LineStyle style = line_style(style_of(series.name));
                entry.body = "<polyline class=\"l " + style.css_class + "\"" + style.dashes + " points=\"0,8 " +
                             coordinate(kSample) + ",8\"/>\n" + mark_at(style, kSample / 2, 8);
            }
            entry.body += text_at(kSample + 5, 12, series.name);
            entry.width = kSample + 5 + text_width(series.name);
            entry.height = kLineHeight;
            entries.push_back(std::move(entry));
        }
    }
    // Columns of one width, so that names stand under each other.
    double column = 0;
    for (const Drawing & entry : entries) { column = std::max(column, entry.width); }
    column = std::min(column, width);
    for (Drawing & entry : entries) { entry.width = std::max(entry.width, column); }
    return beside(entries, width, 12, 0);
}

}  // namespace pith::report
