// number_texts.cpp - ranges of numbers as digits, from the first that differs from a bound on. Stage: text.
#include "text/number_texts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace pith {
namespace {

using Id = RegularTexts::Id;

class NumberTexts {
public:
    NumberTexts(RegularTexts & texts, size_t most_digits) : texts_(texts), most_digits_(static_cast<int>(most_digits)) {}

    // Without a sign, both bounds' fractions counted.
    Id at_least(const Decimal & bound, bool is_out) {
        const Id same = texts_.then(literal(bound.whole), fraction_above(bound.fraction, is_out));
        return texts_.either({same, texts_.then(above(bound.whole), any_fraction())});
    }
    Id at_most(const Decimal & bound, bool is_out) {
        const Id same = texts_.then(literal(bound.whole), fraction_below(bound.fraction, is_out));
        return texts_.either({same, texts_.then(below(bound.whole), any_fraction())});
    }

    Id digit(char low, char high) {
        return low > high ? RegularTexts::kNothing : texts_.one_of({static_cast<char32_t>(low), static_cast<char32_t>(high)});
    }
    Id digits(int low, int high) { return texts_.times(digit('0', '9'), low, high); }
    Id point() { return texts_.one_of({'.', '.'}); }
    Id literal(const std::string & text) { return texts_.literal(std::u32string(text.begin(), text.end())); }

private:
    Id any_fraction() { return texts_.either({RegularTexts::kEmpty, texts_.then(point(), digits(1, -1))}); }

    // Whole numbers above: as many digits, of which one is larger, or more digits.
    Id above(const std::string & whole) {
        const auto n = static_cast<int>(whole.size());
        Id out = RegularTexts::kNothing;
        for (int i = n; i-- > 0;) {
            const char here = whole[static_cast<size_t>(i)];
            out = texts_.either({texts_.then(digit(here, here), out),
                                 texts_.then(digit(static_cast<char>(here + 1), '9'), digits(n - i - 1, n - i - 1))});
        }
        if (n >= most_digits_) { return out; }
        return texts_.either({out, texts_.then(digit('1', '9'), digits(n, most_digits_ - 1))});
    }
    Id below(const std::string & whole) {
        const auto n = static_cast<int>(whole.size());
        Id out = RegularTexts::kNothing;
        for (int i = n; i-- > 0;) {
            const char here = whole[static_cast<size_t>(i)];
            const char least = i == 0 && n > 1 ? '1' : '0';
            out = texts_.either({texts_.then(digit(here, here), out),
                                 texts_.then(digit(least, static_cast<char>(here - 1)), digits(n - i - 1, n - i - 1))});
        }
        if (n == 1) { return out; }
        return texts_.either({out, digit('0', '0'), texts_.then(digit('1', '9'), digits(0, n - 2))});
    }
    // A fraction with its point, or none.
    Id fraction_above(const std::string & fraction, bool is_out) {
        const Id some = texts_.then(texts_.times(digit('0', '0'), 0, -1), texts_.then(digit('1', '9'), digits(0, -1)));
        if (fraction.empty()) { return is_out ? texts_.then(point(), some) : any_fraction(); }
        Id out = is_out ? some : digits(0, -1);
        for (auto c = fraction.rbegin(); c != fraction.rend(); ++c) {
            out = texts_.either(
                {texts_.then(digit(*c, *c), out), texts_.then(digit(static_cast<char>(*c + 1), '9'), digits(0, -1))});
        }
        return texts_.then(point(), out);
    }
    Id fraction_below(const std::string & fraction, bool is_out) {
        if (fraction.empty()) {
            if (is_out) { return RegularTexts::kNothing; }
            return texts_.either({RegularTexts::kEmpty, texts_.then(point(), texts_.times(digit('0', '0'), 1, -1))});
        }
        Id rest = is_out ? RegularTexts::kNothing : texts_.times(digit('0', '0'), 0, -1);
        Id out = rest;
        for (auto c = fraction.rbegin(); c != fraction.rend(); ++c) {
            out = texts_.either(
                {texts_.then(digit(*c, *c), rest), texts_.then(digit('0', static_cast<char>(*c - 1)), digits(0, -1))});
            rest = texts_.either({RegularTexts::kEmpty, out});
        }
        return texts_.either({RegularTexts::kEmpty, texts_.then(point(), out)});
    }

    RegularTexts & texts_;
    int most_digits_;
};

int compare_sizes(const Decimal & one, const Decimal & other) {
    if (one.whole.size() != other.whole.size()) { return one.whole.size() < other.whole.size() ? -1 : 1; }
    if (const int whole = one.whole.compare(other.whole); whole != 0) { return whole < 0 ? -1 : 1; }
    const int fraction = one.fraction.compare(other.fraction);
    return fraction == 0 ? 0 : fraction < 0 ? -1 : 1;
}

Decimal negated(Decimal number) {
    const bool is_zero = number.whole == "0" && number.fraction.empty();
    number.is_negative = !is_zero && !number.is_negative;
    return number;
}

// The rest of a division of digits.
bool divides(uint32_t divisor, const std::string & whole) {
    uint64_t rest = 0;
    for (const char c : whole) { rest = (rest * 10 + static_cast<uint64_t>(c - '0')) % divisor; }
    return rest == 0;
}

}  // namespace

