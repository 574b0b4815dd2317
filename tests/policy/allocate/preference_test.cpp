// preference_test.cpp - CAKE's preference with numbers to check by hand.
#include <gtest/gtest.h>

#include "policy/allocate/cake_presets.h"
#include "policy/eviction.h"

namespace pith::test::preference_test {
namespace {

// One lane of ten entries; entropy, and a variance over two queries of (sum of squares - 2·mean²)/1 in one entry.
LayerEvidence layer_of(int layer, double entropy, float squares) {
    LayerEvidence evidence;
    evidence.layer = layer;
    evidence.n_kv_heads = 1;
    evidence.n_group = 1;
    evidence.n_seen = 10;
    evidence.n_window = 2;
    evidence.positions.push_row(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    std::vector<float> mean(10, 0.0F);
    std::vector<float> head_sq(10, 0.0F);
    mean[3] = 0.5F;
    head_sq[3] = squares;
    evidence.window_mean.push_row(mean);
    evidence.window_head_sq.push_row(head_sq);
    evidence.window_entropy = {entropy};
    return evidence;
}

std::vector<int> kept(const char * policy, const std::vector<LayerEvidence> & layers, int64_t budget) {
    EvictionPass pass(Policy::parse(policy).value(), {{static_cast<int>(layers.size()), 1, 1, 8}, budget, {}}, false, 0);
    for (const LayerEvidence & layer : layers) EXPECT_TRUE(pass.add_layer(layer).ok());
    std::vector<int> lengths(layers.size(), 10);
    const auto plans = pass.finish();
    EXPECT_TRUE(plans.ok()) << plans.status().message();
    for (const LayerPlan & plan : *plans) lengths[static_cast<size_t>(plan.layer)] = plan.keep.length(0);
    return lengths;
}

TEST(Preference, LayersGetEntriesByEntropyTimesVariance) {
    // V: .75 - .5 = .25 and 1 - .5 = .5;  P: 2·.25 = .5 and 3·.5 = 1.5
    const std::vector<LayerEvidence> layers = {layer_of(0, 2, 0.75F), layer_of(1, 3, 1.0F)};
    EXPECT_EQ(kept("random:recent=0+preference", layers, 6), (std::vector<int>{3, 9}));
    // √2·.25 = .354 and √3·.5 = .866
    EXPECT_EQ(kept("random:recent=0+preference:tau1=2", layers, 6), (std::vector<int>{3, 9}));
    // 2·.25² = .125 and 3·.5² = .75, six times as much; 12 entries: 2 and 10
    EXPECT_EQ(kept("random:recent=0+preference:tau2=0.5", layers, 6), (std::vector<int>{2, 10}));
}

TEST(Preference, APresetTakesItsAuthorsConstantsForTheSizeThatIsNearer) {
    const std::vector<LayerEvidence> layers = {layer_of(0, 2, 0.75F), layer_of(1, 3, 1.0F)};
    const auto with = [&](const std::string & options, int64_t budget) {
        return kept(("random:recent=0+preference" + options).c_str(), layers, budget);
    };
    EXPECT_EQ(with(":preset=qwen2.5-7b", 6), with(":tau1=0.4:tau2=0.6", 6)) << "few entries: those of 128";
    EXPECT_NE(with(":preset=qwen2.5-7b", 6), with("", 6));
    EXPECT_EQ(with(":preset=qwen2.5-7b:tau1=1:tau2=1", 6), with("", 6)) << "what is given goes over the preset";
    EXPECT_EQ(cake_constants("qwen2.5-7b", 362)->tau1, 0.4);  // 362² < 128 · 1,024 < 363²
    EXPECT_EQ(cake_constants("qwen2.5-7b", 363)->tau1, 1.5);
    EXPECT_FALSE(cake_constants("none", 128).has_value());
}

TEST(Preference, KnowsTheModelsOfItsPresetsByTheirShape) {
    EXPECT_EQ(cake_preset_for("llama", 32, 4096, 8, 128256), "llama3.1-8b");
    EXPECT_EQ(cake_preset_for("llama", 32, 4096, 8, 32768), "mistral0.3-7b");
    EXPECT_EQ(cake_preset_for("llama", 32, 4096, 32, 32000), "llama2-7b");
    EXPECT_EQ(cake_preset_for("qwen2", 28, 3584, 4, 152064), "qwen2.5-7b");
    EXPECT_EQ(cake_preset_for("qwen3", 28, 3584, 4, 152064), "");
    EXPECT_EQ(cake_preset_for("llama", 32, 4096, 8, 32000), "");
}

TEST(Preference, ALayerWithoutVarianceGetsWhatTheOthersLeave) {
    const std::vector<LayerEvidence> layers = {layer_of(0, 2, 0.5F), layer_of(1, 3, 1.0F)};
    EXPECT_EQ(kept("random:recent=0+preference", layers, 5), (std::vector<int>{0, 10}));
    EXPECT_EQ(kept("random:recent=0+preference", layers, 7), (std::vector<int>{4, 10}));
    const std::vector<LayerEvidence> rounded = {layer_of(0, 2, 0.49F), layer_of(1, 3, 1.0F)};
    EXPECT_EQ(kept("random:recent=0+preference", rounded, 5), (std::vector<int>{0, 10})) << "never below 0";
}

TEST(Preference, CountsThePastAlone) {
    // The window's own entries, 8 and 9, change much from query to query: that says nothing of the layer.
    std::vector<LayerEvidence> layers = {layer_of(0, 2, 0.75F), layer_of(1, 3, 1.0F)};
    const std::vector<int> before = kept("random:recent=0+preference", layers, 6);
    layers[0].window_head_sq.row(0)[8] = 5.0F;
    layers[0].window_head_sq.row(0)[9] = 7.0F;
    EXPECT_EQ(kept("random:recent=0+preference", layers, 6), before);
    layers[0].window_head_sq.row(0)[7] = 5.0F;
    EXPECT_NE(kept("random:recent=0+preference", layers, 6), before);
}

TEST(Preference, ObservesAsTheScorerDoes) {
    EXPECT_EQ(Policy::parse("snapkv:window=16+preference").value().needs().window, 16);
    EXPECT_EQ(Policy::parse("h2o+preference").value().needs().window, 32);
    EXPECT_EQ(Policy::parse("h2o+preference:window=8").value().needs().window, 8);
}

TEST(Preference, SaysWhichEvidenceIsMissing) {
    LayerEvidence layer = layer_of(0, 2, 1);
    layer.window_entropy = {};
    EvictionPass pass(Policy::parse("random:recent=0+preference").value(), {{1, 1, 1, 8}, 5, {}}, false, 0);
    ASSERT_TRUE(pass.add_layer(layer).ok());
    const Status status = pass.finish().status();
    EXPECT_EQ(status.code(), ErrorCode::kMissingEvidence);
    EXPECT_NE(status.message().find("window_entropy"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace pith::test::preference_test
