// svg.cpp - puts groups of panels on a page.
#include "figures/svg.h"

#include <algorithm>
#include <limits>

#include "figures/svg_panels.h"

namespace pith::report {
namespace {

constexpr double kMargin = 16;
constexpr double kGap = 20;  // between panels
constexpr double kRowGap = 10;
constexpr double kGroupGap = 36;  // between groups
constexpr double kGroupRowGap = 18;

double widest_line(const std::string & text, double width, int size = kTextSize) {
    double widest = 0;
    for (const std::string & line : wrap(text, width, size)) { widest = std::max(widest, text_width(line, size)); }
    return widest;
}

// Heading, key and panels under each other.
Drawing stacked(const std::string & title, const Drawing & key, const Drawing & panels) {
    Drawing out;
    const double width = std::max({panels.width, key.width, 240.0});
    double y = 0;
    if (!title.empty()) {
        out.body = paragraph(0, y, title, width, kHeadingSize, "h");
        out.width = widest_line(title, width, kHeadingSize);
        y += 4;
    }
    for (const Drawing * part : {&key, &panels}) {
        if (part->height == 0) { continue; }
        const Drawing placed = moved(*part, 0, y);
        out.body += placed.body;
        out.width = std::max(out.width, placed.width);
        y = placed.height + 8;
    }
    out.height = y;
    return out;
}

}  // namespace

size_t SvgPage::style_of(const std::string & name) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at != names_.end()) { return static_cast<size_t>(at - names_.begin()); }
    names_.push_back(name);
    return names_.size() - 1;
}

void SvgPage::add(const ChartGroup & group) {
    const StyleOf styles = [this](const std::string & name) { return style_of(name); };
    std::vector<Drawing> panels;
    for (const LineChart & chart : group.charts) { panels.push_back(draw_chart(chart, styles)); }
    const Drawing drawn = beside(panels, width_, kGap, kRowGap, Align::kBottom);
    groups_.push_back(stacked(group.title, draw_legend(group.charts, styles, std::max(drawn.width, 300.0)), drawn));
}

void SvgPage::add(const MapGroup & group) {
    std::vector<HeatMap> maps;
    for (const HeatMap & map : group.maps) { maps.push_back(with_cells_to_draw(map)); }
    double low = group.low;
    double high = group.high;
    if (!(low < high)) {
        low = std::numeric_limits<double>::infinity();
        high = -low;
        for (const HeatMap & map : maps) {
            for (const double value : map.values) {
                low = std::min(low, value);
                high = std::max(high, value);
            }
        }
        if (low > high) { low = high = 0; }
    }
    std::vector<Drawing> panels;
    for (const HeatMap & map : maps) { panels.push_back(draw_map(map, low, high)); }
    groups_.push_back(stacked(group.title, draw_colour_scale(group.value_label, low, high),
                              beside(panels, width_, kGap, kRowGap, Align::kBottom)));
}

void SvgPage::add(const TableGroup & group) {
    has_tables_ = true;
    std::vector<Drawing> panels;
    for (const HeatTable & table : group.tables) { panels.push_back(draw_table(table, group.low, group.high)); }
    Drawing drawn = beside(panels, width_, kGap, kRowGap);
    if (!group.note.empty()) {
        const double width = std::max(drawn.width, 240.0);
        double y = drawn.height + 4;
        drawn.body += paragraph(0, y, group.note, width, kTextSize, "q");
        drawn.height = y;
        drawn.width = std::max(drawn.width, widest_line(group.note, width));
    }
    groups_.push_back(stacked(group.title, draw_colour_scale(group.value_label, group.low, group.high), drawn));
}

void SvgPage::add(const StripMap & map) {
    groups_.push_back(stacked(map.title, {}, draw_strips(map)));
}

std::string SvgPage::str() const {
    double y = 0;
    std::string head = paragraph(0, y, title_, width_, kTitleSize, "t");
    if (!subtitle_.empty()) { head += paragraph(0, y, subtitle_, width_, kTextSize, "q"); }
    y += 14;
    const Drawing body = moved(beside(groups_, width_, kGroupGap, kGroupRowGap), 0, y);
    const double width =
        std::max({body.width, widest_line(title_, width_, kTitleSize), widest_line(subtitle_, width_)}) + 2 * kMargin;
    const double height = body.height + 2 * kMargin;
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + coordinate(width * scale_) + "\" height=\"" +
           coordinate(height * scale_) + "\" viewBox=\"0 0 " + coordinate(width) + " " + coordinate(height) +
           "\" font-family=\"Helvetica, Arial, sans-serif\">\n" + style_sheet(has_tables_) +
           "<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n" + moved({head + body.body, 0, 0}, kMargin, kMargin).body +
           "</svg>\n";
}

}  // namespace pith::report
