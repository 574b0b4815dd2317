// svg_map.cpp - draws heat maps, their colour scale, and strips.
#include <algorithm>
#include <cmath>

#include "figures/svg_panels.h"

namespace pith::report {
namespace {

constexpr double kMapSide = 190;  // what a map's sides are drawn to, within the sizes of a cell
constexpr double kLeastCell = 2;
constexpr double kWidestCell = 26;
constexpr double kHighestCell = 18;
constexpr double kWidestTitle = 150;  // over a narrow map: longer ones are broken
constexpr double kStripWidth = 720;
constexpr double kPanelGap = 5;

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
        out.row_names.push_back(std::to_string(r * block));
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
    for (int c = 0; c < out.n_columns; ++c) { out.column_names.push_back(std::to_string(c * block)); }
    return out;
}

std::string name_of(const std::vector<std::string> & names, int i) {
    return names.empty() ? std::to_string(i) : names[static_cast<size_t>(i)];
}

double widest(const std::vector<std::string> & names, int n) {
    double width = text_width(std::to_string(std::max(0, n - 1)));
    for (const std::string & name : names) { width = std::max(width, text_width(name)); }
    return width;
}

// Every so many cells have a name: as few as 1, 2, 5, 10, … allow.
int name_step(double cell, double room) {
    for (int power = 1;; power *= 10) {
        for (const int digit : {1, 2, 5}) {
            if (digit * power * cell >= room) { return digit * power; }
        }
    }
}

}  // namespace

HeatMap with_cells_to_draw(const HeatMap & map) {
    return std::max(map.n_rows, map.n_columns) > SvgPage::kMostCells ? shrink(map) : map;
}

Drawing draw_map(const HeatMap & map, double low, double high) {
    double cell_width = std::clamp(kMapSide / std::max(1, map.n_columns), kLeastCell, kWidestCell);
    double cell_height = std::clamp(kMapSide / std::max(1, map.n_rows), kLeastCell, kHighestCell);
    if (map.row_label == map.column_label) { cell_width = cell_height = std::min(cell_width, cell_height); }
    const double left = kLineHeight + widest(map.row_names, map.n_rows) + 9;
    const double width = cell_width * map.n_columns;
    const double height = cell_height * map.n_rows;
    Drawing out;
    out.width = std::max(left + width + 4, left + std::min(text_width(map.title), kWidestTitle));
    double y = 0;
    if (!map.title.empty()) { out.body = paragraph(left, y, map.title, out.width - left, kTextSize, ""); }
    const double top = y + 4;
    const double bottom = top + height;
    for (int r = 0; r < map.n_rows; ++r) {
        for (int c = 0; c < map.n_columns; ++c) {
            const double value =
                map.values[static_cast<size_t>(r) * static_cast<size_t>(map.n_columns) + static_cast<size_t>(c)];
            out.body += rect_at(left + cell_width * c, top + cell_height * r, cell_width, cell_height,
                                shade(high > low ? (value - low) / (high - low) : 0.5),
                                map.row_label + " " + name_of(map.row_names, r) + ", " + map.column_label + " " +
                                    name_of(map.column_names, c) + ": " + number(value));
        }
    }
    out.body += rect_at(left, top, width, height, "fr");
    for (int r = 0; r < map.n_rows; r += name_step(cell_height, kLineHeight)) {
        out.body += text_at(left - 5, top + cell_height * (r + 0.5) + 4, name_of(map.row_names, r), "end", "q");
    }
    for (int c = 0; c < map.n_columns; c += name_step(cell_width, widest(map.column_names, map.n_columns) + 6)) {
        out.body += text_at(left + cell_width * (c + 0.5), bottom + 13, name_of(map.column_names, c), "middle", "q");
    }
    out.body += vertical_text(10, (top + bottom) / 2, map.row_label);
    out.body += text_at(left + width / 2, bottom + 27, map.column_label, "middle", "q");
    out.width = std::max(out.width, left + (width + text_width(map.column_label)) / 2);
    out.height = bottom + 32;
    return out;
}

Drawing draw_colour_scale(const std::string & label, double low, double high) {
    constexpr double kWidth = 192;
    Drawing out;
    for (int i = 0; i < kShades; ++i) {
        const double part = static_cast<double>(i) / (kShades - 1);
        out.body += rect_at(kWidth * i / kShades, 2, kWidth / kShades + 0.5, 10, shade(high > low ? part : 0.5));
    }
    out.body += rect_at(0, 2, kWidth, 10, "fr");
    if (high > low) {
        out.body += text_at(0, 24, number(low), "start", "q");
        out.body += text_at(kWidth / 2, 24, number((low + high) / 2), "middle", "q");
        out.body += text_at(kWidth, 24, number(high), "end", "q");
    } else {
        out.body += text_at(kWidth / 2, 24, number(low), "middle", "q");
    }
    out.body += text_at(kWidth + 10, 11, label, "start", "q");
    out.width = kWidth + 10 + text_width(label);
    out.height = 28;
    return out;
}

Drawing draw_strips(const StripMap & map) {
    const int block = std::max(1, (map.n_columns + SvgPage::kMostStripCells - 1) / SvgPage::kMostStripCells);
    const int n_blocks = (map.n_columns + block - 1) / block;
    const double cell = kStripWidth / std::max(n_blocks, 1);
    const double strip = std::clamp(260.0 / std::max(map.n_panels * map.n_rows, 1), 3.0, 14.0);  // height of a row
    const double panel = strip * map.n_rows + kPanelGap;
    const auto name = [&](int p) { return map.panel_label + " " + name_of(map.panel_names, p); };
    double left = 8;
    for (int p = 0; p < map.n_panels; ++p) { left = std::max(left, text_width(name(p)) + 8); }
    const double top = 4;
    Drawing out;
    for (int p = 0; p < map.n_panels; ++p) {
        const double panel_top = top + panel * p;
        out.body += text_at(left - 6, panel_top + strip * map.n_rows / 2 + 4, name(p), "end", "q");
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
                out.body += "<rect x=\"" + coordinate(left + cell * begin) + "\" y=\"" + coordinate(panel_top + strip * r) +
                            "\" width=\"" + coordinate(cell * (end - begin)) + "\" height=\"" + coordinate(strip) +
                            "\" fill=\"" + fill + "\"><title>" +
                            escape_xml(name(p) + ", " + map.row_label + " " + std::to_string(r) + ", " + map.column_label +
                                       " " + std::to_string(begin * block) + " to " + std::to_string(last) + ": " +
                                       number(sum / (end - begin))) +
                            "</title></rect>\n";
            }
        }
        out.body += rect_at(left, panel_top, kStripWidth, strip * map.n_rows, "fr");
    }
    const double bottom = top + panel * map.n_panels;
    for (int i = 0; i <= 4; ++i) {
        const double x = left + kStripWidth * i / 4;
        out.body += line_between(x, bottom - 2, x, bottom + 2, "a");
        const auto column = static_cast<int64_t>(map.n_columns) * i / 4;
        out.body += text_at(x, bottom + 14, std::to_string(column), "middle", "q");
    }
    out.body +=
        text_at(left + kStripWidth / 2, bottom + 28,
                map.column_label + (block > 1 ? " (means of blocks of " + std::to_string(block) + ")" : ""), "middle", "q");
    out.width = left + kStripWidth + 16;
    out.height = bottom + 34;
    return out;
}

}  // namespace pith::report
