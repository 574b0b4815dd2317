// json_syntax_test.cpp - the place where a text stops being JSON, and what belongs there.
#include "core/json_syntax.h"

#include <gtest/gtest.h>

#include <string>

namespace pith::json_syntax_test {
namespace {

TEST(JsonSyntax, TakesWhatIsJson) {
    for (const char * text :
         {"{}", "[]", " null ", "-0.5e+3", "0", "[1, 2.25, -3E-7, true, false]", "\"a\\n\\u00e9 \\\"\xC3\xA9\"",
          "{\"a\": {\"b\": [[], {}, \"\"]},\r\n\t\"c\": 1}", "\xEF\xBB\xBF{\"a\": 1}"}) {
        EXPECT_EQ(json_problem(text), "") << text;
    }
}

TEST(JsonSyntax, NamesThePlaceAndWhatBelongsThere) {
    const auto expect = [](const std::string & text, const std::string & problem) {
        EXPECT_EQ(json_problem(text), problem) << text;
    };
    expect("", "line 1, byte 1: a value belongs here, where the text ends");
    expect("{bad", "line 1, byte 2: a name in quotation marks or '}' belongs here, not 'b'");
    expect("{\n  \"a\": 1\n  \"b\": 2}", "line 3, byte 3: ',' or '}' belongs here, not '\"'");
    expect("{\"a\" 1}", "line 1, byte 6: ':' belongs here, not '1'");
    expect("{\"a\": 1,}", "line 1, byte 9: a name in quotation marks belongs here, not '}'");
    expect("[1, 2", "line 1, byte 6: ',' or ']' belongs here, where the text ends");
    expect("[1, ]", "line 1, byte 5: a value belongs here, not ']'");
    expect("[tru]", "line 1, byte 2: a value or ']' belongs here, not 't'");
    expect("[1]]", "line 1, byte 4: nothing more belongs here, not ']'");
    expect("[01]", "line 1, byte 3: ',' or ']' belongs here, not '1'");
    expect("[-x]", "line 1, byte 3: a digit belongs here, not 'x'");
    expect("[1.]", "line 1, byte 4: a digit belongs here, not ']'");
    expect("[\"a\\x\"]", "line 1, byte 5: one of \" \\ / b f n r t u behind the \\ belongs here, not 'x'");
    expect("[\"\\u12g4\"]", "line 1, byte 7: one of four hexadecimal digits belongs here, not 'g'");
    expect("[\"a", "line 1, byte 4: '\"', the end of a text, belongs here, where the text ends");
    expect("[\"a\nb\"]", "line 1, byte 4: '\"', or \\n for a line break, belongs here");
    expect("\xFF", "line 1, byte 1: a value belongs here");
}

TEST(JsonSyntax, RefusesWhatIsNestedWithoutEnd) {
    const auto nested = [](int n) {
        return std::string(static_cast<size_t>(n), '[') + std::string(static_cast<size_t>(n), ']');
    };
    EXPECT_EQ(json_problem(nested(kMostJsonDepth)), "");
    EXPECT_EQ(json_problem(nested(kMostJsonDepth + 1)), "line 1, byte 201: nested deeper than 200");
    EXPECT_EQ(json_problem(nested(1000000)), "line 1, byte 201: nested deeper than 200");
}

// Whoever reads an object looks for each name among all before it.
TEST(JsonSyntax, RefusesNamesWithoutEnd) {
    const auto object = [](int n) {
        std::string text = "{";
        for (int i = 0; i < n; ++i) { text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1"; }
        return text + "}";
    };
    EXPECT_EQ(json_problem(object(kMostJsonNames)), "");
    EXPECT_EQ(json_problem("[" + object(kMostJsonNames) + "," + object(kMostJsonNames) + "]"), "");
    EXPECT_NE(json_problem(object(kMostJsonNames + 1)).find("an object of more than 4096 names"), std::string::npos);
    EXPECT_NE(json_problem("{\"a\": " + object(kMostJsonNames + 1) + "}").find("4096 names"), std::string::npos);
}

// "[]," is three bytes, and fifty in memory.
TEST(JsonSyntax, RefusesMoreValuesThanItIsToldOf) {
    const JsonLimits limits{.most_values = 6, .most_numbers = 3};
    EXPECT_EQ(json_problem("[[],[],[],[],[]]", limits), "");
    EXPECT_EQ(json_problem("[[],[],[],[],[],[]]", limits), "line 1, byte 17: more than 6 values");
    EXPECT_EQ(json_problem("[\"a\", true, null, {\"n\": 1, \"m\": 2}]", limits), "line 1, byte 28: more than 6 values");
    EXPECT_EQ(json_problem("[[1, -2], 3]", limits), "");
    EXPECT_EQ(json_problem("[[1, -2], 3, 4]", limits), "line 1, byte 14: more than 3 numbers");
    EXPECT_EQ(json_problem("[1, 2, 3, 4, [], [], [], [], [], [], []]"), "");
}

}  // namespace
}  // namespace pith::json_syntax_test
