// schema_keywords_test.cpp - for every keyword of JSON schemas: texts that its grammar has, and texts that it has not.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pith/text.h"
#include "text/grammar.h"
#include "text/grammar_matcher.h"
#include "text/tiny_vocabulary.h"
#include "text/tool_grammar.h"

namespace pith::schema_keywords_test {
namespace {

using testing::TempFolder;
using testing::write_tiny;
using Texts = std::vector<std::string>;

const Tokenizer & tokenizer() {
    static const TempFolder folder;
    static const Tokenizer tokenizer = Tokenizer::load(write_tiny(folder)).value();
    return tokenizer;
}

// Whether the grammar has the text: each byte is a token of its own.
bool has(const std::string & grammar, const std::string & text) {
    static const TokenTexts texts(tokenizer());
    auto read = read_grammar(grammar, [](std::string_view) { return std::optional<int32_t>(); });
    EXPECT_TRUE(read.ok()) << read.status().message() << "\n" << grammar;
    if (!read.ok()) { return false; }
    GrammarMatcher matcher = GrammarMatcher::make(std::move(*read), texts).value();
    for (const char byte : text) {
        const int32_t token = 3 + static_cast<int32_t>(static_cast<unsigned char>(byte));
        if (!matcher.allows(token).value()) { return false; }
        EXPECT_TRUE(matcher.accept(token).ok());
    }
    return matcher.allows(tokenizer().eos()).value();
}

void expect_texts(const std::string & schema, const Texts & fit, const Texts & do_not) {
    const auto grammar = grammar_of_json_schema(schema);
    ASSERT_TRUE(grammar.ok()) << schema << ": " << grammar.status().message();
    for (const std::string & text : fit) { EXPECT_TRUE(has(*grammar, text)) << schema << " has " << text << "\n" << *grammar; }
    for (const std::string & text : do_not) {
        EXPECT_FALSE(has(*grammar, text)) << schema << " has no " << text << "\n" << *grammar;
    }
}

void expect_refused(const std::string & schema, const std::string & part) {
    const auto grammar = grammar_of_json_schema(schema);
    ASSERT_FALSE(grammar.ok()) << schema;
    EXPECT_EQ(grammar.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(grammar.status().message().find(part), std::string::npos) << grammar.status().message();
    EXPECT_EQ(grammar.status().message().find("--"), std::string::npos) << grammar.status().message();
}

TEST(SchemaKeywords, BoundsOfIntegers) {
    expect_texts(R"({"type":"integer","minimum":3,"maximum":120})", {"3", "9", "10", "99", "100", "119", "120"},
                 {"2", "0", "-3", "121", "130", "200", "1000", "03", "3.0", "3e1"});
    expect_texts(R"({"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991})",
                 {"0", "-1", "9007199254740991", "-9007199254740991", "8999999999999999"},
                 {"9007199254740992", "-9007199254740992", "-0"});
    expect_texts(R"({"type":"integer","exclusiveMinimum":0})", {"1", "10", "123456789012345678"},
                 {"0", "-1", "1234567890123456789"});
    expect_texts(R"({"type":"integer","exclusiveMaximum":-5})", {"-6", "-10", "-99"}, {"-5", "-1", "0", "6"});
    expect_texts(R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"});
    expect_texts(R"({"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":3,"exclusiveMaximum":false})", {"2", "3"},
                 {"1", "4"});
    expect_texts(R"({"type":"integer","minimum":7,"maximum":7})", {"7"}, {"6", "8", "77"});
    expect_texts(R"({"type":"integer","format":"int32","minimum":0})", {"2147483647"}, {"2147483648"});
    expect_refused(R"({"type":"integer","minimum":3,"maximum":2})", "no text fits");
    expect_refused(R"({"type":"integer","minimum":0.2,"maximum":0.8})", "no text fits");
}

TEST(SchemaKeywords, BoundsOfNumbers) {
    expect_texts(R"({"type":"number","minimum":-0.25,"exclusiveMaximum":1.5})",
                 {"-0.25", "-0.2", "-0.1", "0", "0.0", "1", "1.4", "1.49", "1.499"},
                 {"-0.26", "-1", "1.5", "1.50", "1.51", "2", "1e0"});
    expect_texts(R"({"type":"number","exclusiveMinimum":0,"maximum":1})", {"0.001", "1", "1.0", "0.5"},
                 {"0", "0.0", "0.000", "1.01", "-1"});
    expect_texts(R"({"type":"number","minimum":99.5})", {"99.5", "99.51", "100", "99.9", "1000.25"},
                 {"99.4", "99", "9", "-100"});
    expect_texts(R"({"type":"number","maximum":-99.5})", {"-99.5", "-100"}, {"-99.4", "0", "100"});
}

TEST(SchemaKeywords, NumbersFitADouble) {
    expect_texts(R"({"type":"number"})", {"0", "-1.5e3", "1e-7", "3E+08", "1e289"},
                 {"1e290", "1e999", "1e1000", "01", "1.", ".5", "1e", "+1", "NaN"});
    expect_texts(R"({"type":"integer"})", {"0", "-12", "999999999999999999"}, {"1.0", "1e3", "1000000000000000000"});
}

TEST(SchemaKeywords, Multiples) {
    expect_texts(R"({"type":"integer","multipleOf":7,"minimum":-20,"maximum":100})", {"0", "7", "98", "-14"},
                 {"1", "105", "-21", "70.0", "8"});
    expect_texts(R"({"type":"integer","multipleOf":1000})", {"0", "1000", "-52000"}, {"100", "1001", "52"});
    expect_texts(R"({"type":"number","multipleOf":5})", {"15", "0"}, {"1", "7.5"});
    expect_texts(R"({"allOf":[{"multipleOf":4},{"multipleOf":6}],"type":"integer"})", {"12", "24"}, {"4", "6", "8"});
    expect_refused(R"({"type":"number","multipleOf":0.01})", "'multipleOf' can be followed for whole numbers");
    expect_refused(R"({"type":"number","multipleOf":0})", "'multipleOf' is no number above 0");
}

TEST(SchemaKeywords, LengthsCountCharacters) {
    expect_texts(R"({"type":"string","minLength":2,"maxLength":3})",
                 {R"("ab")", R"("éü")", "\"\xF0\x9F\x98\x80z\"", R"("\n\"")", R"("\ud83d\ude00b")", R"("\u00e9\u00e9\u00e9")"},
                 {R"("a")", R"("abcd")", R"("é")", R"("\ud83d\ude00")", R"("\ud83d\ud83d")", R"("\ude00a")", R"("\ud83da")"});
    expect_texts(R"({"type":"string","maxLength":100000})", {R"("a")"}, {});
    expect_refused(R"({"type":"string","minLength":3,"maxLength":2})", "no text fits");
    expect_refused(R"({"type":"string","minLength":-1})", "'minLength' is no whole number");
}

TEST(SchemaKeywords, Patterns) {
    const auto pattern = [](const std::string & text, const Texts & fit, const Texts & do_not) {
        expect_texts(R"({"type":"string","pattern":")" + text + "\"}", fit, do_not);
    };
    pattern("^[A-Z]{2,3}-\\\\d+$", {R"("AB-1")", R"("ABC-123")"}, {R"("A-1")", R"("ABCD-1")", R"("AB-")", R"("AB-1x")"});
    pattern("b", {R"("b")", R"("abc")"}, {R"("ac")", R"("")"});
    pattern("^a|b$", {R"("a")", R"("ax")", R"("xb")"}, {R"("xa")", R"("bx")"});
    pattern("^(?:foo|ba[rz])?$", {R"("")", R"("foo")", R"("baz")"}, {R"("fo")", R"("foobar")"});
    pattern("^[^\\\\s<>]+$", {R"("a-ü")"}, {R"("a b")", R"("<a")", R"("")"});
    pattern("^\\\\\\\\\\\"$", {R"("\\\"")"}, {R"("\\")"});
    pattern("^a.c$", {R"("abc")", R"("a\tc")"}, {R"("a\nc")", R"("ac")"});
    pattern("^\\\\u00e9\\\\x41\\\\/\\\\.$", {R"("éA/.")"}, {R"("eA/.")"});
    pattern("^(?!ab)[a-c]{2}$", {R"("ac")", R"("ba")"}, {R"("ab")", R"("abc")"});
    pattern("^(?=.*\\\\d)[a-z0-9]{2,4}$", {R"("a1")", R"("1abc")"}, {R"("ab")", R"("12345")"});
    pattern("^(?<year>\\\\d{4})(?P<x>a)\\\\Z", {R"("2024a")"}, {R"("2024b")"});
    pattern("^x{2}y*?z??$", {R"("xxyyz")", R"("xx")"}, {R"("x")"});
    expect_texts(R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":300})", {R"("ab")"}, {R"("a")", R"("aB")"});
    for (const char * unknown :
         {R"(\\bx)", R"((a)\\1)", R"((?<=a)b)", R"(\\p{L})", R"((?i)a)", R"(a**)", R"([b-a])", "(", "*"}) {
        expect_refused(R"({"type":"object","properties":{"x":{"type":"string","pattern":")" + std::string(unknown) + "\"}}}",
                       "#/properties/x: 'pattern' cannot be followed");
    }
    expect_refused(R"({"type":"string","pattern":"(a|b)*a(a|b){40}"})", "'pattern' cannot be followed");
}

TEST(SchemaKeywords, Formats) {
    const auto format = [](const std::string & name, const Texts & fit, const Texts & do_not) {
        Texts good;
        Texts bad;
        for (const std::string & text : fit) { good.push_back('"' + text + '"'); }
        for (const std::string & text : do_not) { bad.push_back('"' + text + '"'); }
        expect_texts(R"({"type":"string","format":")" + name + "\"}", good, bad);
    };
    format("date", {"2024-02-29", "2000-02-29", "1999-12-31"},
           {"2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31", "0000-01-01", "24-01-01"});
    format("time", {"23:59:59Z", "00:00:00.5+02:00"}, {"24:00:00Z", "12:00Z", "12:00:60Z", "12:00:00"});
    format("date-time", {"2024-02-29T01:02:03Z", "2024-02-28T01:02:03.25-05:30"},
           {"2024-02-30T01:02:03Z", "2024-02-29 01:02:03Z", "2024-02-29"});
    format("duration", {"P1Y2M3DT4H5M6S", "PT1S", "P2W", "PT0.5S", "P1D"}, {"P", "PT", "1D", "P1S", "P1WT1S"});
    format("uuid", {"123e4567-E89b-12d3-a456-426614174000"},
           {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"});
    format("email", {"a.b+c@ex-ample.org"}, {"a@b", "@b.org", "a..b@c.org", "a b@c.org"});
    format("ipv4", {"0.255.19.7"}, {"256.1.1.1", "1.1.1", "01.1.1.1"});
    format("ipv6", {"::", "::1", "1:2:3:4:5:6:7:8", "fe80::1:2"}, {"1:2:3:4:5:6:7", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9"});
    format("hostname", {"a.b-c.org", "localhost"}, {"-a.org", "a..b", "a_b"});
    format("uri", {"https://a.org/b%20c?d=e#f", "mailto:x@y.org"}, {"a.org", "https://a b", "https://"});
    format("json-pointer", {"", "/a/0", "/~1x"}, {"a", "/~2"});
    format("colour", {"red", ""}, {});  // nobody's format says nothing
    expect_refused(R"({"type":"string","format":"regex"})", "'format' is \"regex\", which is not understood");
}

TEST(SchemaKeywords, Items) {
    expect_texts(R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})", {"[null]", "[null, null]"},
                 {"[]", "[null,null,null]"});
    expect_texts(R"({"type":"array","items":{"type":"null"},"maxItems":0})", {"[]", "[ ]"}, {"[null]"});
    expect_texts(R"({"prefixItems":[{"type":"null"},{"const":1}]})", {"[null,1]"}, {"[null]", "[1,null]", "[null,1,2]"});
    expect_texts(R"({"prefixItems":[{"type":"null"},{"const":1}],"minItems":1,"items":{"const":2},"maxItems":4})",
                 {"[null]", "[null,1]", "[null,1,2]", "[null,1,2,2]"}, {"[]", "[null,2]", "[null,1,2,2,2]", "[null,1,1]"});
    expect_texts(R"({"type":"array","minItems":2,"maxItems":2,"prefixItems":[{"const":1},{"const":2}]})", {"[1,2]"},
                 {"[1]", "[1,2,3]"});
    expect_texts(R"({"items":[{"const":1}],"additionalItems":{"const":2}})", {"[1]", "[1,2,2]"}, {"[2]", "[]"});
    expect_texts(R"({"prefixItems":[{"const":1},false],"minItems":0})", {"[1]", "[]"}, {"[1,2]"});
    expect_refused(R"({"prefixItems":[{"const":1},false],"minItems":2})", "no text fits");
    expect_refused(R"({"type":"array","contains":{"const":1}})", "#: 'contains' is not understood");
}

TEST(SchemaKeywords, UniqueItems) {
    expect_texts(R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1,"maxItems":2})",
                 {R"(["a"])", R"(["c","a"])"}, {"[]", R"(["a","a"])", R"(["a","b","c"])"});
    expect_texts(R"({"type":"array","items":{"type":"string"},"maxItems":1,"uniqueItems":true})", {"[]", R"(["a"])"},
                 {R"(["a","b"])"});
    expect_refused(R"({"type":"array","items":{"enum":["a","b"]},"uniqueItems":true,"minItems":3})", "no text fits");
    expect_refused(R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
                   "#: 'uniqueItems' can be followed where");
}

