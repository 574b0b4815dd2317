// svg_test.cpp - figures are well-formed, self-contained, and hold every value.
#include "figures/svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lab/figures/xml_check.h"

namespace pith::report::svg_test {
namespace {

using testing::xml_fault;

size_t count(const std::string & text, const std::string & part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) { ++n; }
    return n;
}

TEST(XmlCheck, FindsWhatIsNotWellFormed) {
    EXPECT_EQ(xml_fault("<a b=\"1\"><c/>x &amp; y</a>\n"), "");
    for (const char * bad : {"", "<a>", "<a></b>", "<a b=1/>", "<a>&nbsp;</a>", "<a b=\"<\"/>", "<a/><b/>", "x<a/>",
                             "<a b=\"1\" b=\"2\"/>", "<a>\x01</a>", "<a"}) {
        EXPECT_NE(xml_fault(bad), "") << bad;
    }
}

TEST(Svg, EscapesWhatXmlGivesAMeaning) {
    EXPECT_EQ(escape_xml("a<b> & \"c\" \x01 é"), "a&lt;b&gt; &amp; &quot;c&quot;  é");
}

LineChart chart_of(const std::string & title, std::vector<std::string> ticks, std::vector<Series> series) {
    LineChart chart;
    chart.title = title;
    chart.x_label = "budget";
    chart.y_label = "score";
    chart.ticks = std::move(ticks);
    chart.series = std::move(series);
    return chart;
}

Series line(const std::string & name, std::vector<double> values) {
    return {name, std::move(values), false, {}, {}};
}

std::string page_of(const LineChart & chart) {
    SvgPage page("a page");
    page.add(ChartGroup{"group", {chart}});
    return page.str();
}

std::string page_of(const HeatMap & map) {
    SvgPage page("a page");
    page.add(MapGroup{"group", "value", {map}, 0, 0});
    return page.str();
}

struct Box {
    std::string what;
    double left, top, right, bottom;
    bool touches(const Box & other) const {
        return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
};

double attribute(const std::string & element, const std::string & name) {
    const size_t at = element.find(" " + name + "=\"");
    return at == std::string::npos ? 0 : std::stod(element.substr(at + name.size() + 3));
}

// Where texts and elements of a class stand on the page: sums of the translations around them.
struct Layout {
    std::vector<Box> texts;
    std::vector<Box> tiles;   // of heat maps and their scales
    std::vector<Box> frames;  // of panels
    std::vector<Box> marks;   // a point each
};
Layout layout_of(const std::string & svg) {
    Layout out;
    std::vector<std::pair<double, double>> origins = {{0, 0}};
    std::istringstream lines(svg);
    for (std::string element; std::getline(lines, element);) {
        const auto [x0, y0] = origins.back();
        const std::string inner = element.substr(element.find('>') + 1, element.rfind('<') - element.find('>') - 1);
        if (element.rfind("<g transform", 0) == 0) {
            const size_t at = element.find('(') + 1;
            origins.emplace_back(x0 + std::stod(element.substr(at)), y0 + std::stod(element.substr(element.find(' ', at))));
        } else if (element == "</g>") {
            origins.pop_back();
        } else if (element.rfind("<text x", 0) == 0) {
            const int size = element.find("class=\"t\"") != std::string::npos   ? kTitleSize
                             : element.find("class=\"h\"") != std::string::npos ? kHeadingSize
                                                                                : kTextSize;
            const double width = text_width(inner, size);
            const double share = element.find("\"end\"") != std::string::npos      ? 1
                                 : element.find("\"middle\"") != std::string::npos ? 0.5
                                                                                   : 0;
            const double left = x0 + attribute(element, "x") - share * width;
            const double base = y0 + attribute(element, "y");
            out.texts.push_back({inner, left, base - size * 0.75, left + width, base + 2});
        } else if (element.rfind("<text transform", 0) == 0) {  // read upwards
            const size_t at = element.find('(') + 1;
            const double x = x0 + std::stod(element.substr(at));
            const double y = y0 + std::stod(element.substr(element.find(' ', at)));
            const double half = text_width(inner) / 2;
            out.texts.push_back({inner, x - 8, y - half, x + 2, y + half});
        } else if (element.rfind("<rect", 0) == 0) {
            const double left = x0 + attribute(element, "x");
            const double top = y0 + attribute(element, "y");
            const Box box{element, left, top, left + attribute(element, "width"), top + attribute(element, "height")};
            if (element.find("class=\"v") != std::string::npos) { out.tiles.push_back(box); }
            if (element.find("class=\"fr\"") != std::string::npos) { out.frames.push_back(box); }
        } else if (element.rfind("<path class=\"m", 0) == 0) {
            const size_t at = element.find("d=\"M") + 4;
            const double x = x0 + std::stod(element.substr(at));
            out.marks.push_back({element, x, 0, x, 0});
        }
    }
    return out;
}

TEST(Svg, HeatMapHoldsEveryCell) {
    SvgPage page("kept <entries>");
    page.add(MapGroup{"group", "entries", {HeatMap{"a & b", "layer", "KV head", 2, 3, {1, 2, 3, 4, 5, 6.5}, {}, {}}}, 0, 0});
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    for (const char * cell :
         {"layer 0, KV head 0: 1<", "layer 0, KV head 2: 3<", "layer 1, KV head 0: 4<", "layer 1, KV head 2: 6.5<"}) {
        EXPECT_EQ(count(svg, cell), 1U) << cell;
    }
    EXPECT_EQ(layout_of(svg).tiles.size(), 6U + kShades);
    for (const char * end : {">entries<", ">1<", ">3.75<", ">6.5<"}) { EXPECT_GE(count(svg, end), 1U) << end; }
}

TEST(Svg, MapsThatAreComparedShareOneColourScale) {
    SvgPage page("compared");
    page.add(MapGroup{
        "group", "value", {HeatMap{"a", "r", "c", 1, 2, {0, 5}, {}, {}}, HeatMap{"b", "r", "c", 1, 2, {5, 10}, {}, {}}}, 0, 0});
    const std::string svg = page.str();
    std::set<std::string> colours;  // of the value 5, in both maps
    std::istringstream lines(svg);
    for (std::string element; std::getline(lines, element);) {
        if (element.find(": 5<") == std::string::npos) { continue; }
        const size_t at = element.find("class=\"") + 7;
        colours.insert(element.substr(at, element.find('"', at) - at));
    }
    EXPECT_EQ(colours.size(), 1U);
    EXPECT_EQ(colours.count("v0") + colours.count("v31"), 0U);
    EXPECT_EQ(count(svg, ">10<"), 1U) << "one scale, that of both";
}

TEST(Svg, LineChartHoldsEveryPoint) {
    const std::string svg =
        page_of(chart_of("cosine", {"0", "1", "2"}, {line("snapkv", {1, 0.5, 0.25}), line("a<b", {0, 0, 0})}));
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "<polyline"), 2U + 2U);  // and in the legend
    EXPECT_EQ(count(svg, "snapkv, budget 2: 0.25<"), 1U);
    EXPECT_EQ(count(svg, "a&lt;b, budget 1: 0<"), 1U);
    EXPECT_EQ(count(svg, ">budget<"), 1U);
    EXPECT_EQ(count(svg, ">score<"), 1U);
}

