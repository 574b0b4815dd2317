// schema_writer_impl.h - what turns a schema into rules, place by place: its files' own. Stage: text.
#pragma once

#include <cstdint>
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

namespace pith {

inline std::string literal_json(const SchemaJson & value) {
    return grammar_literal(value.dump());
}

// "(a | b)"
std::string any_of(const std::vector<std::string> & texts);

// An empty expression says that nothing fits.
class SchemaWriter {
public:
    // prefix: of the names of all rules but the first.
    SchemaWriter(const SchemaJson & document, const std::string & prefix, RegularTexts & texts, bool may_weaken)
        : reader_(document, texts, may_weaken), rules_(prefix) {}

    Result<std::string> run(const SchemaJson & part, const std::string & first) {
        PITH_ASSIGN_OR_RETURN(const std::string root, convert(part, "#"));
        if (root.empty()) { return reader_.bad("#", "no text fits it" + unfit_); }
        return first + " ::= ws " + root + " ws\n" + rules_.text();
    }
    const std::vector<std::string> & notes() const { return reader_.notes(); }

private:
    using Json = SchemaJson;
    using Parts = SchemaReader::Parts;
    using Facts = SchemaReader::Facts;
    using Key = std::vector<const void *>;
    static constexpr size_t kMostInline = 60;  // bytes of an expression that is no rule of its own

    // What is said inside of an array or an object is not at the front of what is around it.
    struct Said {
        explicit Said(std::set<Key> & front) : at_front(front), before(std::exchange(front, {})) {}
        ~Said() { at_front = std::move(before); }
        Said(const Said &) = delete;
        Said & operator=(const Said &) = delete;
        std::set<Key> & at_front;
        std::set<Key> before;
    };

    Result<std::string> convert(const Json & schema, const std::string & where);
    // A property or an item.
    Result<std::string> convert(const Result<Parts> & parts, const std::string & where);
    // An expression of the grammar, in brackets where it needs them.
    Result<std::string> convert(const Parts & parts, const std::string & where);
    // Nothing fits there; the first such place is named where nothing fits at all.
    std::string unfit(const std::string & where, const std::string & why) {
        if (unfit_.empty()) { unfit_ = " (" + where + ": " + why + ")"; }
        return {};
    }
    // Where nothing else can be followed.
    Result<std::string> of_its_types(const Parts & parts, const std::string & where, const std::string & why);
    Result<std::string> convert_as_it_is(const Parts & parts, const std::string & where);
    // Those that fit.
    Result<std::string> values(const std::vector<const Json *> & list, const Parts & parts, const std::string & where);
    // What must not fit fits no answer of that type.
    Status check_exclusions(const Parts & parts, unsigned type);
    // Nothing: it has more states than may be. Empty: nothing fits.
    std::optional<std::string> regular(RegularTexts::Id set, bool in_json);
    Result<std::string> string(const Facts & facts, const Parts & parts, const std::string & where);
    // Where they are too many, only shorter ones.
    std::optional<std::string> texts_of(RegularTexts::Id all);
    Result<std::string> number(const Facts & facts, const Parts & parts, const std::string & where);
    Result<std::string> array(const Facts & facts, const std::string & where);
    // The values that items may have, where these are few.
    Result<std::optional<std::vector<std::string>>> different_values(const Parts & item);
    Result<std::string> object(const Facts & facts, const std::string & where);
    // How many properties must come and may, as far as a grammar can count them.
    Result<std::string> object_of(const std::vector<PropertyRule> & properties, const std::string & other, const Facts & facts,
                                  const std::string & where);
    std::string pair(const std::string & name, const std::string & value) {
        const std::string text = name + " ws \":\" ws " + value;
        return text.size() > kMostInline ? rules_.add(text) : text;
    }
    // A property that the schema does not name. Empty: there may be none.
    Result<std::string> other_property(const Facts & facts, RegularTexts::Id allowed, const std::string & where);

    static constexpr std::pair<unsigned, const char *> kNames[] = {
        {schema_type::kObject, "object"}, {schema_type::kArray, "array"},     {schema_type::kString, "string"},
        {schema_type::kNumber, "number"}, {schema_type::kBoolean, "boolean"}, {schema_type::kNull, "null"}};
    inline static const Json kNull = nullptr;
    inline static const Json kTrue = true;
    inline static const Json kFalse = false;

    SchemaReader reader_;
    GrammarRules rules_;
    std::map<Key, std::string> expressions_;  // of what has been converted
    std::map<Key, std::string> begun_;        // of what is being converted: its rule's name, once it was used
    std::set<Key> at_front_;                  // whose text may begin here
    int depth_ = 0;
    std::string unfit_;  // where nothing fits, and why
};

}  // namespace pith
