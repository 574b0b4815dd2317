// svg_table_test.cpp - tables coloured by their values: every text is there whole, reads on its colour, and stands in its cell.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "figures/svg.h"
#include "lab/figures/xml_check.h"

namespace pith::report::svg_table_test {
namespace {

using testing::xml_fault;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

size_t count(const std::string & text, const std::string & part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) { ++n; }
    return n;
}

HeatMap table_of(std::vector<std::string> rows, std::vector<std::string> columns, std::vector<double> values) {
    HeatMap table;
    table.title = "budget 20%";
    table.row_names = std::move(rows);
    table.column_names = std::move(columns);
    table.values = std::move(values);
    for (const double value : table.values) {
        table.texts.push_back(std::isfinite(value) ? number(value) : "x");
        table.details.push_back(std::isfinite(value) ? number(value) + " (of 100)" : "refused");
    }
    return table;
}

std::string page_of(const std::vector<HeatMap> & tables, const std::string & note = "") {
    SvgPage page("a page");
    page.add(MapGroup{"group", "score (0 to 100)", tables, 0, 100, note});
    return page.str();
}

double attribute(const std::string & element, const std::string & name) {
    const size_t at = element.find(" " + name + "=\"");
    return at == std::string::npos ? 0 : std::stod(element.substr(at + name.size() + 3));
}

struct Mark {
    std::string element, text;
    double x = 0, y = 0, width = 0;
};
// Rectangles and texts in the page's own coordinates.
struct Page {
    std::vector<Mark> cells, texts, slanted;
    double width = 0, height = 0;
};
Page read(const std::string & svg) {
    Page page;
    std::vector<std::pair<double, double>> origins = {{0, 0}};
    std::istringstream lines(svg);
    for (std::string one; std::getline(lines, one);) {
        const auto [x0, y0] = origins.back();
        const auto translated = [&] {
            const size_t at = one.find("translate(") + 10;
            return std::pair(x0 + std::stod(one.substr(at)), y0 + std::stod(one.substr(one.find(' ', at))));
        };
        const std::string inner = one.substr(one.find('>') + 1, one.rfind('<') - one.find('>') - 1);
        if (one.rfind("<svg", 0) == 0) {
            const size_t box = one.find("viewBox=\"0 0 ") + 13;
            page.width = std::stod(one.substr(box));
            page.height = std::stod(one.substr(one.find(' ', box)));
        } else if (one.rfind("<g transform", 0) == 0) {
            origins.push_back(translated());
        } else if (one == "</g>") {
            origins.pop_back();
        } else if (one.find("rotate(-45)") != std::string::npos) {
            const auto [x, y] = translated();
            page.slanted.push_back({one, inner, x, y, text_width(inner)});
        } else if (one.rfind("<text", 0) == 0) {
            page.texts.push_back({one, inner, x0 + attribute(one, "x"), y0 + attribute(one, "y"), text_width(inner)});
        } else if (one.rfind("<rect", 0) == 0 && one.find("<title>") != std::string::npos) {
            page.cells.push_back({one, "", x0 + attribute(one, "x"), y0 + attribute(one, "y"), attribute(one, "width")});
        }
    }
    return page;
}

TEST(SvgTable, EveryCellHasItsColourItsTextAndItsDetail) {
    const std::string svg = page_of({table_of({"snapkv", "a<b"}, {"vt", "cwe"}, {0, 100, 50, 12.5})});
    EXPECT_EQ(xml_fault(svg), "") << svg;
    for (const char * cell : {"class=\"v0\"><title>snapkv, vt: 0 (of 100)<", "class=\"v31\"><title>snapkv, cwe: 100 (of 100)<",
                              "<title>a&lt;b, vt: 50 (of 100)<", "<title>a&lt;b, cwe: 12.5 (of 100)<"}) {
        EXPECT_EQ(count(svg, cell), 1U) << cell << "\n" << svg;
    }
    const Page page = read(svg);
    ASSERT_EQ(page.cells.size(), 4U);
    for (size_t i = 0; i < 4; ++i) {
        const Mark & cell = page.cells[i];
        bool found = false;
        for (const Mark & text : page.texts) {
            const bool inside = text.x - text.width / 2 >= cell.x && text.x + text.width / 2 <= cell.x + cell.width &&
                                text.y > cell.y + 8 && text.y < cell.y + 15;
            if (!inside) { continue; }
            found = true;
            EXPECT_NE(cell.element.find(": " + text.text + " ("), std::string::npos) << cell.element << text.text;
        }
        EXPECT_TRUE(found) << cell.element;
    }
}

TEST(SvgTable, TheScalesEndsAreNamed) {
    const std::string svg = page_of({table_of({"full"}, {"vt"}, {37})});
    for (const char * word : {">0<", ">50<", ">100<", ">score (0 to 100)<"}) { EXPECT_EQ(count(svg, word), 1U) << word; }
}

// Relative luminance of "#rrggbb" or "#rgb". Source: WCAG 2.1.
double luminance(const std::string & colour) {
    double sum = 0;
    const double weights[] = {0.2126, 0.7152, 0.0722};
    for (size_t i = 0; i < 3; ++i) {
        const std::string digits = colour.size() == 4 ? std::string(2, colour[i + 1]) : colour.substr(1 + 2 * i, 2);
        const double c = std::stoi(digits, nullptr, 16) / 255.0;
        sum += weights[i] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
}

std::map<std::string, std::string> fills(const std::string & css) {
    std::map<std::string, std::string> out;
    for (size_t at = css.find("{fill:#"); at != std::string::npos; at = css.find("{fill:#", at + 1)) {
        const size_t name = css.find_last_of(".}\n", at);
        out[css.substr(name + 1, at - name - 1)] = css.substr(at + 6, css.find_first_of(";}", at + 6) - at - 6);
    }
    return out;
}

TEST(SvgTable, NumbersReadOnEveryColourOfLightAndOfDark) {
    const std::string svg = page_of({table_of({"full"}, {"vt"}, {37})});
    const size_t dark = svg.find("@media (prefers-color-scheme:dark)");
    ASSERT_NE(dark, std::string::npos);
    for (const std::string & css : {svg.substr(0, dark), svg.substr(dark, svg.find("</style>") - dark)}) {
        const auto colours = fills(css);
        double before = -1;
        for (int i = 0; i < kShades; ++i) {
            const std::string ground = colours.at("v" + std::to_string(i));
            const std::string text = colours.at("n" + std::to_string(i));
            const double lighter = std::max(luminance(ground), luminance(text)) + 0.05;
            const double darker = std::min(luminance(ground), luminance(text)) + 0.05;
            EXPECT_GE(lighter / darker, 4.5) << i << ": " << text << " on " << ground;
            // One direction of lightness: it is told apart by those who see no colours, too.
            const double step = css.front() == '@' ? luminance(ground) : 1 - luminance(ground);
            EXPECT_GT(step, before) << i;
            before = step;
        }
    }
    EXPECT_EQ(count(svg, "fill=\"#"), 0U) << "a colour that no style sheet can change";
}

TEST(SvgTable, ACellWithoutAValueHasNoColour) {
    const std::string svg = page_of({table_of({"h2o"}, {"vt", "cwe"}, {kNone, 3})}, "x refused");
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "class=\"no\"><title>h2o, vt: refused<"), 1U);
    EXPECT_EQ(count(svg, ">x<"), 1U);
    EXPECT_EQ(count(svg, ">x refused<"), 1U);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(SvgTable, LongNamesAreWholeAndStayOnThePageAndOffTheCells) {
    const std::string row = "criticalkv:alpha=0.5+adakv:alpha=0.2+snapkv:window=32:pool=avg5";
    const std::string column = "multi_document_question_answering_in_chinese";
    HeatMap table = table_of({row, "h2o"}, {"vt", column}, {1, 2, 3, 4});
    table.title = "a title that is much longer than the table under it is wide, and goes on and on";
    const std::string svg = page_of({table});
    EXPECT_EQ(xml_fault(svg), "");
    EXPECT_EQ(count(svg, ">" + row + "<"), 1U);
    EXPECT_EQ(count(svg, ">" + column + "<"), 1U);
    const Page page = read(svg);
    ASSERT_EQ(page.slanted.size(), 2U);
    for (const Mark & name : page.slanted) {
        const double reach = name.width / std::sqrt(2);
        EXPECT_LE(name.x + reach, page.width) << name.text;
        for (const Mark & text : page.texts) {  // the title, above
            const bool above = text.text.rfind("a title", 0) == 0 || text.text.rfind("it is wide", 0) == 0;
            if (above) { EXPECT_LT(text.y, name.y - reach) << text.text << " / " << name.text; }
        }
        for (const Mark & cell : page.cells) {
            if (cell.y > name.y && cell.y < name.y + 10) { EXPECT_LT(name.y, cell.y); }
        }
    }
    for (const Mark & text : page.texts) {
        if (text.text != row) { continue; }
        EXPECT_GE(text.x - text.width, 0);
        for (const Mark & cell : page.cells) {
            const bool same_row = cell.y < text.y && text.y < cell.y + 16;
            if (same_row && cell.x > text.x) { EXPECT_GT(cell.x, text.x); }
            if (same_row) { EXPECT_FALSE(cell.x < text.x && cell.x + cell.width > text.x - text.width); }
        }
    }
}

TEST(SvgTable, AveragesStandApart) {
    HeatMap table = table_of({"full"}, {"a", "b", "average"}, {1, 3, 2});
    const auto gaps = [](const HeatMap & one) {
        const Page page = read(page_of({one}));
        return std::pair(page.cells[1].x - page.cells[0].x, page.cells[2].x - page.cells[1].x);
    };
    EXPECT_NEAR(gaps(table).first, gaps(table).second, 1e-6);
    table.n_apart = 1;
    EXPECT_GE(gaps(table).second, gaps(table).first + 4);
}

TEST(SvgTable, FortyRowsStandUnderEachOther) {
    std::vector<std::string> names;
    std::vector<double> values;
    for (int i = 0; i < 40; ++i) {
        names.push_back("policy " + std::to_string(i));
        for (int c = 0; c < 12; ++c) { values.push_back(2.5 * i); }
    }
    const HeatMap table = table_of(names, std::vector<std::string>(12, "task"), values);
    const Page page = read(page_of({table, table, table}));
    ASSERT_EQ(page.cells.size(), 3U * 40 * 12);
    for (size_t i = 12; i < 40 * 12; ++i) { EXPECT_EQ(page.cells[i].y, page.cells[i - 12].y + 16); }
    EXPECT_GT(page.height, page.cells.back().y);
    EXPECT_LT(page.width, kPageWidth + 40);
}

TEST(SvgTable, DrawsNothingAndTablesWithoutDetails) {
    HeatMap bare = table_of({"full"}, {"a"}, {1});
    bare.details.clear();
    const std::string svg = page_of({HeatMap{}, bare, table_of({}, {"a"}, {})});
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "<title>"), 0U);
}

}  // namespace
}  // namespace pith::report::svg_table_test
