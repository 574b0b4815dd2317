// svg.cpp - draws figures.
#include "report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <utility>

namespace pith::report {
namespace {

constexpr double kLeft = 64;     // room for row names and axis numbers
constexpr double kLegend = 190;  // right of a chart
constexpr double kTitle = 26;    // above a figure
constexpr double kBelow = 44;    // under it: column names, axis
constexpr double kChartWidth = 520;
constexpr double kChartHeight = 200;
constexpr double kStripWidth = 720;
constexpr double kPanelGap = 5;
constexpr std::array<const char *, 8> kColours = {"#1b6ca8", "#d1495b", "#3f8f4f", "#8d5fb3",
                                                  "#c98211", "#4aa3a2", "#7a5c3e", "#555f6b"};

// Four digits, without an exponent where that is short.
std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return text;
}

std::string coordinate(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

std::string text_at(double x, double y, std::string_view text, const char * anchor = "start", int size = 11) {
    return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor + "\" font-size=\"" +
           std::to_string(size) + "\">" + escape_xml(text) + "</text>\n";
}

std::string line_between(double x1, double y1, double x2, double y2, const std::string & colour, const char * dashes = "") {
    return "<line x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" + coordinate(x2) + "\" y2=\"" +
           coordinate(y2) + "\" stroke=\"" + colour + "\"" + dashes + "/>\n";
}

// Colours first, then the same ones with dashes: as many series as anyone can tell apart.
struct Stroke {
    const char * colour;
    const char * dashes;  // an attribute, or nothing
};
Stroke stroke_of(size_t series) {
    constexpr std::array<const char *, 3> kDashes = {"", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\""};
    return {kColours.at(series % kColours.size()), kDashes.at(series / kColours.size() % kDashes.size())};
}

// Round numbers around what is drawn: steps of 1, 2 or 5 times a power of ten, about five of them.
struct Axis {
    double low = 0, high = 1, step = 1;
    int n_steps() const { return static_cast<int>(std::lround((high - low) / step)); }
};
Axis axis_around(double low, double high) {
    if (high <= low) { high = low + 1; }
    const double rough = (high - low) / 5;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double part = rough / power;
    const double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
    return {std::floor(low / step) * step, std::ceil(high / step) * step, step};
}

// White to dark blue.
std::string shade(double part) {
    const double p = std::clamp(part, 0.0, 1.0);
    const auto channel = [p](double from, double to) { return static_cast<int>(std::lround(from + (to - from) * p)); };
    char text[16];
    std::snprintf(text, sizeof text, "#%02x%02x%02x", channel(245, 8), channel(248, 48), channel(252, 107));
    return text;
}

// Black to white, in 16 steps.
std::string grey(double part) {
    const auto level = static_cast<unsigned>(std::lround(std::clamp(part, 0.0, 1.0) * 15)) * 17U;
    char text[16];
    std::snprintf(text, sizeof text, "#%02x%02x%02x", level, level, level);
    return text;
}

// Means of blocks, at most kMostCells a side.
HeatMap shrink(const HeatMap & map) {
    const int block = (std::max(map.n_rows, map.n_columns) + SvgPage::kMostCells - 1) / SvgPage::kMostCells;
    HeatMap out = map;
    out.title += " (means of blocks of " + std::to_string(block) + ")";
    out.n_rows = (map.n_rows + block - 1) / block;
    out.n_columns = (map.n_columns + block - 1) / block;
    out.values.clear();
    out.row_names.clear();
    out.column_names.clear();
    for (int r = 0; r < out.n_rows; ++r) {
        for (int c = 0; c < out.n_columns; ++c) {
            double sum = 0;
            int n = 0;
            for (int i = r * block; i < std::min(map.n_rows, (r + 1) * block); ++i) {
                for (int j = c * block; j < std::min(map.n_columns, (c + 1) * block); ++j, ++n) {
                    sum += map.values[static_cast<size_t>(i) * static_cast<size_t>(map.n_columns) + static_cast<size_t>(j)];
                }
            }
            out.values.push_back(sum / n);
        }
    }
    return out;
}

std::pair<double, double> range_of(const std::vector<double> & values) {
    if (values.empty()) { return {0, 1}; }
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return {*low, *high};
}

// Names along an axis: all, or as many as have room.
int name_step(double cell, double room) {
    return std::max(1, static_cast<int>(std::ceil(room / std::max(cell, 0.1))));
}

}  // namespace

std::string escape_xml(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            default:
                if (static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n') { out += c; }
        }
    }
    return out;
}

void SvgPage::place(double width, double height) {
    width_ = std::max(width_, width);
    bottom_ += height;
}

