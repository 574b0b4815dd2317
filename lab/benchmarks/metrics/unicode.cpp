// unicode.cpp - the tables behind unicode.h, kept to the blocks it names.
#include "benchmarks/metrics/unicode.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace pith::benchmarks {
namespace {

struct Range {
    char32_t first, last;
};

constexpr Range kSpaces[] = {{0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

// Neither letter nor digit, from U+0080 on: controls, marks, punctuation, symbols.
constexpr Range kNoWord[] = {
    {0x80, 0xA9},     {0xAB, 0xB1},     {0xB4, 0xB4},     {0xB6, 0xB8},     {0xBB, 0xBB},     {0xBF, 0xBF},
    {0xD7, 0xD7},     {0xF7, 0xF7},     {0x2C2, 0x2C5},   {0x2D2, 0x2DF},   {0x2E5, 0x2EB},   {0x2ED, 0x2ED},
    {0x2EF, 0x36F},   {0x375, 0x375},   {0x378, 0x379},   {0x37E, 0x37E},   {0x380, 0x385},   {0x387, 0x387},
    {0x38B, 0x38B},   {0x38D, 0x38D},   {0x3A2, 0x3A2},   {0x3F6, 0x3F6},   {0x482, 0x489},   {0x2000, 0x206F},
    {0x2072, 0x2073}, {0x207A, 0x207E}, {0x208A, 0x208F}, {0x209D, 0x2101}, {0x2103, 0x2106}, {0x2108, 0x2109},
    {0x2114, 0x2114}, {0x2116, 0x2118}, {0x211E, 0x2123}, {0x2125, 0x2125}, {0x2127, 0x2127}, {0x2129, 0x2129},
    {0x212E, 0x212E}, {0x213A, 0x213B}, {0x2140, 0x2144}, {0x214A, 0x214D}, {0x214F, 0x214F}, {0x218A, 0x245F},
    {0x249C, 0x24E9}, {0x2500, 0x2775}, {0x2794, 0x2BFF}, {0x3000, 0x3004}, {0x3008, 0x3020}, {0x302A, 0x3030},
    {0x3036, 0x3037}, {0x303D, 0x3040}, {0x3097, 0x309C}, {0x30A0, 0x30A0}, {0x30FB, 0x30FB}, {0x3100, 0x3104},
    {0x3130, 0x3130}, {0x318F, 0x3191}, {0x3196, 0x319F}, {0x31C0, 0x31EF}, {0x3200, 0x321F}, {0x322A, 0x3247},
    {0x3250, 0x3250}, {0x3260, 0x327F}, {0x328A, 0x32B0}, {0x32C0, 0x33FF}, {0xD800, 0xF8FF}, {0xFE00, 0xFE6F},
    {0xFE75, 0xFE75}, {0xFEFD, 0xFF0F}, {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65}, {0xFFBF, 0xFFC1},
    {0xFFC8, 0xFFC9}, {0xFFD0, 0xFFD1}, {0xFFD8, 0xFFD9}, {0xFFDD, 0xFFFF}};

// The zeros of the basic plane's decimal digits; nine more follow each.
constexpr char32_t kZeros[] = {0x30,   0x660,  0x6F0,  0x7C0,  0x966,  0x9E6,  0xA66,  0xAE6,  0xB66,  0xBE6,
                               0xC66,  0xCE6,  0xD66,  0xDE6,  0xE50,  0xED0,  0xF20,  0x1040, 0x1090, 0x17E0,
                               0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620,
                               0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10};

// Capitals first, first + step … last; the small letter is `delta` further on.
struct Capitals {
    char32_t first, last;
    int step, delta;
};
constexpr Capitals kCapitals[] = {
    {'A', 'Z', 1, 32},      {0xC0, 0xD6, 1, 32},   {0xD8, 0xDE, 1, 32},     {0x100, 0x12E, 2, 1},   {0x132, 0x136, 2, 1},
    {0x139, 0x147, 2, 1},   {0x14A, 0x176, 2, 1},  {0x178, 0x178, 1, -121}, {0x179, 0x17D, 2, 1},   {0x1A0, 0x1A4, 2, 1},
    {0x1AF, 0x1AF, 1, 1},   {0x1CD, 0x1DB, 2, 1},  {0x1DE, 0x1EE, 2, 1},    {0x1F8, 0x21E, 2, 1},   {0x222, 0x232, 2, 1},
    {0x386, 0x386, 1, 38},  {0x388, 0x38A, 1, 37}, {0x38C, 0x38C, 1, 64},   {0x38E, 0x38F, 1, 63},  {0x391, 0x3A1, 1, 32},
    {0x3A3, 0x3AB, 1, 32},  {0x400, 0x40F, 1, 80}, {0x410, 0x42F, 1, 32},   {0x460, 0x480, 2, 1},   {0x48A, 0x4BE, 2, 1},
    {0x4C0, 0x4C0, 1, 15},  {0x4C1, 0x4CD, 2, 1},  {0x4D0, 0x52E, 2, 1},    {0x1E00, 0x1E94, 2, 1}, {0x1EA0, 0x1EFE, 2, 1},
    {0xFF21, 0xFF3A, 1, 32}};

template <size_t N>
bool in_any(const Range (&ranges)[N], char32_t c) {
    const auto * after = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                          [](char32_t value, const Range & range) { return value < range.first; });
    return after != std::begin(ranges) && c <= (after - 1)->last;
}

char32_t plus(char32_t c, int delta) {
    return static_cast<char32_t>(static_cast<int32_t>(c) + delta);
}

// The code point at `at`, which moves past it.
char32_t next_code_point(std::string_view text, size_t & at) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char head = byte(at++);
    if (head < 0x80) { return head; }
    const int n_more = head >= 0xF0 ? 3 : head >= 0xE0 ? 2 : 1;
    if (head < 0xC2 || head > 0xF4 || at + static_cast<size_t>(n_more) > text.size()) { return 0xFFFD; }
    char32_t c = head & (0x3FU >> n_more);
    for (int i = 0; i < n_more; ++i) {
        const unsigned char more = byte(at + static_cast<size_t>(i));
        if ((more & 0xC0U) != 0x80) { return 0xFFFD; }
        c = c << 6 | (more & 0x3FU);
    }
    constexpr std::array<char32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
    if (c < kLeast[static_cast<size_t>(n_more)] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) { return 0xFFFD; }
    at += static_cast<size_t>(n_more);
    return c;
}

}  // namespace

