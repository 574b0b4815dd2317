// status_test.cpp - what a message quotes cannot make it several lines, nor endless.
#include "pith/status.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/items.h"

namespace pith::status_test {
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

std::string_view shouted(std::string_view item) {
    return item == "budget" ? "BUDGET" : item;
}

TEST(StatusMessage, NamesItemsAsWhoeverShowsItCallsThem) {
    const Status status(ErrorCode::kBudget, item::kBudget + " 4 is too small for 'budget.txt': use " + item::kBudget +
                                                " 8, or a smaller " + item::kChunk);
    EXPECT_EQ(status.message(), "budget 4 is too small for 'budget.txt': use budget 8, or a smaller chunk");
    EXPECT_EQ(status.message(shouted), "BUDGET 4 is too small for 'budget.txt': use BUDGET 8, or a smaller chunk")
        << "a text that happens to be the same is none";
    EXPECT_EQ(status.item(), "budget");
    const Status copy = status;
    EXPECT_EQ(copy.message(shouted), status.message(shouted));
    EXPECT_EQ(Status(ErrorCode::kIo, "no item").item(), "");
    EXPECT_EQ(Status().item(), "");
}

TEST(StatusMessage, KeepsItemsInALongerMessage) {
    const Status inner(ErrorCode::kBudget, "use a larger " + item::kBudget);
    const Status outer(inner.code(), "'a\nb' (\xC2\x9B): " + inner.wording() + " (here)");
    EXPECT_EQ(outer.message(), "'a?b' (?): use a larger budget (here)");
    EXPECT_EQ(outer.message(shouted), "'a?b' (?): use a larger BUDGET (here)");
}

TEST(StatusMessage, OfEndlessTextKeepsTheItemsThatAreLeft) {
    const std::string much(1 << 20, 'x');
    const Status status(ErrorCode::kBudget,
                        item::kBudget + " of " + much + item::kBudget + much + ": use a larger " + item::kBudget);
    const std::string message = status.message(shouted);
    EXPECT_LE(status.message().size(), Status::kMostMessageBytes);
    EXPECT_TRUE(message.starts_with("BUDGET of xxx")) << message;
    EXPECT_TRUE(message.ends_with(": use a larger BUDGET")) << message;
    // A name that the cut goes through is no name any more.
    for (size_t before = Status::kMostMessageBytes / 2 - 30; before < Status::kMostMessageBytes / 2; ++before) {
        const Status cut(ErrorCode::kBudget, std::string(before, 'x') + item::kBudget + much);
        const std::string said = cut.message(shouted);
        EXPECT_EQ(said.find("BUDGET") != std::string::npos, cut.message().find("budget") != std::string::npos) << said;
        EXPECT_EQ(said.size(), cut.message().size());
    }
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
}  // namespace pith::status_test
