// generate_tokens_test.cpp - the loop of everybody who generates, against Session::decode() and append().
#include "engine/generate_tokens.h"

#include <gtest/gtest.h>

#include "engine/tiny_session.h"

namespace pith::generate_tokens_test {
namespace {

using testing::open_tiny;
using testing::random_tokens;
using testing::tiny_options;

Session prompted() {
    Session session = open_tiny(tiny_options("full", 0, PrefillSchedule::kOneShot, 32));
    EXPECT_TRUE(session.prefill(random_tokens(40, 100)).ok());
    return session;
}

std::vector<int32_t> decoded(int n) {
    Session session = prompted();
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) { tokens.push_back(*session.decode()); }
    return tokens;
}

TEST(GenerateTokens, SaysTheLikeliestAndLeavesTheLastToTheCaller) {
    Session session = prompted();
    GenerateRules rules;
    std::vector<int32_t> said;
    rules.n_predict = 5;
    rules.say = [&](int32_t token) {
        said.push_back(token);
        return true;
    };
    const auto done = generate_tokens(session, rules);
    ASSERT_TRUE(done.ok());
    EXPECT_EQ(said, decoded(5));
    EXPECT_EQ(done->end, GenerateEnd::kLimit);
    EXPECT_EQ(done->unfed, said.back());
    EXPECT_EQ(session.n_tokens(), 44);

    Session other = prompted();
    said.clear();
    rules.feeds_last = true;
    const auto fed = generate_tokens(other, rules);
    ASSERT_TRUE(fed.ok());
    EXPECT_EQ(said, decoded(5));
    EXPECT_EQ(fed->unfed, -1);
    EXPECT_EQ(other.n_tokens(), 45);
}

TEST(GenerateTokens, AnEndIsNotSaidAndALastTokenIs) {
    int n = 0;
    GenerateRules rules;
    rules.choose = [&](std::span<const float> logits) -> Result<int32_t> {
        EXPECT_EQ(std::ssize(logits), 384);
        return 7 + n++;
    };
    rules.ends = [](int32_t token) { return token == 9; };
    std::vector<int32_t> said;
    rules.say = [&](int32_t token) {
        said.push_back(token);
        return true;
    };
    Session session = prompted();
    auto done = generate_tokens(session, rules);
    ASSERT_TRUE(done.ok());
    EXPECT_EQ(done->end, GenerateEnd::kEnded);
    EXPECT_EQ(said, (std::vector<int32_t>{7, 8}));
    EXPECT_EQ(done->unfed, -1) << "8 was fed before 9 was chosen";
    EXPECT_EQ(session.n_tokens(), 42);

    n = 0;
    rules.say = [](int32_t token) { return token != 8; };
    done = generate_tokens(session, rules);
    ASSERT_TRUE(done.ok());
    EXPECT_EQ(done->end, GenerateEnd::kSaid);
    EXPECT_EQ(done->unfed, 8);
    EXPECT_EQ(session.n_tokens(), 43);

    n = 2;
    rules.feeds_last = true;
    done = generate_tokens(session, rules);
    EXPECT_TRUE(done.ok() && done->end == GenerateEnd::kEnded);
    EXPECT_EQ(session.n_tokens(), 44) << "the end is fed, too";
}

TEST(GenerateTokens, StopsWhereItIsToldTo) {
    Session session = prompted();
    std::atomic<bool> cancel = false;
    GenerateRules rules;
    rules.cancel = &cancel;
    rules.say = [&](int32_t) {
        cancel = session.n_tokens() == 42;
        return true;
    };
    const auto done = generate_tokens(session, rules);
    ASSERT_TRUE(done.ok());
    EXPECT_EQ(done->end, GenerateEnd::kCancelled);
    EXPECT_GE(done->unfed, 0);
    EXPECT_EQ(session.n_tokens(), 42);
    rules.cancel = nullptr;
    rules.choose = [](std::span<const float>) -> Result<int32_t> { return {ErrorCode::kUnsupported, "nothing fits"}; };
    EXPECT_EQ(generate_tokens(session, rules).status().message(), "nothing fits");
    Session empty = open_tiny(tiny_options("full", 0, PrefillSchedule::kOneShot, 32));
    EXPECT_EQ(generate_tokens(empty, {}).status().code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace pith::generate_tokens_test
