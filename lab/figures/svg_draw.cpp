// svg_draw.cpp - see svg_draw.h.
#include "figures/svg_draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "figures/text_table.h"

namespace pith::report {
namespace {

using Colour = std::array<double, 3>;  // red, green, blue: 0 … 255
// What a background changes: lines' colours are told apart there, also by those who see red and green alike.
struct Theme {
    std::array<const char *, 8> lines;
    std::array<Colour, 3> ramp;  // of a value's colours
    const char * empty_cell;
};
constexpr Theme kLight = {
    {"#0b62a8", "#c8451b", "#0a7d5c", "#9a3f95", "#9a6c00", "#2a8f9c", "#7a5238", "#4d5966"},
    {Colour{244, 247, 252}, {96, 158, 208}, {8, 42, 98}},
    "#cfd5dc",
};
constexpr Theme kDark = {
    {"#62b0ff", "#ff9a66", "#4ed6a6", "#e79ae2", "#e6c14a", "#79dbe8", "#d7a885", "#b9c3cf"},
    {Colour{30, 38, 51}, {62, 124, 190}, {220, 239, 255}},
    "#39424e",
};
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

Colour colour_of(const Theme & theme, int shade) {
    const double part = static_cast<double>(shade) / (kShades - 1);
    const size_t i = part < 0.5 ? 0 : 1;
    Colour colour = theme.ramp.at(i);
    for (size_t c = 0; c < colour.size(); ++c) {
        colour.at(c) += (theme.ramp.at(i + 1).at(c) - colour.at(c)) * (2 * part - static_cast<double>(i));
        colour.at(c) = static_cast<double>(std::lround(colour.at(c)));
    }
    return colour;
}

std::string hex(const Colour & colour) {
    std::string text = "#";
    for (const double channel : colour) {
        char digits[8];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(channel));
        text += digits;
    }
    return text;
}

// Contrast is (lighter + 0.05) / (darker + 0.05), of relative luminances, 0 … 1: the better of black and white is at
// least 4.58, where both are alike. Source: WCAG 2.1.
bool wants_black_text(const Colour & ground) {
    constexpr Colour kWeights = {0.2126, 0.7152, 0.0722};
    double luminance = 0;
    for (size_t i = 0; i < ground.size(); ++i) {
        const double c = ground.at(i) / 255;
        luminance += kWeights.at(i) * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return luminance + 0.05 > std::sqrt(1.05 * 0.05);
}

std::string colours_css(const Theme & theme, bool with_tables) {
    std::string lines, shades, texts;
    for (size_t i = 0; i < theme.lines.size(); ++i) {
        lines += ".s" + std::to_string(i) + "{stroke:" + theme.lines.at(i) + ";fill:" + theme.lines.at(i) + "}";
    }
    for (int i = 0; i < kShades; ++i) {
        const Colour colour = colour_of(theme, i);
        shades += ".v" + std::to_string(i) + "{fill:" + hex(colour) + "}";
        texts += ".n" + std::to_string(i) + "{fill:" + (wants_black_text(colour) ? "#000" : "#fff") + "}";
    }
    // Text does not stand between the pointer and the cell, whose title is shown.
    texts = "text{pointer-events:none}" + texts + ".no{fill:none;stroke:" + theme.empty_cell + "}\n";
    return lines + "\n" + shades + "\n" + (with_tables ? texts : "");
}

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
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return text;
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

std::string rect_with(double x, double y, double width, double height, const std::string & attributes, std::string_view title) {
    return "<rect x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" + coordinate(width) + "\" height=\"" +
           coordinate(height) + "\" " + attributes + end_of("rect", title);
}

std::string rect_at(double x, double y, double width, double height, std::string_view css_class, std::string_view title) {
    return rect_with(x, y, width, height, "class=\"" + std::string(css_class) + "\"", title);
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
    return {"s" + std::to_string(index % kLight.lines.size()), kDashes.at(index % kDashes.size()), index % kMarks.size()};
}

std::string mark_at(const LineStyle & style, double x, double y, std::string_view title) {
    const MarkShape & shape = kMarks.at(style.mark);
    return "<path class=\"m " + style.css_class + "\" d=\"M" + coordinate(x + shape.x) + " " + coordinate(y + shape.y) +
           shape.path + "\"" + end_of("path", title);
}

std::string shade(double part, const char * of) {
    return of + std::to_string(std::lround(std::clamp(part, 0.0, 1.0) * (kShades - 1)));
}

std::string grey(double part) {
    const double level = 17.0 * static_cast<double>(std::lround(std::clamp(part, 0.0, 1.0) * 15));
    return hex({level, level, level});
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

std::string style_sheet(bool with_tables) {
    const auto px = [](int size) { return std::to_string(size) + "px"; };
    return "<style>\n"
           "text{fill:#1f2328;font-size:" +
           px(kTextSize) + "}.q{fill:#59636e}.h{font-size:" + px(kHeadingSize) +
           ";font-weight:bold}.t{font-size:" + px(kTitleSize) +
           ";font-weight:bold}\n"
           ".paper{fill:#ffffff}.g{stroke:#e6e9ed}.a{stroke:#818b98}.fr{stroke:#818b98;fill:none}.hit{fill-opacity:0}\n"
           ".l{fill:none;stroke-width:1.6}.m{stroke-width:1.4;stroke-linejoin:round}.e{stroke-width:1.1}\n"
           ".r{stroke:#818b98;stroke-dasharray:5 4;fill:none}.rm{stroke:#818b98;fill:#818b98}"
           ".band{fill:#818b98;fill-opacity:.16}\n" +
           colours_css(kLight, with_tables) +
           "@media (prefers-color-scheme:dark){\n"
           "text{fill:#e6edf3}.q{fill:#9aa5b1}.paper{fill:#0d1117}.g{stroke:#262d36}.a{stroke:#6e7782}.fr{stroke:#6e7782}\n"
           ".r{stroke:#9aa5b1}.rm{stroke:#9aa5b1;fill:#9aa5b1}.band{fill:#9aa5b1}\n" +
           colours_css(kDark, with_tables) + "}\n.l{fill:none}\n</style>\n";
}

}  // namespace pith::report
