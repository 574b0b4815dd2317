// svg_draw.cpp - see svg_draw.h.
#include "figures/svg_draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "figures/text_table.h"

namespace pith::report {
namespace {

constexpr size_t kColours = 8;
constexpr std::array<const char *, 4> kDashes = {"", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\"",
                                                 " stroke-dasharray=\"9 3 2 3\""};
// A circle, a square, a triangle, a diamond, a cross, a triangle on its point, a plus: where its line begins from the point,
// and how it goes on.
struct MarkShape {
    double x, y;
    const char * path;
};
constexpr std::array<MarkShape, 7> kMarks = {{{-2.8, 0, "a2.8 2.8 0 1 0 5.6 0a2.8 2.8 0 1 0 -5.6 0z"},
                                              {-2.5, -2.5, "h5v5h-5z"},
                                              {0, -3.4, "l3.3 5.6h-6.6z"},
                                              {0, -3.6, "l3.6 3.6l-3.6 3.6l-3.6 -3.6z"},
                                              {-2.8, -2.8, "l5.6 5.6m0 -5.6l-5.6 5.6"},
                                              {0, 3.4, "l3.3 -5.6h-6.6z"},
                                              {-3.4, 0, "h6.8m-3.4 -3.4v6.8"}}};

// What ends an element that may have a title.
std::string end_of(const char * element, std::string_view title) {
    return title.empty() ? "/>\n" : "><title>" + escape_xml(title) + "</title></" + element + ">\n";
}

}  // namespace

std::string escape_xml(std::string_view text) {
    constexpr std::array<const char *, 4> kEscapes = {"&amp;", "&lt;", "&gt;", "&quot;"};
    std::string out;
    for (const char c : text) {
        const size_t i = std::string_view("&<>\"").find(c);
        if (i < kEscapes.size()) {
            out += kEscapes.at(i);
        } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') {
            out += c;
        }
    }
    return out;
}

std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.4g", value);
    return text.data();
}

std::string coordinate(double value) {
    return fixed(value, 1);
}

double text_width(std::string_view text, int size) {
    const auto n = std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
    return static_cast<double>(n) * size * (size > kTextSize ? 0.6 : 0.56);
}

double widest_of(const std::vector<std::string> & texts, int size) {
    double width = 0;
    for (const std::string & text : texts) { width = std::max(width, text_width(text, size)); }
    return width;
}

std::vector<std::string> wrap(std::string_view text, double width, int size) {
    std::vector<std::string> lines;
    std::string line;
    size_t last_break = 0;  // of `line`: where it may end
    for (const char c : text) {
        line += c;
        if (text_width(line, size) > width && last_break > 0) {
            lines.push_back(line.substr(0, last_break));
            line.erase(0, last_break);
            last_break = 0;
        }
        if (std::string_view(" ,:+/").find(c) != std::string_view::npos) { last_break = line.size(); }
    }
    if (!line.empty() || lines.empty()) { lines.push_back(line); }
    for (std::string & one : lines) { one.erase(one.find_last_not_of(' ') + 1); }
    return lines;
}

std::string text_at(double x, double y, std::string_view text, const char * anchor, std::string_view css_class) {
    return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor + "\"" +
           (css_class.empty() ? "" : " class=\"" + std::string(css_class) + "\"") + ">" + escape_xml(text) + "</text>\n";
}

std::string turned_text(double x, double y, int degrees, std::string_view text) {
    return "<text transform=\"translate(" + coordinate(x) + " " + coordinate(y) + ") rotate(-" + std::to_string(degrees) +
           ")\"" + (degrees == 90 ? " text-anchor=\"middle\"" : "") + " class=\"q\">" + escape_xml(text) + "</text>\n";
}

std::string line_between(double x1, double y1, double x2, double y2, std::string_view css_class) {
    return "<line x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" + coordinate(x2) + "\" y2=\"" +
           coordinate(y2) + "\" class=\"" + std::string(css_class) + "\"/>\n";
}

std::string rect_at(double x, double y, double width, double height, std::string_view css_class, std::string_view title) {
    return "<rect x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" + coordinate(width) + "\" height=\"" +
           coordinate(height) + "\" class=\"" + std::string(css_class) + "\"" + end_of("rect", title);
}

std::string paragraph(double x, double & y, std::string_view text, double width, int size, std::string_view css_class) {
    std::string body;
    if (text.empty()) { return body; }
    for (const std::string & line : wrap(text, width, size)) {
        y += size + 3;
        body += text_at(x, y - 3, line, "start", css_class);
    }
    return body;
}

LineStyle line_style(size_t index) {
    return {"s" + std::to_string(index % kColours), kDashes.at(index % kDashes.size()), index % kMarks.size()};
}

std::string mark_at(const LineStyle & style, double x, double y, std::string_view title) {
    const MarkShape & shape = kMarks.at(style.mark);
    return "<path class=\"m " + style.css_class + "\" d=\"M" + coordinate(x + shape.x) + " " + coordinate(y + shape.y) +
           shape.path + "\"" + end_of("path", title);
}

std::string shade(double part, const char * of) {
    return of + std::to_string(std::lround(std::clamp(part, 0.0, 1.0) * (kShades - 1)));
}

Drawing moved(const Drawing & drawing, double x, double y) {
    return {"<g transform=\"translate(" + coordinate(x) + " " + coordinate(y) + ")\">\n" + drawing.body + "</g>\n",
            drawing.width + x, drawing.height + y};
}

Drawing beside(const std::vector<Drawing> & drawings, double width, double gap, double row_gap, Align align) {
    Drawing all;
    for (size_t first = 0, end = 0; first < drawings.size(); first = end) {
        double x = 0;
        double height = 0;
        for (end = first; end < drawings.size() && (end == first || x + drawings[end].width <= width); ++end) {
            x += drawings[end].width + gap;
            height = std::max(height, drawings[end].height);
        }
        const double top = first == 0 ? 0 : all.height + row_gap;
        x = 0;
        for (size_t i = first; i < end; ++i) {
            const double lower = align == Align::kBottom ? height - drawings[i].height : 0;
            const Drawing one = moved(drawings[i], x, top + lower);
            all.body += one.body;
            all.width = std::max(all.width, one.width);
            x = one.width + gap;
        }
        all.height = top + height;
    }
    return all;
}

}  // namespace pith::report
