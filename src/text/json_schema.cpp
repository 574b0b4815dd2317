// json_schema.cpp - a JSON schema as a grammar, a rule for each place of the schema. Stage: text.
//
// Understood: true, {}, type (one or several), enum, const, properties, required, additionalProperties, items, prefixItems,
// minItems, maxItems, minLength, maxLength, anyOf, oneOf (as anyOf), allOf of objects, $ref inside the document (#/…), also to
// itself. Properties come in the schema's order; those that are not required may be left out. Anything else is refused: a
// grammar that let more through than the schema would not keep its promise.
// Threads: pure function.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/guarded.h"
#include "core/items.h"
#include "core/json_syntax.h"
#include "pith/text.h"
#include "text/json_grammar.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

// Between tokens at most one space, or a line break and its indentation: a model cannot fill its limit with blanks.
constexpr const char * kBasics = R"(ws ::= | " " | "\n" [ \t]{0,20}
char ::= [^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
string ::= "\"" char* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,17})
number ::= integer ("." [0-9]{1,17})? ([eE] [-+]? [0-9]{1,3})?
boolean ::= "true" | "false"
null ::= "null"
value ::= object | array | string | number | boolean | null
object ::= "{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
)";

constexpr size_t kMostSchemaBytes = size_t{1} << 20;
constexpr size_t kMostWork = size_t{16} << 20;  // bytes of all expressions, those inside of others, too
constexpr int kMostDepth = 400;                 // of calls: a chain of references may be as long as the document

// The keywords that say nothing about the text, or not enough to write it down.
const std::set<std::string> kSilent = {"title", "description", "default", "examples", "$schema",   "$id",       "$comment",
                                       "$defs", "definitions", "format",  "readOnly", "writeOnly", "deprecated"};

// Where a schema says nothing.
const Json kAnything = true;
const Json kNothing = false;
const Json kNoProperties = Json::object();

std::string literal_json(const Json & value) {
    return grammar_literal(value.dump());
}

class Converter {
public:
    // prefix: of the names of all rules but the first.
    Converter(const Json & document, std::string prefix) : document_(document), prefix_(std::move(prefix)) {}

    Result<std::string> run(const std::string & first) {
        PITH_ASSIGN_OR_RETURN(const std::string root, convert(document_, "#"));
        std::string grammar = first + " ::= ws " + root + " ws\n";
        for (const auto & [name, body] : rules_) { grammar += name + " ::= " + body + "\n"; }
        return grammar;
    }

private:
    static Status bad(const std::string & where, const Wording & what) {
        return {ErrorCode::kInvalidArgument, "JSON schema, " + where + ": " + what};
    }

    std::string add_rule(const std::string & body) {
        const std::string name = prefix_ + 'r' + std::to_string(rules_.size());
        rules_.emplace_back(name, body);
        return name;
    }

    // The keywords of `schema` beyond `known` and the silent ones are refused.
    static Status only(const Json & schema, const std::string & where, const std::set<std::string> & known) {
        for (const auto & [key, value] : schema.items()) {
            if (known.count(key) != 0 || kSilent.count(key) != 0) { continue; }
            return bad(where,
                       "'" + key + "' is not understood; leave it out, or write the grammar by hand (" + item::kGrammar + ")");
        }
        return {};
    }

    // A short schema may say the same place again and again ($ref, allOf), and each time costs what is written down.
    Status spend(size_t n_bytes, const std::string & where) {
        n_bytes_ += n_bytes;
        if (n_bytes_ <= kMostWork) { return {}; }
        return bad(where, "the schema says more than can be written down: leave out some of it");
    }

