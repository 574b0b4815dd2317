// schema_fits.cpp - whether a value fits schemas, which texts do, and whether one answer could fit two of them. Stage: text.
#include <algorithm>

#include "text/schema_reader.h"
#include "text/text_pattern.h"

namespace pith {
namespace {

using Json = SchemaJson;
using Id = RegularTexts::Id;

constexpr int kMostLevels = 40;           // of values and schemas that are looked into
constexpr int kMostApart = 6;             // of properties, when two schemas are compared
constexpr size_t kMostTextStates = 4000;  // of a set of texts of which is asked whether it is empty

unsigned type_of(const Json & value) {
    if (value.is_null()) { return schema_type::kNull; }
    if (value.is_boolean()) { return schema_type::kBoolean; }
    if (value.is_number()) {
        return value.is_number_integer() || decimal_of(value).fraction.empty() ? schema_type::kInteger : schema_type::kFraction;
    }
    return value.is_string() ? schema_type::kString : value.is_array() ? schema_type::kArray : schema_type::kObject;
}

bool is_between(int64_t n, int64_t low, int64_t high) {
    return n >= low && (high < 0 || n <= high);
}

}  // namespace

Result<bool> SchemaReader::fits(const Json & value, const Parts & parts, int depth) {
    if (depth == kMostLevels) { return bad("#", "values are nested deeper than " + std::to_string(kMostLevels)); }
    PITH_RETURN_IF_ERROR(spend(64, "#"));
    PITH_ASSIGN_OR_RETURN(const Facts * facts, facts_of(parts));
    const unsigned type = type_of(value);
    if (facts->is_never || (facts->types & type) == 0) { return false; }
    if (facts->values && !facts->value_places.contains(&value)) {
        PITH_RETURN_IF_ERROR(spend(facts->values->size(), "#"));
        if (std::ranges::none_of(*facts->values, [&](const Json * one) { return *one == value; })) { return false; }
    }
    if ((type & schema_type::kNumber) != 0 && !facts->range.holds(decimal_of(value))) { return false; }
    if (type == schema_type::kString) {
        const std::u32string text = characters_of(value.get_ref<const std::string &>());
        if (!is_between(std::ssize(text), facts->min_length, facts->max_length)) { return false; }
        const auto holds = texts_.holds(facts->texts, text);
        if (!holds) { return bad("#", "its patterns take too much work"); }
        if (!*holds) { return false; }
    }
    if (type == schema_type::kArray) {
        if (!is_between(std::ssize(value), facts->min_items.value_or(0), facts->max_items)) { return false; }
        for (size_t i = 0; i < value.size(); ++i) {
            PITH_RETURN_IF_ERROR(spend(facts->unique != nullptr ? i : 0, "#"));
            for (size_t k = 0; k < i && facts->unique != nullptr; ++k) {
                if (value[i] == value[k]) { return false; }
            }
            PITH_ASSIGN_OR_RETURN(const Parts item, item_of(*facts, i));
            PITH_ASSIGN_OR_RETURN(const bool good, fits(value[i], item, depth + 1));
            if (!good) { return false; }
        }
    }
    if (type == schema_type::kObject) {
        PITH_ASSIGN_OR_RETURN(const bool good, fits_object(value, *facts, depth));
        if (!good) { return false; }
    }
    for (size_t i = 0; i < parts.choices.size(); ++i) {
        int n_fit = 0;
        for (size_t k = 0; k < parts.choices[i].options->size(); ++k) {
            Parts option;
            PITH_RETURN_IF_ERROR(add((*parts.choices[i].options)[k], parts.choices[i].where + "/" + std::to_string(k), option));
            PITH_ASSIGN_OR_RETURN(const bool good, fits(value, option, depth + 1));
            n_fit += good ? 1 : 0;
        }
        if (n_fit == 0 || (parts.choices[i].only_one && n_fit > 1)) { return false; }
    }
    for (const Exclusion & exclusion : parts.exclusions) {
        Parts other;
        PITH_RETURN_IF_ERROR(add(*exclusion.schema, exclusion.where, other));
        PITH_ASSIGN_OR_RETURN(const bool good, fits(value, other, depth + 1));
        if (good) { return false; }
    }
    return true;
}

Result<bool> SchemaReader::fits_object(const Json & value, const Facts & facts, int depth) {
    if (!is_between(std::ssize(value), facts.min_properties, facts.max_properties)) { return false; }
    if (std::ranges::any_of(facts.required, [&](const std::string & key) { return !value.contains(key); })) { return false; }
    for (const auto & [key, one] : value.items()) {
        PITH_RETURN_IF_ERROR(spend(facts.names.size(), "#"));
        for (const auto & [schema, where] : facts.property_names) {
            Parts name;
            PITH_RETURN_IF_ERROR(add(*schema, where, name));
            PITH_ASSIGN_OR_RETURN(const bool good, fits(Json(key), name, depth + 1));
            if (!good) { return false; }
        }
        PITH_ASSIGN_OR_RETURN(const Parts property, property_of(facts, key));
        PITH_ASSIGN_OR_RETURN(const bool good, fits(one, property, depth + 1));
        if (!good) { return false; }
        const bool is_named = std::ranges::find(facts.names, key) != facts.names.end();
        if (facts.are_properties_closed && !is_named) { return false; }
    }
    return true;
}

Result<Id> SchemaReader::strings_of(const Parts & parts, int depth) {
    if (depth == kMostLevels) { return bad("#", "choices are nested deeper than " + std::to_string(kMostLevels)); }
    PITH_RETURN_IF_ERROR(spend(64, "#"));
    PITH_ASSIGN_OR_RETURN(const Facts * facts, facts_of(parts));
    if (facts->is_never || (facts->types & schema_type::kString) == 0) { return RegularTexts::kNothing; }
    std::vector<Id> all = {facts->texts};
    if (facts->values) {
        std::vector<Id> values;
        for (const Json * value : *facts->values) {
            if (value->is_string()) { values.push_back(texts_.literal(characters_of(value->get_ref<const std::string &>()))); }
        }
        all.push_back(texts_.either(std::move(values)));
    }
    if (facts->min_length > 0 || facts->max_length >= 0) {
        constexpr int64_t kMost = 1 << 20;
        const auto low = static_cast<int>(std::min(facts->min_length, kMost));
        const auto high = static_cast<int>(std::min(facts->max_length, kMost));
        if (high >= 0 && high < low) { return RegularTexts::kNothing; }
        all.push_back(texts_.times(texts_.one_of({0, 0x10FFFF}), low, high));
    }
    for (const Choice & choice : parts.choices) {
        std::vector<Id> options;
        for (size_t k = 0; k < choice.options->size(); ++k) {
            Parts option;
            PITH_RETURN_IF_ERROR(add((*choice.options)[k], choice.where + "/" + std::to_string(k), option));
            PITH_ASSIGN_OR_RETURN(const Id some, strings_of(option, depth + 1));
            options.push_back(some);
        }
        if (!choice.only_one) {
            all.push_back(texts_.either(std::move(options)));
            continue;
        }
        PITH_RETURN_IF_ERROR(spend(4 * options.size() * options.size(), choice.where));
        std::vector<Id> one;
        for (size_t k = 0; k < options.size(); ++k) {
            std::vector<Id> others = options;
            others[k] = RegularTexts::kNothing;
            one.push_back(texts_.both({options[k], texts_.all_but(texts_.either(std::move(others)))}));
        }
        all.push_back(texts_.either(std::move(one)));
    }
    for (const Exclusion & exclusion : parts.exclusions) {
        Parts other;
        PITH_RETURN_IF_ERROR(add(*exclusion.schema, exclusion.where, other));
        PITH_ASSIGN_OR_RETURN(const Id some, strings_of(other, depth + 1));
        all.push_back(texts_.all_but(some));
    }
    return texts_.both(std::move(all));
}

Result<Id> SchemaReader::numbers_of(const Parts & parts, bool is_written, int depth) {
    if (depth == kMostLevels) { return bad("#", "choices are nested deeper than " + std::to_string(kMostLevels)); }
    PITH_RETURN_IF_ERROR(spend(64, "#"));
    PITH_ASSIGN_OR_RETURN(const Facts * facts, facts_of(parts));
    const unsigned types = facts->types & schema_type::kNumber;
    if (facts->is_never || types == 0) { return RegularTexts::kNothing; }
    const bool is_whole = types == schema_type::kInteger;
    const NumberForm form = is_written ? (is_whole ? NumberForm::kWhole : NumberForm::kAny)
                                       : (is_whole ? NumberForm::kAnyWhole : NumberForm::kEvery);
    std::vector<Id> all = {number_texts(texts_, facts->range, form)};
    if (facts->values) {
        std::vector<Id> values;
        for (const Json * value : *facts->values) {
            if (!value->is_number()) { continue; }
            NumberRange one;
            one.at_least(decimal_of(*value), false);
            one.at_most(decimal_of(*value), false);
            values.push_back(number_texts(texts_, one, NumberForm::kEvery));
        }
        all.push_back(texts_.either(std::move(values)));
    }
    for (const Choice & choice : parts.choices) {
        std::vector<Id> options;
        for (size_t k = 0; k < choice.options->size(); ++k) {
            Parts option;
            PITH_RETURN_IF_ERROR(add((*choice.options)[k], choice.where + "/" + std::to_string(k), option));
            PITH_ASSIGN_OR_RETURN(const Id some, numbers_of(option, /*is_written=*/false, depth + 1));
            options.push_back(some);
        }
        all.push_back(texts_.either(std::move(options)));  // of oneOf's too many: who excludes them excludes more
    }
    for (const Exclusion & exclusion : parts.exclusions) {
        Parts other;
        PITH_RETURN_IF_ERROR(add(*exclusion.schema, exclusion.where, other));
        const bool is_exact = other.choices.empty() && other.exclusions.empty();
        if (!is_exact && !is_written) { continue; }  // too many again
        PITH_ASSIGN_OR_RETURN(const Id some, numbers_of(other, /*is_written=*/false, depth + 1));
        all.push_back(texts_.all_but(some));
    }
    return texts_.both(std::move(all));
}

Result<Id> SchemaReader::names_of(const Facts & facts) {
    std::vector<Id> all;
    for (const auto & [schema, where] : facts.property_names) {
        Parts name;
        PITH_RETURN_IF_ERROR(add(*schema, where, name));
        PITH_ASSIGN_OR_RETURN(const Id some, strings_of(name));
        all.push_back(some);
    }
    return texts_.both(std::move(all));
}

Result<bool> SchemaReader::are_apart(const Parts & parts, const Exclusion & other, unsigned types) {
    Parts together = parts;
    together.exclusions.clear();
    together.taken.clear();
    PITH_ASSIGN_OR_RETURN(const Facts * written, facts_of(parts));
    PITH_RETURN_IF_ERROR(add(*other.schema, other.where, together));
    PITH_ASSIGN_OR_RETURN(const bool possible,
                          is_possible(together, types, parts.choices.empty() ? written : nullptr, kMostApart));
    return !possible;
}

// Whether a value of these types may fit; `written` says which properties an answer has.
Result<bool> SchemaReader::is_possible(const Parts & parts, unsigned types, const Facts * written, int depth) {
    PITH_RETURN_IF_ERROR(spend(256, "#"));
    PITH_ASSIGN_OR_RETURN(const Facts * facts, facts_of(parts));
    types &= facts->types;
    if (facts->is_never || types == 0) { return false; }
    if (facts->values) {
        for (const Json * value : *facts->values) {
            if ((type_of(*value) & types) == 0) { continue; }
            PITH_ASSIGN_OR_RETURN(const bool good, fits(*value, parts));
            if (good) { return true; }
        }
        return false;
    }
    if (depth == 0) { return true; }
    if (!parts.choices.empty()) {
        for (size_t k = 0; k < parts.choices[0].options->size(); ++k) {
            PITH_ASSIGN_OR_RETURN(Parts option, with_option(parts, 0, k));
            option.exclusions.clear();
            PITH_ASSIGN_OR_RETURN(const bool good, is_possible(option, types, written, depth - 1));
            if (good) { return true; }
        }
        return false;
    }
    if ((types & (schema_type::kNull | schema_type::kBoolean)) != 0) { return true; }
    if ((types & schema_type::kNumber) != 0 && !facts->range.is_empty()) { return true; }
    if ((types & schema_type::kString) != 0) {
        PITH_ASSIGN_OR_RETURN(const Id some, strings_of(parts));
        const auto automaton = texts_.automaton(some, kMostTextStates);
        if (!automaton.ok() || !automaton->states.empty()) { return true; }
    }
    if ((types & schema_type::kArray) != 0) {
        const int64_t least = facts->min_items.value_or(0);
        bool good = facts->max_items < 0 || facts->max_items >= least;
        for (size_t i = 0; good && std::cmp_less(i, std::min<int64_t>(least, 16)); ++i) {
            PITH_ASSIGN_OR_RETURN(const Parts item, item_of(*facts, i));
            PITH_ASSIGN_OR_RETURN(good, is_possible(item, schema_type::kAny, nullptr, depth - 1));
        }
        if (good) { return true; }
    }
    if ((types & schema_type::kObject) == 0) { return false; }
    if (facts->max_properties >= 0 && facts->max_properties < std::max(facts->min_properties, std::ssize(facts->required))) {
        return false;
    }
    for (const std::string & name : facts->required) {
        PITH_RETURN_IF_ERROR(spend(written != nullptr ? written->names.size() : 0, "#"));
        const bool is_written =
            written == nullptr || writes_others(*written) || std::ranges::find(written->names, name) != written->names.end();
        if (!is_written) { return false; }
        PITH_ASSIGN_OR_RETURN(const Parts property, property_of(*facts, name));
        PITH_ASSIGN_OR_RETURN(const bool good, is_possible(property, schema_type::kAny, nullptr, depth - 1));
        if (!good) { return false; }
    }
    return true;
}

}  // namespace pith
