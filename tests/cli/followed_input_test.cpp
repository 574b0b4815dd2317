// followed_input_test.cpp - pieces of a text end where the text says, however it comes.
#include "app/run/followed_input.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "text/utf8.h"

namespace pith::app {
namespace {

// The pieces of a text that comes so many bytes at a time.
std::vector<std::string> pieces_of(const std::string & text, std::mt19937 & random, size_t most) {
    std::vector<std::string> pieces;
    std::string there;
    for (size_t at = 0; at < text.size();) {
        const size_t n = std::min<size_t>(text.size() - at, 1 + random() % most);
        there += text.substr(at, n);
        at += n;
        for (size_t end = piece_end(there, false); end > 0; end = piece_end(there, false)) {
            pieces.push_back(there.substr(0, end));
            there.erase(0, end);
        }
    }
    for (size_t end = piece_end(there, true); end > 0; end = piece_end(there, true)) {
        pieces.push_back(there.substr(0, end));
        there.erase(0, end);
    }
    EXPECT_EQ(there, "");
    return pieces;
}

TEST(FollowedInput, IsCutWhereTheTextSaysHoweverItComes) {
    std::mt19937 random(1);
    std::string at_the_most(4094, 'y');
    at_the_most.append("€");
    const std::vector<std::string> parts = {
        "a", "word ", "é", "€", "\n", "\n\n\n", std::string(3000, 'x'), std::string(5000, '\n'), "漢字", at_the_most};
    for (int round = 0; round < 200; ++round) {
        std::string text;
        for (unsigned n = random() % 60; n > 0; --n) { text += parts[random() % parts.size()]; }
        const auto at_once = pieces_of(text, random, 1000000);
        EXPECT_EQ(pieces_of(text, random, 7), at_once);
        EXPECT_EQ(pieces_of(text, random, 5000), at_once);
        std::string together;
        for (const std::string & piece : at_once) {
            EXPECT_LE(piece.size(), FollowedInput::kMostPiece);
            EXPECT_FALSE(invalid_utf8_offset(piece).has_value());
            together += piece;
        }
        EXPECT_EQ(together, text);
    }
}

TEST(FollowedInput, EndsAPieceBehindLineEndsAndInFrontOfASpace) {
    EXPECT_EQ(piece_end("one\ntwo", false), 4U);
    EXPECT_EQ(piece_end("one\n\ntwo", false), 5U);
    EXPECT_EQ(piece_end("one\n", false), 0U);  // more line ends may come
    EXPECT_EQ(piece_end("one\n", true), 4U);
    EXPECT_EQ(piece_end("one", false), 0U);
    EXPECT_EQ(piece_end("one", true), 3U);
    EXPECT_EQ(piece_end("", true), 0U);
    std::string words(4000, 'x');
    words.append(" ").append(4000, 'y');
    EXPECT_EQ(piece_end(words, false), 4000U);
}

}  // namespace
}  // namespace pith::app
