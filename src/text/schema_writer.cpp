// schema_writer.cpp - an expression of a grammar for each place of a schema. Stage: text.
#include "text/schema_writer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/container_grammar.h"
#include "text/grammar.h"
#include "text/json_grammar.h"
#include "text/regular_grammar.h"
#include "text/schema_reader.h"
#include "text/text_pattern.h"

namespace pith {
namespace {

using Json = SchemaJson;
using Parts = SchemaReader::Parts;
using Facts = SchemaReader::Facts;

constexpr int kMostDepth = 400;             // of calls: a chain of references may be as long as the document
constexpr size_t kMostStates = 3000;        // of a pattern, a format or a range, as rules
constexpr size_t kMostFirstStates = 20000;  // before equal ones are put together
constexpr size_t kMostInline = 60;          // bytes of an expression that is no rule of its own
constexpr size_t kMostUnique = 8;           // values of which each may be there once
constexpr int64_t kMostCounted = 200;       // properties of which is counted how many there are

std::string literal_json(const Json & value) {
    return grammar_literal(value.dump());
}

std::string any_of(const std::vector<std::string> & texts) {
    std::string out;
    for (const std::string & text : texts) { out += (out.empty() ? "" : " | ") + text; }
    return texts.size() > 1 ? "(" + out + ")" : out;
}

// An empty expression says that nothing fits.
class SchemaWriter {
public:
    // prefix: of the names of all rules but the first.
    SchemaWriter(const Json & document, const std::string & prefix, RegularTexts & texts, bool may_weaken)
        : document_(document), reader_(document, texts, may_weaken), rules_(prefix) {}

    Result<std::string> run(const std::string & first) {
        PITH_ASSIGN_OR_RETURN(const std::string root, convert(document_, "#"));
        if (root.empty()) { return reader_.bad("#", "no text fits it" + unfit_); }
        return first + " ::= ws " + root + " ws\n" + rules_.text();
    }
    const std::vector<std::string> & notes() const { return reader_.notes(); }

private:
    using Key = std::vector<const void *>;

    // What is said inside of an array or an object is not at the front of what is around it.
    struct Said {
        explicit Said(std::set<Key> & front) : at_front(front), before(std::exchange(front, {})) {}
        ~Said() { at_front = std::move(before); }
        Said(const Said &) = delete;
        Said & operator=(const Said &) = delete;
        std::set<Key> & at_front;
        std::set<Key> before;
    };

    Result<std::string> convert(const Json & schema, const std::string & where) {
        Parts parts;
        PITH_RETURN_IF_ERROR(reader_.add(schema, where, parts));
        return convert(parts, where);
    }

    // A property or an item.
    Result<std::string> convert(const Result<Parts> & parts, const std::string & where) {
        if (parts.ok()) { return convert(*parts, where); }
        if (!reader_.may_weaken()) { return parts.status(); }
        PITH_RETURN_IF_ERROR(reader_.not_followed(where, "type", "is not followed: " + parts.status().message()));
        return std::string("value");
    }

    // An expression of the grammar, in brackets where it needs them.
    Result<std::string> convert(const Parts & parts, const std::string & where) {
        if (parts.is_never) { return std::string(); }
        if (parts.says_nothing()) { return std::string("value"); }
        const Key key = parts.key();
        if (const auto known = expressions_.find(key); known != expressions_.end()) { return known->second; }
        if (const auto begun = begun_.find(key); begun != begun_.end()) {
            if (at_front_.contains(key)) { return reader_.bad(where, "begins with itself and never ends ('$ref')"); }
            if (begun->second.empty()) { begun->second = rules_.new_name(); }
            return begun->second;
        }
        if (depth_ == kMostDepth) {
            return reader_.bad(
                where, "schemas are nested deeper than " + std::to_string(kMostDepth) + ", what '$ref' names counted in");
        }
        begun_[key];
        at_front_.insert(key);
        ++depth_;
        Result<std::string> converted = convert_as_it_is(parts, where);
        --depth_;
        at_front_.erase(key);
        const std::string name = begun_[key];
        begun_.erase(key);
        if (!converted.ok() && reader_.may_weaken()) { converted = of_its_types(parts, where, converted.status().message()); }
        PITH_ASSIGN_OR_RETURN(std::string text, std::move(converted));
        PITH_RETURN_IF_ERROR(reader_.spend(text.size() + 1, where));
        if (!name.empty()) {
            rules_.define(name, text.empty() ? "[z-a]" : text);
            if (!text.empty()) { text = name; }
        } else if (text.size() > kMostInline) {
            text = rules_.add(std::move(text));
        }
        expressions_[key] = text;
        return text;
    }

