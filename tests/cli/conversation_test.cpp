// conversation_test.cpp - a turn of `pith chat` is a transaction: what fails in its middle leaves no trace.
#include "conversation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "text/tiny_vocabulary.h"

namespace pith::app {
namespace {

using testing::kChatMl;
using testing::TempFolder;
using testing::write_tiny;

class Turns : public ::testing::Test {
protected:
    Conversation open(const std::string & system = "You are brief.") const {
        ConversationOptions options;
        options.session.policy = "snapkv:window=8";
        options.session.budget = Budget(64);
        options.session.chunk = 16;
        options.session.evict_every = 8;
        options.session.n_threads = 1;
        options.sampler.temperature = 0;
        options.system = system;
        options.n_predict = 12;
        auto conversation = Conversation::open(model_, tokenizer_, options);
        EXPECT_TRUE(conversation.ok()) << conversation.status().message();
        return std::move(*conversation);
    }
    std::string say(Conversation & conversation, const std::string & message) const {
        const std::atomic<bool> go_on = false;
        const auto turn = conversation.say(message, go_on, /*stream=*/false);
        EXPECT_TRUE(turn.ok()) << turn.status().message();
        return turn.ok() ? turn->answer.text : "";
    }

    TempFolder folder_;
    std::string path_ = write_tiny(folder_, kChatMl);
    Model model_ = Model::load(path_).value();
    Tokenizer tokenizer_ = Tokenizer::load(path_).value();
};

TEST_F(Turns, AMessageThatIsCancelledWhileItIsReadLeavesNoTrace) {
    for (const int n_before : {0, 1, 3}) {
        Conversation plain = open();
        Conversation disturbed = open();
        for (int i = 0; i < n_before; ++i) {
            const std::string message = "Turn " + std::to_string(i) + " of a talk about rivers.";
            EXPECT_EQ(say(plain, message), say(disturbed, message));
        }
        const std::vector<int32_t> tokens = disturbed.tokens();
        std::atomic<bool> cancel = false;
        const auto turn = disturbed.say("This is a long message, which somebody stops half-way through its reading.", cancel,
                                        /*stream=*/false, [&](int64_t, int64_t) { cancel = true; });
        EXPECT_EQ(turn.status().code(), ErrorCode::kCancelled);
        EXPECT_EQ(disturbed.tokens(), tokens);
        EXPECT_EQ(disturbed.n_turns(), n_before);
        EXPECT_EQ(say(plain, "What is long?"), say(disturbed, "What is long?"));
        EXPECT_EQ(plain.tokens(), disturbed.tokens());
        EXPECT_TRUE(std::ranges::equal(plain.session().logits(), disturbed.session().logits()));
    }
}

TEST_F(Turns, APolicyThatCannotBeFollowedChangesNothing) {
    ConversationOptions options;
    options.session.n_threads = 1;
    options.sampler.temperature = 0;
    options.n_predict = 50;
    auto conversation = Conversation::open(model_, tokenizer_, options);
    ASSERT_TRUE(conversation.ok());
    say(*conversation, "One.");
    const std::vector<int32_t> tokens = conversation->tokens();
    EXPECT_EQ(conversation->follow("snapkv", Budget(1)).code(), ErrorCode::kBudget) << "the window alone is more than that";
    EXPECT_EQ(conversation->tokens(), tokens);
    EXPECT_EQ(conversation->options().session.policy, "full");
    EXPECT_EQ(conversation->n_turns(), 1);
    EXPECT_TRUE(*conversation->undo());
    EXPECT_FALSE(*conversation->undo());
    EXPECT_TRUE(conversation->tokens().empty());
}

}  // namespace
}  // namespace pith::app
