// options.cpp - validates the options of a policy's parts.
#include "policy/part/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/parse_integer.h"
#include "core/text.h"

namespace pith {
namespace {

bool has_word(const OptionSpec & spec, std::string_view text) {
    if (spec.words.empty()) { return false; }
    const auto words = split(spec.words, '|');
    return std::find(words.begin(), words.end(), text) != words.end();
}

// True when the whole text is a finite number of the option's type inside its range.
bool parse_number(const OptionSpec & spec, std::string_view text, double & number) {
    if (spec.type == OptionType::kWord) { return false; }
    if (spec.type == OptionType::kPooling) {
        const int width = parse_pooling(text).width;
        return width > 1 && width <= spec.max;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number)) { return false; }
    if (spec.type == OptionType::kInteger && number != std::floor(number)) { return false; }
    return number >= spec.min && number <= spec.max;
}

Status unknown_option(std::string_view part, std::span<const OptionSpec> table, std::string_view name) {
    std::string message = "policy part " + quoted(part) + " has no option " + quoted(name);
    std::vector<std::string_view> names;
    for (const OptionSpec & spec : table) { names.push_back(spec.name); }
    if (names.empty()) { return {ErrorCode::kInvalidArgument, message + ": it takes none"}; }
    const std::string_view near = nearest(name, names);
    if (!near.empty()) { message += ": did you mean " + quoted(near) + "?"; }
    return {ErrorCode::kInvalidArgument, message + " (it has " + join(names, ", ") + ")"};
}

}  // namespace

Pooling parse_pooling(std::string_view text) {
    const bool largest = text.starts_with("max");
    if (!largest && !text.starts_with("avg")) { return {}; }
    int width = 0;
    const bool fits = parse_integer(text.substr(3), width) && width > 1 && width % 2 == 1;
    return fits ? Pooling{largest, width} : Pooling{};
}

std::string accepted_values(const OptionSpec & spec) {
    std::string words = join(split(spec.words, '|'), ", ");
    if (spec.type == OptionType::kWord) { return words; }
    if (spec.type == OptionType::kPooling) {
        return words + ", or max or avg with an odd width of 3 to " + format_number(spec.max);
    }
    std::string text = spec.type == OptionType::kInteger ? "an integer from " : "a number from ";
    text += format_number(spec.min) + " to " + format_number(spec.max);
    return spec.words.empty() ? text : text + ", or " + words;
}

Result<Options> Options::parse(std::string_view part, std::span<const OptionSpec> table, std::span<const GivenOption> given) {
    for (size_t i = 0; i < given.size(); ++i) {
        const std::string_view name = given[i].first;
        if (std::none_of(table.begin(), table.end(), [&](const OptionSpec & spec) { return spec.name == name; })) {
            return unknown_option(part, table, name);
        }
        for (size_t j = 0; j < i; ++j) {
            if (given[j].first != name) { continue; }
            return Status(ErrorCode::kInvalidArgument,
                          "option " + quoted(name) + " of policy part " + quoted(part) + " is given twice");
        }
    }
    Options options;
    for (const OptionSpec & spec : table) {
        std::string_view text = spec.default_value;
        for (const auto & [name, value] : given) {
            if (name == spec.name) { text = value; }
        }
        Value value{spec.name, std::string(text), 0};
        if (!has_word(spec, text) && !parse_number(spec, text, value.number)) {
            return Status(ErrorCode::kInvalidArgument, "option " + quoted(spec.name) + " of policy part " + quoted(part) +
                                                           " is " + quoted(text) + ": must be " + accepted_values(spec));
        }
        options.values_.push_back(std::move(value));
    }
    return options;
}

const Options::Value & Options::find(std::string_view name) const {
    static const Value kNone;  // a name outside the table is a bug of the part that asks: the registry's tests see it
    for (const Value & value : values_) {
        if (value.name == name) { return value; }
    }
    return kNone;
}

}  // namespace pith
