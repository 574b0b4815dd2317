// svg.h - figures as one self-contained SVG: heat maps, strips and line charts under each other. Stage: report.
// Pure C++: text in, text out; no I/O. No scripts, fonts or other resources are referred to.
//
// Every value is also there as text: a cell's and a point's <title> shows it where a viewer supports it, and programs find it.
// Threads: one at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pith::report {

// & < > " and control characters that XML does not allow (left out).
std::string escape_xml(std::string_view text);

struct HeatMap {
    std::string title;
    std::string row_label;     // "layer"
    std::string column_label;  // "KV head"
    int n_rows = 0;
    int n_columns = 0;
    std::vector<double> values;  // [n_rows][n_columns], finite
    // Names of rows and columns; empty: 0, 1, … (and where a map is drawn from blocks).
    std::vector<std::string> row_names, column_names;
    // What is drawn lightest and darkest; equal: the least and the largest value.
    double low = 0, high = 0;
};

// Lanes over positions, a thin strip each, in panels: what is kept is light, what is not is dark.
struct StripMap {
    std::string title;
    std::string panel_label;  // "layer"
    std::string row_label;    // "KV head"
    std::string column_label;
    int n_panels = 0;
    int n_rows = 0;  // of a panel
    int n_columns = 0;
    std::vector<double> values;            // [n_panels][n_rows][n_columns], 0 (dark) … 1 (light)
    std::vector<std::string> panel_names;  // empty: 0, 1, …
};

struct Series {
    std::string name;
    std::vector<double> values;  // one for each tick; not finite: there is none
    bool reference = false;      // what the others are held against: a grey line without marks
};
struct LineChart {
    std::string title;
    std::string x_label;
    std::vector<std::string> ticks;
    std::vector<Series> series;
};

class SvgPage {
public:
    explicit SvgPage(std::string title) : title_(std::move(title)) {}

    // A heat map of more than `kMostCells` a side is drawn from the means of blocks, and says so. REQUIRES: as many values as
    // cells.
    void add(const HeatMap & map);
    // More than `kMostStripCells` columns are drawn as means of blocks, and said so; neighbours of one shade are one mark.
    // REQUIRES: as many values as cells.
    void add(const StripMap & map);
    // REQUIRES: every series has one value for each tick.
    void add(const LineChart & chart);
    std::string str() const;

    static constexpr int kMostCells = 128;
    static constexpr int kMostStripCells = 720;

private:
    void place(double width, double height);  // books room under the last figure

    std::string title_;
    std::string body_;
    double width_ = 320;
    double bottom_ = 40;
};

}  // namespace pith::report