TEST(SchemaKeywords, Properties) {
    expect_texts(
        R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]})",
        {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({ "a": 1, "b": 2, "c": 3 })"},
        {"{}", R"({"a":1})", R"({"b":2,"a":1})", R"({"b":2,"d":4})", R"({"b":2,"b":2})", R"({"a":1,})", R"({,"b":2})"});
    // A further key is none of the named ones, however it is written.
    expect_texts(R"({"type":"object","properties":{"a":{"const":1},"ab":{"const":2}},"additionalProperties":{"const":3}})",
                 {R"({"a":1,"x":3})", R"({"ab":2,"abc":3})", R"({"":3})", R"({"b":3})"},
                 {R"({"a":3})", R"({"ab":3})", R"({"a":1,"a":3})", R"({"\u0061":3})", R"({"x":1})"});
    expect_texts(R"({"type":"object","required":["x"]})", {R"({"x":[]})"}, {"{}", R"({"y":1})"});
    expect_texts(R"({"type":"object","properties":{"a":false,"b":{"const":1}}})", {"{}", R"({"b":1})"}, {R"({"a":1})"});
    expect_refused(R"({"type":"object","properties":{"a":false},"required":["a"]})", "no text fits");
    expect_texts(R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"});
    expect_refused(R"({"type":"object","dependentRequired":{"a":["b"]}})", "'dependentRequired' is not understood");
}

