// svg.h - figures on one self-contained SVG page: line charts, heat maps and tables, side by side. Stage: figures.
// Pure C++: text in, text out; no I/O. No scripts, fonts or other resources are referred to.
//
// A page is made of groups. A group is a heading, the key that its panels share (the lines' names, or one colour scale for all
// maps, so that equal colours are equal values) and the panels, side by side; groups stand side by side where there is room.
//   lines    differ in colour, dashes and marks: they are told apart without colour, and a name looks the same on all of a page
//   colours  follow the viewer's light or dark background (prefers-color-scheme); more colour is more
//   values   are all there as text: a cell's and a point's <title> shows it where a viewer supports it, and programs find it
// Threads: one at a time.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "figures/svg_draw.h"

namespace pith::report {

struct HeatMap {
    std::string title;
    std::string row_label;     // "layer"
    std::string column_label;  // "KV head"
    int n_rows = 0;
    int n_columns = 0;
    std::vector<double> values;  // [n_rows][n_columns], finite
    // Names of rows and columns; empty: 0, 1, … (and where a map is drawn from blocks).
    std::vector<std::string> row_names, column_names;
    bool strips = false;  // rows are thin and wide, and neighbours of one shade one mark

    // A table: what is written in the cells, which have names. Values may then be not finite: such a cell has no colour.
    std::vector<std::string> texts{};
    std::vector<std::string> details{};  // to be pointed at, behind the names: "93.3 (80 to 98)"; empty: none
    size_t n_apart = 0;                  // so many columns, the last ones, stand apart: averages of the others

    bool is_table() const { return !texts.empty(); }
};
// Maps, or tables, that are compared.
struct MapGroup {
    std::string title;
    std::string value_label;  // of the colour scale, with the unit: "attention mass kept (share)"
    std::vector<HeatMap> maps;
    double low = 0, high = 0;  // the scale's ends; equal (not for tables): the least and the largest value that is drawn
    std::string note{};        // under them: what cells without colour say

    // All but the first are left out, and the title says so: dozens of policies' maps would be too many to look at.
    void keep_first(size_t most = 24);
};

struct Series {
    std::string name;
    std::vector<double> values;  // one for each point of the axis; not finite: there is none
    // What the others are held against: a grey line from side to side, and a band where it has an interval. Where it has one
    // of several points, a mark shows which.
    bool reference = false;
    std::vector<double> low, high;  // ends of each value's error bar; empty, or not finite: there is none
};
struct LineChart {
    std::string title;
    std::string x_label, y_label;    // what and in which unit
    std::vector<std::string> ticks;  // the points' names, under the axis
    std::vector<Series> series;
    // Where the points stand, ascending; empty: at equal distances. Without `ticks` the axis has round numbers.
    std::vector<double> x;
    bool log_x = false;   // REQUIRES: x above 0
    bool log_y = false;   // values of 0 and less are left out
    bool wide_x = false;  // the axis of numbers goes on to round ones, on both sides
    double plot_width = 262, plot_height = 176;

    size_t n_points() const { return x.empty() ? ticks.size() : x.size(); }
};
// Charts of the same lines. Those with the same label have the same axis.
struct ChartGroup {
    std::string title;
    std::vector<LineChart> charts;
};

// Whether points read better on a logarithmic axis: all above 0, the largest at least four times the least.
bool wants_log(const std::vector<double> & values);

class SvgPage {
public:
    // Panels stand side by side as far as `width` goes. `scale` enlarges everything: text is scale times as large where there
    // is room for the whole page, and a page that is narrow by itself can still be read on a narrow screen.
    explicit SvgPage(std::string title, std::string subtitle = "", double width = kPageWidth, double scale = 1)
        : title_(std::move(title)), subtitle_(std::move(subtitle)), width_(width), scale_(scale) {}

    // Of a group without panels nothing is drawn.
    // REQUIRES: every series has one value for each point.
    void add(const ChartGroup & group);
    // A map of more than `kMostCells` a side (strips: more than `kMostStripCells` columns) is drawn from the means of blocks,
    // and says so. REQUIRES: as many values, texts and (where there are any) details as cells.
    void add(const MapGroup & group);
    std::string str() const;

    static constexpr int kMostCells = 128, kMostStripCells = 720;

private:
    static constexpr double kLeastGroupWidth = 240;

    size_t style_of(const std::string & name);  // the same name: the same style
    Drawing panels_beside(const std::vector<Drawing> & panels, Align align = Align::kBottom) const;
    void add_group(const std::string & title, const Drawing & key, const Drawing & panels);  // under each other

    std::string title_, subtitle_;
    double width_, scale_;
    std::vector<Drawing> groups_;
    std::vector<std::string> names_;  // of lines, in the order of their styles
};

}  // namespace pith::report