TEST(Svg, AxesAreOfRoundNumbersAroundTheValues) {
    const std::string svg = page_of(chart_of("score", {"10%", "20%"}, {line("snapkv", {3.009, 41.86})}));
    for (const char * tick : {">0<", ">10<", ">20<", ">30<", ">40<", ">50<"}) { EXPECT_EQ(count(svg, tick), 1U) << tick; }
    const std::string negative = page_of(chart_of("difference", {"10%", "20%"}, {line("snapkv", {-0.3, 0.1})}));
    for (const char * tick : {">-0.3<", ">-0.2<", ">-0.1<", ">0<", ">0.1<"}) { EXPECT_EQ(count(negative, tick), 1U) << tick; }
    LineChart steep = chart_of("perplexity", {"10%", "20%"}, {line("random", {2.4, 770400})});
    steep.log_y = true;
    const std::string log = page_of(steep);
    for (const char * tick : {">1<", ">10<", ">100<", ">1000<", ">1e+04<", ">1e+05<", ">1e+06<"}) {
        EXPECT_EQ(count(log, tick), 1U) << tick;
    }
}

TEST(Svg, ChartsBesideEachOtherHaveTheSameAxes) {
    LineChart high = chart_of("high", {}, {line("a", {20, 98})});
    LineChart low = chart_of("low", {}, {line("a", {7})});
    high.x = {1, 8};
    low.x = {8};
    SvgPage page("a page");
    page.add(ChartGroup{"group", {high, low}});
    const std::string svg = page.str();
    EXPECT_EQ(count(svg, ">100</text>"), 2U);
    EXPECT_EQ(count(svg, ">20</text>"), 2U);
    EXPECT_EQ(count(svg, ">2</text>"), 2U) << "also along the other axis";
    low.y_label = "seconds";
    SvgPage other("a page");
    other.add(ChartGroup{"group", {high, low}});
    EXPECT_EQ(count(other.str(), ">100</text>"), 1U);
}