    // An expression of the grammar, in brackets where it needs them.
    Result<std::string> convert(const Json & schema, const std::string & where) {
        if (depth_ == kMostDepth) {
            return bad(where,
                       "schemas are nested deeper than " + std::to_string(kMostDepth) + ", what '$ref' names counted in");
        }
        ++depth_;
        Result<std::string> converted = convert_as_it_is(schema, where);
        --depth_;
        PITH_ASSIGN_OR_RETURN(std::string text, std::move(converted));
        PITH_RETURN_IF_ERROR(spend(text.size() + 1, where));
        return text;
    }
    Result<std::string> convert_as_it_is(const Json & schema, const std::string & where) {
        if (schema.is_boolean()) {
            if (schema.get<bool>()) { return std::string("value"); }
            return bad(where, "is false, which no text fits");
        }
        if (!schema.is_object()) { return bad(where, "is neither an object nor a boolean"); }
        if (schema.contains("$ref")) { return reference(schema, where); }
        if (schema.contains("const")) {
            PITH_RETURN_IF_ERROR(only(schema, where, {"const", "type"}));
            return literal_json(schema["const"]);
        }
        if (schema.contains("enum")) {
            PITH_RETURN_IF_ERROR(only(schema, where, {"enum", "type"}));
            if (!schema["enum"].is_array() || schema["enum"].empty()) { return bad(where, "'enum' is not a list of values"); }
            std::string out;
            for (const Json & value : schema["enum"]) { out += (out.empty() ? "" : " | ") + literal_json(value); }
            return "(" + out + ")";
        }
        for (const char * key : {"anyOf", "oneOf"}) {
            if (!schema.contains(key)) { continue; }
            PITH_RETURN_IF_ERROR(only(schema, where, {key}));
            return any_of(schema[key], where + "/" + key);
        }
        if (schema.contains("allOf")) { return all_of(schema, where); }
        if (!schema.contains("type")) {
            if (schema.contains("properties") || schema.contains("required") || schema.contains("additionalProperties")) {
                return object(schema, where);
            }
            if (schema.contains("items") || schema.contains("prefixItems")) { return array(schema, where); }
            PITH_RETURN_IF_ERROR(only(schema, where, {}));
            return std::string("value");
        }
        if (schema["type"].is_array()) {
            std::string out;
            std::set<std::string> listed;
            for (const Json & one : schema["type"]) {
                // Else a place would be written down twice, the places in it four times, and so on.
                if (!listed.insert(one.dump()).second) { return bad(where, "'type' has " + one.dump() + " twice"); }
                PITH_ASSIGN_OR_RETURN(const std::string part, typed(keywords_of(schema, one), where));
                out += (out.empty() ? "" : " | ") + part;
            }
            if (out.empty()) { return bad(where, "'type' is an empty list"); }
            return "(" + out + ")";
        }
        return typed(schema, where);
    }

    // Of several types each has the keywords that are about it. What is about others is not copied: a schema is deep.
    static Json keywords_of(const Json & schema, const Json & type) {
        static const std::map<std::string, std::set<std::string>> about = {
            {"object", {"properties", "required", "additionalProperties"}},
            {"array", {"items", "prefixItems", "minItems", "maxItems"}},
            {"string", {"minLength", "maxLength"}}};
        Json out = {{"type", type}};
        for (const auto & [key, value] : schema.items()) {
            const bool is_others = std::ranges::any_of(
                about, [&, &name = key](const auto & one) { return type != one.first && one.second.contains(name); });
            if (key != "type" && !is_others && !kSilent.contains(key)) { out[key] = value; }
        }
        return out;
    }

    Result<std::string> typed(const Json & schema, const std::string & where) {
        if (!schema["type"].is_string()) { return bad(where, "'type' is no name"); }
        const std::string type = schema["type"];
        if (type == "object") { return object(schema, where); }
        if (type == "array") { return array(schema, where); }
        if (type == "string") { return string(schema, where); }
        if (type == "number" || type == "integer" || type == "boolean" || type == "null") {
            PITH_RETURN_IF_ERROR(only(schema, where, {"type"}));
            return type;
        }
        return bad(where, "the type '" + type + "' is not known");
    }

