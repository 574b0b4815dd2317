// json_schema_test.cpp - whatever a sampler says under a schema's grammar is JSON that fits the schema.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "pith/text.h"
#include "text/tiny_vocabulary.h"

namespace pith::json_schema_test {
namespace {

using Json = nlohmann::json;
using testing::TempFolder;
using testing::write_tiny;

// Says a text under the grammar, drawn from random logits in which quotes and closing brackets are likely, so that it ends.
class Speaker {
public:
    Speaker() : tokenizer_(Tokenizer::load(write_tiny(folder_)).value()) {}

    std::string say(const std::string & grammar, unsigned seed) const {
        SamplerOptions options;
        options.grammar = grammar;
        options.seed = seed;
        auto sampler = Sampler::make(options, &tokenizer_);
        EXPECT_TRUE(sampler.ok()) << sampler.status().message() << "\n" << grammar;
        if (!sampler.ok()) { return {}; }
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        std::string text;
        for (int i = 0; i < 2000; ++i) {
            std::vector<float> logits(static_cast<size_t>(tokenizer_.n_vocab()));
            for (int32_t t = 0; t < tokenizer_.n_vocab(); ++t) {
                const std::string piece = tokenizer_.piece(t);
                const bool ends = piece == "\"" || piece == "}" || piece == "]" || tokenizer_.is_end_of_generation(t);
                logits[static_cast<size_t>(t)] = normal(random) + (ends ? 4.0F : 0.0F);
                // Bytes drawn at random are rarely UTF-8, which a grammar of characters does not see.
                const bool ascii = std::ranges::all_of(piece, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
                if (!ascii) { logits[static_cast<size_t>(t)] = -INFINITY; }
            }
            const auto token = sampler->sample(logits);
            EXPECT_TRUE(token.ok()) << token.status().message() << " after " << text;
            if (!token.ok() || tokenizer_.is_end_of_generation(*token)) { return text; }
            text += tokenizer_.piece(*token);
        }
        ADD_FAILURE() << "no end: " << text;
        return text;
    }

private:
    TempFolder folder_;
    Tokenizer tokenizer_;
};

// Every text under the schema is JSON, and `fits` says that it fits.
void expect_all_fit(const std::string & schema, const std::function<bool(const Json &)> & fits) {
    static const Speaker speaker;
    const auto grammar = grammar_of_json_schema(schema);
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    for (unsigned seed = 0; seed < 12; ++seed) {
        const std::string text = speaker.say(*grammar, seed);
        const Json value = Json::parse(text, nullptr, false);
        ASSERT_FALSE(value.is_discarded()) << text << "\n" << *grammar;
        EXPECT_TRUE(fits(value)) << text << "\n" << *grammar;
    }
}

TEST(JsonSchema, SimpleTypes) {
    expect_all_fit(R"({"type": "boolean"})", [](const Json & v) { return v.is_boolean(); });
    expect_all_fit(R"({"type": "integer", "title": "a number"})", [](const Json & v) { return v.is_number_integer(); });
    expect_all_fit(R"({"type": ["null", "number"]})", [](const Json & v) { return v.is_null() || v.is_number(); });
    expect_all_fit(R"({"enum": ["red", 3, null, {"a": [1]}]})", [](const Json & v) {
        return v == "red" || v == 3 || v.is_null() || v == Json({{"a", {1}}});
    });
    expect_all_fit(R"({"const": "say \"no\"\n"})", [](const Json & v) { return v == "say \"no\"\n"; });
    expect_all_fit(R"({"type": "string", "minLength": 2, "maxLength": 3})",
                   [](const Json & v) { return v.is_string() && !v.get<std::string>().empty(); });
}

TEST(JsonSchema, ObjectsHaveWhatIsRequiredInTheSchemasOrder) {
    const std::string schema = R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
        "open": {"type": "boolean"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3}},
        "required": ["age", "tags"]})";
    expect_all_fit(schema, [](const Json & v) {
        if (!v.is_object() || !v.contains("age") || !v.contains("tags")) { return false; }
        for (const auto & [key, value] : v.items()) {
            if (key != "name" && key != "age" && key != "open" && key != "tags") { return false; }
        }
        const Json & tags = v["tags"];
        return v["age"].is_number_integer() && tags.is_array() && !tags.empty() && tags.size() <= 3 &&
               std::all_of(tags.begin(), tags.end(), [](const Json & tag) { return tag == "a" || tag == "b"; });
    });
    expect_all_fit(R"({"type": "object", "additionalProperties": {"type": "null"}})", [](const Json & v) {
        return v.is_object() && std::all_of(v.begin(), v.end(), [](const Json & one) { return one.is_null(); });
    });
    expect_all_fit(R"({"type": "object", "properties": {}, "additionalProperties": false})",
                   [](const Json & v) { return v == Json::object(); });
}

TEST(JsonSchema, ListsChoicesAndReferences) {
    expect_all_fit(R"({"prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": false})",
                   [](const Json & v) { return v.is_array() && v.size() == 2 && v[0].is_null() && v[1].is_boolean(); });
    expect_all_fit(R"({"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]})",
                   [](const Json & v) { return v.is_null() || v == Json::array(); });
    // A tree of nodes: a schema that speaks of itself.
    expect_all_fit(R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties":
                   {"left": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["left"]}}})",
                   [](const Json & v) {
                       const Json * node = &v;
                       while (node->is_object() && node->size() == 1 && node->contains("left")) { node = &(*node)["left"]; }
                       return v.is_object() && node->is_null();
                   });
    expect_all_fit(R"({"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]},
                   {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}]})",
                   [](const Json & v) { return v.size() == 2 && v["a"].is_null() && v["b"].is_boolean(); });
}

