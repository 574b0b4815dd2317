// mask_oracle_test.cpp - real eviction equals a full cache in which the evicted entries are masked for the queries that come
// after the eviction: for every scorer and allocator of the registry, every schedule, and every K/V type.
//
// The oracle is a forward pass without any cache (plain_attention.h), told from outside which entries were gone when.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "engine/gated_model.h"
#include "engine/model_parts.h"
#include "engine/registry_policies.h"
#include "model/model_file.h"
#include "model/plain_attention.h"

namespace pith {
namespace {

using testing::even_gate;
using testing::gated_model;
using testing::plain_logits;
using testing::policies_of_the_registry;
using testing::policy_test_name;
using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

// When an entry was first seen missing: queries at positions from there on cannot see it.
class EvictionLog {
public:
    void look(const Session & session) {
        for (int l = 0; l < session.n_layers(); ++l) {
            for (int h = 0; h < session.n_kv_heads(); ++h) {
                const auto kept = session.lane_positions(l, h);
                for (int32_t position = 0; position < session.n_tokens(); ++position) {
                    if (!std::ranges::binary_search(kept, position)) {
                        gone_.try_emplace({l, h, position}, static_cast<int>(session.n_tokens()));
                    }
                }
            }
        }
    }
    bool hidden(int layer, int kv_head, int query, int key) const {
        const auto it = gone_.find({layer, kv_head, key});
        return it != gone_.end() && query >= it->second;
    }
    size_t size() const { return gone_.size(); }

private:
    struct Key {
        int layer, kv_head, position;
        auto operator<=>(const Key &) const = default;
    };
    std::map<Key, int> gone_;
};

struct RunResult {
    std::vector<float> logits;  // [n][n_vocab], one row per position; row p are the logits after token p
    EvictionLog log;
    Ledger ledger;
};

struct Schedule {
    const char * name;
    PrefillSchedule prefill;
    int chunk;
    int evict_every;
};

constexpr Schedule kSchedules[] = {
    {"one-shot", PrefillSchedule::kOneShot, 32, 0},
    {"chunked", PrefillSchedule::kChunked, 24, 0},
    {"decode every 1", PrefillSchedule::kOneShot, 64, 1},
    {"decode every 7", PrefillSchedule::kChunked, 24, 7},
};

constexpr int kPrompt = 100;
constexpr int kDecoded = 30;
constexpr int kBudget = 48;

// Random importances, as a calibration would leave them.
std::shared_ptr<const HeadImportance> importances(const ModelInfo & info) {
    auto heads = std::make_shared<HeadImportance>();
    std::mt19937 random(4);
    for (int i = 0; i < info.n_layers * info.n_heads; ++i) {
        heads->copy.push_back(std::uniform_real_distribution<double>(0.0, 1.0)(random));
        heads->reason.push_back(std::uniform_real_distribution<double>(0.0, 1.0)(random));
    }
    return heads;
}

RunResult run(const Model & model, const std::string & policy, const Schedule & schedule, KvType type,
              const std::vector<int32_t> & tokens) {
    RunResult result;
    SessionOptions options;
    options.policy = policy;
    options.budget = kBudget;
    options.type_k = options.type_v = type;
    options.prefill = schedule.prefill;
    options.chunk = schedule.chunk;
    options.evict_every = schedule.evict_every;
    options.n_threads = 1;
    options.pinned = {{10, 14}};
    options.heads = importances(model.info());
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    RunHooks hooks;
    hooks.on_logits = [&](int64_t, std::span<const float> row) {
        result.logits.insert(result.logits.end(), row.begin(), row.end());
    };
    hooks.progress = [&](int64_t, int64_t) {
        if (schedule.prefill == PrefillSchedule::kChunked) { result.log.look(*session); }
    };
    const Status status = session->prefill(std::span(tokens).first(kPrompt), hooks);
    EXPECT_TRUE(status.ok()) << status.message();
    result.log.look(*session);
    for (int i = kPrompt; i < kPrompt + kDecoded; ++i) {
        EXPECT_TRUE(session->append(tokens[static_cast<size_t>(i)]).ok());
        result.logits.insert(result.logits.end(), session->logits().begin(), session->logits().end());
        result.log.look(*session);
    }
    result.ledger = session->ledger();
    return result;
}

// Largest difference, relative to the range of the oracle's logits.
double relative_error(const std::vector<float> & got, const std::vector<float> & expected) {
    EXPECT_EQ(got.size(), expected.size());
    const auto [low, high] = std::ranges::minmax(expected);
    double worst = 0;
    for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        worst = std::max(worst, std::abs(double{got[i]} - expected[i]));
    }
    return worst / (high - low);
}

std::vector<float> oracle(const Model & model, const EvictionLog & log, const std::vector<int32_t> & tokens,
                          ggml_type round = GGML_TYPE_F32) {
    const int n_group = model.info().n_heads / model.info().n_kv_heads;
    const auto mask = [&](int layer, int head, int query, int key) {
        return log.hidden(layer, head / n_group, query, key) ? -INFINITY : 0.0F;
    };
    return plain_logits(file_of(model), tokens, mask, {}, 1, round);
}

class MaskOracle : public ::testing::TestWithParam<std::string> {};

TEST_P(MaskOracle, EvictionEqualsMaskingWithEverySchedule) {
    for (const auto & [n_heads, n_kv_heads] : {std::pair{4, 2}, std::pair{3, 3}}) {
        // Gates for the scorer of that name, of the kind that works in every schedule. They hide nothing unless asked to.
        GateConfig gates = even_gate();
        gates.causal = true;
        const auto model = gated_model(tiny_spec(n_heads, n_kv_heads), gates);
        ASSERT_TRUE(model.ok()) << model.status().message();
        const auto tokens = random_tokens(kPrompt + kDecoded, model->info().n_vocab);
        for (const Schedule & schedule : kSchedules) {
            // Lanes of their own per query head: two schedules are enough.
            if (n_heads == n_kv_heads && schedule.evict_every != 0 && schedule.evict_every != 7) { continue; }
            if (n_heads == n_kv_heads && schedule.prefill == PrefillSchedule::kChunked && schedule.evict_every == 0) {
                continue;
            }
            SCOPED_TRACE(std::string(schedule.name) + ", " + std::to_string(n_heads) + " heads over " +
                         std::to_string(n_kv_heads));
            const RunResult got = run(*model, GetParam(), schedule, KvType::kF32, tokens);
            EXPECT_GE(got.log.size(), static_cast<size_t>(3 * n_kv_heads * (kPrompt - kBudget)));
            EXPECT_LE(relative_error(got.logits, oracle(*model, got.log, tokens)), 1e-5);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, MaskOracle, ::testing::ValuesIn(policies_of_the_registry()), policy_test_name);

TEST(MaskOracleTypes, EvictionEqualsMaskingInEveryCacheType) {
    const auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(kPrompt + kDecoded, model->info().n_vocab);
    struct Case {
        KvType type;
        ggml_type rounded;
        double bound;  // chosen; measured on AVX-512 with AMX: f16 3.9e-4, bf16 6.0e-4, q8_0 1.8e-3, q4_0 4.2e-3 at worst
    };
    for (const Case & c : {Case{KvType::kF16, GGML_TYPE_F16, 2e-3}, Case{KvType::kBF16, GGML_TYPE_BF16, 8e-3},
                           Case{KvType::kQ8_0, GGML_TYPE_Q8_0, 8e-3}, Case{KvType::kQ4_0, GGML_TYPE_Q4_0, 1e-2}}) {
        SCOPED_TRACE(to_string(c.type));
        const auto check = [&](const std::string & policy, const Schedule & schedule) {
            SCOPED_TRACE(policy + ", " + schedule.name);
            const RunResult got = run(*model, policy, schedule, c.type, tokens);
            const double error = relative_error(got.logits, oracle(*model, got.log, tokens, c.rounded));
            RecordProperty(std::string(to_string(c.type)) + " " + policy + " " + schedule.name, std::to_string(error));
            EXPECT_LE(error, c.bound);
        };
        for (const Schedule & schedule : kSchedules) { check("snapkv:window=8+ada", schedule); }
        for (const char * policy : {"h2o+caote", "keydiff+fastcaote", "expected+global", "laprox", "critical-adakv", "cake",
                                    "lava", "score", "tova+joint"}) {
            check(policy, kSchedules[0]);
            check(policy, kSchedules[3]);
        }
    }
}

}  // namespace
}  // namespace pith