    Result<std::string> any_of(const Json & list, const std::string & where) {
        if (!list.is_array() || list.empty()) { return bad(where, "is not a list of schemas"); }
        std::string out;
        for (size_t i = 0; i < list.size(); ++i) {
            PITH_ASSIGN_OR_RETURN(const std::string part, convert(list[i], where + "/" + std::to_string(i)));
            out += (out.empty() ? "" : " | ") + part;
        }
        return "(" + out + ")";
    }

    // What holds properties holds them as JSON Schema has it.
    static Status check_object(const Json & schema, const std::string & where) {
        if (schema.contains("properties") && !schema["properties"].is_object()) {
            return bad(where, "'properties' is no object with a schema for each name");
        }
        if (schema.contains("required") && !schema["required"].is_array()) {
            return bad(where, "'required' is no list of names");
        }
        return {};
    }

    // Objects that all must fit: one object with the properties of each.
    Result<std::string> all_of(const Json & schema, const std::string & where) {
        PITH_RETURN_IF_ERROR(only(schema, where, {"allOf", "type", "properties", "required", "additionalProperties"}));
        PITH_RETURN_IF_ERROR(check_object(schema, where));
        Json together = schema;
        together.erase("allOf");
        together["type"] = "object";
        if (!schema["allOf"].is_array()) { return bad(where, "'allOf' is not a list of schemas"); }
        for (size_t i = 0; i < schema["allOf"].size(); ++i) {
            const std::string part_where = where + "/allOf/" + std::to_string(i);
            PITH_ASSIGN_OR_RETURN(const Json * part, resolved(schema["allOf"][i], part_where));
            PITH_RETURN_IF_ERROR(only(*part, part_where, {"type", "properties", "required", "additionalProperties"}));
            PITH_RETURN_IF_ERROR(check_object(*part, part_where));
            if (part->contains("properties")) {
                for (const auto & [key, value] : (*part)["properties"].items()) {
                    PITH_RETURN_IF_ERROR(spend(key.size() + together["properties"].size(), where));  // each is looked at
                    together["properties"][key] = value;
                }
            }
            if (part->contains("required")) {
                PITH_RETURN_IF_ERROR(spend((*part)["required"].size(), where));
                for (const Json & key : (*part)["required"]) { together["required"].push_back(key); }
            }
            if (part->contains("additionalProperties")) { together["additionalProperties"] = (*part)["additionalProperties"]; }
        }
        return object(together, where);
    }

    Result<const Json *> resolved(const Json & schema, const std::string & where) {
        if (!schema.is_object()) { return bad(where, "is no object"); }
        if (!schema.contains("$ref")) { return &schema; }
        if (!schema["$ref"].is_string()) { return bad(where, "'$ref' is no text"); }
        const std::string ref = schema["$ref"];
        if (!ref.starts_with("#")) {
            return bad(where, "'$ref' is '" + ref + "': only places of this document (#/…) can be read");
        }
        try {
            return &document_.at(Json::json_pointer(ref.substr(1)));
        } catch (const Json::exception &) { return bad(where, "'$ref' is '" + ref + "', and there is no such place"); }
    }

    Result<std::string> reference(const Json & schema, const std::string & where) {
        PITH_RETURN_IF_ERROR(only(schema, where, {"$ref"}));
        PITH_ASSIGN_OR_RETURN(const Json * target, resolved(schema, where));
        const std::string ref = schema["$ref"];
        if (at_front_.count(ref) != 0) {
            return bad(where, "'$ref' is '" + ref + "', which begins with itself and never ends");
        }
        if (const auto known = referenced_.find(ref); known != referenced_.end()) { return known->second; }
        const std::string name = prefix_ + "ref" + std::to_string(referenced_.size());
        referenced_[ref] = name;  // before its body, which may speak of it
        at_front_.insert(ref);
        PITH_ASSIGN_OR_RETURN(const std::string body, convert(*target, ref));
        at_front_.erase(ref);
        rules_.emplace_back(name, body);
        return name;
    }