TEST(Svg, BudgetsStandToScale) {
    LineChart chart = chart_of("score", {"10%", "20%", "80%"}, {line("snapkv", {1, 2, 3})});
    const auto gaps = [](const LineChart & one) {
        std::vector<double> x;
        for (const Box & mark : layout_of(page_of(one)).marks) { x.push_back(mark.left); }
        EXPECT_EQ(x.size(), 1U + 3U);  // the legend's comes first
        return (x[3] - x[2]) / (x[2] - x[1]);
    };
    EXPECT_NEAR(gaps(chart), 1, 0.01);
    chart.x = {10, 20, 80};
    EXPECT_NEAR(gaps(chart), 6, 0.1);
    chart.log_x = true;
    EXPECT_NEAR(gaps(chart), 2, 0.02);
    const std::string svg = page_of(chart);
    EXPECT_EQ(count(svg, "log scale"), 1U);
    for (const char * name : {">10%<", ">20%<", ">80%<"}) { EXPECT_EQ(count(svg, name), 1U) << name; }
    EXPECT_TRUE(wants_log(chart.x));
    EXPECT_FALSE(wants_log({10, 20}));
    EXPECT_FALSE(wants_log({0, 20}));
    EXPECT_FALSE(wants_log({}));
}

TEST(Svg, AnAxisWithoutNamesHasRoundNumbers) {
    LineChart chart = chart_of("loss", {}, {line("held out", {3, 2, 1.5})});
    chart.x = {0.4, 55, 101.7};
    const std::string svg = page_of(chart);
    for (const char * tick : {">20<", ">40<", ">60<", ">80<", ">100<"}) { EXPECT_EQ(count(svg, tick), 1U) << tick; }
    EXPECT_EQ(count(svg, "held out, budget 101.7: 1.5<"), 1U);
}

TEST(Svg, IntervalsAreErrorBars) {
    const double none = std::nan("");
    LineChart chart = chart_of("score", {"10%", "20%"}, {{"snapkv", {40, 50}, false, {30, none}, {60, none}}});
    chart.series.push_back({"full", {90, 90}, true, {85, 85}, {95, 95}});
    const std::string svg = page_of(chart);
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "class=\"e s0\""), 3U) << "a bar with two ends where there is an interval";
    EXPECT_EQ(count(svg, "snapkv, budget 10%: 40 (30 to 60)<"), 1U);
    EXPECT_EQ(count(svg, "snapkv, budget 20%: 50<"), 1U);
    EXPECT_EQ(count(svg, "class=\"band\""), 1U);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(count(svg, ">30<"), 1U) << "the axis goes as far as the bars";
}

TEST(Svg, AReferenceOfOnePointIsALevelLineWithAMark) {
    const double none = std::nan("");
    LineChart chart = chart_of("score", {}, {line("snapkv", {40, 50, none}), {"full", {none, none, 90}, true, {}, {}}});
    chart.x = {0.25, 0.5, 2};
    const std::string svg = page_of(chart);
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "<path class=\"m rm\""), 2U) << "and in the legend";
    EXPECT_EQ(count(svg, "full, budget 2: 90<"), 1U);
    const std::vector<Box> marks = layout_of(svg).marks;
    ASSERT_EQ(marks.size(), 2U + 3U);
    EXPECT_GT(marks.back().left, marks[3].left) << "it stands where it was measured";
    chart.series[1].values = {90, 90, 90};
    EXPECT_EQ(count(page_of(chart), "<path class=\"m rm\""), 0U);
}

