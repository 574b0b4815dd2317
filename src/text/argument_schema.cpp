// argument_schema.cpp - references and branches, each schema looked at once.
#include "text/argument_schema.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace pith {
namespace {

using Json = SchemaJson;

// The schema behind "#/$defs/Label". nullptr: there is none.
const Json * behind_reference(const Json & root, const Json & reference) {
    if (!reference.is_string() || !reference.get_ref<const std::string &>().starts_with("#")) { return nullptr; }
    try {
        return &root.at(Json::json_pointer(reference.get_ref<const std::string &>().substr(1)));
    } catch (const Json::exception &) { return nullptr; }
}

const Json * member(const Json & schema, const char * name) {
    const auto found = schema.is_object() ? schema.find(name) : schema.end();
    return found == schema.end() ? nullptr : &*found;
}

// What a schema says about types and values, through references and branches. Each schema is looked at once, whatever points to
// it: hostile ones have more ways than anybody could go.
class SchemaLook {
public:
    explicit SchemaLook(const Json & root) : root_(root) {}

    enum Types : unsigned { kText = 1, kNull = 2, kOther = 4, kAny = kText | kNull | kOther };

    // What a value may be.
    unsigned types(const Json & schema) {
        const Deeper deeper(n_open_);
        if (n_open_ > kMostOpen) { return kAny; }
        const auto [known, is_new] = types_.try_emplace(&schema, kAny);  // what points to itself may be anything
        if (!is_new) { return known->second; }
        const Json * nullable = member(schema, "nullable");  // OpenAPI's
        const bool or_null = nullable != nullptr && *nullable == true;
        return types_[&schema] = types_said(schema) | (or_null ? unsigned{kNull} : 0U);
    }

    // Where the schema lists its values: adds them, and returns true.
    bool add_values(const Json & schema, std::vector<Json> & values) {
        const Deeper deeper(n_open_);
        if (n_open_ > kMostOpen || !listed_.insert(&schema).second) { return false; }
        if (const Json * given = member(schema, "enum"); given != nullptr && given->is_array()) {
            values.insert(values.end(), given->begin(), given->end());
            return true;
        }
        if (const Json * given = member(schema, "const")) {
            values.push_back(*given);
            return true;
        }
        if (const Json * given = member(schema, "type"); given != nullptr && *given == "null") {
            values.emplace_back(nullptr);
            return true;
        }
        if (const Json * given = member(schema, "$ref")) {
            const Json * there = behind_reference(root_, *given);
            return there != nullptr && add_values(*there, values);
        }
        for (const char * name : {"anyOf", "oneOf", "allOf"}) {
            const Json * given = member(schema, name);
            if (given == nullptr || !given->is_array() || given->empty()) { continue; }
            if (std::string_view(name) == "allOf" && given->size() > 1) { return false; }
            return std::ranges::all_of(*given, [&](const Json & one) { return add_values(one, values); });
        }
        return false;
    }

    // The properties that an object has, also through $ref and allOf, and which of them must be there.
    void add_arguments(const Json & schema, ArgumentList & all) {
        const Deeper deeper(n_open_);
        if (n_open_ > kMostOpen || !schema.is_object() || !merged_.insert(&schema).second) { return; }
        if (const Json * given = member(schema, "$ref")) {
            if (const Json * there = behind_reference(root_, *given)) { add_arguments(*there, all); }
        }
        if (const Json * given = member(schema, "allOf"); given != nullptr && given->is_array()) {
            for (const Json & one : *given) { add_arguments(one, all); }
        }
        if (const Json * given = member(schema, "properties"); given != nullptr && given->is_object()) {
            for (const auto & [name, property] : given->items()) {
                const auto [place, is_new] = places_.try_emplace(name, all.properties.size());
                if (is_new) {
                    all.properties.emplace_back(name, &property);
                } else {
                    all.properties[place->second].second = &property;  // the later one is meant
                }
            }
        }
        if (const Json * given = member(schema, "required"); given != nullptr && given->is_array()) {
            for (const Json & name : *given) {
                if (name.is_string()) { all.required.insert(name.get<std::string>()); }
            }
        }
    }

private:
    static constexpr int kMostOpen = 400;  // references and branches inside of each other
    struct Deeper {
        explicit Deeper(int & n) : n_open(++n) {}
        ~Deeper() { --n_open; }
        Deeper(const Deeper &) = delete;
        Deeper & operator=(const Deeper &) = delete;
        int & n_open;
    };

    static unsigned type_of(const Json & value) { return value.is_string() ? kText : value.is_null() ? kNull : kOther; }
    static unsigned named_type(const Json & name) { return name == "string" ? kText : name == "null" ? kNull : kOther; }

    unsigned types_said(const Json & schema) {
        unsigned all = 0;
        if (const Json * given = member(schema, "type")) {
            if (!given->is_array()) { return named_type(*given); }
            for (const Json & one : *given) { all |= named_type(one); }
            return all;
        }
        if (const Json * given = member(schema, "enum"); given != nullptr && given->is_array()) {
            for (const Json & one : *given) { all |= type_of(one); }
            return all;
        }
        if (const Json * given = member(schema, "const")) { return type_of(*given); }
        if (const Json * given = member(schema, "$ref")) {
            const Json * there = behind_reference(root_, *given);
            return there == nullptr ? unsigned{kAny} : types(*there);
        }
        for (const char * name : {"anyOf", "oneOf"}) {
            const Json * given = member(schema, name);
            if (given == nullptr || !given->is_array()) { continue; }
            for (const Json & one : *given) { all |= types(one); }
            return all;
        }
        all = kAny;
        if (const Json * given = member(schema, "allOf"); given != nullptr && given->is_array()) {
            for (const Json & one : *given) { all &= types(one); }
        }
        return all;
    }

    const Json & root_;
    int n_open_ = 0;
    std::map<const Json *, unsigned> types_;
    std::set<const Json *> listed_;
    std::set<const Json *> merged_;
    std::map<std::string, size_t> places_;  // of properties among all
};

}  // namespace

ArgumentList arguments_of(const SchemaJson & root) {
    ArgumentList all;
    SchemaLook(root).add_arguments(root, all);
    return all;
}

std::vector<SchemaJson> values_of_schema(const SchemaJson & schema, const SchemaJson & root) {
    std::vector<Json> values;
    return SchemaLook(root).add_values(schema, values) ? values : std::vector<Json>();
}

TextsOfFunction texts_of_schema(const SchemaJson & root) {
    TextsOfFunction texts;
    SchemaLook look(root);
    for (const auto & [name, property] : arguments_of(root).properties) {
        const unsigned types = look.types(*property);
        // Where something else may stand, too, what is written is that if it can be.
        if ((types & SchemaLook::kText) != 0 && (types & SchemaLook::kOther) == 0) {
            texts.emplace(name, (types & SchemaLook::kNull) != 0);
        }
    }
    return texts;
}

}  // namespace pith
