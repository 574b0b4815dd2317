// number_texts.h - how the numbers of a range are written: as digits, with a fraction where they may have one, no exponent.
// Stage: text.   Pure C++. Threads: as RegularTexts. Cost: linear in the digits.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/regular_texts.h"

namespace pith {

// Exact.
struct Decimal {
    bool is_negative = false;  // never of zero
    std::string whole = "0";   // no zeros in front
    std::string fraction;      // none behind
};
// REQUIRES: a number.
Decimal decimal_of(const nlohmann::ordered_json & number);
int compare(const Decimal & one, const Decimal & other);

struct NumberRange {
    std::optional<Decimal> low;  // nothing: no end
    std::optional<Decimal> high;
    bool low_is_out = false;  // of the range
    bool high_is_out = false;
    std::vector<uint32_t> multiples;  // the numbers are multiples of each

    void at_least(const Decimal & bound, bool is_out);
    void at_most(const Decimal & bound, bool is_out);
    bool is_bounded() const { return low || high || !multiples.empty(); }
    bool is_empty() const;
    bool holds(const Decimal & number) const;
};

enum class NumberForm : uint8_t {
    kWhole,     // digits
    kAny,       // digits, or digits and a fraction; 15 digits at most where there is a fraction, which a double tells apart
    kAnyWhole,  // every way to write whole numbers without an exponent: 3.0 among them
    kEvery,     // every way to write a number without an exponent
};
// All of them fit a double; without an end they have 18 digits, or one more than the other end.
RegularTexts::Id number_texts(RegularTexts & texts, const NumberRange & range, NumberForm form);

}  // namespace pith