TEST(Svg, AWideAxisGoesOnToRoundNumbers) {
    LineChart chart = chart_of("score", {}, {line("snapkv", {1, 2})});
    chart.x = {0.13, 1.9};
    chart.log_x = true;
    EXPECT_EQ(count(page_of(chart), ">0.1<"), 0U);
    chart.wide_x = true;
    const std::string svg = page_of(chart);
    for (const char * tick : {">0.1<", ">0.2<", ">0.5<", ">1<", ">2<"}) { EXPECT_GE(count(svg, tick), 1U) << tick; }
}

TEST(Svg, ANarrowPageIsEnlargedAsAWhole) {
    LineChart chart = chart_of("score", {"10%", "20%"}, {line("snapkv", {1, 2})});
    chart.plot_width = 150;
    const auto page_with = [&](double width, double scale) {
        SvgPage page("a page", "", width, scale);
        page.add(ChartGroup{"group", {chart, chart, chart}});
        return page.str();
    };
    const auto widths = [](const std::string & svg) {
        return std::pair(attribute(svg, "width"), std::stod(svg.substr(svg.find("viewBox=\"0 0 ") + 13)));
    };
    const auto [shown, drawn] = widths(page_with(430, 2));
    EXPECT_LT(drawn, 430 + 40) << "two panels side by side, the third below";
    EXPECT_GT(drawn, 2 * 150);
    EXPECT_NEAR(shown, 2 * drawn, 0.2);
    const auto [plain, wide] = widths(page_with(kPageWidth, 1));
    EXPECT_GT(wide, 3 * 150) << "three side by side";
    EXPECT_EQ(plain, wide);
}

TEST(Svg, LinesAreToldApartWithoutColour) {
    LineChart chart = chart_of("many", {"10%"}, {{"full", {100}, true, {}, {}}});
    for (int i = 0; i < 28; ++i) { chart.series.push_back(line("p" + std::to_string(i), {static_cast<double>(i)})); }
    std::set<std::pair<std::string, size_t>> looks;
    for (size_t i = 0; i < 28; ++i) { looks.insert({line_style(i).dashes, line_style(i).mark}); }
    EXPECT_EQ(looks.size(), 28U);
    std::set<std::string> strokes;
    std::istringstream lines(page_of(chart));
    for (std::string one; std::getline(lines, one);) {
        if (one.rfind("<polyline", 0) == 0) { strokes.insert(one.substr(0, one.find(" points"))); }
    }
    EXPECT_EQ(strokes.size(), 1U + 8U) << "eight colours with a dash each, and the reference's grey";
}

TEST(Svg, ANameLooksTheSameInAllPanels) {
    SvgPage page("two groups");
    page.add(ChartGroup{"first", {chart_of("a", {"1"}, {line("snapkv", {1}), line("h2o", {2})})}});
    page.add(ChartGroup{"second", {chart_of("b", {"1"}, {line("h2o", {3}), line("snapkv", {4})})}});
    const std::string svg = page.str();
    for (const char * point : {"h2o, budget 1: 2<", "h2o, budget 1: 3<"}) {
        const size_t at = svg.find(point);
        ASSERT_NE(at, std::string::npos);
        EXPECT_NE(svg.rfind("class=\"m s1\"", at), std::string::npos);
        EXPECT_LT(at - svg.rfind("class=\"m s1\"", at), 80U) << point;
    }
}

TEST(Svg, PanelsStandSideBySideWhereThereIsRoom) {
    SvgPage page("four");
    MapGroup group{"maps", "value", {}, 0, 1};
    for (int i = 0; i < 8; ++i) {
        group.maps.push_back({"map " + std::to_string(i), "layer", "head", 8, 8, std::vector<double>(64, 0.5), {}, {}});
    }
    page.add(group);
    std::vector<Box> frames = layout_of(page.str()).frames;
    ASSERT_EQ(frames.size(), 1U + 8U);  // the scale's
    EXPECT_EQ(frames[1].top, frames[2].top);
    EXPECT_GT(frames[2].left, frames[1].right);
    EXPECT_GT(frames[8].top, frames[1].bottom);
    for (const Box & frame : frames) { EXPECT_LT(frame.right, kPageWidth + 40); }
}

