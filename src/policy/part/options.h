// options.h - the options of one part of a policy: a table that validates, lists and explains them. Stage: set-up.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/status.h"

namespace pith {

enum class OptionType { kInteger, kReal, kWord, kPooling };

// A number in [min, max], or one of the words; kWord takes words only; kPooling one of the words, or max or avg with an odd
// width up to `max` ("avg9").
struct OptionSpec {
    std::string_view name;
    std::string_view default_value;
    OptionType type = OptionType::kWord;
    double min = 0;
    double max = 0;
    std::string_view words;  // joined by '|'
    std::string_view help;   // the meaning; the accepted values are added from the fields above
};

// The default of an option that does what another part of the policy does.
inline constexpr std::string_view kAsOtherParts = "same";

constexpr OptionSpec integer_option(std::string_view name, std::string_view default_value, double min, double max,
                                    std::string_view help, std::string_view words = {}) {
    return {name, default_value, OptionType::kInteger, min, max, words, help};
}
constexpr OptionSpec real_option(std::string_view name, std::string_view default_value, double min, double max,
                                 std::string_view help) {
    return {name, default_value, OptionType::kReal, min, max, {}, help};
}
constexpr OptionSpec word_option(std::string_view name, std::string_view default_value, std::string_view words,
                                 std::string_view help) {
    return {name, default_value, OptionType::kWord, 0, 0, words, help};
}

constexpr OptionSpec pooling_option(std::string_view name, std::string_view default_value, std::string_view words,
                                    std::string_view help) {
    return {name, default_value, OptionType::kPooling, 1, 1023, words, help};
}

// "max7": 7, of the largest; any other text: width 1, none.
struct Pooling {
    bool largest = false;  // else the average
    int width = 1;
};
Pooling parse_pooling(std::string_view text);

// "an integer from 1 to 4096, or half"
std::string accepted_values(const OptionSpec & spec);

// Key and value as the user wrote them.
using GivenOption = std::pair<std::string_view, std::string_view>;

// The validated values of one part. Getters cannot fail: REQUIRES a name of the table, asked for by its type.
class Options {
public:
    // `part` is the part's name, for messages. The table must outlive the object (tables are static).
    // Errors: kInvalidArgument naming the part, the option, the value and what is accepted (with the nearest known name).
    static Result<Options> parse(std::string_view part, std::span<const OptionSpec> table, std::span<const GivenOption> given);

    int64_t integer(std::string_view name) const { return static_cast<int64_t>(find(name).number); }
    double real(std::string_view name) const { return find(name).number; }
    std::string_view word(std::string_view name) const { return find(name).text; }
    bool is(std::string_view name, std::string_view word) const { return find(name).text == word; }

private:
    struct Value {
        std::string_view name;
        std::string text;
        double number = 0;
    };
    const Value & find(std::string_view name) const;

    std::vector<Value> values_;
};

}  // namespace pith