void SvgPage::add(const HeatMap & given) {
    const bool too_fine = std::max(given.n_rows, given.n_columns) > kMostCells;
    const HeatMap map = too_fine ? shrink(given) : given;
    const double cell = std::clamp(360.0 / std::max({map.n_rows, map.n_columns, 1}), 4.0, 28.0);
    const double top = bottom_ + kTitle;
    const double right = kLeft + cell * map.n_columns;
    const double bottom = top + cell * map.n_rows;
    const auto [low, high] = map.low < map.high ? std::pair(map.low, map.high) : range_of(map.values);
    const auto name = [](const std::vector<std::string> & names, int i) {
        return names.empty() ? std::to_string(i) : names[static_cast<size_t>(i)];
    };
    body_ += text_at(8, bottom_ + 14, map.title, "start", 13);
    for (int r = 0; r < map.n_rows; ++r) {
        for (int c = 0; c < map.n_columns; ++c) {
            const double value =
                map.values[static_cast<size_t>(r) * static_cast<size_t>(map.n_columns) + static_cast<size_t>(c)];
            body_ += "<rect x=\"" + coordinate(kLeft + cell * c) + "\" y=\"" + coordinate(top + cell * r) + "\" width=\"" +
                     coordinate(cell) + "\" height=\"" + coordinate(cell) + "\" fill=\"" +
                     shade(high > low ? (value - low) / (high - low) : 0.5) + "\"><title>" +
                     escape_xml(map.row_label + " " + name(map.row_names, r) + ", " + map.column_label + " " +
                                name(map.column_names, c) + ": " + number(value)) +
                     "</title></rect>\n";
        }
    }
    const int step = name_step(cell, 14);
    for (int r = 0; r < map.n_rows; r += step) {
        body_ += text_at(kLeft - 6, top + cell * (r + 0.5) + 4, name(map.row_names, r), "end");
    }
    for (int c = 0; c < map.n_columns; c += name_step(cell, 20)) {
        body_ += text_at(kLeft + cell * (c + 0.5), bottom + 14, name(map.column_names, c), "middle");
    }
    body_ += text_at(8, top + 10, map.row_label);
    body_ += text_at(kLeft, bottom + 28, map.column_label);
    body_ += text_at(right + 12, top + 10, "dark " + number(high)) + text_at(right + 12, top + 24, "light " + number(low));
    place(right + kLegend, kTitle + cell * map.n_rows + kBelow);
}

void SvgPage::add(const StripMap & map) {
    const int block = std::max(1, (map.n_columns + kMostStripCells - 1) / kMostStripCells);
    const int n_blocks = (map.n_columns + block - 1) / block;
    const double cell = kStripWidth / std::max(n_blocks, 1);
    const double strip = std::clamp(260.0 / std::max(map.n_panels * map.n_rows, 1), 3.0, 14.0);  // height of a row
    const double panel = strip * map.n_rows + kPanelGap;
    const double top = bottom_ + kTitle;
    const auto name = [&](int p) {
        return map.panel_names.empty() ? std::to_string(p) : map.panel_names[static_cast<size_t>(p)];
    };
    body_ += text_at(8, bottom_ + 14, map.title + (block > 1 ? " (means of blocks of " + std::to_string(block) + ")" : ""),
                     "start", 13);
    for (int p = 0; p < map.n_panels; ++p) {
        const double panel_top = top + panel * p;
        body_ += text_at(kLeft - 6, panel_top + strip * map.n_rows / 2 + 4, map.panel_label + " " + name(p), "end", 10);
        body_ += "<rect x=\"" + coordinate(kLeft - 0.5) + "\" y=\"" + coordinate(panel_top - 0.5) + "\" width=\"" +
                 coordinate(kStripWidth + 1) + "\" height=\"" + coordinate(strip * map.n_rows + 1) +
                 "\" fill=\"none\" stroke=\"#999999\"/>\n";
        for (int r = 0; r < map.n_rows; ++r) {
            const double * row =
                map.values.data() + (static_cast<size_t>(p) * static_cast<size_t>(map.n_rows) + static_cast<size_t>(r)) *
                                        static_cast<size_t>(map.n_columns);
            const auto mean = [&](int b) {
                double sum = 0;
                const int end = std::min(map.n_columns, (b + 1) * block);
                for (int c = b * block; c < end; ++c) { sum += row[c]; }
                return sum / (end - b * block);
            };
            for (int begin = 0, end = 0; begin < n_blocks; begin = end) {
                const std::string fill = grey(mean(begin));
                double sum = 0;
                for (end = begin; end < n_blocks && grey(mean(end)) == fill; ++end) { sum += mean(end); }
                const int last = std::min(map.n_columns, end * block) - 1;
                body_ += "<rect x=\"" + coordinate(kLeft + cell * begin) + "\" y=\"" + coordinate(panel_top + strip * r) +
                         "\" width=\"" + coordinate(cell * (end - begin)) + "\" height=\"" + coordinate(strip) + "\" fill=\"" +
                         fill + "\"><title>" +
                         escape_xml(map.panel_label + " " + name(p) + ", " + map.row_label + " " + std::to_string(r) + ", " +
                                    map.column_label + " " + std::to_string(begin * block) + " to " + std::to_string(last) +
                                    ": " + number(sum / (end - begin))) +
                         "</title></rect>\n";
            }
        }
    }
    const double bottom = top + panel * map.n_panels;
    for (int i = 0; i <= 4; ++i) {
        const int column = static_cast<int>(static_cast<int64_t>(map.n_columns) * i / 4);
        body_ += text_at(kLeft + kStripWidth * i / 4, bottom + 10, std::to_string(column), "middle", 10);
    }
    body_ += text_at(kLeft, bottom + 24, map.column_label);
    place(kLeft + kStripWidth + 40, kTitle + panel * map.n_panels + kBelow);
}