TEST(SchemaKeywords, NamesOfProperties) {
    expect_texts(
        R"({"type":"object","patternProperties":{"^x-":{"const":1},"y$":{"type":"integer"}},"additionalProperties":{"const":"z"}})",
        {R"({"x-a":1})", R"({"ay":7})", R"({"x-y":1})", R"({"b":"z"})"},
        {R"({"x-a":2})", R"({"x-y":7})", R"({"ay":"z"})", R"({"b":1})"});
    expect_texts(R"({"type":"object","patternProperties":{"^x-":{"const":1}},"additionalProperties":false})",
                 {"{}", R"({"x-a":1})"}, {R"({"b":1})"});
    expect_texts(R"({"type":"object","properties":{"x-a":{"type":"integer"}},"patternProperties":{"^x-":{"maximum":3}}})",
                 {R"({"x-a":3})"}, {R"({"x-a":4})"});
    expect_texts(R"({"type":"object","propertyNames":{"pattern":"^[A-Z]+$"},"additionalProperties":{"type":"null"}})",
                 {"{}", R"({"AB":null})"}, {R"({"a":null})", R"({"":null})"});
}

TEST(SchemaKeywords, NumbersOfProperties) {
    const std::string two = R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},)";
    expect_texts(two + R"("minProperties":2})", {R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"},
                 {"{}", R"({"a":1})", R"({"c":3})"});
    expect_texts(two + R"("maxProperties":1})", {"{}", R"({"a":1})", R"({"c":3})"}, {R"({"a":1,"b":2})"});
    expect_texts(two + R"("maxProperties":1,"required":["b"]})", {R"({"b":2})"}, {R"({"a":1,"b":2})", "{}"});
    expect_texts(R"({"type":"object","minProperties":1})", {R"({"a":1})", R"({"a":1,"b":2})"}, {"{}"});
    expect_texts(R"({"type":"object","additionalProperties":{"const":1},"maxProperties":2})", {"{}", R"({"a":1,"b":1})"},
                 {R"({"a":1,"b":1,"c":1})"});
    // Of names that are free two could be the same.
    expect_refused(R"({"type":"object","minProperties":2})", "'minProperties' can be followed up to one more");
    expect_refused(two + R"("minProperties":4})", "no text fits");
}

