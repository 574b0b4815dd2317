// own_scorer.h - scorers of one's own for tests: one that is snapkv:pool=none once more, and registered as long as a test
// lasts.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>

#include "pith/custom_scorer.h"

namespace pith::test {

// Gone with it, if nobody uses it any more.
class RegisteredScorer {
public:
    explicit RegisteredScorer(CustomScorer scorer) : name_(scorer.name) {
        const Status status = register_scorer(std::move(scorer));
        EXPECT_TRUE(status.ok()) << status.message();
    }
    ~RegisteredScorer() {
        const Status status = unregister_scorer(name_);
        EXPECT_TRUE(status.ok()) << status.message();
    }
    RegisteredScorer(const RegisteredScorer &) = delete;
    RegisteredScorer & operator=(const RegisteredScorer &) = delete;

private:
    std::string name_;
};

// The mean over a lane's query heads of the window's mean attention.
inline Status score_by_window(const ScorerLayer & layer, std::span<float> scores) {
    const auto n_group = static_cast<size_t>(layer.n_group);
    for (int h = 0; h < layer.n_kv_heads; ++h) {
        const size_t n = layer.length(h);
        const auto means = layer.lane(layer.window_mean, h, n_group);
        const auto out = layer.lane(scores, h);
        for (size_t j = 0; j < n; ++j) {
            out[j] = 0;
            for (size_t g = 0; g < n_group; ++g) { out[j] += means[g * n + j]; }
            out[j] /= static_cast<float>(n_group);
        }
    }
    return {};
}

inline CustomScorer own_window(std::string name, int window, ScoreLayer score = score_by_window) {
    return {.name = std::move(name), .needs = {.window = window, .window_mean = true}, .score = std::move(score)};
}

}  // namespace pith::test