    // Nothing fits there; the first such place is named where nothing fits at all.
    std::string unfit(const std::string & where, const std::string & why) {
        if (unfit_.empty()) { unfit_ = " (" + where + ": " + why + ")"; }
        return {};
    }

    // Where nothing else can be followed.
    Result<std::string> of_its_types(const Parts & parts, const std::string & where, const std::string & why) {
        PITH_RETURN_IF_ERROR(reader_.not_followed(where, "type", "alone is followed: " + why));
        const auto facts = reader_.facts_of(parts);
        const unsigned types = facts.ok() ? (*facts)->written : schema_type::kAny;
        if (types == schema_type::kAny) { return std::string("value"); }
        std::vector<std::string> out;
        for (const auto & [type, name] : kNames) {
            if ((types & type) == type) { out.emplace_back(name); }
        }
        if ((types & schema_type::kNumber) == schema_type::kInteger) { out.emplace_back("integer"); }
        return any_of(out);
    }

    Result<std::string> convert_as_it_is(const Parts & parts, const std::string & where) {
        std::vector<std::string> out;
        std::set<std::string> said;
        const auto add = [&](std::string text) {
            if (!text.empty() && said.insert(text).second) { out.push_back(std::move(text)); }
        };
        if (!parts.choices.empty()) {
            const SchemaReader::Choice & choice = parts.choices[0];
            for (size_t i = 0; i < choice.options->size(); ++i) {
                PITH_ASSIGN_OR_RETURN(const Parts option, reader_.with_option(parts, 0, i));
                PITH_ASSIGN_OR_RETURN(std::string text, convert(option, choice.where + "/" + std::to_string(i)));
                add(std::move(text));
            }
            return any_of(out);
        }
        PITH_ASSIGN_OR_RETURN(const Facts * facts, reader_.facts_of(parts));
        if (facts->is_never) { return std::string(); }
        if (facts->types == 0) { return unfit(where, "no type is among all that are given"); }
        if (facts->values) { return values(*facts->values, parts, where); }
        const unsigned types = facts->written;
        if (types == schema_type::kAny && parts.exclusions.empty()) { return std::string("value"); }
        if ((types & schema_type::kObject) != 0) {
            PITH_RETURN_IF_ERROR(check_exclusions(parts, schema_type::kObject));
            PITH_ASSIGN_OR_RETURN(std::string text, object(*facts, where));
            add(std::move(text));
        }
        if ((types & schema_type::kArray) != 0) {
            PITH_RETURN_IF_ERROR(check_exclusions(parts, schema_type::kArray));
            PITH_ASSIGN_OR_RETURN(std::string text, array(*facts, where));
            add(std::move(text));
        }
        if ((types & schema_type::kString) != 0) {
            PITH_ASSIGN_OR_RETURN(std::string text, string(*facts, parts, where));
            add(std::move(text));
        }
        if ((types & schema_type::kNumber) != 0) {
            PITH_ASSIGN_OR_RETURN(std::string text, number(*facts, parts, where));
            add(std::move(text));
        }
        for (const auto & [type, name] : {std::pair(schema_type::kBoolean, "boolean"), std::pair(schema_type::kNull, "null")}) {
            if ((types & type) == 0) { continue; }
            if (parts.exclusions.empty()) {
                add(name);
                continue;
            }
            const std::vector<const Json *> all =
                type == schema_type::kNull ? std::vector{&kNull} : std::vector{&kTrue, &kFalse};
            PITH_ASSIGN_OR_RETURN(std::string text, values(all, parts, where));
            add(std::move(text));
        }
        return any_of(out);
    }

