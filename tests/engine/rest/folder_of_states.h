// folder_of_states.h - a tiny model's engine with a folder of states, what it is asked, and all that an answer says and holds.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/likeliest_token.h"
#include "engine/tiny_model.h"
#include "model/gguf_edit.h"
#include "pith/batch_engine.h"

namespace pith::testing {

inline constexpr int kShared = 150;  // tokens that prompts begin with alike
inline constexpr int kTail = 9;
inline constexpr int kFound = 144;  // the last end of a chunk in them
inline constexpr int kAnswer = 60;

inline const Model & tiny() {
    static const Model model = tiny_model(tiny_spec()).value();
    return model;
}

inline EngineOptions engine_with(const std::string & folder, KvType type = KvType::kF16) {
    EngineOptions options;
    options.type_k = options.type_v = type;
    options.n_threads = 1;
    options.grid = 32;
    options.cache_dir = folder;
    return options;
}

inline Request request_of(const std::string & policy, unsigned tail = 2) {
    Request request;
    request.tokens = random_tokens(kShared, 384, 1);
    const auto end = random_tokens(kTail, 384, tail);
    request.tokens.insert(request.tokens.end(), end.begin(), end.end());
    request.options.policy = policy;
    if (policy != "full") { request.options.budget = Budget(40); }
    request.options.chunk = 16;
    request.options.evict_every = 5;
    request.max_tokens = kAnswer;
    return request;
}

// All that a request said and held.
struct Outcome {
    std::vector<std::vector<float>> logits;
    std::vector<std::vector<int32_t>> lanes;
    int64_t n_cached = 0;
    int64_t n_evicted = 0;

    void expect_same(const Outcome & other) const {
        ASSERT_EQ(logits.size(), other.logits.size());
        for (size_t i = 0; i < logits.size(); ++i) { ASSERT_EQ(logits[i], other.logits[i]) << "token " << i; }
        EXPECT_EQ(lanes, other.lanes);
        EXPECT_EQ(n_evicted, other.n_evicted);
    }
};

// keeps: so that its lanes can be looked at.
inline Outcome answer(Engine & engine, Request request, int n_layers = tiny_spec().n_layers, bool keeps = true) {
    Outcome outcome;
    request.keep = keeps;
    request.choose = [&outcome](std::span<const float> logits) {
        outcome.logits.emplace_back(logits.begin(), logits.end());
        return likeliest_token(logits);
    };
    const auto id = engine.submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
    EXPECT_TRUE(id.ok() && engine.run().ok());
    if (!id.ok()) { return outcome; }
    EXPECT_EQ(engine.state(*id), RequestState::kDone) << engine.status(*id).message();
    for (int l = 0; l < n_layers; ++l) {
        for (int h = 0; h < tiny_spec().n_kv_heads; ++h) {
            const auto lane = engine.lane_positions(*id, l, h);
            outcome.lanes.emplace_back(lane.begin(), lane.end());
        }
    }
    outcome.n_cached = engine.n_cached(*id);
    outcome.n_evicted = engine.ledger(*id)->evicted_entries;
    EXPECT_TRUE(engine.forget(*id).ok());
    return outcome;
}

inline Outcome answer_of(const EngineOptions & options, Request request, const Model & model = tiny()) {
    auto engine = model.engine(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? answer(*engine, std::move(request), model.info().n_layers) : Outcome();
}

// It is gone, or damaged.
inline void spoil(const std::string & path, bool is_gone) {
    if (is_gone) {
        std::filesystem::remove(path);
        return;
    }
    auto bytes = read_file(path);
    bytes[bytes.size() / 2] ^= 4;
    write_file(path, bytes);
}

inline uint64_t bytes_in(const std::string & folder) {
    uint64_t n = 0;
    for (const auto & entry : std::filesystem::directory_iterator(folder)) { n += entry.file_size(); }
    return n;
}

}  // namespace pith::testing