TEST(SchemaKeywords, ValuesThatFitAllElse) {
    expect_texts(R"({"type":"string","enum":["a",1,null,"bcd"],"maxLength":2})", {R"("a")"}, {"1", "null", R"("bcd")"});
    expect_texts(R"({"type":"integer","const":3})", {"3"}, {"4"});
    expect_texts(R"({"enum":[1,5,9,1.5],"minimum":2,"multipleOf":1})", {"5", "9"}, {"1", "1.5"});
    expect_texts(R"({"enum":[{"a":1},{"a":"x"}],"properties":{"a":{"type":"string"}}})", {R"({"a":"x"})"}, {R"({"a":1})"});
    expect_refused(R"({"type":"integer","const":"3"})", "no text fits");
    expect_texts(R"({"enum":["a","b"],"not":{"const":"b"}})", {R"("a")"}, {R"("b")"});
    expect_texts(R"({"type":"string","maxLength":1,"not":{"enum":["b",""]}})", {R"("a")"}, {R"("b")", R"("")"});
}

TEST(SchemaKeywords, AllOf) {
    expect_texts(R"({"allOf":[{"$ref":"#/$defs/c"}],"default":"a","$defs":{"c":{"enum":["a","b"],"type":"string"}}})",
                 {R"("a")", R"("b")"}, {R"("c")"});
    expect_texts(R"({"allOf":[{"type":"string","minLength":2},{"maxLength":3},{"pattern":"^a"}]})", {R"("ab")", R"("abc")"},
                 {R"("a")", R"("abcd")", R"("ba")"});
    expect_texts(R"({"allOf":[{"type":"number"},{"type":"integer","minimum":3}],"maximum":5})", {"3", "5"}, {"2", "6", "3.5"});
    expect_texts(
        R"({"allOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"a":{"minimum":2},"b":{"const":1}},"required":["a"]}],"type":"object"})",
        {R"({"a":2})", R"({"a":3,"b":1})"}, {R"({"a":1})", R"({"b":1})"});
    expect_texts(R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]}],"not":{"const":3}})", {"2"}, {"1", "3", "4"});
    expect_refused(R"({"allOf":[{"type":"string"},{"type":"null"}]})", "no text fits");
}