    static Result<int> count(const Json & schema, const char * key, int otherwise, const std::string & where) {
        if (!schema.contains(key)) { return otherwise; }
        const Json & value = schema[key];
        if (value.is_number_integer() && value >= 0 && value <= 10000) { return value.get<int>(); }
        return bad(where, '\'' + std::string(key) + "' is no whole number from 0 to 10000");
    }

    // "{low,high}"; high below 0: no end.
    static std::string times(int low, int high) {
        return '{' + std::to_string(low) + ',' + (high < 0 ? "" : std::to_string(high)) + '}';
    }

    Result<std::string> string(const Json & schema, const std::string & where) {
        PITH_RETURN_IF_ERROR(only(schema, where, {"type", "minLength", "maxLength"}));
        if (!schema.contains("minLength") && !schema.contains("maxLength")) { return std::string("string"); }
        PITH_ASSIGN_OR_RETURN(const int low, count(schema, "minLength", 0, where));
        PITH_ASSIGN_OR_RETURN(const int high, count(schema, "maxLength", -1, where));
        if (high >= 0 && high < low) { return bad(where, "'maxLength' is less than 'minLength'"); }
        return add_rule("\"\\\"\" char" + times(low, high) + " \"\\\"\"");
    }

    static const Json & or_else(const Json & schema, const char * key, const Json & otherwise) {
        const auto found = schema.find(key);
        return found == schema.end() ? otherwise : *found;
    }

    // From here on something has been said: whoever refers to what is open does not begin with itself.
    struct Said {
        std::set<std::string> & front;
        std::set<std::string> before = std::exchange(front, {});
        ~Said() { front = std::move(before); }
    };

    Result<std::string> array(const Json & schema, const std::string & where) {
        const Said said{at_front_};
        PITH_RETURN_IF_ERROR(only(schema, where, {"type", "items", "prefixItems", "minItems", "maxItems"}));
        PITH_ASSIGN_OR_RETURN(const int low, count(schema, "minItems", 0, where));
        PITH_ASSIGN_OR_RETURN(const int high, count(schema, "maxItems", -1, where));
        if (high >= 0 && high < low) { return bad(where, "'maxItems' is less than 'minItems'"); }
        const std::string comma = " ws \",\" ws ";
        if (schema.contains("prefixItems")) {
            if (schema.contains("items") && schema["items"] != Json(false)) {
                return bad(where, "'items' beside 'prefixItems' is not understood, unless it is false");
            }
            std::string out;
            for (size_t i = 0; i < schema["prefixItems"].size(); ++i) {
                PITH_ASSIGN_OR_RETURN(const std::string item,
                                      convert(schema["prefixItems"][i], where + "/prefixItems/" + std::to_string(i)));
                out += (out.empty() ? "" : comma) + item;
            }
            return add_rule("\"[\" ws " + out + " ws \"]\"");
        }
        PITH_ASSIGN_OR_RETURN(const std::string item, convert(or_else(schema, "items", kAnything), where + "/items"));
        if (high == 0) { return std::string("\"[\" ws \"]\""); }
        std::string items = item + " (" + comma + item + ")" + times(std::max(low - 1, 0), high < 0 ? -1 : high - 1);
        if (low == 0) { items = "(" + items + ")?"; }
        return add_rule("\"[\" ws " + items + " ws \"]\"");
    }

