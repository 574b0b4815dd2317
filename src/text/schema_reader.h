// schema_reader.h - what a JSON schema says of each type of value, once all schemas that must fit at the same place are put
// together. Stage: text.
// Threads: one at a time.
//
// At one place of a document several schemas may have to fit: what $ref names, the parts of allOf, what a property is in each
// of them. Parts holds those schemas; Facts says what they say together; a choice (anyOf, oneOf) is taken by adding one option.
//
// Errors name the keyword and where it stands. Where the reader may weaken, what cannot be followed is left out instead and
// noted, and all else is kept. Every call is counted, since a short schema may say the same again and again.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/number_texts.h"
#include "text/regular_texts.h"

namespace pith {

using SchemaJson = nlohmann::ordered_json;

// One or several types of values.
namespace schema_type {
inline constexpr unsigned kNull = 1;
inline constexpr unsigned kBoolean = 2;
inline constexpr unsigned kInteger = 4;
inline constexpr unsigned kFraction = 8;  // a number that is no integer
inline constexpr unsigned kNumber = kInteger | kFraction;
inline constexpr unsigned kString = 16;
inline constexpr unsigned kArray = 32;
inline constexpr unsigned kObject = 64;
inline constexpr unsigned kAny = 127;
}  // namespace schema_type

class SchemaReader {
public:
    // The first two must outlive this.
    SchemaReader(const SchemaJson & document, RegularTexts & texts, bool may_weaken)
        : document_(document), texts_(texts), may_weaken_(may_weaken) {}

    struct Choice {
        const SchemaJson * options = nullptr;
        std::string where;
        bool only_one = false;  // may fit
    };
    struct Exclusion {
        const SchemaJson * schema = nullptr;  // must not fit
        std::string where;
        std::string keyword;
    };
    // A name as paths have it.
    static std::string shortened(const std::string & name, size_t most = 60);

    struct Parts {
        std::vector<const SchemaJson *> schemas;  // what they say besides $ref, allOf, anyOf, oneOf and not
        std::vector<Choice> choices;              // one option of each must fit, too
        std::vector<Exclusion> exclusions;
        std::set<const SchemaJson *> seen;   // all that have been added
        std::set<const SchemaJson *> taken;  // of whose choices an option has been added
        bool is_never = false;               // one of them is false

        // Equal for parts that say the same.
        std::vector<const void *> key() const;
        bool says_nothing() const { return !is_never && schemas.empty() && choices.empty() && exclusions.empty(); }
    };
    struct Facts {
        unsigned types = schema_type::kAny;
        unsigned written = schema_type::kAny;  // what an answer is made of, where keywords speak of some types alone
        bool is_never = false;
        std::optional<std::vector<const SchemaJson *>> values;  // one of these
        std::set<const SchemaJson *> value_places;              // the same
        NumberRange range;
        int64_t min_length = 0;
        int64_t max_length = -1;  // this and other ends: below 0 there is none
        RegularTexts::Id texts = RegularTexts::kAll;
        std::optional<int64_t> min_items;
        int64_t max_items = -1;
        std::vector<const SchemaJson *> arrays;   // that say something of items
        std::vector<const SchemaJson *> objects;  // that say something of properties
        std::vector<std::string> names;           // of properties, in order
        std::set<std::string> required;
        std::set<std::string> patterns;                                          // of patternProperties
        std::vector<std::pair<const SchemaJson *, std::string>> property_names;  // schemas of names, and where
        int64_t min_properties = 0;
        int64_t max_properties = -1;
        const SchemaJson * unique = nullptr;  // which says uniqueItems
        bool are_properties_closed = false;   // unevaluatedProperties
        bool are_items_closed = false;
    };

    Status add(const SchemaJson & schema, const std::string & where, Parts & parts);
    // With the option of a choice, which the parts have no more.
    Result<Parts> with_option(const Parts & parts, size_t choice, size_t option);
    Result<const Facts *> facts_of(const Parts & parts);

