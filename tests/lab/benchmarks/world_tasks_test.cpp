// world_tasks_test.cpp - small worlds: what is asked was told, lengths are filled, dialogues ask eight times.
#include <gtest/gtest.h>

#include <set>

#include "benchmarks/benchmark.h"
#include "lab/corpus/word_counter.h"

namespace pith::benchmarks::world_tasks_test {
namespace {

Result<std::vector<Sample>> make(std::string_view name, int n_tokens, int n_samples) {
    SampleRequest request;
    request.n_tokens = n_tokens;
    request.n_samples = n_samples;
    request.count = corpus::count_words;
    return find_task("world", name)->samples(request);
}

TEST(WorldTasks, AskForWhatTheContextSays) {
    for (const char * name : {"facts", "two_hop"}) {
        const auto samples = make(name, 1024, 20);
        ASSERT_TRUE(samples.ok()) << samples.status().message();
        ASSERT_EQ(samples->size(), 20U);
        for (const Sample & sample : *samples) {
            ASSERT_EQ(sample.turns.size(), 4U);
            std::set<std::string> questions;
            for (const Turn & turn : sample.turns) {
                EXPECT_TRUE(turn.asks());
                EXPECT_TRUE(turn.follow_up.empty());
                EXPECT_NE(sample.context.find(" " + turn.references.at(0)), std::string::npos) << turn.references[0];
                EXPECT_TRUE(questions.insert(turn.question).second);
                const bool by_owner = turn.question.find("the owner of the") != std::string::npos &&
                                      turn.question.find("Who") == std::string::npos;
                if (name == std::string("two_hop")) { EXPECT_TRUE(by_owner) << turn.question; }
            }
        }
    }
}

TEST(WorldTasks, FillTheirLength) {
    for (const char * name : {"facts", "two_hop", "conversation"}) {
        for (const int n_tokens : {768, 2048}) {
            const auto samples = make(name, n_tokens, 5);
            ASSERT_TRUE(samples.ok()) << samples.status().message();
            for (const Sample & sample : *samples) {
                int turns = 0;
                for (const Turn & turn : sample.turns) {
                    const int n = corpus::count_words(turn.question + turn.answer_prefix + " " + turn.follow_up);
                    constexpr int kTemplate = 12;  // room that a dialogue leaves a turn for the chat template
                    turns = turn.follow_up.empty() ? std::max(turns, n + turn.max_new_tokens) : turns + n + kTemplate;
                }
                const int n = corpus::count_words(sample.context) + turns;
                EXPECT_LE(n, n_tokens) << name;
                EXPECT_GE(n, n_tokens - n_tokens / 16) << name;
            }
        }
        EXPECT_NE(make(name, 64, 1).status().message().find(name), std::string::npos);
        EXPECT_FALSE(find_task("world", name)->samples({}).ok());
    }
}

TEST(WorldTasks, ConversationsAskEightTimesAndTellInBetween) {
    int n_told = 0;
    const auto samples = make("conversation", 1024, 20);
    ASSERT_TRUE(samples.ok()) << samples.status().message();
    for (const Sample & sample : *samples) {
        int n_asked = 0;
        for (const Turn & turn : sample.turns) {
            EXPECT_FALSE(turn.follow_up.empty());
            n_asked += turn.asks() ? 1 : 0;
            n_told += turn.asks() ? 0 : 1;
            if (turn.asks()) { EXPECT_NE(turn.follow_up.find(turn.references.at(0)), std::string::npos) << turn.follow_up; }
        }
        EXPECT_EQ(n_asked, 8);
        EXPECT_TRUE(sample.turns.back().asks());
        EXPECT_FALSE(sample.turns.front().asks());  // the world is told first
    }
    EXPECT_GT(n_told, 40);
}

TEST(WorldTasks, AnswersCountWhenContained) {
    const Task & task = *find_task("world", "facts");
    const Turn turn{
        .question = "?", .answer_prefix = "", .references = {"Rome"}, .max_new_tokens = 8, .follow_up = "", .choices = {}};
    EXPECT_EQ(task.score({}, turn, " rome."), 1);
    EXPECT_EQ(task.score({}, turn, " Oslo."), 0);
}

TEST(WorldTasks, PassagesScoreTheirWordsInOrder) {
    const auto samples = make("passage", 1024, 3);
    ASSERT_TRUE(samples.ok()) << samples.status().message();
    EXPECT_NE((*samples)[0].context, (*samples)[1].context);
    const Task & task = *find_task("world", "passage");
    const Turn & turn = (*samples)[0].turns.at(0);
    EXPECT_TRUE((*samples)[0].context.ends_with(turn.answer_prefix + " " + turn.references.at(0)));
    EXPECT_EQ(task.score({}, turn, turn.references[0]), 1);
    EXPECT_EQ(task.score({}, turn, ""), 0);
    const std::string half = turn.references[0].substr(0, turn.references[0].size() / 2);
    EXPECT_NEAR(task.score({}, turn, half), 0.5, 0.05);
    EXPECT_NEAR(task.score({}, turn, "Something else. " + half), 0.5, 0.05);
    EXPECT_NE(make("passage", 128, 1).status().message().find("passage"), std::string::npos);
}

}  // namespace
}  // namespace pith::benchmarks::world_tasks_test
