// svg_chart.cpp - draws line charts, their axes and the legend of several.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "figures/svg.h"

namespace pith::report {
namespace {

constexpr double kInside = 14;     // from the y axis to the first point: bars and marks stay clear of it
constexpr double kMarkRoom = 9;    // between two marks of a line; what is nearer is there to be pointed at only
constexpr double kDodge = 4;       // lines with error bars stand so far apart at one point
constexpr double kBelowPlot = 34;  // tick names and the axis' name
constexpr double kNameGap = 7;     // between two names of ticks
constexpr double kSample = 30;     // of a line, in the legend
constexpr size_t kMostTicks = 7;

using StyleIndexOf = std::function<size_t(const std::string & name)>;

// From `low` at pixel `from` to `high` at pixel `to`.
struct Axis {
    double low = 0, high = 1;
    bool log = false;
    std::vector<double> ticks;  // round numbers, ascending
    double from = 0, to = 1;

    double at(double value) const {
        const double part = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
        return from + (to - from) * part;
    }
};

// Multiples of 1, 2 or 5 times a power of ten, about five steps.
std::vector<double> linear_ticks(double low, double high) {
    const double power = std::pow(10.0, std::floor(std::log10((high - low) / 5)));
    const double part = (high - low) / 5 / power;
    const double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
    std::vector<double> ticks;
    for (double i = std::floor(low / step); i <= std::ceil(high / step); ++i) { ticks.push_back(i * step); }
    return ticks;
}

// 1, 2 and 5 times powers of ten, from the last one not above `low` to the first one not below `high`; where these are many,
// every n-th power alone.
std::vector<double> log_ticks(double low, double high) {
    constexpr double kSlack = 1e-9;
    const int first = static_cast<int>(std::floor(std::log10(low) + kSlack));
    const int last = static_cast<int>(std::ceil(std::log10(high) - kSlack));
    std::vector<double> ticks;
    for (int power = first; power <= last; ++power) {
        for (const double digit : {1.0, 2.0, 5.0}) {
            const double tick = digit * std::pow(10.0, power);
            if (tick <= low * (1 + kSlack)) { ticks.clear(); }
            if (ticks.empty() || ticks.back() < high * (1 - kSlack)) { ticks.push_back(tick); }
        }
    }
    if (ticks.size() <= kMostTicks) { return ticks; }
    const int step = (last - first + static_cast<int>(kMostTicks) - 1) / static_cast<int>(kMostTicks);
    ticks.clear();
    for (int power = first; power < last + step; power += step) { ticks.push_back(std::pow(10.0, power)); }
    return ticks;
}

// The ends are the round numbers around low … high, or, `exact`, these themselves. Equal ends: room is made around them.
Axis axis_of(double low, double high, bool log, bool exact) {
    const bool is_range = low < high;
    if (!is_range) { high = log ? low * 2 : low + 1; }
    Axis axis{low, high, log, log ? log_ticks(low, high) : linear_ticks(low, high)};
    if (exact && is_range) {
        std::erase_if(axis.ticks, [&](double tick) { return tick < low || tick > high; });
    } else {
        axis.low = axis.ticks.front();
        axis.high = axis.ticks.back();
    }
    return axis;
}

LineStyle style_of(const Series & series, const StyleIndexOf & index_of) {
    return series.reference ? LineStyle{"rm", "", 0} : line_style(index_of(series.name));
}

bool is_drawn(const LineChart & chart, double value) {
    return std::isfinite(value) && (!chart.log_y || value > 0);
}

// A reference has marks where it stands at one point of several.
bool has_marks(const LineChart & chart, const Series & series) {
    const auto n = std::ranges::count_if(series.values, [&](double value) { return is_drawn(chart, value); });
    return !series.reference || (chart.n_points() > 1 && n == 1);
}

std::string polyline(const Series & series, const LineStyle & style, const std::string & points) {
    return "<polyline class=\"" + (series.reference ? "r" : "l " + style.css_class) + "\"" + style.dashes + " points=\"" +
           points + "\"/>\n";
}

struct Ends {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();

