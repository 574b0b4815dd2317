// identifiers.cpp - see identifiers.h.
#include "tasks/identifiers.h"

#include <algorithm>
#include <string_view>

#include "tasks/concat.h"
#include "tasks/word_lists.h"

namespace pith::corpus {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string draw_hex(Random & random, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) { out += kHexDigits[static_cast<size_t>(random.below(16))]; }
    return out;
}

std::string draw_coined(Random & random) {
    constexpr std::string_view kConsonants = "bcdfgklmnprstvz";
    constexpr std::string_view kVowels = "aeiou";
    std::string out;
    const int n_syllables = random.between(2, 3);
    for (int i = 0; i < n_syllables; ++i) {
        out += random.pick(kConsonants);
        out += random.pick(kVowels);
    }
    if (random.chance(0.5)) { out += random.pick(kConsonants); }
    return out;
}

}  // namespace

std::string draw_uuid(Random & random) {
    std::string out;
    for (int i = 0; i < 32; ++i) {
        if (i == 8 || i == 12 || i == 16 || i == 20) { out += '-'; }
        const int digit = random.below(16);
        out += kHexDigits[static_cast<size_t>(i == 12 ? 4 : i == 16 ? 8 + digit % 4 : digit)];
    }
    return out;
}

std::string draw_letters(Random & random, char first, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) { out += static_cast<char>(first + random.below(26)); }
    return out;
}

std::string draw(Random & random, Kind kind) {
    switch (kind) {
        case Kind::kWord:
            return std::string(random.pick(common_words()));
        case Kind::kCompound: {
            const auto adjective = random.pick(adjectives());
            return concat({adjective, "-", random.pick(nouns())});
        }
        case Kind::kCoined:
            return draw_coined(random);
        case Kind::kTwoDigits:
            return std::to_string(random.between(10, 99));
        case Kind::kFourDigits:
            return std::to_string(random.between(1000, 9999));
        case Kind::kSevenDigits:
            return std::to_string(random.between(1000000, 9999999));
        case Kind::kHex:
            return draw_hex(random, 8);
        case Kind::kUuid:
            return draw_uuid(random);
        case Kind::kCapitals:
            return draw_letters(random, 'A', 5);
        default:
            return draw_letters(random, 'a', 6);
    }
}

std::vector<std::string> draw_different(Random & random, Kind kind, int n) {
    std::vector<std::string> out;
    if (kind == Kind::kCompound) {
        const auto front = random.draw(n, static_cast<int>(adjectives().size()));
        const auto back = random.draw(n, static_cast<int>(nouns().size()));
        for (size_t i = 0; i < front.size(); ++i) {
            out.push_back(concat({adjectives()[static_cast<size_t>(front[i])], "-", nouns()[static_cast<size_t>(back[i])]}));
        }
        return out;
    }
    while (static_cast<int>(out.size()) < n) {
        std::string item = draw(random, kind);
        if (std::find(out.begin(), out.end(), item) == out.end()) { out.push_back(std::move(item)); }
    }
    return out;
}

}  // namespace pith::corpus
