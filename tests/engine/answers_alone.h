// answers_alone.h - what an engine's sequences say beside what sessions of their own say.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

#include "core/likeliest_token.h"
#include "engine/tiny_model.h"
#include "pith/batch_engine.h"
#include "pith/model.h"

namespace pith::testing {

// What a session says that was given these prompts, one after the other.
inline std::vector<int32_t> answer_alone(const Model & model, const SessionOptions & options,
                                         std::initializer_list<std::span<const int32_t>> prompts, int64_t n_said) {
    auto session = model.session(options);
    EXPECT_TRUE(session.ok());
    std::vector<int32_t> answer;
    for (const auto prompt : prompts) { EXPECT_TRUE(session->prefill(prompt).ok()); }
    for (int64_t t = 0; t < n_said; ++t) {
        answer.push_back(likeliest_token(session->logits()));
        EXPECT_TRUE(session->append(answer.back()).ok());
    }
    return answer;
}

// Of an engine of one thread that evicts where a session would, K and V in f32.
inline EngineOptions f32_engine_options() {
    EngineOptions options;
    options.grid = 0;
    options.n_threads = 1;
    options.type_k = options.type_v = KvType::kF32;
    return options;
}

// Some n tokens below n_vocab for such an engine; nothing is evicted.
inline Request f32_request(int n, int max_tokens, int n_vocab) {
    Request request;
    request.tokens = random_tokens(n, n_vocab, static_cast<unsigned>(n));
    request.options.policy = "full";
    request.options.chunk = 16;
    request.options.type_k = request.options.type_v = KvType::kF32;
    request.options.n_threads = 1;
    request.max_tokens = max_tokens;
    return request;
}

inline Result<Engine> engine_without_grid(const Model & model, int max_rows = EngineOptions().max_rows) {
    EngineOptions options;
    options.grid = 0;
    options.n_threads = 1;
    options.max_rows = max_rows;
    return model.engine(options);
}

inline void expect_answer(const Engine & engine, int64_t id, const std::vector<int32_t> & expected) {
    const auto got = engine.answer(id);
    EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), expected) << id;
}

// All of them at a time. K and V in f32: how many rows a piece of a prompt has decides how others are multiplied, and near ties
// of what is kept may fall otherwise.
inline void expect_batch_answers_as_alone(const Model & model, std::vector<Request> requests) {
    EngineOptions options = f32_engine_options();
    options.max_rows = 64;
    auto engine = model.engine(options);
    ASSERT_TRUE(engine.ok());
    for (Request & request : requests) { request.options.type_k = request.options.type_v = KvType::kF32; }
    std::vector<int64_t> ids;
    for (const Request & request : requests) {
        const auto id = engine->submit(request);
        ASSERT_TRUE(id.ok()) << id.status().message();
        ids.push_back(*id);
    }
    ASSERT_TRUE(engine->run().ok());
    for (size_t i = 0; i < requests.size(); ++i) {
        const Request & one = requests[i];
        expect_answer(*engine, ids[i], answer_alone(model, one.options, {one.tokens}, one.max_tokens));
    }
}

// The first n_kept tokens are kept; one fork reads 20 more, the other 40.
inline void expect_forks_answer_as_alone(const Model & model, const SessionOptions & options, std::span<const int32_t> tokens,
                                         size_t n_kept, int n_answer) {
    auto engine = engine_without_grid(model);
    ASSERT_TRUE(engine.ok());
    const auto prompt = tokens.first(n_kept);
    Request base;
    base.tokens.assign(prompt.begin(), prompt.end());
    base.options = options;
    base.keep = true;
    base.max_tokens = 0;
    const auto kept = engine->submit(base);
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    ASSERT_TRUE(engine->run().ok());
    std::vector<int64_t> ids;
    for (const size_t n_more : {20U, 40U}) {
        const auto more = tokens.subspan(n_kept, n_more);
        Request fork;
        fork.after = *kept;
        fork.tokens.assign(more.begin(), more.end());
        fork.max_tokens = n_answer;
        const auto id = engine->submit(fork);
        ASSERT_TRUE(id.ok()) << id.status().message();
        ids.push_back(*id);
    }
    ASSERT_TRUE(engine->run().ok());
    for (size_t i = 0; i < ids.size(); ++i) {
        expect_answer(*engine, ids[i], answer_alone(model, options, {prompt, tokens.subspan(n_kept, 20 + 20 * i)}, n_answer));
    }
}

// An answer makes room for one of higher priority and goes on: its logits are those that it has uninterrupted, and what it held
// beside its entries was not in memory meanwhile.
inline void expect_unchanged_when_set_aside(const Model & model, const Request & request) {
    const auto logits_of = [&](bool interrupted) {
        std::vector<std::vector<float>> logits;
        EngineOptions options;
        options.grid = 0;
        options.n_threads = 1;
        options.max_sequences = 1;
        auto engine = model.engine(options);
        EXPECT_TRUE(engine.ok());
        Request low = request;
        low.choose = [&logits](std::span<const float> row) {
            logits.emplace_back(row.begin(), row.end());
            return likeliest_token(row);
        };
        const auto id = engine->submit(low);
        EXPECT_TRUE(id.ok()) << id.status().message();
        while (interrupted && engine->state(*id) < RequestState::kDone && engine->answer(*id).size() < 10) {
            EXPECT_TRUE(engine->step().ok());
        }
        if (interrupted) {
            const EngineLedger before = engine->ledger();
            Request high;
            high.tokens.assign(request.tokens.begin(), request.tokens.begin() + 12);
            high.options.policy = "full";
            high.priority = 1;
            high.max_tokens = 3;
            const auto other = engine->submit(high);
            EXPECT_TRUE(other.ok() && engine->step().ok());
            EXPECT_EQ(engine->state(*id), RequestState::kSetAside);
            EXPECT_LT(engine->ledger().evidence_bytes, before.evidence_bytes);
        }
        EXPECT_TRUE(engine->run().ok());
        EXPECT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
        return logits;
    };
    const auto expected = logits_of(false);
    EXPECT_EQ(expected.size(), static_cast<size_t>(request.max_tokens));
    EXPECT_TRUE(logits_of(true) == expected);
}

}  // namespace pith::testing
