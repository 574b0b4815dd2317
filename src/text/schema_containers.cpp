// schema_containers.cpp - what a schema says of arrays and objects, as expressions. Stage: text.
#include <algorithm>

#include "text/schema_writer_impl.h"
#include "text/text_pattern.h"

namespace pith {
namespace {

constexpr size_t kMostUnique = 8;      // values of which each may be there once
constexpr int64_t kMostCounted = 200;  // properties of which is counted how many there are

}  // namespace

Result<std::string> SchemaWriter::array(const Facts & facts, const std::string & where) {
    const Said said(at_front_);
    const size_t n_first = reader_.n_first_items(facts);
    const auto n_named = static_cast<int64_t>(n_first);
    int64_t high = facts.max_items;
    // Nobody says how many: all that are named, and no others.
    int64_t low = facts.min_items.value_or(high < 0 ? n_named : std::min(n_named, high));
    if (n_first > 0 && (!reader_.says_other_items(facts) || facts.are_items_closed)) {
        const int64_t most = facts.are_items_closed ? n_named : std::max(n_named, low);
        high = high < 0 ? most : std::min(high, most);
    }
    std::vector<std::string> items;
    for (size_t i = 0; i < n_first && (high < 0 || std::cmp_less(i, high)); ++i) {
        PITH_ASSIGN_OR_RETURN(std::string text,
                              convert(reader_.item_of(facts, i), where + "/prefixItems/" + std::to_string(i)));
        if (text.empty()) { high = static_cast<int64_t>(i); }
        items.push_back(std::move(text));
    }
    std::string other;
    Parts rest;
    if (high < 0 || high > n_named) {
        const auto item = reader_.item_of(facts, n_first);
        PITH_ASSIGN_OR_RETURN(other, convert(item, where + "/items"));
        if (item.ok()) { rest = *item; }
        if (other.empty()) { high = n_named; }
    }
    if (high >= 0 && high < low) {
        if (facts.min_items) { return unfit(where, "'maxItems' is less than 'minItems'"); }
        low = high;
    }
    if (low > kMostGrammarTimes) {
        PITH_RETURN_IF_ERROR(
            reader_.not_followed(where, "minItems", "can be followed up to " + std::to_string(kMostGrammarTimes)));
        low = 0;
    }
    high = std::min<int64_t>(high, kMostGrammarTimes);
    if (facts.unique != nullptr && (high < 0 || high > 1)) {
        if (n_first == 0) {
            PITH_ASSIGN_OR_RETURN(const auto different, different_values(rest));
            if (different) { return unique_array_expression(*different, low, high, rules_); }
        }
        PITH_RETURN_IF_ERROR(reader_.not_followed(
            where, "uniqueItems",
            "can be followed where the items are one of " + std::to_string(kMostUnique) + " values at most"));
    }
    return array_expression(items, other, low, high, rules_);
}

Result<std::optional<std::vector<std::string>>> SchemaWriter::different_values(const Parts & item) {
    std::optional<std::vector<std::string>> none;
    if (!item.choices.empty()) { return none; }
    PITH_ASSIGN_OR_RETURN(const Facts * facts, reader_.facts_of(item));
    std::vector<const Json *> list;
    if (facts->values) {
        list = *facts->values;
    } else if (facts->types == schema_type::kBoolean) {
        list = {&kFalse, &kTrue};
    } else {
        return none;
    }
    std::vector<const Json *> kept;
    std::vector<std::string> out;
    for (const Json * value : list) {
        PITH_ASSIGN_OR_RETURN(const bool good, reader_.fits(*value, item));
        if (!good || std::ranges::any_of(kept, [&](const Json * other) { return *other == *value; })) { continue; }
        if (kept.size() == kMostUnique) { return none; }
        kept.push_back(value);
        out.push_back(literal_json(*value));
    }
    return std::optional(out);
}

Result<std::string> SchemaWriter::object(const Facts & facts, const std::string & where) {
    const Said said(at_front_);
    PITH_ASSIGN_OR_RETURN(const RegularTexts::Id allowed, reader_.names_of(facts));
    std::vector<PropertyRule> properties;
    for (const std::string & name : facts.names) {
        PITH_ASSIGN_OR_RETURN(const std::string text, convert(reader_.property_of(facts, name),
                                                              where + "/properties/" + SchemaReader::shortened(name)));
        const auto holds = reader_.texts().holds(allowed, characters_of(name));
        if (!holds) {
            PITH_RETURN_IF_ERROR(reader_.not_followed(where, "propertyNames", "cannot be followed: it takes too much work"));
        }
        const bool good = !text.empty() && holds.value_or(true);
        const bool must = facts.required.contains(name);
        if (!good && must) {
            return unfit(where, "the property '" + SchemaReader::shortened(name) + "' is required, and nothing fits it");
        }
        if (good) { properties.push_back({pair(literal_json(Json(name)), text), must}); }
    }
    PITH_ASSIGN_OR_RETURN(const std::string other, other_property(facts, allowed, where));
    return object_of(properties, other, facts, where);
}

Result<std::string> SchemaWriter::object_of(const std::vector<PropertyRule> & properties, const std::string & other,
                                            const Facts & facts, const std::string & where) {
    const auto n_all = static_cast<int64_t>(properties.size());
    const int64_t n_must = std::ranges::count_if(properties, [](const PropertyRule & one) { return one.must; });
    int64_t least = facts.min_properties > n_must ? facts.min_properties : 0;
    int64_t most = facts.max_properties;
    if (most >= 0 && most < n_must) { return unfit(where, "more properties are required than 'maxProperties'"); }
    if (other.empty() && most >= n_all) { most = -1; }
    if (other.empty() && least > n_all) { return unfit(where, "'minProperties' is more than there may be"); }
    if (least > n_all + 1) {  // two of the other names may be the same one
        PITH_RETURN_IF_ERROR(
            reader_.not_followed(where, "minProperties", "can be followed up to one more than there are names in the schema"));
        least = n_all + 1;
    }
    if (least > kMostCounted || (most > kMostCounted && n_all > 0)) {
        PITH_RETURN_IF_ERROR(reader_.not_followed(where, least > kMostCounted ? "minProperties" : "maxProperties",
                                                  "can be followed up to " + std::to_string(kMostCounted)));
        least = least > kMostCounted ? 0 : least;
        most = most > kMostCounted ? -1 : most;
    }
    const bool is_counted = least > 0 || most >= 0;
    PITH_RETURN_IF_ERROR(reader_.spend((is_counted ? kMostCounted : 1) * properties.size() * 16, where));
    return object_expression(properties, other, least, most, rules_);
}

Result<std::string> SchemaWriter::other_property(const Facts & facts, RegularTexts::Id allowed, const std::string & where) {
    if (!reader_.writes_others(facts)) { return std::string(); }
    RegularTexts & texts = reader_.texts();
    const std::vector<std::string> patterns(facts.patterns.begin(), facts.patterns.end());
    if (patterns.size() > 6) {
        PITH_RETURN_IF_ERROR(reader_.not_followed(where, "patternProperties", "can be followed for six patterns at most"));
        return std::string();
    }
    std::vector<RegularTexts::Id> named;
    for (const std::string & name : facts.names) { named.push_back(texts.literal(characters_of(name))); }
    const RegularTexts::Id unnamed = texts.both({allowed, texts.all_but(texts.either(std::move(named)))});
    const bool says_more =
        std::ranges::any_of(facts.objects, [](const Json * schema) { return schema->contains("additionalProperties"); });
    std::vector<std::string> out;
    for (size_t set = 0; set < (size_t{1} << patterns.size()); ++set) {
        if (set == 0 && !patterns.empty() && !says_more) { continue; }
        std::vector<RegularTexts::Id> names = {unnamed};
        std::set<std::string> with;
        for (size_t i = 0; i < patterns.size(); ++i) {
            const bool has = (set >> i & 1U) != 0;
            PITH_ASSIGN_OR_RETURN(const RegularTexts::Id some, reader_.pattern(patterns[i], where + "/patternProperties"));
            names.push_back(has ? some : texts.all_but(some));
            if (has) { with.insert(patterns[i]); }
        }
        PITH_ASSIGN_OR_RETURN(const std::string value,
                              convert(reader_.property_with(facts, with), where + "/additionalProperties"));
        if (value.empty()) { continue; }
        const RegularTexts::Id all_names = texts.both(std::move(names));
        if (all_names == RegularTexts::kAll) {
            out.push_back(pair("string", value));
            continue;
        }
        const auto name = texts_of(all_names);
        if (!name) {
            PITH_RETURN_IF_ERROR(reader_.not_followed(where, patterns.empty() ? "propertyNames" : "patternProperties",
                                                      "cannot be followed: it has too many states"));
            continue;
        }
        if (!name->empty()) { out.push_back(pair(R"("\"" )" + *name + R"( "\"")", value)); }
    }
    return out.empty() ? std::string() : rules_.add(any_of(out));
}

}  // namespace pith
