// fields.cpp - typed fields. Stage: serve.
#include "serve/shapes/fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/text.h"
#include "text/utf8.h"

namespace pith::serve {
namespace {

constexpr size_t kMostQuoted = 60;    // bytes of a value in a message
constexpr size_t kMostMisspelt = 64;  // bytes of a name that may be meant for another

// Names that other servers know and that look like ones of Pith's (`model`, `seed`, `top_p`): clients written for several
// servers send them with every request, and none of them is misspelt.
constexpr auto kOthers = std::to_array<std::string_view>(
    {"models", "speed", "top_a", "mode", "num_keep", "type", "speculative.n_min", "speculative.p_min"});

std::string shown(const Json & value) {
    std::string text = dump(value);
    if (text.size() <= kMostQuoted) { return text; }
    text.resize(kMostQuoted);
    while (!text.empty() && is_inside_character(text.back())) { text.pop_back(); }
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0U) { text.pop_back(); }
    return text + "…";
}

// 5, and 5.0, too. Nothing: no whole number, or none of 64 bits.
std::optional<int64_t> whole_number(const Json & value) {
    constexpr double kBeyond = 9223372036854775808.0;  // 2^63, which no int64_t is
    if (value.is_number_unsigned()) {
        const auto number = value.get<uint64_t>();
        return number <= INT64_MAX ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
    }
    if (value.is_number_integer()) { return value.get<int64_t>(); }
    if (!value.is_number_float()) { return {}; }
    const auto number = value.get<double>();
    if (std::floor(number) != number || number < -kBeyond || number >= kBeyond) { return {}; }
    return static_cast<int64_t>(number);
}

}  // namespace

Status wrong_field(std::string_view name, const Json & value, const std::string & wanted) {
    return {ErrorCode::kInvalidArgument, field(name) + " is " + shown(value) + ": give " + wanted};
}

const Json * Fields::find(std::string_view name) {
    asked_.emplace(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Status Fields::read_messages(const Json *& list) {
    list = find("messages");
    if (list == nullptr) { return wrong(field("messages") + " is missing: give a list of them"); }
    if (!list->is_array()) { return wrong_field("messages", *list, "a list of messages"); }
    return list->empty() ? wrong(field("messages") + " is empty: give at least one") : Status();
}

Status Fields::read(std::string_view name, bool & value) {
    const Json * field = find(name);
    if (field == nullptr) { return {}; }
    if (!field->is_boolean()) { return wrong_field(name, *field, "true or false"); }
    value = field->get<bool>();
    return {};
}

Status Fields::read(std::string_view name, float & value) {
    const Json * field = find(name);
    if (field == nullptr) { return {}; }
    if (!field->is_number()) { return wrong_field(name, *field, "a number"); }
    const auto number = field->get<double>();
    if (!std::isfinite(number) || std::abs(number) > 1e30) { return wrong_field(name, *field, "a smaller number"); }
    value = static_cast<float>(number);
    return {};
}

Status Fields::read(std::string_view name, std::string & value) {
    const Json * field = find(name);
    if (field == nullptr) { return {}; }
    if (!field->is_string()) { return wrong_field(name, *field, "a text"); }
    value = field->get<std::string>();
    return {};
}

Status Fields::read(std::string_view name, int64_t & value, int64_t low, int64_t high) {
    const Json * field = find(name);
    if (field == nullptr) { return {}; }
    const std::optional<int64_t> number = whole_number(*field);
    if (!number || *number < low || *number > high) {
        return wrong_field(name, *field, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    value = *number;
    return {};
}

Status Fields::read(std::string_view name, int & value, int64_t low, int64_t high) {
    int64_t wide = value;
    PITH_RETURN_IF_ERROR(read(name, wide, low, high));
    value = static_cast<int>(wide);
    return {};
}

Status Fields::read(std::string_view name, std::vector<std::string> & values) {
    const Json * field = find(name);
    if (field == nullptr) { return {}; }
    if (field->is_string()) {
        values = {field->get<std::string>()};
        return {};
    }
    std::vector<std::string> found;
    bool good = field->is_array();
    for (const Json & one : *field) {
        good = good && one.is_string();
        if (!good) { break; }
        found.push_back(one.get<std::string>());
    }
    if (!good) { return wrong_field(name, *field, "a text, or a list of texts"); }
    values = std::move(found);
    return {};
}

Status Fields::check_spelling() const {
    const std::vector<std::string_view> known(asked_.begin(), asked_.end());
    for (const auto & [name, value] : object_.items()) {
        const bool may_be_meant = name.size() >= 4 && name.size() <= kMostMisspelt;
        if (asked_.contains(name) || value.is_null() || !may_be_meant || std::ranges::find(kOthers, name) != kOthers.end()) {
            continue;
        }
        const std::string_view meant = nearest(name, known);
        if (!meant.empty()) {
            return {ErrorCode::kInvalidArgument,
                    "there is no field " + field(name) + ": did you mean " + pith::quoted(meant) + "?"};
        }
    }
    return {};
}

}  // namespace pith::serve
