// svg_grid.cpp - draws cells in rows and columns: heat maps, tables, strips, and their colour scale.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "figures/svg.h"

namespace pith::report {
namespace {

constexpr double kMapSide = 190;  // what a map's sides are drawn to, within the sizes of a cell
constexpr double kLeastCell = 2, kWidestCell = 26, kHighestCell = 18;
constexpr double kWidestTitle = 150;  // over a narrow map: longer ones are broken
constexpr double kStripWidth = 720;
constexpr double kPanelGap = 5;
constexpr double kTableCellHeight = 16, kLeastTableCellWidth = 27;
constexpr double kBetweenCells = 1;
constexpr double kBeforeAverages = 5;
constexpr double kLeastTableTitleWidth = 200;

std::string in_blocks(int block) {
    return block > 1 ? " (means of blocks of " + std::to_string(block) + ")" : "";
}

int n_blocks_of(int n, int block) {
    return (n + block - 1) / block;
}

// The mean of a block's rows and columns, as far as the values [n_rows][n_columns] go.
double mean_of(const double * values, int n_rows, int n_columns, int row, int column, int block_rows, int block_columns) {
    const int row_end = std::min(n_rows, row + block_rows);
    const int column_end = std::min(n_columns, column + block_columns);
    double sum = 0;
    for (int r = row; r < row_end; ++r) {
        for (int c = column; c < column_end; ++c) { sum += values[static_cast<std::ptrdiff_t>(r) * n_columns + c]; }
    }
    return sum / ((row_end - row) * (column_end - column));
}

// As given, or their numbers, of every `step`th.
std::vector<std::string> names_of(std::vector<std::string> names, int n, int step) {
    if (!names.empty()) { return names; }
    for (int i = 0; i < n; i += step) { names.push_back(std::to_string(i)); }
    return names;
}

// With all names, and, where it has more than kMostCells a side, of the means of blocks.
HeatMap with_cells_to_draw(HeatMap map) {
    const int block = std::max(1, n_blocks_of(std::max(map.n_rows, map.n_columns), SvgPage::kMostCells));
    if (block > 1) {
        std::vector<double> means;
        for (int r = 0; r < map.n_rows; r += block) {
            for (int c = 0; c < map.n_columns; c += block) {
                means.push_back(mean_of(map.values.data(), map.n_rows, map.n_columns, r, c, block, block));
            }
        }
        map.values = std::move(means);
        map.row_names.clear();
        map.column_names.clear();
    }
    map.title += in_blocks(block);
    map.row_names = names_of(std::move(map.row_names), map.n_rows, block);
    map.column_names = names_of(std::move(map.column_names), map.n_columns, block);
    map.n_rows = n_blocks_of(map.n_rows, block);
    map.n_columns = n_blocks_of(map.n_columns, block);
    return map;
}

// Every so many cells have a name: as few as 1, 2, 5, 10, … allow.
int name_step(double cell, double room) {
    for (int power = 1;; power *= 10) {
        for (const int digit : {1, 2, 5}) {
            if (digit * power * cell >= room) { return digit * power; }
        }
    }
}

Drawing draw_map(const HeatMap & map, double low, double high) {
    double cell_width = std::clamp(kMapSide / std::max(1, map.n_columns), kLeastCell, kWidestCell);
    double cell_height = std::clamp(kMapSide / std::max(1, map.n_rows), kLeastCell, kHighestCell);
    if (map.row_label == map.column_label) { cell_width = cell_height = std::min(cell_width, cell_height); }
    const double left = kLineHeight + widest_of(map.row_names) + 9;
    const double width = cell_width * map.n_columns;
    const double height = cell_height * map.n_rows;
    Drawing out;
    out.width = std::max(left + width + 4, left + std::min(text_width(map.title), kWidestTitle));
    double y = 0;
    out.body = paragraph(left, y, map.title, out.width - left);
    const double top = y + 4;
    const double bottom = top + height;
    for (size_t r = 0, cell = 0; r < map.row_names.size(); ++r) {
        for (size_t c = 0; c < map.column_names.size(); ++c, ++cell) {
            const double value = map.values[cell];
            out.body += rect_at(left + cell_width * static_cast<double>(c), top + cell_height * static_cast<double>(r),
                                cell_width, cell_height, shade(high > low ? (value - low) / (high - low) : 0.5),
                                map.row_label + " " + map.row_names[r] + ", " + map.column_label + " " + map.column_names[c] +
                                    ": " + number(value));
        }
    }
    out.body += rect_at(left, top, width, height, "fr");
    for (int r = 0; r < map.n_rows; r += name_step(cell_height, kLineHeight)) {
        out.body += text_at(left - 5, top + cell_height * (r + 0.5) + 4, map.row_names[static_cast<size_t>(r)], "end", "q");
    }
    for (int c = 0; c < map.n_columns; c += name_step(cell_width, widest_of(map.column_names) + 6)) {
        out.body +=
            text_at(left + cell_width * (c + 0.5), bottom + 13, map.column_names[static_cast<size_t>(c)], "middle", "q");
    }
    out.body += turned_text(10, (top + bottom) / 2, 90, map.row_label);
    out.body += text_at(left + width / 2, bottom + 27, map.column_label, "middle", "q");
    out.width = std::max(out.width, left + (width + text_width(map.column_label)) / 2);
    out.height = bottom + 32;
    return out;
}

Drawing draw_colour_scale(const std::string & label, double low, double high) {
    constexpr double kWidth = 192;
    const bool is_range = high > low;
    Drawing out{"", kWidth + 10 + text_width(label), 28};
    for (int i = 0; i < kShades; ++i) {
        out.body += rect_at(kWidth * i / kShades, 2, kWidth / kShades + 0.5, 10,
                            shade(is_range ? static_cast<double>(i) / (kShades - 1) : 0.5));
    }
    out.body += rect_at(0, 2, kWidth, 10, "fr");
    if (is_range) { out.body += text_at(0, 24, number(low), "start", "q"); }
    out.body += text_at(kWidth / 2, 24, number(is_range ? (low + high) / 2 : low), "middle", "q");
    if (is_range) { out.body += text_at(kWidth, 24, number(high), "end", "q"); }
    out.body += text_at(kWidth + 10, 11, label, "start", "q");
    return out;
}

Drawing draw_table(const HeatTable & table, double low, double high) {
    constexpr double kSlope = 1 / std::numbers::sqrt2;  // names of columns rise at 45 degrees
    const size_t n_columns = table.column_names.size();
    const double cell_width = std::max(kLeastTableCellWidth, widest_of(table.texts) + 5);
    const double left = widest_of(table.row_names) + 6;
    const auto left_of = [&](size_t c) {
        const bool apart = c + table.n_apart >= n_columns && table.n_apart < n_columns;
        return left + cell_width * static_cast<double>(c) + (apart ? kBeforeAverages : 0);
    };
    const double right = n_columns == 0 ? left : left_of(n_columns - 1) + cell_width;
    Drawing out;
    double y = 0;
    const double title_width = std::max(right, kLeastTableTitleWidth);
    out.body = paragraph(0, y, table.title, title_width);
    out.width = std::max(right, widest_of(wrap(table.title, title_width)));
    const double top = y + widest_of(table.column_names) * kSlope + 14;
    for (size_t c = 0; c < n_columns; ++c) {
        const double x = left_of(c) + cell_width / 2 + 2;
        out.body += turned_text(x, top - 5, 45, table.column_names[c]);
        out.width = std::max(out.width, x + text_width(table.column_names[c]) * kSlope + 4);
    }
    for (size_t r = 0, cell = 0; r < table.row_names.size(); ++r) {
        const double row_top = top + kTableCellHeight * static_cast<double>(r);
        out.body += text_at(left - 5, row_top + 12, table.row_names[r], "end");
        for (size_t c = 0; c < n_columns; ++c, ++cell) {
            const bool known = std::isfinite(table.values[cell]);
            const double part = (table.values[cell] - low) / (high - low);
            const std::string detail = table.details.empty() ? "" : table.details[cell];
            out.body += rect_at(left_of(c), row_top, cell_width - kBetweenCells, kTableCellHeight - kBetweenCells,
                                known ? shade(part) : "no",
                                detail.empty() ? "" : table.row_names[r] + ", " + table.column_names[c] + ": " + detail);
            out.body += text_at(left_of(c) + (cell_width - kBetweenCells) / 2, row_top + 12, table.texts[cell], "middle",
                                known ? shade(part, "n") : "q");
        }
    }
    out.height = top + kTableCellHeight * static_cast<double>(table.row_names.size());
    return out;
}

Drawing draw_strips(const StripMap & map) {
    const int block = std::max(1, n_blocks_of(map.n_columns, SvgPage::kMostStripCells));
    const int n_blocks = n_blocks_of(map.n_columns, block);
    const double cell = kStripWidth / std::max(n_blocks, 1);
    const double strip = std::clamp(260.0 / std::max(map.n_panels * map.n_rows, 1), 3.0, 14.0);  // height of a row
    const double panel = strip * map.n_rows + kPanelGap;
    std::vector<std::string> names = names_of(map.panel_names, map.n_panels, 1);
    for (std::string & name : names) { name = map.panel_label + " " + name; }
    const double left = widest_of(names) + 8;
    const double top = 4;
    Drawing out;
    for (int p = 0; p < map.n_panels; ++p) {
        const std::string & name = names[static_cast<size_t>(p)];
        const double panel_top = top + panel * p;
        out.body += text_at(left - 6, panel_top + strip * map.n_rows / 2 + 4, name, "end", "q");
        for (int r = 0; r < map.n_rows; ++r) {
            const auto mean = [&](int b) {
                const double * row = map.values.data() + (static_cast<std::ptrdiff_t>(p) * map.n_rows + r) * map.n_columns;
                return mean_of(row, 1, map.n_columns, 0, b * block, 1, block);
            };
            for (int begin = 0, end = 0; begin < n_blocks; begin = end) {
                const std::string fill = grey(mean(begin));
                double sum = 0;
                for (end = begin; end < n_blocks && grey(mean(end)) == fill; ++end) { sum += mean(end); }
                out.body += rect_with(
                    left + cell * begin, panel_top + strip * r, cell * (end - begin), strip, "fill=\"" + fill + "\"",
                    name + ", " + map.row_label + " " + std::to_string(r) + ", " + map.column_label + " " +
                        std::to_string(begin * block) + " to " + std::to_string(std::min(map.n_columns, end * block) - 1) +
                        ": " + number(sum / (end - begin)));
            }
        }
        out.body += rect_at(left, panel_top, kStripWidth, strip * map.n_rows, "fr");
    }
    const double bottom = top + panel * map.n_panels;
    for (int i = 0; i <= 4; ++i) {
        const double x = left + kStripWidth * i / 4;
        out.body += line_between(x, bottom - 2, x, bottom + 2, "a");
        out.body += text_at(x, bottom + 14, std::to_string(int64_t{map.n_columns} * i / 4), "middle", "q");
    }
    out.body += text_at(left + kStripWidth / 2, bottom + 28, map.column_label + in_blocks(block), "middle", "q");
    out.width = left + kStripWidth + 16;
    out.height = bottom + 34;
    return out;
}

}  // namespace

void MapGroup::keep_first(size_t most) {
    if (maps.size() <= most) { return; }
    title += " (the first " + std::to_string(most) + " of " + std::to_string(maps.size()) + ")";
    maps.resize(most);
}

void SvgPage::add(const MapGroup & group) {
    if (group.maps.empty()) { return; }
    std::vector<HeatMap> maps;
    std::vector<double> values;
    for (const HeatMap & map : group.maps) {
        maps.push_back(with_cells_to_draw(map));
        values.insert(values.end(), maps.back().values.begin(), maps.back().values.end());
    }
    if (group.low < group.high || values.empty()) { values = {group.low, group.high}; }
    const auto [low, high] = std::ranges::minmax(values);
    std::vector<Drawing> panels;
    for (const HeatMap & map : maps) { panels.push_back(draw_map(map, low, high)); }
    add_group(group.title, draw_colour_scale(group.value_label, low, high), panels_beside(panels));
}

void SvgPage::add(const TableGroup & group) {
    if (group.tables.empty()) { return; }
    has_tables_ = true;
    std::vector<Drawing> panels;
    for (const HeatTable & table : group.tables) { panels.push_back(draw_table(table, group.low, group.high)); }
    Drawing drawn = panels_beside(panels, Align::kTop);
    if (!group.note.empty()) {
        const double width = std::max(drawn.width, kLeastGroupWidth);
        double y = drawn.height + 4;
        drawn.body += paragraph(0, y, group.note, width, kTextSize, "q");
        drawn.height = y;
        drawn.width = std::max(drawn.width, widest_of(wrap(group.note, width)));
    }
    add_group(group.title, draw_colour_scale(group.value_label, group.low, group.high), drawn);
}

void SvgPage::add(const StripMap & map) {
    add_group(map.title, {}, draw_strips(map));
}

}  // namespace pith::report