Decimal decimal_of(const nlohmann::ordered_json & number) {
    std::string text;
    if (number.is_number_float()) {
        std::array<char, 1200> digits{};
        const auto end =
            std::to_chars(digits.data(), digits.data() + digits.size(), number.get<double>(), std::chars_format::fixed);
        text.assign(digits.data(), end.ptr);
    } else {
        text = number.dump();
    }
    Decimal out;
    out.is_negative = text[0] == '-';
    if (out.is_negative) { text.erase(0, 1); }
    const size_t point = std::min(text.find('.'), text.size());
    out.whole = text.substr(0, point);
    if (point < text.size()) { out.fraction = text.substr(point + 1); }
    while (out.fraction.ends_with('0')) { out.fraction.pop_back(); }
    if (out.whole == "0" && out.fraction.empty()) { out.is_negative = false; }
    return out;
}

int compare(const Decimal & one, const Decimal & other) {
    if (one.is_negative != other.is_negative) { return one.is_negative ? -1 : 1; }
    return one.is_negative ? compare_sizes(other, one) : compare_sizes(one, other);
}

void NumberRange::at_least(const Decimal & bound, bool is_out) {
    const int order = low ? compare(bound, *low) : 1;
    if (order < 0) { return; }
    low_is_out = is_out || (order == 0 && low_is_out);
    low = bound;
}

void NumberRange::at_most(const Decimal & bound, bool is_out) {
    const int order = high ? compare(bound, *high) : -1;
    if (order > 0) { return; }
    high_is_out = is_out || (order == 0 && high_is_out);
    high = bound;
}

bool NumberRange::is_empty() const {
    if (!low || !high) { return false; }
    const int order = compare(*low, *high);
    return order > 0 || (order == 0 && (low_is_out || high_is_out));
}

bool NumberRange::holds(const Decimal & number) const {
    const int above = low ? compare(number, *low) : 1;
    const int below = high ? compare(number, *high) : -1;
    if (above < 0 || (above == 0 && low_is_out) || below > 0 || (below == 0 && high_is_out)) { return false; }
    return std::ranges::all_of(multiples, [&](uint32_t of) { return number.fraction.empty() && divides(of, number.whole); });
}

RegularTexts::Id number_texts(RegularTexts & texts, const NumberRange & range, NumberForm form) {
    const Decimal most = decimal_of(std::numeric_limits<double>::max());
    const bool is_every = form == NumberForm::kEvery || form == NumberForm::kAnyWhole;
    size_t most_digits = is_every ? most.whole.size() : 18;
    for (const auto & bound : {range.low, range.high}) {
        if (bound) { most_digits = std::min(std::max(most_digits, bound->whole.size() + 1), most.whole.size()); }
    }
    NumberTexts numbers(texts, most_digits);
    Id shape = numbers.digits(1, -1);
    if (form == NumberForm::kAny && range.multiples.empty()) {
        const Id digit_or_point = texts.either({numbers.digit('0', '9'), numbers.point()});
        shape = texts.either({shape, texts.times(digit_or_point, 3, 16)});
    } else if (form == NumberForm::kEvery && range.multiples.empty()) {
        shape = RegularTexts::kAll;
    }
    for (uint32_t of : range.multiples) {
        int n_zeros = 0;
        for (; of % 10 == 0; of /= 10) { ++n_zeros; }
        const Id zeros = texts.times(numbers.digit('0', '0'), n_zeros, n_zeros);
        shape = texts.both({shape, texts.either({texts.then(texts.multiples(of), zeros), numbers.literal("0")})});
    }
    if (is_every && shape != RegularTexts::kAll) {
        const Id no_fraction = texts.then(numbers.point(), texts.times(numbers.digit('0', '0'), 1, -1));
        shape = texts.then(shape, texts.either({RegularTexts::kEmpty, no_fraction}));
    }
    const Decimal zero;
    const auto between = [&](const Decimal & low, bool low_is_out, const Decimal & high, bool high_is_out) {
        return texts.both({numbers.at_least(low, low_is_out), numbers.at_most(high, high_is_out), shape});
    };
    const Decimal low = range.low.value_or(negated(most));
    const Decimal high = range.high.value_or(most);
    Id out = RegularTexts::kNothing;
    if (!high.is_negative) {
        const bool from_zero = low.is_negative;
        out = between(from_zero ? zero : low, !from_zero && range.low_is_out, high, range.high_is_out);
    }
    if (low.is_negative) {
        const bool to_zero = compare(high, zero) >= 0;
        const Id size = between(to_zero ? zero : negated(high), to_zero || range.high_is_out, negated(low), range.low_is_out);
        out = texts.either({out, texts.then(texts.one_of({'-', '-'}), size)});
    }
    if (is_every && range.holds(zero)) {
        const Id zeros = texts.both({shape, numbers.at_most(zero, false)});
        out = texts.either({out, texts.then(texts.one_of({'-', '-'}), zeros)});
    }
    return out;
}

}  // namespace pith
