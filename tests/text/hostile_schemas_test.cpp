// hostile_schemas_test.cpp - schemas made to take long or to fill the memory: each is answered or refused at once.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pith/text.h"
#include "text/grammar.h"
#include "text/tool_grammar.h"

namespace pith::hostile_schemas_test {
namespace {

constexpr double kMostSeconds = 3;       // a second, and room for a machine that does other work, too
constexpr long kMostKilobytes = 300000;  // more than before

std::string list_of(int n, const std::function<std::string(int)> & one) {
    std::string out;
    for (int i = 0; i < n; ++i) { out += (i > 0 ? "," : "") + one(i); }
    return out;
}

long peak_kilobytes() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
}

// Of a schema that must be kept, and of a tool that may be weakened: notes are few and short.
void expect_quick(const std::string & schema) {
    const std::string shown = schema.substr(0, 100);
    const long before = peak_kilobytes();
    for (const bool strict : {true, false}) {
        std::vector<std::string> notes;
        const ToolFunction function = {"f", schema, strict};
        const auto begin = std::chrono::steady_clock::now();
        const auto grammar = tool_grammar(ToolForm::kBare, std::span(&function, 1), true, {}, &notes);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        const std::string line = grammar.ok() ? "" : grammar.status().message();
        EXPECT_LT(took.count(), kMostSeconds) << shown << " strict: " << strict;
        EXPECT_LT(line.size(), 1000U) << shown;
        EXPECT_LE(notes.size(), 12U) << shown;
        for (const std::string & note : notes) { EXPECT_LT(note.size(), 1000U) << shown; }
    }
    EXPECT_LT(peak_kilobytes() - before, kMostKilobytes) << shown;
}

TEST(HostileSchemas, WithLongNamesInsideOfEachOther) {
    std::string all = "{}";
    for (int i = 0; i < 60; ++i) {
        all = R"({"type":"object","properties":{")" + std::string(15'000, 'n') + R"(":)" + all + "}}";
    }
    expect_quick(all);
    expect_quick(R"({")" + std::string(900'000, 'k') + R"(":1})");
    expect_quick(R"({"$ref":"#/)" + std::string(900'000, 'k') + R"("})");
}

TEST(HostileSchemas, WithOneOfManyTexts) {
    for (const int n : {400, 5'000, 50'000}) {
        expect_quick(R"({"type":"object","propertyNames":{"oneOf":[)" +
                     list_of(n, [](int i) { return R"({"const":")" + std::to_string(i) + R"("})"; }) + "]}}");
    }
}

TEST(HostileSchemas, WithOneOfManyFalseOptions) {
    for (const int n : {400, 5'000, 100'000}) {
        expect_quick(R"({"oneOf":[)" + list_of(n, [](int /*i*/) { return "false"; }) + "]}");
    }
}

TEST(HostileSchemas, WithNullableInsideOfNullable) {
    std::string all = R"({"nullable":true,"enum":[)" + list_of(50'000, [](int i) { return std::to_string(i); }) + "]}";
    for (int i = 0; i < 60; ++i) { all = R"({"nullable":true,"properties":{"a":)" + all + "}}"; }
    expect_quick(all);
}

TEST(HostileSchemas, WithManyRequiredNames) {
    const std::string names = list_of(60'000, [](int i) { return '"' + std::to_string(i) + '"'; });
    expect_quick(R"({"type":"object","required":[)" + names + "]}");
}

TEST(HostileSchemas, WithManyValuesAndMany) {
    const std::string values = list_of(40'000, [](int i) { return std::to_string(i); });
    const std::string others = list_of(40'000, [](int i) { return std::to_string(-1 - i); });
    expect_quick(R"({"allOf":[{"enum":[)" + values + R"(]},{"enum":[)" + others + "]}]}");
    expect_quick(R"({"enum":[)" + values + R"(],"not":{"enum":[)" + others + "]}}");
}

TEST(HostileSchemas, WithManyPatternsAndManyNames) {
    expect_quick(R"({"type":"object","properties":{)" +
                 list_of(2'000, [](int i) { return "\"" + std::to_string(i) + "\":{}"; }) + R"(},"patternProperties":{)" +
                 list_of(2'000, [](int i) { return "\"^a" + std::to_string(i) + "$\":{}"; }) + "}}");
}

TEST(HostileSchemas, WithManyUnknownKeywords) {
    expect_quick("{" + list_of(4'000, [](int i) { return "\"k" + std::to_string(i) + "\":1"; }) + "}");
}

TEST(HostileSchemas, WithAPatternOfManyThatMayBeThere) {
    std::string pattern = "^";
    for (int i = 0; i < 2'047; ++i) { pattern += "a?"; }
    expect_quick(R"({"type":"string","pattern":")" + pattern + R"($"})");
}

std::string spent() {
    std::string pattern = "^";
    for (int i = 0; i < 2'047; ++i) { pattern += "a?"; }
    return R"({"type":"string","pattern":")" + pattern + R"($"})";
}

TEST(HostileSchemas, AfterWhichPropertiesAreStillThere) {
    const ToolFunction function = {
        "f", R"({"type":"object","properties":{"a":)" + spent() + R"(,"bees":{"type":"integer"}},"required":["bees"]})", false};
    const auto grammar = tool_grammar(ToolForm::kBare, std::span(&function, 1), true, {});
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    EXPECT_NE(grammar->find("bees"), std::string::npos) << *grammar;
}

TEST(HostileSchemas, OfFalseAreNotThoseOfTrue) {
    const auto grammar = grammar_of_json_schema(
        R"({"type":"array","prefixItems":[{"allOf":[{"type":"null"},false]},{"allOf":[{"type":"null"}]}],"minItems":0})");
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    const auto never =
        grammar_of_json_schema(R"({"not":{"allOf":[false]},"type":"object","properties":{"a":{"allOf":[true]}}})");
    EXPECT_TRUE(never.ok()) << never.status().message();
    const auto all = grammar_of_json_schema(R"({"type":"null","not":{}})");
    EXPECT_FALSE(all.ok());
}

Result<Grammar> read_schema(const std::string & schema) {
    const auto grammar = grammar_of_json_schema(schema);
    EXPECT_TRUE(grammar.ok()) << grammar.status().message();
    if (!grammar.ok()) { return grammar.status(); }
    return read_grammar(*grammar, [](std::string_view) { return std::optional<int32_t>(); });
}

TEST(HostileSchemas, ThatRequireThemselvesAreRefused) {
    for (const char * schema :
         {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
          R"({"type":"array","items":{"$ref":"#"},"minItems":1})",
          R"({"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"},"minItems":2}},"required":["a"]})"}) {
        const auto grammar = read_schema(schema);
        ASSERT_FALSE(grammar.ok()) << schema;
        EXPECT_NE(grammar.status().message().find("the rule 'root' ends"), std::string::npos) << grammar.status().message();
    }
    EXPECT_TRUE(read_schema(R"({"type":["object","null"],"properties":{"a":{"$ref":"#"}},"required":["a"]})").ok());
    EXPECT_TRUE(read_schema(R"({"type":"array","items":{"$ref":"#"}})").ok());
}

TEST(HostileSchemas, ThatRequireThemselvesAreNotBegun) {
    const auto grammar = read_grammar("root ::= \"a\" x | \"b\" | \"c\" [z-a]\nx ::= \"x\" x | y\ny ::= \"y\" x\n",
                                      [](std::string_view) { return std::optional<int32_t>(); });
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    EXPECT_EQ(grammar->alternatives(grammar->root).size(), 1U);
    EXPECT_EQ(grammar->begins.size(), 1U);
}

}  // namespace
}  // namespace pith::hostile_schemas_test
