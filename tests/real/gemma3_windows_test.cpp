// gemma3_windows_test.cpp - Gemma 3, whose layers see a window of 512 but for every sixth: past the window against libllama,
// and evictions on the layers that see all.
#include "engine/mask_oracle.h"
#include "real/parity.h"

namespace pith::gemma3_windows_test {
namespace {

using testing::EvictionRun;
using testing::EvictionSizes;

constexpr int kWindow = 512;
// ggml looks GELU up in a table of f16 steps: where another order of sums reaches the next step, it is 5e-4 away. (A window of
// 511 or 513 makes a difference of 6e-3 and more.)
constexpr double kGeluSteps = 1.5e-3;

class Gemma3Windows : public testing::BesideF32<testing::kGemma3> {
protected:
    static constexpr size_t kTokens = kWindow + 112;
    // Of the last positions, which no longer see the text's beginning where there is a window.
    static const testing::Parity & both() {
        static const testing::Parity all = testing::read_both(model(), f32(), story(kTokens), kWindow + 32);
        return all;
    }
};

TEST_F(Gemma3Windows, LogitsOfItsWeightsInF32EqualLibllamasPastTheWindow) {
    testing::expect_f32_logits_equal(both(), kGeluSteps);
}

TEST_F(Gemma3Windows, LogitsDifferFromLibllamasByLessThanRoundedActivationsMake) {
    testing::expect_logits_inside_noise(both());
}

TEST_F(Gemma3Windows, QuantisedLogitsAreNoFurtherFromF32ThanLibllamas) {
    testing::expect_no_further_from_f32_than_llama(both());
}

TEST_F(Gemma3Windows, GreedyTextPastTheWindowPartsFromLibllamasOnlyWhereItsBestTokensAreTied) {
    testing::expect_greedy_text_of(model(), testing::LlamaModel(path()), story(kWindow + 20), 24, 4 * both().noise);
}

TEST_F(Gemma3Windows, EvictionOnLayersThatSeeAllEqualsMasking) {
    constexpr EvictionSizes kSizes = {.prompt = kWindow + 48, .decoded = 16, .budget = 128, .first_row = kWindow + 48};
    EvictionSizes sizes = kSizes;
    sizes.n_threads = static_cast<int>(std::thread::hardware_concurrency());
    const auto tokens = story(static_cast<size_t>(sizes.prompt + sizes.decoded));
    const auto width = static_cast<size_t>(f32().info().n_vocab);
    const testing::LogitRows unmasked{width, testing::masked_logits(f32(), {}, tokens, GGML_TYPE_F32, sizes)};
    for (const char * policy : {"snapkv:window=8+ada", "laprox"}) {
        SCOPED_TRACE(policy);
        const testing::EvictionSchedule schedule = {"one-shot", PrefillSchedule::kOneShot, 256, 8};
        EvictionRun got = testing::run_evicting(f32(), policy, schedule, KvType::kF32, tokens, sizes);
        EXPECT_EQ(got.ledger.n_lanes, 3);  // of eighteen layers with one head each
        EXPECT_EQ(got.ledger.kept_entries, 128 * got.ledger.n_lanes);
        EXPECT_GT(got.ledger.kv_window_bytes, 0U);
        const testing::LogitRows expected{width, testing::masked_logits(f32(), got.log, tokens, GGML_TYPE_F32, sizes)};
        const testing::Distance d = testing::distance({width, std::move(got.logits)}, expected);
        testing::report(policy, d);
        EXPECT_LE(d.largest, kGeluSteps);
        EXPECT_LE(d.widest_gap, kGeluSteps);
        // What was evicted mattered: without the mask the logits are others.
        EXPECT_GT(testing::distance(expected, unmasked).largest, 1e-2);
    }
}

}  // namespace
}  // namespace pith::gemma3_windows_test
