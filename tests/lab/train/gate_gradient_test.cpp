// gate_gradient_test.cpp - losses and gradients of every gate and adapter parameter against a plain f64 Llama with gates.
#include <ggml-backend.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/backend.h"
#include "model/gguf_edit.h"
#include "model/random/random_model.h"
#include "plain_gates.h"
#include "tiny_model.h"
#include "train/graph/gate_parameters.h"
#include "train/graph/lora_parameters.h"

namespace pith::train::gate_gradient_test {
namespace {

using pith::testing::TempFolder;

struct GateCase {
    std::string name;
    GateConfig config;
    std::string weight_type = "f32";
    int n_kv_heads = 2;
    LoraOptions lora;
};

std::shared_ptr<ModelFile> frozen_model(const GateCase & one) {
    const TempFolder folder;
    RandomModelSpec spec;
    spec.n_embd = 32;
    spec.n_layers = 3;
    spec.n_kv_heads = one.n_kv_heads;
    spec.head_dim = 8;
    spec.n_ff = 64;
    spec.n_vocab = 360;
    spec.weight_type = one.weight_type;
    const Status status = write_random_model(spec, folder.file("m.gguf"));
    EXPECT_TRUE(status.ok()) << status.message();
    ModelFileOptions options;
    options.use_mmap = options.repack = false;
    auto file = ModelFile::load(folder.file("m.gguf"), options);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return *file;
}

class GateGradients : public ::testing::TestWithParam<GateCase> {};

TEST_P(GateGradients, AgreeWithCentralDifferencesOfTheStraightThroughLoss) {
    const GateConfig & config = GetParam().config;
    const auto file = frozen_model(GetParam());
    const Hparams & hparams = file->hparams();
    TrainedGates gates{config, {}, {5.0F, 0.3F}};
    Weights weights = file->weights();
    ParameterSet parameters;
    ASSERT_TRUE(parameters.begin(n_gate_parameters(config, hparams) + 8 * weights.layers.size()).ok());
    add_gate_parameters(config, hparams, parameters, gates.weights);
    if (GetParam().lora.rank > 0) { add_lora_parameters(GetParam().lora, parameters, weights); }
    ASSERT_TRUE(parameters.allocate().ok());
    parameters.initialise(3);
    corpus::Random random(4);
    for (Parameter & p : parameters.list()) {  // biases too, and flags of both kinds
        for (int64_t i = 0; i < ggml_nelements(p.value); ++i) {
            values(p.value)[i] = 2.5F * values(p.value)[i] + static_cast<float>(0.2 * (random.uniform() - 0.5));
        }
    }
    Batch batch = random_batch({17, 3}, hparams.n_vocab, 5);
    batch.n_gated = {17, 11, 6};
    constexpr double kScale = 0.25, kEvictionScale = 0.7;
    auto backend = make_cpu_backend(1);
    ASSERT_TRUE(backend.ok());
    {
        auto graph = StepGraph::make({&hparams, &weights, &parameters, &gates}, batch.shape, true, false, *backend);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        const auto loss = (*graph)->run(batch, kScale, kEvictionScale);
        ASSERT_TRUE(loss.ok()) << loss.status().message();
        parameters.zero_gradients();
        (*graph)->add_gradients();

        PlainGates plain(*file, config, parameters, gates.loss.beta);
        plain.lora_scale = GetParam().lora.alpha / std::max(1, GetParam().lora.rank);
        const auto expected = plain.record(batch);
        EXPECT_NEAR(loss->nll_sum, expected.nll, 1e-5 * expected.nll);
        EXPECT_NEAR(loss->gates.eviction_loss, expected.eviction, 1e-5);
        EXPECT_GT(expected.eviction, 0);
        double kept = 0;
        for (size_t i = 0; i < loss->gates.kept.size(); ++i) {
            EXPECT_EQ(loss->gates.kept[i], plain.kept(static_cast<int>(i) + config.first_layer));
            kept += loss->gates.kept[i] / loss->gates.n_flags / static_cast<double>(loss->gates.kept.size());
        }
        EXPECT_GT(kept, 0.2);
        EXPECT_LT(kept, 0.8);

        for (const Parameter & p : parameters.list()) {
            const auto n = static_cast<size_t>(ggml_nelements(p.value));
            double largest = 0;
            for (size_t i = 0; i < n; ++i) {
                largest = std::max(largest, std::fabs(static_cast<double>(values(p.gradient)[i])));
            }
            EXPECT_GT(largest, 0) << p.name;
            for (int sample = 0; sample < 2; ++sample) {
                const auto i = static_cast<size_t>(random.below(static_cast<int>(n)));
                constexpr double kStep = 1e-5;
                double & x = plain.at(p.name, i);
                const double kept_x = x;
                x = kept_x + kStep;
                const auto above = plain.losses(batch);
                x = kept_x - kStep;
                const auto below = plain.losses(batch);
                x = kept_x;
                const double slope =
                    (kScale * (above.nll - below.nll) + kEvictionScale * (above.eviction - below.eviction)) / (2 * kStep);
                EXPECT_NEAR(values(p.gradient)[i], slope, 1e-3 * largest) << p.name << " element " << i;
            }
        }
    }
    ggml_backend_free(*backend);
}

GateConfig make_config(GateKind kind, GateSource source, bool causal, int n_recent, int first_layer) {
    GateConfig c;
    c.kind = kind;
    c.source = source;
    c.n_heads = 2;
    c.head_dim = 6;
    c.causal = causal;
    c.n_recent = n_recent;
    c.first_layer = first_layer;
    c.gamma = 0.1F;
    return c;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, GateGradients,
    ::testing::Values(
        GateCase{"Global", make_config(GateKind::kAttention, GateSource::kOwn, false, 1, 0)},
        GateCase{"Causal", make_config(GateKind::kAttention, GateSource::kOwn, true, 1, 0)},
        GateCase{"Linear", make_config(GateKind::kLinear, GateSource::kOwn, false, 1, 0)},
        GateCase{"PreviousLayer", make_config(GateKind::kAttention, GateSource::kPrevious, false, 1, 1)},
        GateCase{"TwoLayersWithout", make_config(GateKind::kAttention, GateSource::kPrevious, false, 1, 2)},
        GateCase{"FiveRecent", make_config(GateKind::kAttention, GateSource::kOwn, false, 5, 0)},
        GateCase{"EveryHeadItsOwn", make_config(GateKind::kAttention, GateSource::kOwn, false, 1, 0), "f32", 4},
        GateCase{"FrozenQ8", make_config(GateKind::kAttention, GateSource::kOwn, false, 1, 0), "q8_0"},
        GateCase{"FrozenF16", make_config(GateKind::kAttention, GateSource::kOwn, false, 1, 0), "f16"},
        GateCase{"WithAnAdapter", make_config(GateKind::kAttention, GateSource::kOwn, false, 1, 0), "f32", 2, {3, 4.0F}}),
    [](const auto & one) { return one.param.name; });

}  // namespace
}  // namespace pith::train::gate_gradient_test