void SvgPage::add(const LineChart & chart) {
    std::vector<double> all;
    for (const Series & series : chart.series) {
        std::copy_if(series.values.begin(), series.values.end(), std::back_inserter(all),
                     [](double v) { return std::isfinite(v); });
    }
    const auto [least, largest] = range_of(all);
    const Axis axis = axis_around(least, largest);
    const double top = bottom_ + kTitle;
    const double bottom = top + kChartHeight;
    const int n = static_cast<int>(chart.ticks.size());
    const auto x_of = [n](size_t i) {
        return kLeft + (n > 1 ? kChartWidth * static_cast<double>(i) / (n - 1) : kChartWidth / 2);
    };
    const auto y_of = [&](double value) { return bottom - kChartHeight * (value - axis.low) / (axis.high - axis.low); };
    body_ += text_at(8, bottom_ + 14, chart.title, "start", 13);
    for (int i = 0; i <= axis.n_steps(); ++i) {
        const double value = axis.low + axis.step * i;
        const double y = y_of(value);
        if (i > 0) { body_ += line_between(kLeft, y, kLeft + kChartWidth, y, "#e4e4e4"); }
        body_ += text_at(kLeft - 6, y + 4, number(std::abs(value) < axis.step / 2 ? 0 : value), "end");
    }
    body_ += line_between(kLeft, top, kLeft, bottom, "#888888") +
             line_between(kLeft, bottom, kLeft + kChartWidth, bottom, "#888888");
    const int step = name_step(n > 1 ? kChartWidth / (n - 1) : kChartWidth, 36);
    for (int i = 0; i < n; i += step) {
        body_ += text_at(x_of(static_cast<size_t>(i)), bottom + 14, chart.ticks[static_cast<size_t>(i)], "middle");
    }
    body_ += text_at(kLeft, bottom + 30, chart.x_label);
    size_t n_drawn = 0;  // that have a colour of their own
    for (size_t s = 0; s < chart.series.size(); ++s) {
        const Series & series = chart.series[s];
        const Stroke stroke = series.reference ? Stroke{"#9a9a9a", " stroke-dasharray=\"4 4\""} : stroke_of(n_drawn++);
        const std::string colour = stroke.colour;
        std::string points;
        for (size_t i = 0; i < series.values.size(); ++i) {
            if (!std::isfinite(series.values[i])) { continue; }
            points += (points.empty() ? "" : " ") + coordinate(x_of(i)) + "," + coordinate(y_of(series.values[i]));
        }
        body_ += "<polyline fill=\"none\" stroke=\"" + colour + "\"" + stroke.dashes + " stroke-width=\"1.5\" points=\"" +
                 points + "\"/>\n";
        for (size_t i = 0; i < series.values.size(); ++i) {
            if (!std::isfinite(series.values[i])) { continue; }
            body_ += "<circle cx=\"" + coordinate(x_of(i)) + "\" cy=\"" + coordinate(y_of(series.values[i])) + "\" r=\"" +
                     (series.reference ? "1" : "2.5") + "\" fill=\"" + colour + "\"><title>" +
                     escape_xml(series.name + ", " + chart.x_label + " " + chart.ticks[i] + ": " + number(series.values[i])) +
                     "</title></circle>\n";
        }
        const double y = top + 12 + 15 * static_cast<double>(s);
        body_ += line_between(kLeft + kChartWidth + 12, y - 4, kLeft + kChartWidth + 28, y - 4, colour, stroke.dashes);
        body_ += text_at(kLeft + kChartWidth + 32, y, series.name);
    }
    place(kLeft + kChartWidth + kLegend,
          kTitle + std::max(kChartHeight, 15 * static_cast<double>(chart.series.size())) + kBelow);
}

std::string SvgPage::str() const {
    const std::string width = coordinate(width_ + 16);
    const std::string height = coordinate(bottom_ + 16);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height + "\" viewBox=\"0 0 " +
           width + " " + height + "\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" +
           text_at(8, 24, title_, "start", 16) + body_ + "</svg>\n";
}

}  // namespace pith::report
