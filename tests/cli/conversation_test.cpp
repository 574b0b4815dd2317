// conversation_test.cpp - a turn of `pith chat` is a transaction: what fails in its middle leaves no trace.
#include "app/run/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "engine/layer_probe.h"
#include "engine/tiny_session.h"
#include "text/tiny_vocabulary.h"

namespace pith::app::conversation_test {
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
    // What is inside: engine state that no user can reach.
    static LayerProbe inside(Conversation & conversation) { return LayerProbe(const_cast<Session &>(conversation.session())); }
    // Both are the same, to the bit.
    void expect_same(Conversation & one, Conversation & other) const {
        EXPECT_EQ(one.tokens(), other.tokens());
        EXPECT_EQ(one.n_turns(), other.n_turns());
        EXPECT_TRUE(std::ranges::equal(one.session().logits(), other.session().logits()));
        EXPECT_EQ(testing::lanes_below(one.session(), 1 << 30), testing::lanes_below(other.session(), 1 << 30));
        EXPECT_EQ(say(one, "What is long?"), say(other, "What is long?"));
        EXPECT_EQ(one.tokens(), other.tokens());
        EXPECT_TRUE(std::ranges::equal(one.session().logits(), other.session().logits()));
    }
    // Does `act` once, in the middle of a layer of the n-th token of an answer.
    static void when_answering(Conversation & conversation, int nth, std::function<Status()> act) {
        inside(conversation)
            .set_query_observer(
                [n_seen = 0, nth, act = std::move(act)](int layer, std::span<const float>, int n, int32_t) mutable -> Status {
                    if (n != 1 || layer != 1 || ++n_seen != nth) { return {}; }
                    return act();
                });
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
            const std::string message = "ChatTurn " + std::to_string(i) + " of a talk about rivers.";
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

// Two evictions into the answer, when entries that the way back needs have been moved already.
TEST_F(Turns, AFailureInTheMiddleOfAnAnswerLeavesNoTrace) {
    for (const int n_before : {0, 1, 3}) {
        SCOPED_TRACE(n_before);
        Conversation plain = open();
        Conversation disturbed = open();
        for (int i = 0; i < n_before; ++i) {
            const std::string message = "ChatTurn " + std::to_string(i) + " of a talk about rivers.";
            EXPECT_EQ(say(plain, message), say(disturbed, message));
        }
        bool failed = false;
        when_answering(disturbed, 9, [&failed]() -> Status {
            failed = true;
            return {ErrorCode::kOutOfMemory, "injected"};
        });
        const std::atomic<bool> go_on = false;
        const auto turn = disturbed.say("Talk at length about rivers and gardens, please.", go_on, /*stream=*/false);
        ASSERT_TRUE(failed) << "the answer was too short to fail in";
        EXPECT_EQ(turn.status().message(), "injected");
        inside(disturbed).set_query_observer({});
        expect_same(plain, disturbed);
    }
}

TEST_F(Turns, UndoBringsBackTheStateBitForBitAlsoOfAnAnswerThatWasStopped) {
    for (const int n_before : {0, 2}) {
        SCOPED_TRACE(n_before);
        Conversation plain = open();
        Conversation undone = open();
        for (int i = 0; i < n_before; ++i) {
            const std::string message = "ChatTurn " + std::to_string(i) + " of a talk about rivers.";
            EXPECT_EQ(say(plain, message), say(undone, message));
        }
        say(undone, "Something else, which is then taken back again.");
        ASSERT_TRUE(*undone.undo());
        std::atomic<bool> cancel = false;
        when_answering(undone, 5, [&cancel]() -> Status {
            cancel = true;  // Ctrl-C
            return {};
        });
        const auto turn = undone.say("Talk at length about rivers and gardens, please.", cancel, /*stream=*/false);
        ASSERT_TRUE(turn.ok()) << turn.status().message();
        EXPECT_EQ(turn->answer.stop, "interrupt");
        EXPECT_LT(turn->answer.n_generated, 8) << "it was stopped";
        EXPECT_EQ(undone.n_turns(), n_before + 1) << "what was said is kept";
        ASSERT_TRUE(*undone.undo());
        inside(undone).set_query_observer({});
        expect_same(plain, undone);
    }
}

// Without a template all that is said is one text; a message begins on a line of its own, unless the text waits for it.
TEST_F(Turns, ARawConversationIsOneTextThatGoesOn) {
    ConversationOptions options;
    options.session.n_threads = 1;
    options.sampler.temperature = 0;
    options.n_predict = 6;
    options.raw = true;
    options.system = "A story.";
    const auto text_of = [&](const std::vector<int32_t> & tokens) {
        std::string all;
        for (const int32_t token : tokens) { all += tokenizer_.piece(token, true); }
        return all;
    };
    // What was said, by name where it is a special token.
    const auto said_by = [&](Conversation & conversation, const std::string & message) {
        const std::atomic<bool> go_on = false;
        const auto turn = conversation.say(message, go_on, /*stream=*/false);
        EXPECT_TRUE(turn.ok()) << turn.status().message();
        return text_of(turn->answer.tokens);
    };
    const auto holds = [&](const Conversation & conversation, const std::string & part) {
        const std::string all = text_of(conversation.tokens());
        EXPECT_NE(all.find(part), std::string::npos) << part << " in: " << all;
    };
    auto plain = Conversation::open(model_, tokenizer_, options);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    const std::string first = said_by(*plain, "The river");
    ASSERT_FALSE(first.empty());
    const std::string gap = std::isspace(static_cast<unsigned char>(first.back())) == 0 ? "\n" : "";
    said_by(*plain, "The garden");
    holds(*plain, "A story.\n\nThe river" + first + gap + "The garden");
    ASSERT_TRUE(*plain->undo());
    said_by(*plain, " and the garden");
    holds(*plain, "The river" + first + " and the garden");
    // Behind a reverse prompt nothing comes in between.
    options.reverse_prompts = {first.substr(0, 1)};
    auto asked = Conversation::open(model_, tokenizer_, options);
    ASSERT_TRUE(asked.ok());
    const std::string said = said_by(*asked, "The river");
    options.reverse_prompts = {said};  // and an answer that ends in one
    auto whole = Conversation::open(model_, tokenizer_, options);
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(said_by(*whole, "The river"), said);
    said_by(*whole, "The garden");
    holds(*whole, "The river" + said + "The garden");
}

// Copies for the way back are memory that the cache cannot have.
TEST_F(Turns, WhatMemoryAllowsHoldsTheWayBackToo) {
    ConversationOptions options;
    options.session.policy = "snapkv:window=8";
    options.session.budget = Budget::parse("auto").value();
    options.session.n_threads = 1;
    options.sampler.temperature = 0;
    options.n_predict = 4;
    auto conversation = Conversation::open(model_, tokenizer_, options);
    ASSERT_TRUE(conversation.ok());
    for (int i = 0; i < 4; ++i) { say(*conversation, "One more."); }
    EXPECT_TRUE(*conversation->undo());
    EXPECT_TRUE(*conversation->undo());
    EXPECT_FALSE(*conversation->undo());
    EXPECT_EQ(conversation->n_turns(), 2);
    // Under another budget nothing has to be left for them.
    ASSERT_TRUE(conversation->follow("snapkv:window=8", Budget(64)).ok());
    for (int i = 0; i < 4; ++i) { say(*conversation, "One more."); }
    for (int i = 0; i < 4; ++i) { EXPECT_TRUE(*conversation->undo()) << i; }
}

// Each turn evicts, and may be taken back: what that needs lies in files.
TEST_F(Turns, ABudgetInBytesHoldsTheWayBackToo) {
    constexpr size_t kBytes = 600'000;
    const auto open = [&] {
        ConversationOptions options;
        options.session.policy = "snapkv:window=8";
        options.session.budget = Budget(BudgetKind::kBytes, kBytes);
        options.session.chunk = 16;
        options.session.n_threads = 1;
        options.sampler.temperature = 0;
        options.n_predict = 40;
        auto conversation = Conversation::open(model_, tokenizer_, options);
        EXPECT_TRUE(conversation.ok()) << conversation.status().message();
        return std::move(*conversation);
    };
    Conversation plain = open();
    Conversation undone = open();
    std::string message = "The hill is far away and the road is wide.";
    for (int i = 0; i < 5; ++i) { message += " " + message.substr(0, 120); }
    for (int i = 0; i < 6; ++i) {
        if (i < 3) { EXPECT_EQ(say(plain, message), say(undone, message)); }
        if (i >= 3) { say(undone, message); }
        EXPECT_LE(undone.session().ledger().kv_allocated_bytes, kBytes) << "turn " << i;
        EXPECT_LE(undone.session().ledger().kv_peak_bytes, kBytes) << "turn " << i;
    }
    EXPECT_GT(undone.session().ledger().n_evictions, 6);
    for (int i = 0; i < 3; ++i) { ASSERT_TRUE(*undone.undo()); }
    expect_same(plain, undone);
}

TEST_F(Turns, ABudgetThatCannotHoldTheSystemPromptIsRefusedAtOnce) {
    std::string system = "You are brief.";
    for (int i = 0; i < 20; ++i) { system += " The river is long."; }
    Conversation conversation = open();
    say(conversation, "One.");
    const std::vector<int32_t> tokens = conversation.tokens();
    EXPECT_EQ(conversation.clear(system).code(), ErrorCode::kBudget);
    EXPECT_EQ(conversation.tokens(), tokens) << "the conversation is as before";
    EXPECT_EQ(conversation.options().system, "You are brief.");
    ConversationOptions options = conversation.options();
    options.system = system;
    const auto refused = Conversation::open(model_, tokenizer_, options);
    EXPECT_EQ(refused.status().code(), ErrorCode::kBudget);
    options.session.evict_every = 0;  // what is evicted is known with the first message only
    EXPECT_TRUE(Conversation::open(model_, tokenizer_, options).ok());
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
    EXPECT_EQ(conversation->options().session.policy, "auto");
    EXPECT_EQ(conversation->n_turns(), 1);
    EXPECT_TRUE(*conversation->undo());
    EXPECT_FALSE(*conversation->undo());
    EXPECT_TRUE(conversation->tokens().empty());
}

TEST_F(Turns, AConversationFromAFileIsTheOneThatWasSaved) {
    const TempFolder folder;
    const std::string path = folder.file("talk.pith");
    Conversation talk = open();
    say(talk, "The river is long.");
    say(talk, "The hill is far away and the road is wide.");
    ASSERT_TRUE(talk.save(path).ok());
    Conversation other = open("Another system prompt.");
    say(other, "Something else.");
    ASSERT_TRUE(other.load(path).ok());
    EXPECT_EQ(other.options().system, "You are brief.");
    EXPECT_FALSE(*other.undo());
    expect_same(talk, other);
    EXPECT_TRUE(*other.undo());  // what was said since
    EXPECT_TRUE(*talk.undo());
    expect_same(talk, other);
    ASSERT_TRUE(other.clear(other.options().system).ok());
    Conversation fresh = open();
    EXPECT_EQ(say(other, "What is long?"), say(fresh, "What is long?"));

    const auto before = other.tokens();
    EXPECT_EQ(other.load(folder.file("none.pith")).code(), ErrorCode::kNotFound);
    EXPECT_EQ(other.tokens(), before);
}

}  // namespace
}  // namespace pith::app::conversation_test
