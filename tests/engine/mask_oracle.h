// mask_oracle.h - real eviction against a full cache in which the evicted entries are masked for the queries that come after
// the eviction. The oracle is a forward pass without any cache (plain_attention.h), told from outside which entries were gone
// when.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/parts/model_parts.h"
#include "model/plain_attention.h"
#include "pith/model.h"

namespace pith::testing {

// When an entry was first seen missing: queries at positions from there on cannot see it.
class EvictionLog {
public:
    void look(const Session & session) {
        look(session.n_layers(), session.n_kv_heads(), session.n_tokens(),
             [&](int layer, int kv_head) { return session.lane_positions(layer, kv_head); });
    }
    // kept_positions(layer, kv_head): of a sequence that has read so many tokens.
    template <class KeptPositions>
    void look(int n_layers, int n_kv_heads, int64_t n_tokens, const KeptPositions & kept_positions) {
        gone_.resize(std::max(gone_.size(), static_cast<size_t>(n_layers)));
        for (int l = 0; l < n_layers; ++l) {
            auto & layer = gone_[static_cast<size_t>(l)];
            layer.resize(std::max(layer.size(), static_cast<size_t>(n_kv_heads)));
            for (int h = 0; h < n_kv_heads; ++h) {
                std::vector<int> & lane = layer[static_cast<size_t>(h)];
                lane.resize(std::max(lane.size(), static_cast<size_t>(n_tokens)), kThere);
                const auto kept = kept_positions(l, h);
                auto next = kept.begin();
                for (int32_t position = 0; position < n_tokens; ++position) {
                    if (next != kept.end() && *next == position) {
                        ++next;
                    } else if (int & gone = lane[static_cast<size_t>(position)]; gone == kThere) {
                        gone = static_cast<int>(n_tokens);
                        ++n_gone_;
                    }
                }
            }
        }
    }
    bool hidden(int layer, int kv_head, int query, int key) const {
        if (static_cast<size_t>(layer) >= gone_.size()) { return false; }
        const auto & heads = gone_[static_cast<size_t>(layer)];
        if (static_cast<size_t>(kv_head) >= heads.size()) { return false; }
        const std::vector<int> & lane = heads[static_cast<size_t>(kv_head)];
        return static_cast<size_t>(key) < lane.size() && query >= lane[static_cast<size_t>(key)];
    }
    size_t size() const { return n_gone_; }

private:
    static constexpr int kThere = std::numeric_limits<int>::max();
    std::vector<std::vector<std::vector<int>>> gone_;  // [layer][KV head][position]: tokens read when it was seen missing
    size_t n_gone_ = 0;
};

struct EvictionRun {
    std::vector<float> logits;  // [n][n_vocab], one row per position; row p are the logits after token p
    EvictionLog log;
    Ledger ledger;
};

struct EvictionSchedule {
    const char * name;
    PrefillSchedule prefill;
    int chunk;
    int evict_every;
};

inline constexpr EvictionSchedule kEvictionSchedules[] = {
    {"one-shot", PrefillSchedule::kOneShot, 32, 0},
    {"chunked", PrefillSchedule::kChunked, 24, 0},
    {"decode every 1", PrefillSchedule::kOneShot, 64, 1},
    {"decode every 7", PrefillSchedule::kChunked, 24, 7},
};

inline constexpr int kPrompt = 100;
inline constexpr int kDecoded = 30;
inline constexpr int kBudget = 48;

// Random importances, as a calibration would leave them.
inline std::shared_ptr<const HeadImportance> importances(const ModelInfo & info) {
    auto heads = std::make_shared<HeadImportance>();
    std::mt19937 random(4);
    for (int i = 0; i < info.n_layers * info.n_heads; ++i) {
        heads->copy.push_back(std::uniform_real_distribution<double>(0.0, 1.0)(random));
        heads->reason.push_back(std::uniform_real_distribution<double>(0.0, 1.0)(random));
    }
    return heads;
}

struct EvictionSizes {
    int prompt = kPrompt;
    int decoded = kDecoded;
    int budget = kBudget;
    int first_row = 0;  // logits of earlier positions are left out
    int n_threads = 1;
};

inline EvictionRun run_evicting(const Model & model, const std::string & policy, const EvictionSchedule & schedule, KvType type,
                                const std::vector<int32_t> & tokens, const EvictionSizes & sizes = {}) {
    EvictionRun result;
    SessionOptions options;
    options.policy = policy;
    options.budget = sizes.budget;
    options.type_k = options.type_v = type;
    options.prefill = schedule.prefill;
    options.chunk = schedule.chunk;
    options.evict_every = schedule.evict_every;
    options.n_threads = sizes.n_threads;
    options.pinned = {{10, 14}};
    options.heads = importances(model.info());
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    RunHooks hooks;
    if (sizes.first_row < sizes.prompt) {
        hooks.on_logits = [&](int64_t position, std::span<const float> row) {
            if (position >= sizes.first_row) { result.logits.insert(result.logits.end(), row.begin(), row.end()); }
        };
    }
    hooks.progress = [&](int64_t, int64_t) {
        if (schedule.prefill == PrefillSchedule::kChunked) { result.log.look(*session); }
    };
    const Status status = session->prefill(std::span(tokens).first(static_cast<size_t>(sizes.prompt)), hooks);
    EXPECT_TRUE(status.ok()) << status.message();
    result.log.look(*session);
    for (int i = sizes.prompt; i < sizes.prompt + sizes.decoded; ++i) {
        EXPECT_TRUE(session->append(tokens[static_cast<size_t>(i)]).ok());
        result.logits.insert(result.logits.end(), session->logits().begin(), session->logits().end());
        result.log.look(*session);
    }
    result.ledger = session->ledger();
    return result;
}

// Largest difference, relative to the range of the oracle's logits.
inline double relative_error(const std::vector<float> & got, const std::vector<float> & expected) {
    EXPECT_EQ(got.size(), expected.size());
    const auto [low, high] = std::ranges::minmax(expected);
    double worst = 0;
    for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        worst = std::max(worst, std::abs(double{got[i]} - expected[i]));
    }
    return worst / (high - low);
}

inline std::vector<float> masked_logits(const Model & model, const EvictionLog & log, const std::vector<int32_t> & tokens,
                                        ggml_type round = GGML_TYPE_F32, const EvictionSizes & sizes = {}) {
    const int n_group = model.info().n_heads / model.info().n_kv_heads;
    const auto mask = [&](int layer, int head, int query, int key) {
        return log.hidden(layer, head / n_group, query, key) ? -INFINITY : 0.0F;
    };
    std::vector<int32_t> rows;
    for (int i = sizes.first_row; sizes.first_row > 0 && i < std::ssize(tokens); ++i) { rows.push_back(i); }
    return plain_logits(file_of(model), tokens, mask, rows, sizes.n_threads, round);
}

}  // namespace pith::testing
