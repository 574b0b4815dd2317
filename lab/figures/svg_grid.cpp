// svg_grid.cpp - draws cells in rows and columns: heat maps, strips, tables, and their colour scale.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "figures/svg.h"

namespace pith::report {
namespace {

constexpr double kMapSide = 190;  // what a map's sides are drawn to, within the sizes of a cell
constexpr double kLeastCell = 2, kWidestCell = 26, kHighestCell = 18;
constexpr double kWidestTitle = 150;  // over a narrow map: longer ones are broken
constexpr double kStripsWidth = 720, kStripsHeight = 260, kLowestStrip = 3, kHighestStrip = 14;
constexpr double kTableCellHeight = 16, kLeastTableCellWidth = 27, kBetweenCells = 1, kBeforeAverages = 5;
constexpr double kLeastTableTitleWidth = 200, kLeastNoteWidth = 240;
constexpr double kSlope = 1 / std::numbers::sqrt2;  // names of a table's columns rise at 45 degrees

int n_blocks_of(int n, int block) {
    return (n + block - 1) / block;
}

// As given, a name for each cell; else the numbers of the blocks' first cells.
std::vector<std::string> names_of(std::vector<std::string> names, int n, int block) {
    if (block == 1 && !names.empty()) { return names; }
    names.clear();
    for (int i = 0; i < n; i += block) { names.push_back(std::to_string(i)); }
    return names;
}

// With all names, and, where it has too many cells, of the means of blocks.
HeatMap with_cells_to_draw(HeatMap map) {
    if (map.is_table()) { return map; }
    const int n_cells = map.strips ? map.n_columns : std::max(map.n_rows, map.n_columns);
    const int block = std::max(1, n_blocks_of(n_cells, map.strips ? SvgPage::kMostStripCells : SvgPage::kMostCells));
    const int row_block = map.strips ? 1 : block;
    std::vector<double> means;
    for (int row = 0; row < map.n_rows; row += row_block) {
        for (int column = 0; column < map.n_columns; column += block) {
            const int row_end = std::min(map.n_rows, row + row_block);
            const int column_end = std::min(map.n_columns, column + block);
            double sum = 0;
            for (int r = row; r < row_end; ++r) {
                for (int c = column; c < column_end; ++c) {
                    sum += map.values[static_cast<size_t>(r) * static_cast<size_t>(map.n_columns) + static_cast<size_t>(c)];
                }
            }
            means.push_back(sum / ((row_end - row) * (column_end - column)));
        }
    }
    map.values = std::move(means);
    map.row_names = names_of(std::move(map.row_names), map.n_rows, row_block);
    map.column_names = names_of(std::move(map.column_names), map.n_columns, block);
    if (block > 1) { map.title += " (means of blocks of " + std::to_string(block) + ")"; }
    return map;
}

// Every so many cells have a name: as few as 1, 2, 5, 10, … allow.
size_t name_step(double cell, double room) {
    for (size_t power = 1;; power *= 10) {
        for (const size_t digit : {1, 2, 5}) {
            if (static_cast<double>(digit * power) * cell >= room) { return digit * power; }
        }
    }
}

class MapDrawer {
public:
    MapDrawer(const HeatMap & map, double low, double high)
        : map_(map), low_(low), high_(high), n_rows_(map.row_names.size()), n_columns_(map.column_names.size()) {
        const auto rows = static_cast<double>(std::max<size_t>(1, n_rows_));
        const auto columns = static_cast<double>(std::max<size_t>(1, n_columns_));
        width_ = std::clamp(kMapSide / columns, kLeastCell, kWidestCell);
        height_ = std::clamp(kMapSide / rows, kLeastCell, kHighestCell);
        if (map.is_table()) {
            width_ = std::max(kLeastTableCellWidth, widest_of(map.texts) + 5);
            height_ = kTableCellHeight;
        } else if (map.strips) {
            width_ = kStripsWidth / columns;
            height_ = std::clamp(kStripsHeight / rows, kLowestStrip, kHighestStrip);
        } else if (map.row_label == map.column_label) {
            width_ = height_ = std::min(width_, height_);
        }
        left_ = (map.row_label.empty() ? 0 : kLineHeight) + widest_of(map.row_names) + (map.is_table() ? 6 : 9);
        right_ = n_columns_ == 0 ? left_ : x_of(n_columns_ - 1) + width_;
    }

