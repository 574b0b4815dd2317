// svg_table.cpp - draws a table whose cells are coloured by their values.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "figures/svg_panels.h"

namespace pith::report {
namespace {

constexpr double kCellHeight = 16;
constexpr double kLeastCellWidth = 27;
constexpr double kBetweenCells = 1;
constexpr double kBeforeAverages = 5;
constexpr double kLeastTitleWidth = 200;

double widest(const std::vector<std::string> & texts) {
    double width = 0;
    for (const std::string & text : texts) { width = std::max(width, text_width(text)); }
    return width;
}

}  // namespace

Drawing draw_table(const HeatTable & table, double low, double high) {
    constexpr double kSlope = 1 / std::numbers::sqrt2;  // names of columns rise at 45 degrees
    const size_t n_columns = table.column_names.size();
    const double cell_width = std::max(kLeastCellWidth, widest(table.texts) + 5);
    const double left = widest(table.row_names) + 6;
    const auto left_of = [&](size_t c) {
        const bool apart = c + table.n_apart >= n_columns && table.n_apart < n_columns;
        return left + cell_width * static_cast<double>(c) + (apart ? kBeforeAverages : 0);
    };
    const double right = n_columns == 0 ? left : left_of(n_columns - 1) + cell_width;
    Drawing out;
    double y = 0;
    if (!table.title.empty()) {
        const double width = std::max(right, kLeastTitleWidth);
        out.body = paragraph(0, y, table.title, width, kTextSize, "");
        for (const std::string & line : wrap(table.title, width)) { out.width = std::max(out.width, text_width(line)); }
    }
    const double top = y + widest(table.column_names) * kSlope + 14;
    for (size_t c = 0; c < n_columns; ++c) {
        const double x = left_of(c) + cell_width / 2 + 2;
        out.body += slanted_text(x, top - 5, table.column_names[c]);
        out.width = std::max(out.width, x + text_width(table.column_names[c]) * kSlope + 4);
    }
    for (size_t r = 0; r < table.row_names.size(); ++r) {
        const double row_top = top + kCellHeight * static_cast<double>(r);
        const double base = row_top + 12;
        out.body += text_at(left - 5, base, table.row_names[r], "end");
        for (size_t c = 0; c < n_columns; ++c) {
            const size_t cell = r * n_columns + c;
            const bool known = std::isfinite(table.values[cell]);
            const double part = (table.values[cell] - low) / (high - low);
            const std::string detail = table.details.empty() ? "" : table.details[cell];
            out.body += rect_at(left_of(c), row_top, cell_width - kBetweenCells, kCellHeight - kBetweenCells,
                                known ? shade(part) : "no",
                                detail.empty() ? "" : table.row_names[r] + ", " + table.column_names[c] + ": " + detail);
            out.body += text_at(left_of(c) + (cell_width - kBetweenCells) / 2, base, table.texts[cell], "middle",
                                (known ? text_on_shade(part) : "q").c_str());
        }
    }
    out.width = std::max(out.width, right);
    out.height = top + kCellHeight * static_cast<double>(table.row_names.size());
    return out;
}

}  // namespace pith::report
