// svg_draw.cpp - see svg_draw.h.
#include "figures/svg_draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace pith::report {
namespace {

// Told apart on white and on near-black, also by those who see red and green alike.
constexpr std::array<const char *, 8> kOnLight = {"#0b62a8", "#c8451b", "#0a7d5c", "#9a3f95",
                                                  "#9a6c00", "#2a8f9c", "#7a5238", "#4d5966"};
constexpr std::array<const char *, 8> kOnDark = {"#62b0ff", "#ff9a66", "#4ed6a6", "#e79ae2",
                                                 "#e6c14a", "#79dbe8", "#d7a885", "#b9c3cf"};
constexpr std::array<const char *, 4> kDashes = {"", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\"",
                                                 " stroke-dasharray=\"9 3 2 3\""};
constexpr size_t kMarks = 7;

struct Colour {
    double red, green, blue;
};
using Ramp = std::array<Colour, 3>;
constexpr Ramp kRampOnLight = {Colour{244, 247, 252}, {96, 158, 208}, {8, 42, 98}};
constexpr Ramp kRampOnDark = {Colour{30, 38, 51}, {62, 124, 190}, {220, 239, 255}};

Colour colour_of(const Ramp & ramp, double part) {
    const size_t i = part < 0.5 ? 0 : 1;
    const double p = 2 * part - static_cast<double>(i);
    const auto channel = [p](double from, double to) { return static_cast<double>(std::lround(from + (to - from) * p)); };
    return {channel(ramp[i].red, ramp[i + 1].red), channel(ramp[i].green, ramp[i + 1].green),
            channel(ramp[i].blue, ramp[i + 1].blue)};
}

std::string hex(const Colour & colour) {
    char text[16];
    std::snprintf(text, sizeof text, "#%02x%02x%02x", static_cast<unsigned>(colour.red), static_cast<unsigned>(colour.green),
                  static_cast<unsigned>(colour.blue));
    return text;
}

// Relative luminance, 0 … 1. Source: WCAG 2.1.
double luminance(const Colour & colour) {
    const auto linear = [](double channel) {
        const double c = channel / 255;
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

// Contrast is (lighter + 0.05) / (darker + 0.05): the better of black and white is at least 4.58, where both are alike.
bool wants_black_text(const Colour & ground) {
    return luminance(ground) + 0.05 > std::sqrt(1.05 * 0.05);
}

double part_of_shade(int shade) {
    return static_cast<double>(shade) / (kShades - 1);
}

long shade_of(double part) {
    return std::lround(std::clamp(part, 0.0, 1.0) * (kShades - 1));
}

std::string colours_css(const std::array<const char *, 8> & lines, const Ramp & ramp) {
    std::string css;
    for (size_t i = 0; i < lines.size(); ++i) {
        css += ".s" + std::to_string(i) + "{stroke:" + lines.at(i) + ";fill:" + lines.at(i) + "}";
    }
    css += "\n";
    for (int i = 0; i < kShades; ++i) {
        css += ".v" + std::to_string(i) + "{fill:" + hex(colour_of(ramp, part_of_shade(i))) + "}";
    }
    return css + "\n";
}

// Text does not stand between the pointer and the cell, whose title is shown.
std::string table_css(const Ramp & ramp, const char * empty_cell) {
    std::string css = "text{pointer-events:none}";
    for (int i = 0; i < kShades; ++i) {
        css +=
            ".n" + std::to_string(i) + "{fill:" + (wants_black_text(colour_of(ramp, part_of_shade(i))) ? "#000" : "#fff") + "}";
    }
    return css + ".no{fill:none;stroke:" + empty_cell + "}\n";
}

}  // namespace

std::string escape_xml(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            default:
                if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') { out += c; }
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
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

double text_width(std::string_view text, int size) {
    const auto n =
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
    return static_cast<double>(n) * size * (size > kTextSize ? 0.6 : 0.56);
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
    for (std::string & one : lines) {
        while (!one.empty() && one.back() == ' ') { one.pop_back(); }
    }
    return lines;
}

std::string text_at(double x, double y, std::string_view text, const char * anchor, const char * css_class) {
    const std::string given = css_class;
    return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor + "\"" +
           (given.empty() ? "" : " class=\"" + given + "\"") + ">" + escape_xml(text) + "</text>\n";
}

std::string vertical_text(double x, double y, std::string_view text) {
    return "<text transform=\"translate(" + coordinate(x) + " " + coordinate(y) +
           ") rotate(-90)\" text-anchor=\"middle\" class=\"q\">" + escape_xml(text) + "</text>\n";
}

std::string slanted_text(double x, double y, std::string_view text) {
    return "<text transform=\"translate(" + coordinate(x) + " " + coordinate(y) + ") rotate(-45)\" class=\"q\">" +
           escape_xml(text) + "</text>\n";
}

std::string line_between(double x1, double y1, double x2, double y2, std::string_view css_class) {
    return "<line x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" + coordinate(x2) + "\" y2=\"" +
           coordinate(y2) + "\" class=\"" + std::string(css_class) + "\"/>\n";
}

std::string rect_at(double x, double y, double width, double height, std::string_view css_class, std::string_view title) {
    return "<rect x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" + coordinate(width) + "\" height=\"" +
           coordinate(height) + "\" class=\"" + std::string(css_class) + "\"" +
           (title.empty() ? "/>\n" : "><title>" + escape_xml(title) + "</title></rect>\n");
}

std::string paragraph(double x, double & y, std::string_view text, double width, int size, const char * css_class) {
    std::string body;
    for (const std::string & line : wrap(text, width, size)) {
        y += size + 3;
        body += text_at(x, y - 3, line, "start", css_class);
    }
    return body;
}

LineStyle line_style(size_t index) {
    return {"s" + std::to_string(index % kOnLight.size()), kDashes.at(index % kDashes.size()), index % kMarks};
}

std::string mark_at(const LineStyle & style, double x, double y, std::string_view title) {
    const auto at = [&](double dx, double dy) { return coordinate(x + dx) + " " + coordinate(y + dy); };
    std::string path;
    switch (style.mark) {
        case 0:  // circle
            path = "M" + at(-2.8, 0) + "a2.8 2.8 0 1 0 5.6 0a2.8 2.8 0 1 0 -5.6 0z";
            break;
        case 1:  // square
            path = "M" + at(-2.5, -2.5) + "h5v5h-5z";
            break;
        case 2:  // triangle
            path = "M" + at(0, -3.4) + "l3.3 5.6h-6.6z";
            break;
        case 3:  // diamond
            path = "M" + at(0, -3.6) + "l3.6 3.6l-3.6 3.6l-3.6 -3.6z";
            break;
        case 4:  // cross
            path = "M" + at(-2.8, -2.8) + "l5.6 5.6m0 -5.6l-5.6 5.6";
            break;
        case 5:  // triangle on its point
            path = "M" + at(0, 3.4) + "l3.3 -5.6h-6.6z";
            break;
        default:  // plus
            path = "M" + at(-3.4, 0) + "h6.8m-3.4 -3.4v6.8";
    }
    return "<path class=\"m " + style.css_class + "\" d=\"" + path + "\"" +
           (title.empty() ? "/>\n" : "><title>" + escape_xml(title) + "</title></path>\n");
}

std::string shade(double part) {
    return "v" + std::to_string(shade_of(part));
}

std::string text_on_shade(double part) {
    return "n" + std::to_string(shade_of(part));
}

std::string grey(double part) {
    const auto level = static_cast<unsigned>(std::lround(std::clamp(part, 0.0, 1.0) * 15)) * 17U;
    char text[16];
    std::snprintf(text, sizeof text, "#%02x%02x%02x", level, level, level);
    return text;
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
           colours_css(kOnLight, kRampOnLight) + (with_tables ? table_css(kRampOnLight, "#cfd5dc") : "") +
           "@media (prefers-color-scheme:dark){\n"
           "text{fill:#e6edf3}.q{fill:#9aa5b1}.paper{fill:#0d1117}.g{stroke:#262d36}.a{stroke:#6e7782}.fr{stroke:#6e7782}\n"
           ".r{stroke:#9aa5b1}.rm{stroke:#9aa5b1;fill:#9aa5b1}.band{fill:#9aa5b1}\n" +
           colours_css(kOnDark, kRampOnDark) + (with_tables ? table_css(kRampOnDark, "#39424e") : "") +
           "}\n.l{fill:none}\n</style>\n";
}

}  // namespace pith::report