TEST(SchemaKeywords, Choices) {
    expect_texts(
        R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
        {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"}, {"{}"});
    expect_texts(R"({"$ref":"#/$defs/x","minimum":3,"$defs":{"x":{"anyOf":[{"type":"integer"},{"type":"null"}]}}})",
                 {"3", "null"}, {"2"});
    // One and no other.
    expect_texts(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"1.5", "0.25"}, {"1", "1.0", "2.00"});
    expect_texts(R"({"oneOf":[{"type":"string","maxLength":2},{"type":"string","pattern":"^a"}]})", {R"("b")", R"("abc")"},
                 {R"("a")", R"("bcd")"});
    expect_texts(R"({"oneOf":[{"enum":["a","b"]},{"enum":["b","c"]}]})", {R"("a")", R"("c")"}, {R"("b")"});
    expect_texts(R"({"oneOf":[{"type":"object","properties":{"k":{"const":"x"}},"required":["k"]},
                 {"type":"object","properties":{"k":{"const":"y"},"n":{"const":1}},"required":["k","n"]}],"discriminator":{"propertyName":"k"}})",
                 {R"({"k":"x"})", R"({"k":"y","n":1})"}, {R"({"k":"y"})", R"({"k":"x","n":1})"});
    expect_texts(
        R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"object","properties":{"b":{}},"required":["b"]}]})",
        {R"({"a":1})", R"({"b":1})"}, {"{}", R"({"a":1,"b":1})"});
    expect_refused(R"({"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]})",
                   "#/oneOf/1: 'oneOf' cannot be followed");
}

