// schema_reader.cpp - schemas put together, and what else names them. Stage: text.
#include "text/schema_reader.h"

#include <algorithm>

#include "text/utf8.h"

namespace pith {
namespace {

using Json = SchemaJson;

constexpr size_t kMostWork = size_t{16} << 20;  // bytes of all expressions, those inside of others, too
constexpr size_t kMostOpen = 400;               // of $ref and allOf inside of each other
constexpr size_t kMostNotes = 10;
constexpr size_t kMostPath = 300;  // bytes of a path in a line

// What says nothing about the text.
const std::set<std::string> kSilent = {"title",
                                       "description",
                                       "default",
                                       "examples",
                                       "example",
                                       "$schema",
                                       "$id",
                                       "id",
                                       "$comment",
                                       "$anchor",
                                       "$defs",
                                       "definitions",
                                       "readOnly",
                                       "writeOnly",
                                       "deprecated",
                                       "discriminator",
                                       "contentEncoding",
                                       "contentSchema",
                                       "contentMediaType",
                                       "xml",
                                       "externalDocs",
                                       "$vocabulary",
                                       "propertyOrdering",
                                       "enumNames",
                                       "errorMessage",
                                       "markdownDescription"};
// Read where schemas are put together.
const std::set<std::string> kTogether = {"$ref", "allOf", "anyOf", "oneOf", "not", "nullable", "type", "enum", "const"};
const std::map<std::string, unsigned> kAbout = {{"minimum", schema_type::kNumber},
                                                {"maximum", schema_type::kNumber},
                                                {"exclusiveMinimum", schema_type::kNumber},
                                                {"exclusiveMaximum", schema_type::kNumber},
                                                {"multipleOf", schema_type::kNumber},
                                                {"minLength", schema_type::kString},
                                                {"maxLength", schema_type::kString},
                                                {"pattern", schema_type::kString},
                                                {"format", schema_type::kString},
                                                {"items", schema_type::kArray},
                                                {"prefixItems", schema_type::kArray},
                                                {"additionalItems", schema_type::kArray},
                                                {"unevaluatedItems", schema_type::kArray},
                                                {"minItems", schema_type::kArray},
                                                {"maxItems", schema_type::kArray},
                                                {"uniqueItems", schema_type::kArray},
                                                {"properties", schema_type::kObject},
                                                {"required", schema_type::kObject},
                                                {"patternProperties", schema_type::kObject},
                                                {"additionalProperties", schema_type::kObject},
                                                {"propertyNames", schema_type::kObject},
                                                {"unevaluatedProperties", schema_type::kObject},
                                                {"minProperties", schema_type::kObject},
                                                {"maxProperties", schema_type::kObject}};

bool is_null_too(const Json & schema) {
    const auto found = schema.find("nullable");
    return found != schema.end() && *found == Json(true);
}

}  // namespace

std::string SchemaReader::shortened(const std::string & name, size_t most) {
    if (name.size() <= most) { return name; }
    return name.substr(0, whole_characters(name, most)) + "…";
}

std::vector<const void *> SchemaReader::Parts::key() const {
    std::vector<const void *> out(schemas.begin(), schemas.end());
    std::ranges::sort(out);
    out.push_back(nullptr);
    for (const Choice & choice : choices) { out.push_back(choice.options); }
    out.push_back(nullptr);
    for (const Exclusion & exclusion : exclusions) { out.push_back(exclusion.schema); }
    if (is_never) { out.push_back(nullptr); }
    return out;
}

Status SchemaReader::bad(const std::string & where, const std::string & what) const {
    return {ErrorCode::kInvalidArgument, "JSON schema, " + shortened(where, kMostPath) + ": " + what};
}

Status SchemaReader::not_followed(const std::string & where, const std::string & keyword, const std::string & why) {
    const std::string what = "'" + shortened(keyword) + "' " + (why.empty() ? "is not understood" : why);
    if (!may_weaken_) { return bad(where, what + "; leave it out, or send a grammar of your own"); }
    if (notes_.size() == kMostNotes) { return {}; }
    std::string note = shortened(where, kMostPath) + ": " + what;
    if (std::ranges::find(notes_, note) == notes_.end()) { notes_.push_back(std::move(note)); }
    return {};
}

// A short schema may say the same place again and again ($ref, allOf), and each time costs what is written down.
Status SchemaReader::spend(size_t n_bytes, const std::string & where) {
    n_bytes_ += n_bytes;
    if (n_bytes_ <= kMostWork) { return {}; }
    return bad(where, "the schema says more than can be written down: leave out some of it");
}

std::string SchemaReader::where_of(const Json * schema) const {
    const auto found = where_.find(schema);
    return found != where_.end() ? found->second : "#";
}

Result<const Json *> SchemaReader::referred(const Json & schema, const std::string & where) const {
    if (!schema["$ref"].is_string()) { return bad(where, "'$ref' is no text"); }
    const std::string ref = schema["$ref"];
    if (!ref.starts_with("#")) {
        return bad(where, "'$ref' is '" + shortened(ref) + "': only places of this document (#/…) can be read");
    }
    try {
        return &document_.at(Json::json_pointer(ref.substr(1)));
    } catch (const Json::exception &) { return bad(where, "'$ref' is '" + shortened(ref) + "', and there is no such place"); }
}

const Json & SchemaReader::made(Json schema, const std::string & where) {
    made_.push_back(std::move(schema));
    where_[&made_.back()] = where;
    return made_.back();
}

// What an object of JSON has under a name; nullptr: nothing. Looking for it there takes as long as the object is large.
const Json * SchemaReader::member(const Json & object, const std::string & name) {
    if (object.size() < 32) {
        const auto found = object.find(name);
        return found != object.end() ? &*found : nullptr;
    }
    auto & known = members_[&object];
    if (known.empty()) {
        for (const auto & [key, value] : object.get_ref<const Json::object_t &>()) { known.emplace(key, &value); }
    }
    const auto found = known.find(name);
    return found != known.end() ? found->second : nullptr;
}

Status SchemaReader::check_keywords(const Json & schema, const std::string & where) {
    for (const auto & [key, value] : schema.items()) {
        if (kAbout.contains(key) || kTogether.contains(key) || kSilent.contains(key) || key.starts_with("x-")) { continue; }
        PITH_RETURN_IF_ERROR(not_followed(where, key));
    }
    return {};
}

Status SchemaReader::add(const Json & place, const std::string & where, Parts & parts) {
    PITH_RETURN_IF_ERROR(spend(8 + where.size(), where));
    const auto bare = bare_of_.find(&place);
    const bool is_bare = bare != bare_of_.end();
    const Json & schema = is_bare ? *bare->second : place;
    if (schema.is_boolean()) {
        parts.is_never = parts.is_never || !schema.get<bool>();
        return {};
    }
    if (!schema.is_object()) { return bad(where, "is neither an object nor a boolean"); }
    if (open_.contains(&place) || parts.taken.contains(&place)) {
        return bad(where, "begins with itself and never ends ('$ref')");
    }
    if (!parts.seen.insert(&place).second) {
        PITH_ASSIGN_OR_RETURN(const bool again, speaks_of(schema, where, parts.taken));
        return again ? bad(where, "begins with itself and never ends ('$ref')") : Status();
    }
    if (open_.size() == kMostOpen) {
        return bad(where, "schemas are nested deeper than " + std::to_string(kMostOpen) + ", what '$ref' names counted in");
    }
    where_.try_emplace(&schema, where);
    if (is_null_too(schema) && !is_bare) {  // OpenAPI's: as if it were a choice
        const Json *& both = made_of_[&schema];
        if (both == nullptr) {
            both = &made(Json{{"anyOf", {true, {{"type", "null"}}}}}, where);
            bare_of_[&(*both)["anyOf"][0]] = &schema;
        }
        open_.insert(&schema);
        const Status status = add(*both, where, parts);
        open_.erase(&schema);
        return status;
    }
    PITH_RETURN_IF_ERROR(check_keywords(schema, where));
    open_.insert(&place);
    const Status status = [&]() -> Status {
        if (schema.contains("$ref")) {
            PITH_ASSIGN_OR_RETURN(const Json * target, referred(schema, where));
            PITH_RETURN_IF_ERROR(add(*target, shortened(schema["$ref"].get<std::string>(), kMostPath), parts));
        }
        if (!schema.contains("allOf")) { return {}; }
        if (!schema["allOf"].is_array()) { return bad(where, "'allOf' is not a list of schemas"); }
        for (size_t i = 0; i < schema["allOf"].size(); ++i) {
            PITH_RETURN_IF_ERROR(add(schema["allOf"][i], where + "/allOf/" + std::to_string(i), parts));
        }
        return {};
    }();
    open_.erase(&place);
    PITH_RETURN_IF_ERROR(status);
    for (const char * key : {"anyOf", "oneOf"}) {
        if (!schema.contains(key)) { continue; }
        const std::string path = where + "/" + key;
        if (!schema[key].is_array() || schema[key].empty()) { return bad(path, "is not a list of schemas"); }
        where_.try_emplace(&schema[key], where);
        made_of_.try_emplace(&schema[key], &place);
        parts.choices.push_back({&schema[key], path, std::string_view(key) == "oneOf"});
    }
    if (schema.contains("not")) { parts.exclusions.push_back({&schema["not"], where + "/not", "not"}); }
    const bool says_more = std::ranges::any_of(schema.items(), [](const auto & one) {
        return kAbout.contains(one.key()) || one.key() == "type" || one.key() == "enum" || one.key() == "const";
    });
    if (says_more) { parts.schemas.push_back(&schema); }
    return {};
}

// Whether one of these is among what $ref and allOf name, and what these name.
Result<bool> SchemaReader::speaks_of(const Json & schema, const std::string & where, const std::set<const Json *> & these) {
    std::set<const Json *> seen;
    std::vector<const Json *> open;
    if (!these.empty()) { open.push_back(&schema); }
    while (!open.empty()) {
        const Json & one = *open.back();
        open.pop_back();
        if (!one.is_object() || !seen.insert(&one).second) { continue; }
        PITH_RETURN_IF_ERROR(spend(8, where));
        if (these.contains(&one)) { return true; }
        if (one.contains("$ref")) {
            PITH_ASSIGN_OR_RETURN(const Json * target, referred(one, where));
            open.push_back(target);
        }
        if (!one.contains("allOf")) { continue; }
        for (const Json & part : one["allOf"]) { open.push_back(&part); }
    }
    return false;
}

Result<SchemaReader::Parts> SchemaReader::with_option(const Parts & parts, size_t choice, size_t option) {
    const Choice chosen = parts.choices[choice];
    Parts out = parts;
    PITH_RETURN_IF_ERROR(spend(16 * (1 + parts.seen.size()), chosen.where));
    out.choices.erase(out.choices.begin() + static_cast<std::ptrdiff_t>(choice));
    out.taken.insert(made_of_.at(chosen.options));
    const auto place = [&](size_t i) { return chosen.where + "/" + std::to_string(i); };
    PITH_RETURN_IF_ERROR(add((*chosen.options)[option], place(option), out));
    if (!chosen.only_one) { return out; }
    PITH_RETURN_IF_ERROR(spend(64 * chosen.options->size(), chosen.where));
    for (size_t i = 0; i < chosen.options->size(); ++i) {
        if (i != option && (*chosen.options)[i] != Json(false)) {
            out.exclusions.push_back({&(*chosen.options)[i], place(i), "oneOf"});
        }
    }
    return out;
}

Result<const SchemaReader::Facts *> SchemaReader::facts_of(const Parts & parts) {
    std::unique_ptr<Facts> & known = facts_[parts.key()];
    if (known != nullptr) { return known.get(); }
    auto facts = std::make_unique<Facts>();
    facts->is_never = parts.is_never;
    unsigned about = 0;
    for (const Json * schema : parts.schemas) {
        const std::string where = where_of(schema);
        PITH_RETURN_IF_ERROR(spend(16 * (1 + schema->size()), where));
        PITH_RETURN_IF_ERROR(read_types(*schema, where, *facts));
        PITH_RETURN_IF_ERROR(read_numbers(*schema, where, *facts));
        PITH_RETURN_IF_ERROR(read_strings(*schema, where, *facts));
        PITH_RETURN_IF_ERROR(read_arrays(*schema, where, *facts));
        PITH_RETURN_IF_ERROR(read_objects(*schema, where, *facts));
        for (const auto & [key, value] : schema->items()) {
            const auto found = kAbout.find(key);
            if (found != kAbout.end()) { about |= found->second; }
        }
    }
    facts->written = facts->types;
    if (facts->types == schema_type::kAny && about != 0 && !facts->values) { facts->written = about; }
    if (facts->values) { facts->value_places.insert(facts->values->begin(), facts->values->end()); }
    known = std::move(facts);
    return known.get();
}

}  // namespace pith
