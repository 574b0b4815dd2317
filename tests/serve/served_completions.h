// served_completions.h - completions of the built-in model over HTTP, and what a session alone says. For the tests of both.
#pragma once

#include <set>

#include "serve/serving.h"

namespace pith::testing {

class Completions : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
        if (!serving_) { serving_ = std::make_unique<Serving>(); }
    }
    static void TearDownTestSuite() { serving_.reset(); }
    static inline std::unique_ptr<Serving> serving_;
};

inline constexpr const char * kPrompt = "The grass is green. The sky is blue. The sun is";

// What a session alone says: what `pith run --raw --temp 0` prints.
inline std::string said_alone(const std::string & prompt, int n) {
    const auto tokens = served_tokenizer().encode(prompt, true, true);
    auto session = served_model().session({.policy = "full", .n_threads = 1});
    EXPECT_TRUE(session->prefill(*tokens).ok());
    std::string text;
    for (int i = 0; i < n; ++i) {
        const auto token = session->decode();
        if (served_tokenizer().is_end_of_generation(*token)) { break; }
        text += served_tokenizer().piece(*token);
    }
    return text;
}

// The text of a stream, and that it has the shape of one.
inline std::string streamed_text(const HttpAnswer & answer, bool is_chat, int index = 0) {
    const auto events = answer.events();
    EXPECT_GE(events.size(), 3U) << answer.body;
    if (events.size() < 3) { return {}; }
    EXPECT_EQ(events.back(), "[DONE]");
    std::string text;
    std::set<std::string> ids;
    bool ended = false;
    bool begun = false;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
        ids.insert(events[i]["id"].get<std::string>());
        EXPECT_EQ(events[i]["object"], is_chat ? "chat.completion.chunk" : "text_completion");
        for (const Json & choice : events[i]["choices"]) {
            if (choice["index"] != index) { continue; }
            EXPECT_FALSE(ended) << "a chunk behind the last one";
            ended = !choice["finish_reason"].is_null();
            if (!is_chat) {
                text += choice["text"].get<std::string>();
                continue;
            }
            const Json & delta = choice["delta"];
            EXPECT_EQ(delta.contains("role"), !begun);
            begun = true;
            if (delta.contains("content") && delta["content"].is_string()) { text += delta["content"].get<std::string>(); }
        }
    }
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_TRUE(ended);
    return text;
}

inline std::string long_text() {
    std::string text;
    for (int i = 0; i < 80; ++i) { text += "The grass is green. The sky is blue. The sun is yellow. Here we go.\n"; }
    return text;
}

inline int64_t n_tokens_of(const std::string & text) {
    return std::ssize(*served_tokenizer().encode(text, true, true));
}

}  // namespace pith::testing