    // Properties in order. From each on there are two ways to go on: with a comma before it, where something was said already,
    // and without.
    Result<std::string> object(const Json & schema, const std::string & where) {
        const Said said{at_front_};
        PITH_RETURN_IF_ERROR(only(schema, where, {"type", "properties", "required", "additionalProperties"}));
        PITH_RETURN_IF_ERROR(check_object(schema, where));
        const Json & properties = or_else(schema, "properties", kNoProperties);
        std::set<std::string> required;
        for (const Json & key : schema.value("required", Json::array())) {
            if (!key.is_string()) { return bad(where, "'required' is no list of names"); }
            required.insert(key.get<std::string>());
        }
        for (const std::string & key : required) {
            if (!properties.contains(key)) { return bad(where, "'" + key + "' is required, and no property says what it is"); }
        }
        std::string other;  // a property that the schema does not name; empty: there may be none
        const Json & more = or_else(schema, "additionalProperties", properties.empty() ? kAnything : kNothing);
        if (more != Json(false)) {
            PITH_ASSIGN_OR_RETURN(const std::string value, convert(more, where + "/additionalProperties"));
            other = "string ws \":\" ws " + value;
        }
        std::string first = other.empty() ? "" : "(" + other + " (ws \",\" ws " + other + ")*)?";
        std::string after = other.empty() ? "" : "(ws \",\" ws " + other + ")*";
        std::vector<std::pair<std::string, const Json *>> in_order;
        for (const auto & [key, value] : properties.items()) { in_order.emplace_back(key, &value); }
        for (auto property = in_order.rbegin(); property != in_order.rend(); ++property) {
            const auto & [key, value] = *property;
            PITH_ASSIGN_OR_RETURN(const std::string text, convert(*value, where + "/properties/" + key));
            const std::string pair = literal_json(Json(key)) + " ws \":\" ws " + text;
            const std::string behind = after.empty() ? "" : " " + add_rule(after);
            const bool must = required.count(key) != 0;
            const std::string skipped = first.empty() ? "\"\"" : first;
            first = must ? pair + behind : pair + behind + " | " + skipped;
            after = must ? "ws \",\" ws " + pair + behind : "(ws \",\" ws " + pair + ")?" + behind;
        }
        return add_rule("\"{\" ws" + (first.empty() ? "" : " " + add_rule(first)) + " ws \"}\"");
    }

    const Json & document_;
    std::string prefix_;
    std::vector<std::pair<std::string, std::string>> rules_;
    std::map<std::string, std::string> referenced_;
    size_t n_bytes_ = 0;
    int depth_ = 0;
    std::set<std::string> at_front_;  // references whose text may begin here
};

Result<std::string> rules_of(std::string_view schema, const std::string & first, const std::string & prefix) {
    if (const std::string problem = json_problem(schema); !problem.empty()) {
        return {ErrorCode::kInvalidArgument, "the JSON schema is no JSON: " + problem};
    }
    if (schema.size() > kMostSchemaBytes) {
        return {ErrorCode::kInvalidArgument, "the JSON schema has " + std::to_string(schema.size()) +
                                                 " bytes: " + std::to_string(kMostSchemaBytes) + " at most"};
    }
    const Json document = Json::parse(schema, nullptr, /*allow_exceptions=*/false);
    if (document.is_discarded()) {
        return {ErrorCode::kInvalidArgument, "the JSON schema has a number that is too large, or text that is not UTF-8"};
    }
    try {
        return Converter(document, prefix).run(first);
    } catch (const Json::exception &) {
        return {ErrorCode::kInvalidArgument,
                "the JSON schema cannot be read: a keyword holds something else than JSON Schema says; write the grammar by "
                "hand (" +
                    item::kGrammar + ")"};
    }
}

}  // namespace

std::string grammar_literal(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') { out += '\\'; }
        if (c == '\n') {
            out += "\\n";
        } else {
            out += c;
        }
    }
    return out + "\"";
}

Result<std::string> json_schema_rules(std::string_view schema, const std::string & name) {
    return rules_of(schema, name, name + '-');
}

std::string_view json_grammar_basics() {
    return kBasics;
}

Result<std::string> grammar_of_json_schema(std::string_view schema) {
    return guarded([&]() -> Result<std::string> {
        PITH_ASSIGN_OR_RETURN(const std::string rules, rules_of(schema, "root", ""));
        return rules + kBasics;
    });
}

}  // namespace pith