    void take(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
};

class ChartDrawer {
public:
    // Charts beside each other that say the same of an axis have the same axis: what is higher is more.
    ChartDrawer(const LineChart & chart, const std::vector<LineChart> & beside, const StyleIndexOf & index_of)
        : chart_(chart), index_of_(index_of) {
        Ends x, y;
        for (const LineChart & other : beside) {
            if (other.y_label == chart.y_label && other.log_y == chart.log_y) { take_values(other, y); }
            if (other.x_label == chart.x_label && other.log_x == chart.log_x && !other.x.empty()) {
                x.take(other.x.front());
                x.take(other.x.back());
            }
        }
        y_ = y.low <= y.high ? axis_of(y.low, y.high, chart_.log_y, false) : axis_of(1, 1, chart_.log_y, false);
        const auto last = static_cast<double>(chart_.n_points()) - 1;
        x_ = chart_.x.empty() ? axis_of(0, std::max(1.0, last), false, true)
                              : axis_of(x.low, x.high, chart_.log_x, !chart_.wide_x);
        stands_alone_ = chart_.n_points() == 1 && (chart_.x.empty() || x.low == x.high);
    }

    Drawing draw() {
        std::vector<std::string> names;
        for (const double tick : y_.ticks) { names.push_back(number(tick)); }
        left_ = (chart_.y_label.empty() ? 0 : kLineHeight) + widest_of(names) + 10;
        right_ = left_ + chart_.plot_width;
        double y = 0;
        const std::string title = paragraph(left_, y, chart_.title, chart_.plot_width);
        y_.to = y + 4;
        y_.from = y_.to + chart_.plot_height;
        x_.from = left_ + kInside;
        x_.to = right_ - kInside;
        return {title + axes() + lines(), right_ + 10, y_.from + kBelowPlot};
    }

private:
    static void take_values(const LineChart & chart, Ends & ends) {
        for (const Series & series : chart.series) {
            for (const auto * values : {&series.values, &series.low, &series.high}) {
                for (const double value : *values) {
                    if (is_drawn(chart, value)) { ends.take(value); }
                }
            }
        }
    }

    double x_of(size_t i) const {
        if (stands_alone_) { return (left_ + right_) / 2; }
        return x_.at(chart_.x.empty() ? static_cast<double>(i) : chart_.x[i]);
    }

    std::string name_of(size_t i) const { return i < chart_.ticks.size() ? chart_.ticks[i] : number(chart_.x[i]); }

    std::string axes() const {
        const double bottom = y_.from;
        std::string body;
        for (const double tick : y_.ticks) {
            const double y = y_.at(tick);
            body += line_between(left_, y, right_, y, "g") + text_at(left_ - 5, y + 4, number(tick), "end", "q");
        }
        body += line_between(left_, y_.to, left_, bottom, "a");
        if (!chart_.y_label.empty()) { body += turned_text(10, (y_.to + bottom) / 2, 90, chart_.y_label); }
        body += line_between(left_, bottom, right_, bottom, "a");
        double free_from = 0;  // where the next name may begin
        const bool round = chart_.ticks.empty();
        for (size_t i = 0; i < (round ? x_.ticks.size() : chart_.n_points()); ++i) {
            const double x = round ? x_.at(x_.ticks[i]) : x_of(i);
            const std::string name = round ? number(x_.ticks[i]) : name_of(i);
            body += line_between(x, bottom, x, bottom + 4, "a");
            const double half = text_width(name) / 2;
            if (x - half < free_from) { continue; }
            body += text_at(x, bottom + 15, name, "middle", "q");
            free_from = x + half + kNameGap;
        }
        const std::string label = chart_.x_label + (chart_.log_x ? ", log scale" : "");
        return body + text_at((left_ + right_) / 2, bottom + 29, label, "middle", "q");
    }

    // Lines with error bars stand beside each other, all of a point within half the way to the next point.
    std::string lines() const {
        const auto with_bars = [](const Series & series) { return !series.reference && !series.low.empty(); };
        const auto n_with_bars = static_cast<double>(std::ranges::count_if(chart_.series, with_bars));
        double nearest = chart_.plot_width / 2;
        for (size_t i = 1; i < chart_.n_points(); ++i) { nearest = std::min(nearest, x_of(i) - x_of(i - 1)); }
        const double dodge = std::min(kDodge, nearest / 2 / std::max(1.0, n_with_bars));
        double shift = -dodge * (n_with_bars - 1) / 2;
        std::string body;
        for (const Series & series : chart_.series) {
            body += line(series, with_bars(series) ? shift : 0);
            shift += with_bars(series) ? dodge : 0;
        }
        return body;
    }

