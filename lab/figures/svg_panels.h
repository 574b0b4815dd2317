// svg_panels.h - one panel of a group, drawn. Stage: figures.
// Pure C++.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "figures/svg.h"
#include "figures/svg_draw.h"

namespace pith::report {

using StyleOf = std::function<size_t(const std::string & name)>;

Drawing draw_chart(const LineChart & chart, const StyleOf & style_of);
// The lines' names with a piece of each, in rows of at most that width.
Drawing draw_legend(const std::vector<LineChart> & charts, const StyleOf & style_of, double width);

// The map itself, or the means of its blocks where it has more than SvgPage::kMostCells a side.
HeatMap with_cells_to_draw(const HeatMap & map);
// Values from low to high take all the colours there are. REQUIRES: a map of with_cells_to_draw().
Drawing draw_map(const HeatMap & map, double low, double high);
Drawing draw_colour_scale(const std::string & label, double low, double high);
Drawing draw_table(const HeatTable & table, double low, double high);
Drawing draw_strips(const StripMap & map);

}  // namespace pith::report