    // Those that fit.
    Result<std::string> values(const std::vector<const Json *> & list, const Parts & parts, const std::string & where) {
        std::vector<std::string> out;
        std::set<std::string> said;
        for (const Json * value : list) {
            const Result<bool> good = reader_.fits(*value, parts);
            if (!good.ok() && !reader_.may_weaken()) { return good.status(); }
            std::string text = literal_json(*value);
            if ((!good.ok() || *good) && said.insert(text).second) { out.push_back(std::move(text)); }
        }
        return out.empty() ? unfit(where, "none of the values fits all else") : any_of(out);
    }

    // What must not fit fits no answer of that type.
    Status check_exclusions(const Parts & parts, unsigned type) {
        for (const SchemaReader::Exclusion & exclusion : parts.exclusions) {
            PITH_ASSIGN_OR_RETURN(const bool are_apart, reader_.are_apart(parts, exclusion, type));
            if (are_apart) { continue; }
            const std::string why =
                exclusion.keyword == "oneOf"
                    ? "cannot be followed: an answer could fit this option and another one (anyOf allows it)"
                    : "cannot be followed for objects and arrays";
            PITH_RETURN_IF_ERROR(reader_.not_followed(exclusion.where, exclusion.keyword, why));
        }
        return {};
    }

    // ---- texts and numbers ------------------------------------------------------------------------------------------

    // Nothing: it has more states than may be. Empty: nothing fits.
    std::optional<std::string> regular(RegularTexts::Id set, bool in_json) {
        const auto automaton = reader_.texts().automaton(set, kMostFirstStates);
        if (!automaton.ok() || automaton->states.size() > kMostStates) { return std::nullopt; }
        return automaton->states.empty() ? std::string() : expression_of(*automaton, in_json, rules_);
    }

    Result<std::string> string(const Facts & facts, const Parts & parts, const std::string & where) {
        if (facts.texts == RegularTexts::kAll && parts.exclusions.empty()) {
            if (facts.min_length == 0 && facts.max_length < 0) { return std::string("string"); }
            if (facts.max_length >= 0 && facts.max_length < facts.min_length) {
                return unfit(where, "'maxLength' is less than 'minLength'");
            }
            if (facts.min_length > kMostGrammarTimes) {
                PITH_RETURN_IF_ERROR(
                    reader_.not_followed(where, "minLength", "can be followed up to " + std::to_string(kMostGrammarTimes)));
                return std::string("string");
            }
            const int64_t high = std::min<int64_t>(facts.max_length, kMostGrammarTimes);
            return R"("\"" char)" + repetition(facts.min_length, high) + R"( "\"")";
        }
        PITH_ASSIGN_OR_RETURN(const RegularTexts::Id all, reader_.strings_of(parts));
        std::optional<std::string> text = texts_of(all);
        if (!text) {
            const bool has_format = facts.texts != RegularTexts::kAll;
            PITH_RETURN_IF_ERROR(reader_.not_followed(where, has_format ? "pattern" : "maxLength",
                                                      "cannot be followed: with the lengths and formats beside it it has more "
                                                      "than " +
                                                          std::to_string(kMostStates) + " states"));
            return std::string("string");
        }
        if (text->empty()) { return unfit(where, "no text has all patterns, formats and lengths"); }
        return R"("\"" )" + *text + R"( "\"")";
    }
    // Where they are too many, only shorter ones.
    std::optional<std::string> texts_of(RegularTexts::Id all) {
        RegularTexts & texts = reader_.texts();
        const RegularTexts::Id character = texts.one_of(writable_in_json());
        for (const int most : {-1, 512, 128, 32}) {
            auto text = regular(texts.both({all, texts.times(character, 0, most)}), /*in_json=*/true);
            if (text && (most < 0 || !text->empty())) { return text; }
        }
        return {};
    }

