// svg.cpp - puts groups of panels on a page.
#include "report/svg.h"

#include <algorithm>
#include <limits>

#include "report/svg_panels.h"

namespace pith::report {
namespace {

constexpr double kMargin = 16;
constexpr double kGap = 20;  // between panels
constexpr double kRowGap = 10;
constexpr double kGroupGap = 36;  // between groups
constexpr double kGroupRowGap = 18;

// Heading, key and panels under each other.
Drawing stacked(const std::string & title, const Drawing & key, const Drawing & panels) {
    Drawing out;
    const double width = std::max(panels.width, key.width);
    double y = 0;
    if (!title.empty()) {
        out.body = paragraph(0, y, title, std::max(width, 240.0), kHeadingSize, "h");
        for (const std::string & line : wrap(title, std::max(width, 240.0), kHeadingSize)) {
            out.width = std::max(out.width, text_width(line, kHeadingSize));
        }
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
    const Drawing drawn = beside(panels, kPageWidth, kGap, kRowGap, Align::kBottom);
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
                              beside(panels, kPageWidth, kGap, kRowGap, Align::kBottom)));
}

void SvgPage::add(const StripMap & map) {
    groups_.push_back(stacked(map.title, {}, draw_strips(map)));
}

std::string SvgPage::str() const {
    double y = 0;
    std::string head = paragraph(0, y, title_, kPageWidth, kTitleSize, "t");
    if (!subtitle_.empty()) { head += paragraph(0, y, subtitle_, kPageWidth, kTextSize, "q"); }
    y += 14;
    const Drawing body = moved(beside(groups_, kPageWidth, kGroupGap, kGroupRowGap), 0, y);
    double wide = body.width;
    for (const std::string & line : wrap(title_, kPageWidth, kTitleSize)) {
        wide = std::max(wide, text_width(line, kTitleSize));
    }
    for (const std::string & line : wrap(subtitle_, kPageWidth)) { wide = std::max(wide, text_width(line)); }
    const std::string width = coordinate(wide + 2 * kMargin);
    const std::string height = coordinate(body.height + 2 * kMargin);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height + "\" viewBox=\"0 0 " +
           width + " " + height + "\" font-family=\"Helvetica, Arial, sans-serif\">\n" + style_sheet() +
           "<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n" + moved({head + body.body, 0, 0}, kMargin, kMargin).body +
           "</svg>\n";
}

}  // namespace pith::report