    Drawing draw() {
        const bool is_table = map_.is_table();
        const double title_left = is_table ? 0 : left_;
        const double title_width = is_table ? std::max(right_, kLeastTableTitleWidth)
                                            : std::max(right_ - left_ + 4, std::min(text_width(map_.title), kWidestTitle));
        double y = 0;
        Drawing out;
        out.body = paragraph(title_left, y, map_.title, title_width);
        out.width = is_table ? std::max(right_, widest_of(wrap(map_.title, title_width))) : left_ + title_width;
        top_ = y + (is_table ? widest_of(map_.column_names) * kSlope + 14 : 4);
        const double bottom = top_ + height_ * static_cast<double>(n_rows_);
        for (size_t r = 0; r < n_rows_; ++r) { out.body += row(r); }
        for (size_t r = 0; r < n_rows_; r += name_step(height_, kLineHeight)) {
            out.body += text_at(left_ - 5, y_of(r) + height_ / 2 + 4, map_.row_names[r], "end", is_table ? "" : "q");
        }
        const size_t step = is_table ? 1 : name_step(width_, widest_of(map_.column_names) + 6);
        for (size_t c = 0; c < n_columns_; c += step) {
            const double x = x_of(c) + width_ / 2;
            const std::string & name = map_.column_names[c];
            out.body += is_table ? turned_text(x + 2, top_ - 5, 45, name) : text_at(x, bottom + 13, name, "middle", "q");
            if (is_table) { out.width = std::max(out.width, x + text_width(name) * kSlope + 6); }
        }
        out.height = bottom;
        if (is_table) { return out; }
        out.body += rect_at(left_, top_, right_ - left_, bottom - top_, "fr") +
                    turned_text(10, (top_ + bottom) / 2, 90, map_.row_label) +
                    text_at((left_ + right_) / 2, bottom + 27, map_.column_label, "middle", "q");
        out.width = std::max(out.width, (left_ + right_ + text_width(map_.column_label)) / 2);
        out.height += 32;
        return out;
    }

private:
    double x_of(size_t c) const {
        const bool apart = c + map_.n_apart >= n_columns_ && map_.n_apart < n_columns_;
        return left_ + width_ * static_cast<double>(c) + (apart ? kBeforeAverages : 0);
    }
    double y_of(size_t r) const { return top_ + height_ * static_cast<double>(r); }

    std::string shade_of(double value, const char * of = "v") const {
        return shade(high_ > low_ ? (value - low_) / (high_ - low_) : 0.5, of);
    }

    // Of strips, the cells of one shade that stand beside each other are one mark.
    std::string row(size_t r) const {
        const auto named = [](const std::string & label, const std::string & name) {
            return label.empty() ? name : label + " " + name;
        };
        const double gap = map_.is_table() ? kBetweenCells : 0;
        std::string body;
        for (size_t first = 0, end = 0; first < n_columns_; first = end) {
            const size_t cell = r * n_columns_ + first;
            const double value = map_.values[cell];
            const bool known = std::isfinite(value);
            double sum = value;
            for (end = first + 1; map_.strips && end < n_columns_; ++end) {
                const double next = map_.values[cell + end - first];
                if (shade_of(next) != shade_of(value)) { break; }
                sum += next;
            }
            const auto n = static_cast<double>(end - first);
            const std::string last = end - first > 1 ? " to " + map_.column_names[end - 1] : "";
            const std::string detail = !map_.is_table() ? number(sum / n) : map_.details.empty() ? "" : map_.details[cell];
            const std::string title = named(map_.row_label, map_.row_names[r]) + ", " +
                                      named(map_.column_label, map_.column_names[first]) + last + ": " + detail;
            body += rect_at(x_of(first), y_of(r), width_ * n - gap, height_ - gap, known ? shade_of(value) : "no",
                            detail.empty() ? "" : title);
            if (!map_.is_table()) { continue; }
            body += text_at(x_of(first) + (width_ - gap) / 2, y_of(r) + 12, map_.texts[cell], "middle",
                            known ? shade_of(value, "n") : "q");
        }
        return body;
    }

    const HeatMap & map_;
    double low_, high_;
    size_t n_rows_, n_columns_;
    double width_ = 0, height_ = 0;  // of a cell
    double left_ = 0, right_ = 0, top_ = 0;
};

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
    for (const HeatMap & map : maps) { panels.push_back(MapDrawer(map, low, high).draw()); }
    Drawing drawn = panels_beside(panels, maps.back().is_table() ? Align::kTop : Align::kBottom);
    if (!group.note.empty()) {
        const double width = std::max(drawn.width, kLeastNoteWidth);
        drawn.height += 4;
        drawn.body += paragraph(0, drawn.height, group.note, width, kTextSize, "q");
        drawn.width = std::max(drawn.width, widest_of(wrap(group.note, width)));
    }
    add_group(group.title, draw_colour_scale(group.value_label, low, high), drawn);
}

}  // namespace pith::report