    static bool has_interval(const Series & series, size_t i) {
        return i < std::min(series.low.size(), series.high.size()) && std::isfinite(series.low[i]) &&
               std::isfinite(series.high[i]);
    }

    // A reference that is level goes from side to side, over the band of its first point's interval.
    std::string line(const Series & series, double shift) const {
        const LineStyle style = style_of(series, index_of_);
        std::string bars, marks, points;
        std::set<double> levels;
        double last_mark = -kMarkRoom;
        for (size_t i = 0; i < series.values.size(); ++i) {
            if (!is_drawn(chart_, series.values[i])) { continue; }
            const double x = x_of(i) + shift;
            const double y = y_.at(series.values[i]);
            points += (points.empty() ? "" : " ") + coordinate(x) + "," + coordinate(y);
            std::string title = series.name + ", " + chart_.x_label + " " + name_of(i) + ": " + number(series.values[i]);
            if (has_interval(series, i)) {
                title += " (" + number(series.low[i]) + " to " + number(series.high[i]) + ")";
                if (!series.reference || levels.empty()) { bars += bar(series, i, x, style); }
            }
            const bool is_marked = has_marks(chart_, series) && x - last_mark >= kMarkRoom;
            marks += is_marked ? mark_at(style, x, y, title) : rect_at(x - 2, y - 2, 4, 4, "hit", title);
            if (is_marked) { last_mark = x; }
            levels.insert(series.values[i]);
        }
        if (series.reference && levels.empty()) { return ""; }
        if (series.reference && levels.size() == 1) {
            const std::string level = "," + coordinate(y_.at(*levels.begin()));
            points = coordinate(left_) + level + " " + coordinate(right_) + level;
        }
        return bars + polyline(series, style, points) + marks;
    }

    // An interval: an error bar at x, or a reference's band.
    std::string bar(const Series & series, size_t i, double x, const LineStyle & style) const {
        if (!is_drawn(chart_, series.low[i]) || !is_drawn(chart_, series.high[i])) { return ""; }
        const double low = y_.at(series.low[i]);
        const double high = y_.at(series.high[i]);
        if (series.reference) { return rect_at(left_, high, chart_.plot_width, low - high, "band"); }
        const std::string css_class = "e " + style.css_class;
        return line_between(x, low, x, high, css_class) + line_between(x - 2, low, x + 2, low, css_class) +
               line_between(x - 2, high, x + 2, high, css_class);
    }

    const LineChart & chart_;
    const StyleIndexOf & index_of_;
    Axis x_, y_;
    bool stands_alone_ = false;  // the only point of the axis
    double left_ = 0, right_ = 0;
};

// The lines' names with a piece of each, in columns of one width.
Drawing draw_legend(const std::vector<LineChart> & charts, const StyleIndexOf & index_of, double width) {
    std::vector<Drawing> entries;
    std::set<std::string> seen;
    double column = 0;
    for (const LineChart & chart : charts) {
        for (const Series & series : chart.series) {
            if (!seen.insert(series.name).second) { continue; }
            const LineStyle style = style_of(series, index_of);
            entries.push_back({polyline(series, style, "0,8 " + coordinate(kSample) + ",8") +
                                   (has_marks(chart, series) ? mark_at(style, kSample / 2, 8) : "") +
                                   text_at(kSample + 5, 12, series.name),
                               kSample + 5 + text_width(series.name), kLineHeight});
            column = std::min(width, std::max(column, entries.back().width));
        }
    }
    for (Drawing & entry : entries) { entry.width = std::max(entry.width, column); }
    return beside(entries, width, 12, 0);
}

}  // namespace

bool wants_log(const std::vector<double> & values) {
    if (values.empty()) { return false; }
    const auto [low, high] = std::ranges::minmax(values);
    return low > 0 && high >= 4 * low;
}

void SvgPage::add(const ChartGroup & group) {
    if (group.charts.empty()) { return; }
    const StyleIndexOf styles = [this](const std::string & name) { return style_of(name); };
    std::vector<Drawing> panels;
    for (const LineChart & chart : group.charts) { panels.push_back(ChartDrawer(chart, group.charts, styles).draw()); }
    const Drawing drawn = panels_beside(panels);
    add_group(group.title, draw_legend(group.charts, styles, std::max(drawn.width, 300.0)), drawn);
}

}  // namespace pith::report
