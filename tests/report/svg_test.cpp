// svg_test.cpp - figures are well-formed, self-contained, and hold every value.
#include "report/svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>
#include <string>

#include "report/xml_check.h"

namespace pith::report {
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

TEST(Svg, HeatMapHoldsEveryCell) {
    SvgPage page("kept <entries>");
    page.add(HeatMap{"a & b", "layer", "KV head", 2, 3, {1, 2, 3, 4, 5, 6.5}});
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    for (const char * cell :
         {"layer 0, KV head 0: 1<", "layer 0, KV head 2: 3<", "layer 1, KV head 0: 4<", "layer 1, KV head 2: 6.5<"}) {
        EXPECT_EQ(count(svg, cell), 1U) << cell;
    }
    EXPECT_EQ(count(svg, "<rect"), 1U + 6U);
}

TEST(Svg, LineChartHoldsEveryPoint) {
    SvgPage page("lines");
    page.add(LineChart{"cosine", "layer", {"0", "1", "2"}, {{"snapkv", {1, 0.5, 0.25}}, {"a<b", {0, 0, 0}}}});
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "<polyline"), 2U);
    EXPECT_EQ(count(svg, "<circle"), 6U);
    EXPECT_EQ(count(svg, "snapkv, layer 2: 0.25<"), 1U);
    EXPECT_EQ(count(svg, "a&lt;b, layer 1: 0<"), 1U);
}

TEST(Svg, AxesAreOfRoundNumbersAroundTheValues) {
    SvgPage page("axis");
    page.add(LineChart{"score", "budget", {"10%", "20%"}, {{"snapkv", {3.009, 41.86}}}});
    const std::string svg = page.str();
    for (const char * tick : {">0<", ">10<", ">20<", ">30<", ">40<", ">50<"}) { EXPECT_EQ(count(svg, tick), 1U) << tick; }
    SvgPage negative("axis");
    negative.add(LineChart{"difference", "budget", {"10%", "20%"}, {{"snapkv", {-0.3, 0.1}}}});
    for (const char * tick : {">-0.3<", ">-0.2<", ">-0.1<", ">0<", ">0.1<"}) {
        EXPECT_EQ(count(negative.str(), tick), 1U) << tick;
    }
}

TEST(Svg, SeriesThatShareAColourDifferInTheirDashes) {
    LineChart chart{"many", "budget", {"10%"}, {{"full", {100}, true}}};
    for (int i = 0; i < 20; ++i) { chart.series.push_back({"p" + std::to_string(i), {static_cast<double>(i)}}); }
    SvgPage page("many");
    page.add(chart);
    std::set<std::string> strokes;
    std::istringstream lines(page.str());
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("<polyline", 0) == 0) { strokes.insert(line.substr(0, line.find(" points"))); }
    }
    EXPECT_EQ(strokes.size(), 21U);
}

TEST(Svg, NamesRowsAndColumnsAndKeepsTheRangeGiven) {
    HeatMap map{"needle", "depth", "tokens", 2, 1, {50, 50}, {"0", "100"}, {"1024"}, 0, 100};
    SvgPage page("names");
    page.add(map);
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "depth 100, tokens 1024: 50<"), 1U);
    EXPECT_EQ(count(svg, "dark 100<"), 1U);
    EXPECT_EQ(count(svg, "light 0<"), 1U);
}

TEST(Svg, APointThatIsNotThereIsNotDrawn) {
    SvgPage page("gap");
    page.add(LineChart{"score", "budget", {"10%", "20%", "40%"}, {{"snapkv", {1, std::nan(""), 3}}}});
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(count(svg, "<circle"), 2U);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Svg, DrawsConstantsSinglePointsAndNothing) {
    SvgPage page("edges");
    page.add(HeatMap{"constant", "layer", "head", 1, 1, {3}});
    page.add(HeatMap{"empty", "layer", "head", 0, 0, {}});
    page.add(LineChart{"one", "budget", {"20%"}, {{"h2o", {0.5}}}});
    page.add(LineChart{"none", "budget", {}, {}});
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Svg, FinerMapsAreDrawnFromTheMeansOfBlocks) {
    HeatMap map{"distances", "head", "head", 200, 200, {}};
    for (int i = 0; i < 200 * 200; ++i) { map.values.push_back(i / 200 < 2 && i % 200 < 2 ? 8 : 0); }
    SvgPage page("fine");
    page.add(map);
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "");
    EXPECT_NE(svg.find("means of blocks of 2"), std::string::npos);
    EXPECT_EQ(count(svg, "<rect"), 1U + 100U * 100U);
    EXPECT_EQ(count(svg, "head 0, head 0: 8<"), 1U);
    EXPECT_EQ(count(svg, "head 1, head 1: 0<"), 1U);
}

TEST(Svg, StripsHoldEveryRunOfCells) {
    StripMap map{"kept", "layer", "KV head", "token", 2, 1, 4, {1, 1, 0, 1, 0, 0, 0, 0}, {}};
    SvgPage page("strips");
    page.add(map);
    const std::string svg = page.str();
    EXPECT_EQ(xml_fault(svg), "") << svg;
    for (const char * run : {"layer 0, KV head 0, token 0 to 1: 1<", "layer 0, KV head 0, token 2 to 2: 0<",
                             "layer 0, KV head 0, token 3 to 3: 1<", "layer 1, KV head 0, token 0 to 3: 0<"}) {
        EXPECT_EQ(count(svg, run), 1U) << run << "\n" << svg;
    }
    EXPECT_EQ(count(svg, "#000000"), 2U);  // black: not kept
    EXPECT_EQ(count(svg, "<rect"), 1U + 2U + 4U);

    StripMap fine{"kept", "layer", "KV head", "token", 1, 1, 1500, std::vector<double>(1500, 0.0), {}};
    for (size_t i = 0; i < 1500; i += 3) { fine.values[i] = 1; }
    SvgPage blocks("fine");
    blocks.add(fine);
    EXPECT_EQ(xml_fault(blocks.str()), "");
    EXPECT_EQ(count(blocks.str(), "means of blocks of 3"), 1U);
    EXPECT_EQ(count(blocks.str(), "token 0 to 1499: 0.3333<"), 1U);

    SvgPage empty("nothing");
    empty.add(StripMap{"kept", "layer", "KV head", "token", 0, 0, 0, {}, {}});
    EXPECT_EQ(xml_fault(empty.str()), "");
}

TEST(Svg, RefersToNothingOutside) {
    SvgPage page("alone");
    page.add(LineChart{"cosine", "layer", {"0", "1"}, {{"snapkv", {1, 0.5}}}});
    const std::string svg = page.str();
    for (const char * word : {"href", "url(", "script", "@import", "font-face"}) {
        EXPECT_EQ(svg.find(word), std::string::npos) << word;
    }
    EXPECT_EQ(count(svg, "http"), 1U);  // the namespace's name
}

}  // namespace
}  // namespace pith::report
