// svg.cpp - puts groups of panels on a page.
#include "figures/svg.h"

#include <algorithm>

namespace pith::report {
namespace {

constexpr double kMargin = 16;
constexpr double kGap = 20, kRowGap = 10;            // between panels
constexpr double kGroupGap = 36, kGroupRowGap = 18;  // between groups

}  // namespace

size_t SvgPage::style_of(const std::string & name) {
    const auto at = std::ranges::find(names_, name);
    if (at == names_.end()) { names_.push_back(name); }
    return static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
}

Drawing SvgPage::panels_beside(const std::vector<Drawing> & panels, Align align) const {
    return beside(panels, width_, kGap, kRowGap, align);
}

void SvgPage::add_group(const std::string & title, const Drawing & key, const Drawing & panels) {
    Drawing group;
    const double width = std::max({panels.width, key.width, kLeastGroupWidth});
    double y = 0;
    if (!title.empty()) {
        group.body = paragraph(0, y, title, width, kHeadingSize, "h");
        group.width = widest_of(wrap(title, width, kHeadingSize), kHeadingSize);
        y += 4;
    }
    for (const Drawing * part : {&key, &panels}) {
        if (part->height == 0) { continue; }
        const Drawing placed = moved(*part, 0, y);
        group.body += placed.body;
        group.width = std::max(group.width, placed.width);
        y = placed.height + 8;
    }
    group.height = y;
    groups_.push_back(std::move(group));
}

std::string SvgPage::str() const {
    double y = 0;
    std::string head = paragraph(0, y, title_, width_, kTitleSize, "t");
    head += paragraph(0, y, subtitle_, width_, kTextSize, "q");
    const Drawing body = moved(beside(groups_, width_, kGroupGap, kGroupRowGap), 0, y + 14);
    const double width =
        std::max({body.width, widest_of(wrap(title_, width_, kTitleSize), kTitleSize), widest_of(wrap(subtitle_, width_))}) +
        2 * kMargin;
    const double height = body.height + 2 * kMargin;
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + coordinate(width * scale_) + "\" height=\"" +
           coordinate(height * scale_) + "\" viewBox=\"0 0 " + coordinate(width) + " " + coordinate(height) +
           "\" font-family=\"Helvetica, Arial, sans-serif\">\n" + "<style>\n" + std::string(all_style_sheets().front().text) +
           "</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n" +
           moved({head + body.body, 0, 0}, kMargin, kMargin).body + "</svg>\n";
}

}  // namespace pith::report