    Result<std::string> number(const Facts & facts, const Parts & parts, const std::string & where) {
        const bool is_whole = (facts.types & schema_type::kFraction) == 0;
        if (!facts.range.is_bounded() && parts.exclusions.empty()) { return std::string(is_whole ? "integer" : "number"); }
        PITH_ASSIGN_OR_RETURN(const RegularTexts::Id all, reader_.numbers_of(parts, /*is_written=*/true));
        const auto text = regular(all, /*in_json=*/false);
        if (text) { return text->empty() ? unfit(where, "no number is within its bounds") : *text; }
        PITH_RETURN_IF_ERROR(reader_.not_followed(where, "multipleOf", "cannot be followed: it has too many digits"));
        return std::string(is_whole ? "integer" : "number");
    }

    // ---- arrays -----------------------------------------------------------------------------------------------------

    Result<std::string> array(const Facts & facts, const std::string & where) {
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

    // The values that items may have, where these are few.
    Result<std::optional<std::vector<std::string>>> different_values(const Parts & item) {
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

    // ---- objects ----------------------------------------------------------------------------------------------------

    Result<std::string> object(const Facts & facts, const std::string & where) {
        const Said said(at_front_);
        PITH_ASSIGN_OR_RETURN(const RegularTexts::Id allowed, reader_.names_of(facts));
        std::vector<PropertyRule> properties;
        for (const std::string & name : facts.names) {
            PITH_ASSIGN_OR_RETURN(const std::string text, convert(reader_.property_of(facts, name),
                                                                  where + "/properties/" + SchemaReader::shortened(name)));
            const auto holds = reader_.texts().holds(allowed, characters_of(name));
            if (!holds) {
                PITH_RETURN_IF_ERROR(
                    reader_.not_followed(where, "propertyNames", "cannot be followed: it takes too much work"));
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

    // How many properties must come and may, as far as a grammar can count them.
    Result<std::string> object_of(const std::vector<PropertyRule> & properties, const std::string & other, const Facts & facts,
                                  const std::string & where) {
        const auto n_all = static_cast<int64_t>(properties.size());
        const int64_t n_must = std::ranges::count_if(properties, [](const PropertyRule & one) { return one.must; });
        int64_t least = facts.min_properties > n_must ? facts.min_properties : 0;
        int64_t most = facts.max_properties;
        if (most >= 0 && most < n_must) { return unfit(where, "more properties are required than 'maxProperties'"); }
        if (other.empty() && most >= n_all) { most = -1; }
        if (other.empty() && least > n_all) { return unfit(where, "'minProperties' is more than there may be"); }
        if (least > n_all + 1) {  // two of the other names may be the same one
            PITH_RETURN_IF_ERROR(reader_.not_followed(where, "minProperties",
                                                      "can be followed up to one more than there are names in the schema"));
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

    std::string pair(const std::string & name, const std::string & value) {
        const std::string text = name + " ws \":\" ws " + value;
        return text.size() > kMostInline ? rules_.add(text) : text;
    }

    // A property that the schema does not name. Empty: there may be none.
    Result<std::string> other_property(const Facts & facts, RegularTexts::Id allowed, const std::string & where) {
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

    static constexpr std::pair<unsigned, const char *> kNames[] = {
        {schema_type::kObject, "object"}, {schema_type::kArray, "array"},     {schema_type::kString, "string"},
        {schema_type::kNumber, "number"}, {schema_type::kBoolean, "boolean"}, {schema_type::kNull, "null"}};
    inline static const Json kNull = nullptr;
    inline static const Json kTrue = true;
    inline static const Json kFalse = false;

    const Json & document_;
    SchemaReader reader_;
    GrammarRules rules_;
    std::map<Key, std::string> expressions_;  // of what has been converted
    std::map<Key, std::string> begun_;        // of what is being converted: its rule's name, once it was used
    std::set<Key> at_front_;                  // whose text may begin here
    int depth_ = 0;
    std::string unfit_;  // where nothing fits, and why
};

}  // namespace

Result<std::string> schema_rules(const SchemaJson & document, const std::string & first, const std::string & prefix,
                                 RegularTexts & texts, std::vector<std::string> * notes) {
    SchemaWriter writer(document, prefix, texts, /*may_weaken=*/notes != nullptr);
    auto rules = writer.run(first);
    if (notes != nullptr) { *notes = writer.notes(); }
    return rules;
}

}  // namespace pith