std::u32string code_points(std::string_view utf8) {
    std::u32string text;
    text.reserve(utf8.size());
    for (size_t at = 0; at < utf8.size();) { text += next_code_point(utf8, at); }
    return text;
}

std::string to_utf8(std::u32string_view text) {
    std::string utf8;
    for (const char32_t c : text) {
        const auto byte = [&](char32_t value) { utf8 += static_cast<char>(static_cast<unsigned char>(value)); };
        if (c < 0x80) {
            byte(c);
        } else if (c < 0x800) {
            byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F));
        } else if (c < 0x10000) {
            byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
        } else {
            byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
        }
    }
    return utf8;
}

bool is_space(char32_t c) {
    return in_any(kSpaces, c);
}

bool is_decimal(char32_t c) {
    const auto * after = std::upper_bound(std::begin(kZeros), std::end(kZeros), c);
    return after != std::begin(kZeros) && c - *(after - 1) < 10;
}

bool is_word(char32_t c) {
    if (c < 0x80) { return c == '_' || (c >= '0' && c <= '9') || (to_lower(c) >= 'a' && to_lower(c) <= 'z'); }
    return !in_any(kNoWord, c);
}

char32_t to_lower(char32_t c) {
    for (const Capitals & row : kCapitals) {
        if (c >= row.first && c <= row.last && (c - row.first) % static_cast<char32_t>(row.step) == 0) {
            return plus(c, row.delta);
        }
    }
    return c;
}

char32_t to_upper(char32_t c) {
    for (const Capitals & row : kCapitals) {
        const char32_t first = plus(row.first, row.delta);
        if (c >= first && c <= plus(row.last, row.delta) && (c - first) % static_cast<char32_t>(row.step) == 0) {
            return plus(c, -row.delta);
        }
    }
    return c;
}

std::u32string lower(std::u32string_view text) {
    std::u32string out(text);
    std::transform(out.begin(), out.end(), out.begin(), to_lower);
    return out;
}

std::u32string upper(std::u32string_view text) {
    std::u32string out(text);
    std::transform(out.begin(), out.end(), out.begin(), to_upper);
    return out;
}

std::string lower(std::string_view utf8) {
    return to_utf8(lower(code_points(utf8)));
}

std::u32string_view strip(std::u32string_view text) {
    while (!text.empty() && is_space(text.front())) { text.remove_prefix(1); }
    while (!text.empty() && is_space(text.back())) { text.remove_suffix(1); }
    return text;
}

std::vector<std::u32string_view> split_words(std::u32string_view text) {
    std::vector<std::u32string_view> words;
    for (size_t at = 0; at < text.size();) {
        size_t end = at;
        while (end < text.size() && !is_space(text[end])) { ++end; }
        if (end > at) { words.push_back(text.substr(at, end - at)); }
        at = end + 1;
    }
    return words;
}

std::string_view strip(std::string_view utf8) {
    size_t first = utf8.size();
    size_t end = 0;
    for (size_t at = 0; at < utf8.size();) {
        const size_t start = at;
        if (is_space(next_code_point(utf8, at))) { continue; }
        first = std::min(first, start);
        end = at;
    }
    return end == 0 ? std::string_view() : utf8.substr(first, end - first);
}

std::vector<std::u32string_view> digit_runs(std::u32string_view text) {
    std::vector<std::u32string_view> runs;
    for (size_t at = 0; at < text.size();) {
        size_t end = at;
        while (end < text.size() && is_decimal(text[end])) { ++end; }
        if (end > at) { runs.push_back(text.substr(at, end - at)); }
        at = end + 1;
    }
    return runs;
}

std::u32string with_spaces_for(std::u32string_view text, std::u32string_view characters) {
    std::u32string out(text);
    for (char32_t & c : out) {
        if (characters.find(c) != std::u32string_view::npos) { c = U' '; }
    }
    return out;
}

std::u32string replace_all(std::u32string_view text, std::u32string_view from, std::u32string_view to) {
    std::u32string out;
    for (;;) {
        const size_t at = text.find(from);
        out += text.substr(0, at);
        if (at == std::u32string_view::npos) { return out; }
        out += to;
        text.remove_prefix(at + from.size());
    }
}

}  // namespace pith::benchmarks