    // What a property, or an item, must be.
    Result<Parts> property_of(const Facts & facts, const std::string & name);
    // The same of whatever has these patterns. name: of one that `properties` may name; null: of those not among `names`.
    Result<Parts> property_with(const Facts & facts, const std::set<std::string> & patterns,
                                const std::string * name = nullptr);
    Result<Parts> item_of(const Facts & facts, size_t index);
    size_t n_first_items(const Facts & facts) const;  // that have schemas of their own
    bool says_other_items(const Facts & facts) const;
    // Whether an answer may have properties that the schemas do not name.
    bool writes_others(const Facts & facts) const;

    Result<bool> fits(const SchemaJson & value, const Parts & parts, int depth = 0);
    // Whether no answer of these types that is written for `parts` fits the other schema.
    Result<bool> are_apart(const Parts & parts, const Exclusion & other, unsigned types);
    // The strings, or the numbers, that fit. is_written: as an answer has them; else every way to write them.
    Result<RegularTexts::Id> strings_of(const Parts & parts, int depth = 0);
    Result<RegularTexts::Id> numbers_of(const Parts & parts, bool is_written, int depth = 0);
    Result<RegularTexts::Id> pattern(const std::string & pattern, const std::string & where);
    // Of names that propertyNames allows.
    Result<RegularTexts::Id> names_of(const Facts & facts);

    Status bad(const std::string & where, const std::string & what) const;
    // An error, or a note.
    Status not_followed(const std::string & where, const std::string & keyword, const std::string & why = {});
    Status spend(size_t n_bytes, const std::string & where);
    std::string where_of(const SchemaJson * schema) const;
    RegularTexts & texts() { return texts_; }
    bool may_weaken() const { return may_weaken_; }
    const std::vector<std::string> & notes() const { return notes_; }

private:
    Result<const SchemaJson *> referred(const SchemaJson & schema, const std::string & where) const;
    Result<bool> speaks_of(const SchemaJson & schema, const std::string & where, const std::set<const SchemaJson *> & these);
    Status check_keywords(const SchemaJson & schema, const std::string & where);
    Status read_types(const SchemaJson & schema, const std::string & where, Facts & facts);
    Status read_numbers(const SchemaJson & schema, const std::string & where, Facts & facts);
    Status read_strings(const SchemaJson & schema, const std::string & where, Facts & facts);
    Status read_arrays(const SchemaJson & schema, const std::string & where, Facts & facts);
    Status read_objects(const SchemaJson & schema, const std::string & where, Facts & facts);
    Status count(const SchemaJson & schema, const char * key, int64_t & out, bool is_most, const std::string & where) const;
    Result<bool> is_possible(const Parts & parts, unsigned types, const Facts * written, int depth);
    Result<bool> fits_object(const SchemaJson & value, const Facts & facts, int depth);
    const SchemaJson & made(SchemaJson schema, const std::string & where);
    const SchemaJson * member(const SchemaJson & object, const std::string & name);

    const SchemaJson & document_;
    RegularTexts & texts_;
    bool may_weaken_;
    std::vector<std::string> notes_;
    std::map<const SchemaJson *, std::string> where_;
    std::map<std::string, RegularTexts::Id> patterns_;
    std::map<std::vector<const void *>, std::unique_ptr<Facts>> facts_;
    std::deque<SchemaJson> made_;
    std::map<const SchemaJson *, const SchemaJson *> made_of_;
    std::map<const SchemaJson *, const SchemaJson *> bare_of_;  // which schema, 'nullable' aside, is meant by a place of made_
    std::map<const SchemaJson *, std::map<std::string_view, const SchemaJson *>> members_;  // of large objects
    std::set<const SchemaJson *> open_;                                                     // schemas that are being added
    size_t n_bytes_ = 0;
};

}  // namespace pith