TEST(Svg, NoTextStandsOverATileOrAnotherText) {
    SvgPage page("What policies keep, and what it changes at the first decoded token", "1024 tokens, K f32, V f32");
    LineChart chart = chart_of("perturbation of heads; bars: the middle half of the layer's heads", {},
                               {line("criticalkv:alpha=0.5+adakv", {1, 2, 30000}), line("snapkv", {3, 4, 5})});
    for (int i = 0; i < 32; ++i) { chart.ticks.push_back(std::to_string(i)); }
    for (Series & series : chart.series) { series.values.resize(32, 7); }
    page.add(ChartGroup{"by layer, budget 20%", {chart, chart, chart, chart}});
    MapGroup group{"entries kept by layer and KV head, with a heading that is long", "entries of a lane", {}, 0, 0};
    for (const int n : {1, 2, 8, 32, 128}) {
        group.maps.push_back({"snapkv:window=16:pool=avg5+criticalkv+ada:alpha=0.2, 20%",
                              "layer",
                              "KV head",
                              n,
                              n,
                              std::vector<double>(static_cast<size_t>(n * n), n),
                              {},
                              {}});
    }
    page.add(group);
    page.add(MapGroup{"needles",
                      "score",
                      {HeatMap{"full", "depth", "tokens", 2, 3, {1, 2, 3, 4, 5, 6}, {"0", "100"}, {"1024", "2048", "131072"}}},
                      0,
                      100});
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "");
    const Layout layout = layout_of(svg);
    EXPECT_GT(layout.texts.size(), 100U);
    for (size_t i = 0; i < layout.texts.size(); ++i) {
        for (const Box & tile : layout.tiles) {
            EXPECT_FALSE(layout.texts[i].touches(tile)) << layout.texts[i].what << " over " << tile.what;
        }
        for (size_t j = i + 1; j < layout.texts.size(); ++j) {
            EXPECT_FALSE(layout.texts[i].touches(layout.texts[j])) << layout.texts[i].what << " over " << layout.texts[j].what;
        }
    }
}

TEST(Svg, EveryColourIsThereForLightAndForDark) {
    const std::string svg = page_of(HeatMap{"one", "r", "c", 1, 1, {1}, {}, {}});
    EXPECT_EQ(count(svg, "@media (prefers-color-scheme:dark)"), 1U);
    for (int i = 0; i < kShades; ++i) { EXPECT_EQ(count(svg, ".v" + std::to_string(i) + "{"), 2U) << i; }
    for (int i = 0; i < 8; ++i) { EXPECT_EQ(count(svg, ".s" + std::to_string(i) + "{"), 2U) << i; }
    for (const char * name : {"text{", ".paper{", ".q{", ".r{"}) { EXPECT_EQ(count(svg, name), 2U) << name; }
    EXPECT_EQ(count(svg, "fill=\"#"), 0U) << "a colour that no style sheet can change";
}

TEST(Svg, NamesRowsAndColumnsAndKeepsTheRangeGiven) {
    SvgPage page("names");
    page.add(MapGroup{"needle", "score", {HeatMap{"", "depth", "tokens", 2, 1, {50, 50}, {"0", "100"}, {"1024"}}}, 0, 80});
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "depth 100, tokens 1024: 50<"), 1U);
    EXPECT_EQ(count(svg, ">80<"), 1U);
    EXPECT_EQ(count(svg, ">40<"), 1U);
}

TEST(Svg, APointThatIsNotThereIsNotDrawn) {
    const std::string svg = page_of(chart_of("score", {"10%", "20%", "40%"}, {line("snapkv", {1, std::nan(""), 3})}));
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "snapkv, budget"), 2U);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Svg, PointsTooCloseForMarksCanStillBeReadOut) {
    LineChart chart = chart_of("loss", {}, {line("held out", {})});
    for (int i = 0; i < 500; ++i) {
        chart.x.push_back(i);
        chart.series[0].values.push_back(i % 7);
    }
    const std::string svg = page_of(chart);
    EXPECT_EQ(count(svg, "held out, budget"), 500U);
    EXPECT_LT(layout_of(svg).marks.size(), 40U);
}

