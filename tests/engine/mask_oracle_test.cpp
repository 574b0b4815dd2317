// mask_oracle_test.cpp - real eviction equals a full cache in which the evicted entries are masked for the queries that come
// after the eviction: for every scorer and allocator of the registry, every schedule, and every K/V type.
#include <gtest/gtest.h>

#include "engine/gated_model.h"
#include "engine/mask_oracle.h"
#include "engine/registry_policies.h"
#include "every_case.h"

namespace pith::mask_oracle_test {
namespace {

using testing::even_gate;
using testing::EvictionRun;
using testing::EvictionSchedule;
using testing::gated_model;
using testing::in_turn;
using testing::kBudget;
using testing::kDecoded;
using testing::kEvictionSchedules;
using testing::kPrompt;
using testing::masked_logits;
using testing::policies_of_the_registry;
using testing::policy_test_name;
using testing::random_tokens;
using testing::relative_error;
using testing::run_evicting;
using testing::tiny_model;
using testing::tiny_spec;

class MaskOracle : public ::testing::TestWithParam<std::string> {};

// In the default run a policy has one schedule of the four, half of the policies one with lanes of their own per query head
// too, and the policies together have all.
TEST_P(MaskOracle, EvictionEqualsMaskingWithEverySchedule) {
    for (const auto & [n_heads, n_kv_heads] : {std::pair{4, 2}, std::pair{3, 3}}) {
        // Gates for the scorer of that name, of the kind that works in every schedule. They hide nothing unless asked to.
        GateConfig gates = even_gate();
        gates.causal = true;
        const auto model = gated_model(tiny_spec(n_heads, n_kv_heads), gates);
        ASSERT_TRUE(model.ok()) << model.status().message();
        const auto tokens = random_tokens(kPrompt + kDecoded, model->info().n_vocab);
        // Lanes of their own per query head: the first schedule and the last are enough.
        const size_t step = n_heads == n_kv_heads ? std::size(kEvictionSchedules) - 1 : 1;
        for (size_t i = 0; i < std::size(kEvictionSchedules); i += step) {
            const EvictionSchedule & schedule = kEvictionSchedules[i];
            if (!in_turn(GetParam(), i / step, std::size(kEvictionSchedules))) { continue; }
            SCOPED_TRACE(std::string(schedule.name) + ", " + std::to_string(n_heads) + " heads over " +
                         std::to_string(n_kv_heads));
            const EvictionRun got = run_evicting(*model, GetParam(), schedule, KvType::kF32, tokens);
            EXPECT_GE(got.log.size(), static_cast<size_t>(3 * n_kv_heads * (kPrompt - kBudget)));
            EXPECT_LE(relative_error(got.logits, masked_logits(*model, got.log, tokens)), 1e-5);
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
        const auto check = [&](const std::string & policy, const EvictionSchedule & schedule) {
            SCOPED_TRACE(policy + ", " + schedule.name);
            const EvictionRun got = run_evicting(*model, policy, schedule, c.type, tokens);
            const double error = relative_error(got.logits, masked_logits(*model, got.log, tokens, c.rounded));
            RecordProperty(std::string(to_string(c.type)) + " " + policy + " " + schedule.name, std::to_string(error));
            EXPECT_LE(error, c.bound);
        };
        for (const EvictionSchedule & schedule : kEvictionSchedules) { check("snapkv:window=8+ada", schedule); }
        for (const char * policy : {"h2o+caote", "keydiff+fastcaote", "expected+global", "laprox", "critical-adakv", "cake",
                                    "lava", "score", "tova+joint"}) {
            check(policy, kEvictionSchedules[0]);
            check(policy, kEvictionSchedules[3]);
        }
    }
}

}  // namespace
}  // namespace pith::mask_oracle_test