TEST(SchemaKeywords, TypesAndNull) {
    expect_texts(R"({"type":["string","null"],"minLength":1})", {"null", R"("a")"}, {R"("")", "1"});
    expect_texts(R"({"type":"string","nullable":true,"enum":["a"]})", {"null", R"("a")"}, {R"("b")"});
    expect_texts(R"({"allOf":[{"$ref":"#/definitions/n"}],"nullable":true,"definitions":{"n":{"type":"integer","minimum":1}}})",
                 {"null", "1"}, {"0"});
    expect_texts(R"({"minimum":3})", {"3"}, {"2", "null"});
    expect_refused(R"({"type":"colour"})", "the type 'colour' is not known");
}

TEST(SchemaKeywords, Annotations) {
    expect_texts(
        R"({"type":"null","title":"t","description":"d","default":1,"examples":[1],"discriminator":{},"contentMediaType":"text/html",
                 "x-order":1,"x-anything":{"pattern":"("},"$schema":"s","$id":"i","$comment":"c","readOnly":true,"writeOnly":true,"deprecated":true})",
        {"null"}, {"1"});
    expect_refused(R"({"type":"null","minimun":3})", "#: 'minimun' is not understood");
}

TEST(SchemaKeywords, References) {
    expect_texts(
        R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer","maximum":9},"n":{"anyOf":[{"$ref":"#/$defs/n"},
                 {"type":"null"}]}},"required":["v","n"]}}})",
        {R"({"v":1,"n":null})", R"({"v":1,"n":{"v":2,"n":null}})"}, {R"({"v":1})", R"({"v":1,"n":{"v":10,"n":null}})"});
    expect_texts(R"({"type":"array","items":{"$ref":"#"},"maxItems":1})", {"[]", "[[[]]]"}, {"[[],[]]", "[1]"});
    expect_texts(R"({"properties":{"a":{"$ref":"#/properties/b"},"b":{"const":2}}})", {R"({"a":2})"}, {R"({"a":1})"});
}

std::string call_grammar(const std::string & parameters, std::vector<std::string> & notes) {
    const ToolFunction function = {"f", parameters, false};
    const auto grammar = tool_grammar(ToolForm::kBare, std::span(&function, 1), true, {}, &notes);
    EXPECT_TRUE(grammar.ok()) << grammar.status().message();
    return grammar.ok() ? *grammar : "";
}

// What is not understood weakens its own field.
TEST(SchemaKeywords, OfToolsWeakenTheirFieldAlone) {
    std::vector<std::string> notes;
    const std::string grammar = call_grammar(
        R"({"type":"object","properties":{"path":{"type":"string","pattern":"\\bx"},"n":{"type":"integer","minimum":1,"of":3},
        "tags":{"type":"array","items":{"enum":["a","b","c","d","e","f","g","h","i"]},"uniqueItems":true},"no":{"$ref":"http://x.org/y"}},
        "required":["path","n"],"dependentRequired":{"n":["tags"]}})",
        notes);
    const auto call = [](const std::string & arguments) { return R"({"name":"f","parameters":)" + arguments + "}"; };
    EXPECT_TRUE(has(grammar, call(R"({"path":"y","n":1})")));
    EXPECT_TRUE(has(grammar, call(R"({"path":"y","n":1,"tags":["a","a"],"no":[1]})")));
    for (const char * wrong : {"{}", R"({"path":"y"})", R"({"path":1,"n":1})", R"({"path":"y","n":0})",
                               R"({"path":"y","n":1,"tags":["z"]})", R"({"":"y"})", R"({"path":"y","n":1,"x":1})"}) {
        EXPECT_FALSE(has(grammar, call(wrong))) << wrong;
    }
    std::string all;
    for (const std::string & note : notes) { all += note + "\n"; }
    for (const char * part : {"the function 'f': #/properties/path: 'pattern'", "#/properties/n: 'of'",
                              "#/properties/tags: 'uniqueItems'", "#/properties/no: ", "#: 'dependentRequired'"}) {
        EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
    }
    EXPECT_EQ(notes.size(), 5U) << all;
}

TEST(SchemaKeywords, OfToolsThatAreAllUnderstoodSayNothing) {
    std::vector<std::string> notes;
    const std::string grammar =
        call_grammar(R"({"type":"object","properties":{"a":{"type":"integer","minimum":2}},"required":["a"]})", notes);
    EXPECT_TRUE(notes.empty());
    EXPECT_FALSE(has(grammar, R"({"name":"f","parameters":{"a":1}})"));
}

}  // namespace
}  // namespace pith::schema_keywords_test
