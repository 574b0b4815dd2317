// schema_keywords.cpp - what a schema's keywords say, and what that makes of a property or an item. Stage: text.
#include <algorithm>

#include "text/schema_reader.h"
#include "text/text_pattern.h"

namespace pith {
namespace {

using Json = SchemaJson;

constexpr int64_t kMostCount = int64_t{1} << 40;

unsigned type_called(const std::string & name) {
    static const std::map<std::string, unsigned> kNames = {
        {"null", schema_type::kNull},     {"boolean", schema_type::kBoolean}, {"integer", schema_type::kInteger},
        {"number", schema_type::kNumber}, {"string", schema_type::kString},   {"array", schema_type::kArray},
        {"object", schema_type::kObject}};
    const auto found = kNames.find(name);
    return found != kNames.end() ? found->second : 0;
}

}  // namespace

Status SchemaReader::read_types(const Json & schema, const std::string & where, Facts & facts) {
    if (const auto type = schema.find("type"); type != schema.end()) {
        unsigned types = 0;
        std::set<std::string> listed;
        const Json list = type->is_array() ? *type : Json::array({*type});
        if (list.empty()) { return bad(where, "'type' is an empty list"); }
        for (const Json & one : list) {
            if (!one.is_string()) { return bad(where, "'type' is no name"); }
            const std::string name = one;
            if (!listed.insert(name).second) { return bad(where, "'type' has \"" + shortened(name) + "\" twice"); }
            if (type_called(name) == 0) { return bad(where, "the type '" + shortened(name) + "' is not known"); }
            types |= type_called(name);
        }
        facts.types &= types;
    }
    const auto keep_values = [&](std::vector<const Json *> values) -> Status {
        if (!facts.values) {
            facts.values = std::move(values);
            return {};
        }
        PITH_RETURN_IF_ERROR(spend(values.size() * facts.values->size(), where));
        std::erase_if(*facts.values, [&](const Json * one) {
            return std::ranges::none_of(values, [&](const Json * other) { return *one == *other; });
        });
        return {};
    };
    if (const auto found = schema.find("const"); found != schema.end()) { PITH_RETURN_IF_ERROR(keep_values({&*found})); }
    if (const auto found = schema.find("enum"); found != schema.end()) {
        if (!found->is_array() || found->empty()) { return bad(where, "'enum' is not a list of values"); }
        std::vector<const Json *> values;
        for (const Json & one : *found) { values.push_back(&one); }
        PITH_RETURN_IF_ERROR(keep_values(std::move(values)));
    }
    return {};
}

Status SchemaReader::read_numbers(const Json & schema, const std::string & where, Facts & facts) {
    const auto number = [&](const char * key, const Json *& out) -> Status {
        const auto found = schema.find(key);
        out = found != schema.end() ? &*found : nullptr;
        if (out == nullptr || out->is_number() || out->is_boolean()) { return {}; }
        return bad(where, '\'' + std::string(key) + "' is no number");
    };
    const auto bound = [&](const char * key, const char * exclusive, bool is_low) -> Status {
        const Json * value = nullptr;
        const Json * strict = nullptr;
        PITH_RETURN_IF_ERROR(number(key, value));
        PITH_RETURN_IF_ERROR(number(exclusive, strict));
        const auto say = [&](const Json & one, bool is_out) {
            is_low ? facts.range.at_least(decimal_of(one), is_out) : facts.range.at_most(decimal_of(one), is_out);
        };
        const bool is_old = strict != nullptr && strict->is_boolean();  // draft 4
        if (value != nullptr && value->is_boolean()) { return bad(where, '\'' + std::string(key) + "' is no number"); }
        if (value != nullptr) { say(*value, is_old && strict->get<bool>()); }
        if (strict != nullptr && !is_old) { say(*strict, true); }
        return {};
    };
    PITH_RETURN_IF_ERROR(bound("minimum", "exclusiveMinimum", true));
    PITH_RETURN_IF_ERROR(bound("maximum", "exclusiveMaximum", false));
    const Json * of = nullptr;
    PITH_RETURN_IF_ERROR(number("multipleOf", of));
    if (of != nullptr) {
        if (!of->is_number() || *of <= 0) { return bad(where, "'multipleOf' is no number above 0"); }
        const Decimal step = decimal_of(*of);
        if (!step.fraction.empty() || step.whole.size() > 9) {
            return not_followed(where, "multipleOf", "can be followed for whole numbers up to 999999999");
        }
        const auto whole = static_cast<uint32_t>(std::stoul(step.whole));
        if (whole > 1) { facts.range.multiples.push_back(whole); }
    }
    const auto format = schema.find("format");
    if (format != schema.end() && (*format == "int32" || *format == "uint32")) {
        const bool is_signed = *format == "int32";
        facts.range.at_least(decimal_of(is_signed ? Json(INT32_MIN) : Json(0)), false);
        facts.range.at_most(decimal_of(is_signed ? Json(INT32_MAX) : Json(UINT32_MAX)), false);
    }
    return {};
}

Status SchemaReader::count(const Json & schema, const char * key, int64_t & out, bool is_most,
                           const std::string & where) const {
    if (!schema.contains(key)) { return {}; }
    const Json & value = schema[key];
    const bool is_whole = value.is_number() && value >= 0 && decimal_of(value).fraction.empty();
    if (!is_whole) { return bad(where, '\'' + std::string(key) + "' is no whole number from 0 on"); }
    const int64_t n = value > kMostCount ? kMostCount : value.get<int64_t>();
    out = is_most ? (out < 0 ? n : std::min(out, n)) : std::max(out, n);
    return {};
}

Status SchemaReader::read_strings(const Json & schema, const std::string & where, Facts & facts) {
    PITH_RETURN_IF_ERROR(count(schema, "minLength", facts.min_length, false, where));
    PITH_RETURN_IF_ERROR(count(schema, "maxLength", facts.max_length, true, where));
    if (const auto found = schema.find("pattern"); found != schema.end()) {
        if (!found->is_string()) { return bad(where, "'pattern' is no text"); }
        PITH_ASSIGN_OR_RETURN(const RegularTexts::Id some, pattern(found->get<std::string>(), where));
        facts.texts = texts_.both({facts.texts, some});
    }
    if (const auto found = schema.find("format"); found != schema.end()) {
        if (!found->is_string()) { return bad(where, "'format' is no text"); }
        static const std::set<std::string> kUnknown = {"regex", "uri-template"};  // of which no pattern speaks
        if (kUnknown.contains(found->get<std::string>())) {
            return not_followed(where, "format", "is " + shortened(found->dump()) + ", which is not understood");
        }
        if (const std::string * known = pattern_of_format(found->get<std::string>())) {
            PITH_ASSIGN_OR_RETURN(const RegularTexts::Id some, pattern(*known, where));
            facts.texts = texts_.both({facts.texts, some});
        }
    }
    return {};
}

Result<RegularTexts::Id> SchemaReader::pattern(const std::string & text, const std::string & where) {
    if (const auto known = patterns_.find(text); known != patterns_.end()) { return known->second; }
    const auto read = texts_with_pattern(texts_, text);
    RegularTexts::Id out = RegularTexts::kAll;
    if (read.ok()) {
        out = *read;
    } else {
        PITH_RETURN_IF_ERROR(not_followed(where, "pattern", "cannot be followed: " + read.status().message()));
    }
    patterns_[text] = out;
    return out;
}

Status SchemaReader::read_arrays(const Json & schema, const std::string & where, Facts & facts) {
    int64_t least = facts.min_items.value_or(0);
    PITH_RETURN_IF_ERROR(count(schema, "minItems", least, false, where));
    if (schema.contains("minItems")) { facts.min_items = least; }
    PITH_RETURN_IF_ERROR(count(schema, "maxItems", facts.max_items, true, where));
    if (schema.contains("prefixItems") && !schema["prefixItems"].is_array()) {
        return bad(where, "'prefixItems' is not a list of schemas");
    }
    if (schema.contains("items") || schema.contains("prefixItems")) { facts.arrays.push_back(&schema); }
    if (const auto found = schema.find("uniqueItems"); found != schema.end()) {
        if (!found->is_boolean()) { return bad(where, "'uniqueItems' is neither true nor false"); }
        if (found->get<bool>()) { facts.unique = &schema; }
    }
    if (const auto found = schema.find("unevaluatedItems"); found != schema.end()) {
        if (*found == Json(false)) {
            facts.are_items_closed = true;
        } else if (*found != Json(true)) {
            return not_followed(where, "unevaluatedItems", "can be followed as true or false");
        }
    }
    return {};
}

Status SchemaReader::read_objects(const Json & schema, const std::string & where, Facts & facts) {
    PITH_RETURN_IF_ERROR(count(schema, "minProperties", facts.min_properties, false, where));
    PITH_RETURN_IF_ERROR(count(schema, "maxProperties", facts.max_properties, true, where));
    std::set<std::string> known;  // what is in facts.names
    const auto know = [&](size_t n_more) -> Status {
        PITH_RETURN_IF_ERROR(spend(16 * (facts.names.size() + n_more), where));
        if (known.empty()) { known.insert(facts.names.begin(), facts.names.end()); }
        return {};
    };
    const auto name = [&](const std::string & one) {
        if (known.insert(one).second) { facts.names.push_back(one); }
    };
    for (const char * key : {"properties", "patternProperties"}) {
        if (schema.contains(key) && !schema[key].is_object()) {
            return bad(where, '\'' + std::string(key) + "' is no object with a schema for each name");
        }
    }
    if (const auto found = schema.find("properties"); found != schema.end()) {
        PITH_RETURN_IF_ERROR(know(found->size()));
        for (const auto & [key, value] : found->items()) { name(key); }
    }
    if (const auto found = schema.find("patternProperties"); found != schema.end()) {
        for (const auto & [key, value] : found->items()) { facts.patterns.insert(key); }
    }
    const bool says_properties =
        schema.contains("properties") || schema.contains("patternProperties") || schema.contains("additionalProperties");
    if (says_properties) { facts.objects.push_back(&schema); }
    if (const auto found = schema.find("required"); found != schema.end() && !found->is_boolean()) {  // draft 3 has booleans
        if (!found->is_array()) { return bad(where, "'required' is no list of names"); }
        PITH_RETURN_IF_ERROR(know(found->size()));
        for (const Json & one : *found) {
            if (!one.is_string()) { return bad(where, "'required' is no list of names"); }
            facts.required.insert(one.get<std::string>());
            name(one.get<std::string>());
        }
    }
    if (const auto found = schema.find("propertyNames"); found != schema.end()) {
        facts.property_names.emplace_back(&*found, where + "/propertyNames");
    }
    if (const auto found = schema.find("unevaluatedProperties"); found != schema.end()) {
        if (*found == Json(false)) {
            facts.are_properties_closed = true;
        } else if (*found != Json(true) && *found != Json::object()) {
            return not_followed(where, "unevaluatedProperties", "can be followed as true or false");
        }
    }
    return {};
}

// ---- properties and items ---------------------------------------------------------------------------------------------------

Result<SchemaReader::Parts> SchemaReader::property_of(const Facts & facts, const std::string & name) {
    std::set<std::string> patterns;
    PITH_RETURN_IF_ERROR(spend(64 * facts.patterns.size(), "patternProperties"));
    const std::u32string text = facts.patterns.empty() ? std::u32string() : characters_of(name);
    for (const std::string & one : facts.patterns) {
        PITH_ASSIGN_OR_RETURN(const RegularTexts::Id names, pattern(one, "patternProperties"));
        const auto holds = texts_.holds(names, text);
        if (holds.value_or(true)) { patterns.insert(one); }
    }
    return property_with(facts, patterns, &name);
}

Result<SchemaReader::Parts> SchemaReader::property_with(const Facts & facts, const std::set<std::string> & patterns,
                                                        const std::string * name) {
    Parts out;
    for (const Json * schema : facts.objects) {
        const std::string where = where_of(schema);
        bool is_said = false;
        if (const auto found = schema->find("properties"); name != nullptr && found != schema->end()) {
            if (const Json * property = member(*found, *name)) {
                PITH_RETURN_IF_ERROR(add(*property, where + "/properties/" + shortened(*name), out));
                is_said = true;
            }
        }
        if (const auto found = schema->find("patternProperties"); found != schema->end()) {
            for (const auto & [key, value] : found->items()) {
                if (!patterns.contains(key)) { continue; }
                PITH_RETURN_IF_ERROR(add(value, where + "/patternProperties/" + shortened(key), out));
                is_said = true;
            }
        }
        if (const auto found = schema->find("additionalProperties"); found != schema->end() && !is_said) {
            PITH_RETURN_IF_ERROR(add(*found, where + "/additionalProperties", out));
        }
    }
    return out;
}

bool SchemaReader::writes_others(const Facts & facts) const {
    if (facts.are_properties_closed) { return false; }
    bool is_said = false;
    for (const Json * schema : facts.objects) {
        const bool has_patterns = schema->contains("patternProperties") && !(*schema)["patternProperties"].empty();
        const auto more = schema->find("additionalProperties");
        if (more != schema->end() && *more == Json(false) && !has_patterns) { return false; }
        is_said = is_said || has_patterns || more != schema->end();
    }
    return is_said || facts.names.empty();
}

size_t SchemaReader::n_first_items(const Facts & facts) const {
    size_t n = 0;
    for (const Json * schema : facts.arrays) {
        if (const auto found = schema->find("prefixItems"); found != schema->end()) { n = std::max(n, found->size()); }
        if (const auto found = schema->find("items"); found != schema->end() && found->is_array()) {
            n = std::max(n, found->size());
        }
    }
    return n;
}

bool SchemaReader::says_other_items(const Facts & facts) const {
    return std::ranges::any_of(facts.arrays, [](const Json * schema) {
        const auto items = schema->find("items");
        if (items != schema->end() && items->is_array()) { return schema->contains("additionalItems"); }
        return items != schema->end();
    });
}

Result<SchemaReader::Parts> SchemaReader::item_of(const Facts & facts, size_t index) {
    Parts out;
    for (const Json * schema : facts.arrays) {
        const std::string where = where_of(schema);
        const auto items = schema->find("items");
        const bool is_old = items != schema->end() && items->is_array();  // until 2019 a list came first
        const auto first = is_old ? items : schema->find("prefixItems");
        const auto others = is_old ? schema->find("additionalItems") : items;
        const std::string first_name = is_old ? "/items/" : "/prefixItems/";
        if (first != schema->end() && index < first->size()) {
            PITH_RETURN_IF_ERROR(add((*first)[index], where + first_name + std::to_string(index), out));
        } else if (others != schema->end()) {
            PITH_RETURN_IF_ERROR(add(*others, where + (is_old ? "/additionalItems" : "/items"), out));
        }
    }
    return out;
}

}  // namespace pith
