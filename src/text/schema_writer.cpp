// schema_writer.cpp - an expression of a grammar for each place of a schema; its arrays and objects are in
// schema_containers.cpp. Stage: text.
#include "text/schema_writer.h"

#include <algorithm>

#include "text/schema_writer_impl.h"
#include "text/text_pattern.h"

namespace pith {
namespace {

constexpr int kMostDepth = 400;             // of calls: a chain of references may be as long as the document
constexpr size_t kMostStates = 3000;        // of a pattern, a format or a range, as rules
constexpr size_t kMostFirstStates = 20000;  // before equal ones are put together

}  // namespace

std::string any_of(const std::vector<std::string> & texts) {
    std::string out;
    for (const std::string & text : texts) { out += (out.empty() ? "" : " | ") + text; }
    return texts.size() > 1 ? "(" + out + ")" : out;
}

Result<std::string> SchemaWriter::convert(const Json & schema, const std::string & where) {
    Parts parts;
    PITH_RETURN_IF_ERROR(reader_.add(schema, where, parts));
    return convert(parts, where);
}

Result<std::string> SchemaWriter::convert(const Result<Parts> & parts, const std::string & where) {
    if (parts.ok()) { return convert(*parts, where); }
    if (!reader_.may_weaken()) { return parts.status(); }
    PITH_RETURN_IF_ERROR(reader_.not_followed(where, "type", "is not followed: " + parts.status().message()));
    return std::string("value");
}

Result<std::string> SchemaWriter::convert(const Parts & parts, const std::string & where) {
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
        return reader_.bad(where,
                           "schemas are nested deeper than " + std::to_string(kMostDepth) + ", what '$ref' names counted in");
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

Result<std::string> SchemaWriter::of_its_types(const Parts & parts, const std::string & where, const std::string & why) {
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

Result<std::string> SchemaWriter::convert_as_it_is(const Parts & parts, const std::string & where) {
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
        const std::vector<const Json *> all = type == schema_type::kNull ? std::vector{&kNull} : std::vector{&kTrue, &kFalse};
        PITH_ASSIGN_OR_RETURN(std::string text, values(all, parts, where));
        add(std::move(text));
    }
    return any_of(out);
}

Result<std::string> SchemaWriter::values(const std::vector<const Json *> & list, const Parts & parts,
                                         const std::string & where) {
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

Status SchemaWriter::check_exclusions(const Parts & parts, unsigned type) {
    for (const SchemaReader::Exclusion & exclusion : parts.exclusions) {
        PITH_ASSIGN_OR_RETURN(const bool are_apart, reader_.are_apart(parts, exclusion, type));
        if (are_apart) { continue; }
        const std::string why = exclusion.keyword == "oneOf"
                                    ? "cannot be followed: an answer could fit this option and another one (anyOf allows it)"
                                    : "cannot be followed for objects and arrays";
        PITH_RETURN_IF_ERROR(reader_.not_followed(exclusion.where, exclusion.keyword, why));
    }
    return {};
}

std::optional<std::string> SchemaWriter::regular(RegularTexts::Id set, bool in_json) {
    const auto automaton = reader_.texts().automaton(set, kMostFirstStates);
    if (!automaton.ok() || automaton->states.size() > kMostStates) { return std::nullopt; }
    return automaton->states.empty() ? std::string() : expression_of(*automaton, in_json, rules_);
}

Result<std::string> SchemaWriter::string(const Facts & facts, const Parts & parts, const std::string & where) {
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

std::optional<std::string> SchemaWriter::texts_of(RegularTexts::Id all) {
    RegularTexts & texts = reader_.texts();
    const RegularTexts::Id character = texts.one_of(writable_in_json());
    for (const int most : {-1, 512, 128, 32}) {
        auto text = regular(texts.both({all, texts.times(character, 0, most)}), /*in_json=*/true);
        if (text && (most < 0 || !text->empty())) { return text; }
    }
    return {};
}

Result<std::string> SchemaWriter::number(const Facts & facts, const Parts & parts, const std::string & where) {
    const bool is_whole = (facts.types & schema_type::kFraction) == 0;
    if (!facts.range.is_bounded() && parts.exclusions.empty()) { return std::string(is_whole ? "integer" : "number"); }
    PITH_ASSIGN_OR_RETURN(const RegularTexts::Id all, reader_.numbers_of(parts, /*is_written=*/true));
    const auto text = regular(all, /*in_json=*/false);
    if (text) { return text->empty() ? unfit(where, "no number is within its bounds") : *text; }
    PITH_RETURN_IF_ERROR(reader_.not_followed(where, "multipleOf", "cannot be followed: it has too many digits"));
    return std::string(is_whole ? "integer" : "number");
}

Result<std::string> schema_rules(const SchemaJson & document, const SchemaJson & part, const std::string & first,
                                 const std::string & prefix, RegularTexts & texts, std::vector<std::string> * notes) {
    SchemaWriter writer(document, prefix, texts, /*may_weaken=*/notes != nullptr);
    auto rules = writer.run(part, first);
    if (notes != nullptr) { *notes = writer.notes(); }
    return rules;
}

}  // namespace pith
