// followed_input_test.cpp - pieces of a text end where the text says, however it comes.
#include "app/run/followed_input.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "model/gguf_edit.h"
#include "text/utf8.h"

namespace pith::app::followed_input_test {
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

// A named pipe has no size that it could have lost.
TEST(FollowedInput, MayBeANamedPipe) {
    const testing::TempFolder folder;
    const std::string path = folder.file("pipe");
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const int writer = ::open(path.c_str(), O_RDWR);
    ASSERT_GE(writer, 0);
    std::atomic<bool> stop = false;
    auto input = FollowedInput::open(path, 0, 0, stop);
    ASSERT_TRUE(input.ok()) << input.status().message();
    ASSERT_EQ(write(writer, "one\ntwo", 7), 7);
    const auto first = input->next();
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_EQ(*first, "one\n");
    close(writer);
    std::thread ends([&stop] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        stop = true;
    });
    const auto nothing = input->next();
    ends.join();
    ASSERT_TRUE(nothing.ok()) << nothing.status().message();
    EXPECT_FALSE(nothing->has_value());
}

}  // namespace
}  // namespace pith::app::followed_input_test
