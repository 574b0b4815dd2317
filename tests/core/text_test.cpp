// text_test.cpp - lists in messages, and names that are compared without their case.
#include "core/text.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pith::text_test {
namespace {

TEST(Join, TakesStringsViewsAndLiteralsInAnyContainer) {
    EXPECT_EQ(join(std::vector<std::string>{"b", "a"}, ", "), "b, a");
    EXPECT_EQ(join(std::set<std::string>{"b", "a"}, ", "), "a, b");
    EXPECT_EQ(join(std::array<std::string_view, 3>{"x", "y", "z"}, ""), "xyz");
    EXPECT_EQ(join(std::array<const char *, 2>{"x", "y"}, "|"), "x|y");
}

TEST(Join, PutsSeparatorsBetweenEmptyTextsToo) {
    EXPECT_EQ(join(std::vector<std::string>{}, ","), "");
    EXPECT_EQ(join(std::vector<std::string>{"", "a", ""}, ","), ",a,");
}

TEST(Join, IsWhatSplitTakesApart) {
    for (const std::string text : {"", "a", ",a,,b"}) { EXPECT_EQ(join(split(text, ','), ","), text); }
}

TEST(WithoutControls, LeavesNothingThatATerminalObeys) {
    EXPECT_EQ(without_controls(std::string("a\n\tb\0c\x1b[31m\x7f", 12)), "a??b?c?[31m?");
    EXPECT_EQ(without_controls("a\xC2\x9B"
                               "31m\x9B"
                               "c\xC2\x85"),
              "a?31m?c?");  // C1, in UTF-8 and not
    for (const std::string text : {"", "Größe", "漢字", "\xF0\x9F\x98\x80", "\xC2\xA0", "À"}) {
        EXPECT_EQ(without_controls(text), text);
    }
    EXPECT_EQ(without_controls("\xE6\xBC"), "\xE6\xBC");  // cut off
    EXPECT_EQ(without_controls("\xE6\n\x9B"), "\xE6??");
}

TEST(ToLower, ChangesAsciiAlone) {
    EXPECT_EQ(to_lower("Q4_K_M @[`{ \xc3\x84"), "q4_k_m @[`{ \xc3\x84");
}

TEST(WithCommas, PartsThousands) {
    EXPECT_EQ(with_commas(0), "0");
    EXPECT_EQ(with_commas(999), "999");
    EXPECT_EQ(with_commas(1000), "1,000");
    EXPECT_EQ(with_commas(255424), "255,424");
    EXPECT_EQ(with_commas(-123456), "-123,456");
    EXPECT_EQ(with_commas(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(Nearest, IgnoresCaseAndCountsSwappedNeighboursOnce) {
    const std::vector<std::string_view> known = {"snapkv", "h2o", "laprox"};
    EXPECT_EQ(nearest("SNAPKV", known), "snapkv");
    EXPECT_EQ(nearest("sanpvk", known), "snapkv");
    EXPECT_EQ(nearest("snapkvxyz", known), "");
}

}  // namespace
}  // namespace pith::text_test