TEST(Svg, DrawsConstantsSinglePointsAndNothing) {
    SvgPage page("edges");
    page.add(MapGroup{"constant", "v", {HeatMap{"", "layer", "head", 1, 1, {3}, {}, {}}}, 0, 0});
    page.add(MapGroup{"empty", "v", {HeatMap{"", "layer", "head", 0, 0, {}, {}, {}}}, 0, 0});
    page.add(MapGroup{"no maps", "v", {}, 0, 0});
    LineChart one = chart_of("one", {"20%"}, {line("h2o", {0.5}), {"full", {0.7}, true, {}, {}}});
    one.x = {20};
    page.add(ChartGroup{"one", {one}});
    page.add(ChartGroup{"none", {chart_of("none", {}, {})}});
    LineChart zero = chart_of("zero", {"a"}, {line("h2o", {0})});
    zero.log_y = true;
    page.add(ChartGroup{"nothing above 0", {zero}});
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Svg, FinerMapsAreDrawnFromTheMeansOfBlocks) {
    HeatMap map{"distances", "head", "head", 200, 200, {}, {}, {}};
    for (int i = 0; i < 200 * 200; ++i) { map.values.push_back(i / 200 < 2 && i % 200 < 2 ? 8 : 0); }
    const std::string svg = page_of(map);
    EXPECT_EQ(xml_fault(svg), "");
    EXPECT_NE(svg.find("blocks of 2"), std::string::npos);
    EXPECT_EQ(layout_of(svg).tiles.size(), kShades + 100U * 100U);
    EXPECT_EQ(count(svg, "head 0, head 0: 8<"), 1U);
    EXPECT_EQ(count(svg, "head 2, head 2: 0<"), 1U);
    map.values[1] = 0;  // the first block's mean is 6: so is the scale's end
    EXPECT_EQ(count(page_of(map), ">6<"), 1U);
}

TEST(Svg, StripsHoldEveryRunOfCells) {
    HeatMap map{"kept", "layer", "token", 2, 4, {1, 1, 0, 1, 0, 0, 0, 0}, {"0, KV head 0", "1, KV head 0"}, {}, true};
    const auto page_with = [](const HeatMap & strips) {
        SvgPage page("strips");
        page.add(MapGroup{"group", "share kept", {strips}, 0, 1});
        return page.str();
    };
    const std::string svg = page_with(map);
    EXPECT_EQ(xml_fault(svg), "") << svg;
    for (const char * run : {"layer 0, KV head 0, token 0 to 1: 1<", "layer 0, KV head 0, token 2: 0<",
                             "layer 0, KV head 0, token 3: 1<", "layer 1, KV head 0, token 0 to 3: 0<"}) {
        EXPECT_EQ(count(svg, run), 1U) << run << "\n" << svg;
    }
    EXPECT_EQ(count(svg, "class=\"v0\"><title>"), 2U);  // not kept
    EXPECT_EQ(count(svg, " to "), 2U);

    HeatMap fine{"kept", "layer", "token", 1, 1500, std::vector<double>(1500, 0.0), {}, {}, true};
    for (size_t i = 0; i < 1500; i += 3) { fine.values[i] = 1; }
    const std::string blocks = page_with(fine);
    EXPECT_EQ(xml_fault(blocks), "");
    EXPECT_EQ(count(blocks, "means of blocks of 3"), 1U);
    EXPECT_EQ(count(blocks, "token 0 to 1497: 0.3333<"), 1U);

    EXPECT_EQ(xml_fault(page_with({"kept", "layer", "token", 0, 0, {}, {}, {}, true})), "");
}

TEST(Svg, RefersToNothingOutside) {
    const std::string svg = page_of(chart_of("cosine", {"0", "1"}, {line("snapkv", {1, 0.5})}));
    for (const char * word : {"href", "url(", "script", "@import", "font-face"}) {
        EXPECT_EQ(svg.find(word), std::string::npos) << word;
    }
    EXPECT_EQ(count(svg, "http"), 1U);  // the namespace's name
}

}  // namespace
}  // namespace pith::report::svg_test
