// status_test.cpp - what a message quotes cannot make it several lines, nor endless.
#include "pith/status.h"

#include <gtest/gtest.h>

#include <string>

namespace pith {
namespace {

std::string message_of(const std::string & text) {
    return Status(ErrorCode::kBadFile, text).message();
}

TEST(StatusMessage, StaysAsItIsWhereItIsOneLine) {
    EXPECT_EQ(message_of("'näme.gguf' holds 3 tensors"), "'näme.gguf' holds 3 tensors");
    const std::string longest(Status::kMostMessageBytes, 'a');
    EXPECT_EQ(message_of(longest), longest);
}

TEST(StatusMessage, HasNoControlCharacters) {
    EXPECT_EQ(message_of(std::string("a\nb\r\tc\0d\x1b[31m\x7f", 14)), "a?b??c?d?[31m?");
    EXPECT_EQ(message_of("\xC2\x9B"
                         "31m"),
              "?31m");
}

TEST(StatusMessage, OfEndlessTextKeepsBothEnds) {
    const std::string text = "begin " + std::string(1 << 20, 'x') + " end";
    const std::string message = message_of(text);
    EXPECT_LE(message.size(), Status::kMostMessageBytes);
    EXPECT_TRUE(message.starts_with("begin xxx")) << message;
    EXPECT_TRUE(message.ends_with("xxx end")) << message;
    EXPECT_NE(message.find("bytes more"), std::string::npos) << message;
}

TEST(StatusMessage, OfEndlessTextCutsNoCharacterInTwo) {
    for (size_t shift = 0; shift < 4; ++shift) {
        std::string text(shift, 'a');
        for (int i = 0; i < 2000; ++i) { text += "€"; }
        const std::string message = message_of(text);
        const size_t begin = message.find(" [");
        const size_t end = message.find("] ") + 2;
        ASSERT_NE(begin, std::string::npos);
        EXPECT_EQ((begin - shift) % 3, 0U);
        EXPECT_EQ((message.size() - end) % 3, 0U);
    }
}

}  // namespace
}  // namespace pith
