// utf8_test.cpp - the checker against what RFC 3629 allows, and the hold-back of half characters.
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace pith::utf8_test {
namespace {

// Encodes a code point by the definition.
std::string encoded(uint32_t code) {
    const auto tail = [](uint32_t bits) { return static_cast<char>(0x80U | (bits & 0x3FU)); };
    if (code < 0x80) { return {static_cast<char>(code)}; }
    if (code < 0x800) { return {static_cast<char>(0xC0U | code >> 6U), tail(code)}; }
    if (code < 0x10000) { return {static_cast<char>(0xE0U | code >> 12U), tail(code >> 6U), tail(code)}; }
    return {static_cast<char>(0xF0U | code >> 18U), tail(code >> 12U), tail(code >> 6U), tail(code)};
}

TEST(Utf8, TakesEveryCodePointButSurrogates) {
    for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
        const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        ASSERT_EQ(invalid_utf8_offset(encoded(code)).has_value(), surrogate) << std::hex << code;
    }
}

TEST(Utf8, RefusesOverlongFormsAndWhatLiesAboveTheLastCodePoint) {
    for (const char * text : {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80",
                              "\xF5\x80\x80\x80", "\xFF", "\x80"}) {
        EXPECT_EQ(invalid_utf8_offset(text), 0U);
    }
}

TEST(Utf8, NamesTheFirstBadByte) {
    EXPECT_EQ(invalid_utf8_offset("abc\xC3\xA4\xFFz"), 5U);
    EXPECT_EQ(invalid_utf8_offset("ab\xE2\x82"), 2U);  // cut off
    EXPECT_FALSE(invalid_utf8_offset("").has_value());
}

TEST(Utf8, HoldsBackHalfACharacterAndNothingElse) {
    for (const uint32_t code : {0x41U, 0xE4U, 0x20ACU, 0x1F600U}) {
        const std::string whole = encoded(code);
        EXPECT_EQ(incomplete_utf8_tail("x" + whole), 0U);
        for (size_t n = 1; n < whole.size(); ++n) { EXPECT_EQ(incomplete_utf8_tail("x" + whole.substr(0, n)), n); }
    }
    EXPECT_EQ(incomplete_utf8_tail(""), 0U);
    EXPECT_EQ(incomplete_utf8_tail("\xFF"), 0U);      // will never become a character
    EXPECT_EQ(incomplete_utf8_tail("\xE2\x28"), 0U);  // nor will this
    EXPECT_EQ(incomplete_utf8_tail("\x82\x82\x82"), 0U);
}

}  // namespace
}  // namespace pith::utf8_test
