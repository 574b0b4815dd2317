// svg_draw.h - the marks that figures are made of, and how drawings stand beside each other. Stage: figures.
// Pure C++: text in, text out. Lengths are in the SVG's user units, which are pixels at 100 %; y grows downwards.
//
// Colours are classes of the style sheet (style/page.css), never attributes: a dark background has its own.
//   q  quiet text   h  heading   t  the page's title      g  grid line   a  axis   e  error bar   fr  frame   r  reference
//   rm  a reference's mark   s0 … s7  colour of a line   v0 … v31  colour of a value, from the scale's low end to its high end
//   n0 … n31  text on that colour   no  a cell without a value
// Values go from #f4f7fc over #609ed0 to #082a62, on a dark background from #1e2633 over #3e7cbe to #dcefff; text on them is
// black or white, whichever has more contrast (WCAG 2.1), and lets the pointer through.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pith {

struct StyleSheet {
    std::string_view name, text;
};
std::span<const StyleSheet> all_style_sheets();  // style/*.css

namespace report {

inline constexpr int kTextSize = 11, kHeadingSize = 13, kTitleSize = 17;
inline constexpr double kLineHeight = 14;
inline constexpr int kShades = 32;
inline constexpr double kPageWidth = 1080;  // as wide as pages of text are shown

// A piece of SVG whose upper left corner is (0, 0).
struct Drawing {
    std::string body;
    double width = 0, height = 0;
};

std::string escape_xml(std::string_view text);  // & < > "; control characters that XML does not allow are left out
std::string number(double value);               // four digits, without an exponent where that is short
std::string coordinate(double value);           // one decimal

// No fonts are measured: what wide ones need. Counts characters of UTF-8.
double text_width(std::string_view text, int size = kTextSize);
double widest_of(const std::vector<std::string> & texts, int size = kTextSize);
// Lines of at most that width, broken behind a blank or one of , : + / where there is one. At least one line.
std::vector<std::string> wrap(std::string_view text, double width, int size = kTextSize);

std::string text_at(double x, double y, std::string_view text, const char * anchor = "start", std::string_view css_class = "");
// Rising to the right from (x, y); at 90 degrees, upwards, centred on it.
std::string turned_text(double x, double y, int degrees, std::string_view text);
std::string line_between(double x1, double y1, double x2, double y2, std::string_view css_class);
// Titles, here and below, are shown where one points at the mark; empty: none.
std::string rect_at(double x, double y, double width, double height, std::string_view css_class, std::string_view title = "");
// Lines of text under each other, from y downwards; `y` moves below them. Of an empty text: none.
std::string paragraph(double x, double & y, std::string_view text, double width, int size = kTextSize,
                      std::string_view css_class = "");

// How the line of a style looks: eight colours, four dashes and seven marks go round at different speeds.
struct LineStyle {
    std::string css_class;  // of strokes
    std::string dashes;     // an attribute with a blank in front, or nothing
    size_t mark = 0;
};
LineStyle line_style(size_t index);
std::string mark_at(const LineStyle & style, double x, double y, std::string_view title = "");

// The colour of a value that is so far from the scale's low end, 0, to its high end, 1: "v17"; "n17" of text on it.
std::string shade(double part, const char * of = "v");

// Drawings in rows of at most that width, in their order; `gap` is between columns, `row_gap` between rows. Those of a row
// stand on one ground (panels, whose titles may take several lines) or hang from one height.
enum class Align { kTop, kBottom };
Drawing beside(const std::vector<Drawing> & drawings, double width, double gap, double row_gap, Align align = Align::kTop);
Drawing moved(const Drawing & drawing, double x, double y);  // its size grows by x and y

}  // namespace report
}  // namespace pith