TEST(JsonSchema, WhatIsNotUnderstoodIsRefusedByName) {
    const auto expect_error = [](const std::string & schema, const std::string & part) {
        const auto grammar = grammar_of_json_schema(schema);
        ASSERT_FALSE(grammar.ok()) << schema;
        EXPECT_EQ(grammar.status().code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(grammar.status().message().find(part), std::string::npos) << grammar.status().message();
    };
    expect_error("{", "the JSON schema is no JSON: line 1, byte 2: a name in quotation marks or '}' belongs here");
    expect_error("{\"type\":\n oops}", "line 2, byte 2: a value belongs here, not 'o'");
    expect_error(R"({"const": 1e999})", "a number that is too large");
    std::string deep;
    for (int i = 0; i < 50000; ++i) { deep += R"({"type":"array","items":)"; }
    expect_error(deep + "{}" + std::string(50000, '}'), "nested deeper than 200");
    expect_error(R"({"allOf": [{"required": {}}]})", "#/allOf/0: 'required' is no list of names");
    expect_error(R"({"allOf": [{"properties": {"a": {}}}], "properties": 3})", "#: 'properties' is no object");
    expect_error(R"({"type": "object", "properties": [1]})", "#: 'properties' is no object");
    expect_error("3", "neither an object nor a boolean");
    expect_error("false", "no text fits");
    expect_error(R"({"type": "string", "contains": 3})", "#: 'contains' is not understood; leave it out, or send a grammar");
    expect_error(R"({"type": "object", "properties": {"x": {"type": "integer", "if": {}}}})", "#/properties/x: 'if'");
    expect_error(R"({"type": "string", "minimum": "3"})", "#: 'minimum' is no number");
    expect_error(R"({"type": "colour"})", "the type 'colour' is not known");
    expect_error(R"({"$ref": "http://example.org/x"})", "only places of this document");
    expect_error(R"({"$ref": "#/nowhere"})", "no such place");
    expect_error(R"({"type": "object", "required": ["x"], "additionalProperties": false})", "'x' is required");
    expect_error(R"({"type": ["null", "object", "object"]})", "#: 'type' has \"object\" twice");
    expect_error("{\"title\": \"" + std::string(size_t{1} << 20, 'x') + "\"}", "1048576 at most");
    expect_error(R"({"type": "array", "minItems": 3, "maxItems": 2})", "'maxItems' is less than 'minItems'");
}

// Each place may be said once for every type, and what it refers to again: a short schema would be gigabytes of grammar.
TEST(JsonSchema, RefusesWhatWouldBeWrittenDownWithoutEnd) {
    std::string doubled = R"({"type":"null"})";
    for (int i = 0; i < 60; ++i) { doubled = R"({"type":["object","object"],"properties":{"a":)" + doubled + "}}"; }
    EXPECT_FALSE(grammar_of_json_schema(doubled).ok());
    // Each of thirty choices doubles what is written down.
    std::string choices;
    for (int i = 0; i < 30; ++i) {
        const std::string name = std::to_string(i);
        choices += std::string(i > 0 ? "," : "") + R"({"anyOf":[{"properties":{"a)" + name + R"(":{}}},{"properties":{"b)" +
                   name + R"(":{}}}]})";
    }
    const auto again = grammar_of_json_schema(R"({"type":"object","allOf":[)" + choices + "]}");
    ASSERT_FALSE(again.ok());
    EXPECT_NE(again.status().message().find("more than can be written down"), std::string::npos) << again.status().message();
    // The same part a thousand times says it once.
    std::string properties;
    for (int i = 0; i < 4000; ++i) { properties += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":true"; }
    std::string parts;
    for (int i = 0; i < 1000; ++i) { parts += (i > 0 ? "," : "") + std::string(R"({"$ref":"#/$defs/a"})"); }
    EXPECT_TRUE(
        grammar_of_json_schema(R"({"allOf":[)" + parts + R"(],"$defs":{"a":{"properties":{)" + properties + "}}}}").ok());
    // Every type once, as deep as JSON may be.
    std::string all = "true";
    for (int i = 0; i < 60; ++i) { all = R"({"type":["object","array","string","null"],"properties":{"a":)" + all + "}}"; }
    EXPECT_TRUE(grammar_of_json_schema(all).ok());
}

// A chain of references is as long as the document, and each would be a call inside of the one before.
TEST(JsonSchema, RefusesReferencesWithoutEnd) {
    const auto chain = [](int n) {
        std::string all;
        for (int i = 1; i < n; ++i) { all += R"({"$ref":"#/$defs/)" + std::to_string(i) + "\"},"; }
        return R"({"$ref":"#/$defs/0","$defs":[)" + all + R"({"type":"null"}]})";
    };
    const auto refused = grammar_of_json_schema(chain(30'000));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("nested deeper than 400"), std::string::npos) << refused.status().message();
    EXPECT_TRUE(grammar_of_json_schema(chain(390)).ok());
}

// A grammar that begins with itself cannot be read.
TEST(JsonSchema, RefusesAReferenceThatBeginsWithItself) {
    for (const char * schema :
         {R"({"$ref": "#"})", R"({"anyOf": [{"$ref": "#"}, {"type": "string"}]})",
          R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"oneOf": [{"$ref": "#/$defs/a"}]}}})"}) {
        const auto grammar = grammar_of_json_schema(schema);
        ASSERT_FALSE(grammar.ok()) << *grammar;
        EXPECT_NE(grammar.status().message().find("itself"), std::string::npos) << grammar.status().message();
    }
    EXPECT_TRUE(grammar_of_json_schema(R"({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}})").ok());
    EXPECT_TRUE(grammar_of_json_schema(R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]})").ok());
}

}  // namespace
}  // namespace pith::json_schema_test
