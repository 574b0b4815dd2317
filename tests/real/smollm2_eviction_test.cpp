// smollm2_eviction_test.cpp - what evictions leave of SmolLM2's cache: they equal masking, budgets are exact, and the ledger's
// bytes are those of the plan.
#include <numeric>

#include "cache/page_memory.h"
#include "engine/mask_oracle.h"
#include "real/smollm2.h"

namespace pith::smollm2_eviction_test {
namespace {

using testing::EvictionRun;
using testing::EvictionSchedule;
using testing::EvictionSizes;
using testing::kEvictionSchedules;
using testing::masked_logits;
using testing::run_evicting;

struct PolicyCase {
    const char * name;
    const char * policy;
    bool is_ragged;  // heads of a layer keep different numbers
};
void PrintTo(const PolicyCase & one, std::ostream * out) {
    *out << one.policy;
}

class SmolLM2Eviction : public testing::SmolLM2, public ::testing::WithParamInterface<PolicyCase> {
protected:
    static constexpr EvictionSizes kSizes = {.prompt = 160, .decoded = 24, .budget = 56, .n_threads = 0};

    static testing::LogitRows rows_of(const Model & model, std::vector<float> values) {
        return {static_cast<size_t>(model.info().n_vocab), std::move(values)};
    }
    // How far real eviction is from masking.
    static testing::Distance from_mask(const Model & model, const EvictionSchedule & schedule) {
        EvictionSizes sizes = kSizes;
        sizes.n_threads = static_cast<int>(std::thread::hardware_concurrency());
        const auto tokens = story(static_cast<size_t>(sizes.prompt + sizes.decoded));
        EvictionRun got = run_evicting(model, GetParam().policy, schedule, KvType::kF32, tokens, sizes);
        const int n_lanes = model.info().n_layers * model.info().n_kv_heads;
        EXPECT_GE(got.log.size(), static_cast<size_t>(n_lanes * (sizes.prompt - sizes.budget)));
        return testing::distance(rows_of(model, std::move(got.logits)),
                                 rows_of(model, masked_logits(model, got.log, tokens, GGML_TYPE_F32, sizes)));
    }
};

TEST_P(SmolLM2Eviction, EqualsMaskingOnItsWeightsInF32) {
    for (const EvictionSchedule & schedule : {kEvictionSchedules[0], kEvictionSchedules[3]}) {
        const testing::Distance d = from_mask(f32(), schedule);
        testing::report(schedule.name, d);
        EXPECT_LE(d.largest, testing::kSummation) << schedule.name;
        EXPECT_LE(d.widest_gap, testing::kSummation) << schedule.name;
    }
}

TEST_P(SmolLM2Eviction, EqualsMaskingUpToRoundedActivations) {
    const testing::Distance d = from_mask(model(), kEvictionSchedules[3]);
    testing::report("the file's weights", d);
    testing::expect_inside_noise(d, both().noise);
}

TEST_P(SmolLM2Eviction, HoldsItsBudgetExactlyAndTheLedgerSaysItsBytes) {
    constexpr int kBudget = 96;
    constexpr size_t kRow = 2 * 64 * sizeof(uint16_t);  // one entry: a key and a value of 64 numbers, f16
    const auto tokens = story(320);
    SessionOptions options;
    options.policy = GetParam().policy;
    options.budget = kBudget;
    options.prefill = PrefillSchedule::kOneShot;
    auto session = model().session(options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->prefill(tokens).ok());

    const Ledger & ledger = session->ledger();
    EXPECT_EQ(ledger.n_lanes, 30 * 3);
    std::vector<int64_t> lengths;
    for (int l = 0; l < session->n_layers(); ++l) {
        for (int h = 0; h < session->n_kv_heads(); ++h) { lengths.push_back(std::ssize(session->lane_positions(l, h))); }
    }
    const int64_t held = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    EXPECT_EQ(held, kBudget * ledger.n_lanes);
    EXPECT_EQ(ledger.kept_entries, held);
    EXPECT_EQ(ledger.evicted_entries, (std::ssize(tokens) - kBudget) * ledger.n_lanes);
    EXPECT_EQ(std::ranges::min(lengths) != std::ranges::max(lengths), GetParam().is_ragged);

    EXPECT_EQ(ledger.kv_needed_bytes, static_cast<size_t>(held) * kRow);
    EXPECT_EQ(ledger.kv_full_bytes, tokens.size() * static_cast<size_t>(ledger.n_lanes) * kRow);
    // Keys and values of a lane are whole pages; one more each where they begin inside one.
    EXPECT_GE(ledger.kv_allocated_bytes, ledger.kv_needed_bytes);
    EXPECT_LE(ledger.kv_allocated_bytes, ledger.kv_needed_bytes + static_cast<size_t>(ledger.n_lanes) * 4 * page_ceil(1));

    // As many decoded tokens as until the next eviction: what came since is all that is held beside the budget.
    for (int i = 0; i < options.evict_every; ++i) { ASSERT_TRUE(session->append(tokens[static_cast<size_t>(i)]).ok()); }
    EXPECT_EQ(session->ledger().kept_entries, kBudget * ledger.n_lanes);
}

INSTANTIATE_TEST_SUITE_P(Policies, SmolLM2Eviction,
                         ::testing::Values(PolicyCase{"snapkv", "snapkv:window=8", false},
                                           PolicyCase{"adakv", "snapkv:window=8+ada", true},
                                           PolicyCase{"laprox", "laprox", true}),
                         [](const auto & test) { return std::string(test.param.name); });

}  // namespace
}  // namespace pith::smollm2_eviction_test
