// inspect_gates_test.cpp - what an inspection says is kept is what a gated session holds; its shares are plain counts; its
// attention map is a softmax.
#include "inspect/inspect_gates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/gated_model.h"
#include "engine/parts/model_parts.h"
#include "speed/gate_costs.h"

namespace pith::inspect_gates_test {
namespace {

using testing::even_gate;
using testing::gated_model;
using testing::random_tokens;
using testing::tiny_spec;

InspectGatesOptions options_of_tests(int attention_layer = -1) {
    InspectGatesOptions options;
    options.session.n_threads = 1;
    options.session.chunk = 32;
    options.session.type_k = options.session.type_v = KvType::kF32;
    options.attention_layer = attention_layer;
    return options;
}

TEST(InspectGates, WhatIsKeptIsWhatAGatedSessionHolds) {
    GateConfig config = even_gate();
    config.first_layer = 1;
    const auto model = gated_model(tiny_spec(), config);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(90, model->info().n_vocab);
    const auto seen = inspect_gates(*model, tokens, options_of_tests());
    ASSERT_TRUE(seen.ok()) << seen.status().message();
    EXPECT_TRUE(seen->attention.empty());

    SessionOptions options = options_of_tests().session;
    options.policy = "gated";
    auto session = model->session(options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->prefill(tokens).ok());
    int64_t kept = 0;
    int64_t gated = 0;
    for (int layer = 0; layer < 3; ++layer) {
        for (int h = 0; h < 2; ++h) {
            std::vector<int32_t> expected;
            for (int i = 0; i < seen->n_tokens(); ++i) {
                if (seen->keeps(layer, i, h)) { expected.push_back(i); }
            }
            const auto lane = session->lane_positions(layer, h);
            EXPECT_EQ(std::vector<int32_t>(lane.begin(), lane.end()), expected) << "layer " << layer << ", KV head " << h;
            EXPECT_DOUBLE_EQ(seen->kept_share(layer, h), static_cast<double>(expected.size()) / 90);
            if (layer == 0) {
                EXPECT_EQ(expected.size(), 90U) << "no gate: everything";
            } else {
                kept += static_cast<int64_t>(expected.size());
                gated += 90;
            }
        }
    }
    EXPECT_NEAR(seen->retention(), static_cast<double>(kept) / static_cast<double>(gated), 1e-12);
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, gated);
    for (int i = 0; i < 90; ++i) {
        int n = 0;
        for (int layer = 0; layer < 3; ++layer) {
            for (int h = 0; h < 2; ++h) { n += seen->keeps(layer, i, h) ? 1 : 0; }
        }
        EXPECT_DOUBLE_EQ(seen->token_share(i), n / 6.0);
    }
}

TEST(InspectGates, AnAttentionMapIsASoftmaxOverWhatTheGateSees) {
    for (const bool causal : {false, true}) {
        GateConfig config = even_gate();
        config.causal = causal;
        const auto model = gated_model(tiny_spec(), config);
        ASSERT_TRUE(model.ok()) << model.status().message();
        const auto tokens = random_tokens(70, model->info().n_vocab);
        const auto seen = inspect_gates(*model, tokens, options_of_tests(2));
        ASSERT_TRUE(seen.ok()) << seen.status().message();
        ASSERT_EQ(seen->attention.size(), size_t{2} * 70 * 70);
        for (size_t row = 0; row < size_t{2} * 70; ++row) {
            double sum = 0;
            for (size_t key = 0; key < 70; ++key) {
                const float weight = seen->attention[row * 70 + key];
                EXPECT_EQ(weight > 0, !causal || key <= row % 70) << row << " " << key;
                sum += static_cast<double>(weight);
            }
            EXPECT_NEAR(sum, 1, 1e-4);
        }
    }
}

// Gates may be kept in the model's own precision in the CPU's own layout, as f16 or in 8 bits: where it has none this compares
// like with like.
void expect_alike_repacked(const std::string & weight_type, double within) {
    SCOPED_TRACE(weight_type);
    RandomModelSpec spec = tiny_spec();
    spec.n_embd = 64;
    spec.weight_type = weight_type;
    const std::string path = testing::scratch_file("repacked.gguf"), gate_path = testing::scratch_file("repacked.gate.gguf");
    ASSERT_TRUE(write_random_model(spec, path).ok());
    const auto plain = Model::load(path);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    const testing::RandomGate gate(even_gate(), file_of(*plain).hparams());
    ASSERT_TRUE(save_gate(gate_path, even_gate(), gate.weights, {}, file_of(*plain)).ok());
    const auto tokens = random_tokens(100, plain->info().n_vocab);
    std::vector<GateInspection> seen;
    for (const bool repack : {false, true}) {
        ModelOptions options;
        options.gate_file = gate_path;
        options.repack = repack;
        const auto model = Model::load(path, options);
        ASSERT_TRUE(model.ok()) << model.status().message();
        auto one = inspect_gates(*model, tokens, options_of_tests());
        ASSERT_TRUE(one.ok()) << one.status().message();
        seen.push_back(std::move(*one));
    }
    // The first layer: below it nothing was evicted by flags that fell the other way.
    for (int i = 0; i < 100; ++i) {
        for (int h = 0; h < 2; ++h) {
            EXPECT_NEAR(seen[0].probability_at(0, i, h), seen[1].probability_at(0, i, h), within) << i;
        }
    }
}

TEST(InspectGates, RepackedGatesSayWhatPlainOnesSayToRounding) {
    expect_alike_repacked("f16", 2e-3);
    expect_alike_repacked("q8_0", 1e-2);
}

TEST(InspectGates, WhatCannotBeShownIsSaid) {
    const auto refused = [](const Result<Model> & model, size_t n_tokens, int layer, const std::string & words) {
        ASSERT_TRUE(model.ok()) << model.status().message();
        const auto tokens = random_tokens(static_cast<int>(n_tokens), model->info().n_vocab);
        const Status status = inspect_gates(*model, tokens, options_of_tests(layer)).status();
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    };
    GateConfig late = even_gate();
    late.first_layer = 1;
    GateConfig linear = even_gate();
    linear.kind = GateKind::kLinear;
    refused(testing::tiny_model(tiny_spec()), 10, -1, "--gate FILE");
    refused(gated_model(tiny_spec(), late), 0, -1, "no text");
    refused(gated_model(tiny_spec(), late), 10, 0, "layers 1 to 2 have a gate");
    refused(gated_model(tiny_spec(), late), 10, 3, "layers 1 to 2 have a gate");
    refused(gated_model(tiny_spec(), late), 2049, 1, "2048 tokens at most");
    refused(gated_model(tiny_spec(), linear), 10, 1, "linear");
}

TEST(GateCosts, EveryLengthAndPolicyIsMeasuredInEveryRound) {
    const auto model = gated_model(tiny_spec(), even_gate());
    ASSERT_TRUE(model.ok()) << model.status().message();
    GateCostOptions options;
    options.session = options_of_tests().session;
    options.lengths = {40, 90};
    options.n_generate = 3;
    options.n_repetitions = 2;
    const auto rows = measure_gate_costs(*model, options);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    ASSERT_EQ(rows->size(), 4U);
    for (const GateCostRow & row : *rows) {
        EXPECT_EQ(row.prefill_s.size(), 2U);
        EXPECT_EQ(row.gate_s.size(), 2U);
        EXPECT_EQ(row.token_s.size(), 2U);
        if (row.policy == "full") {
            EXPECT_EQ(row.kept, 1);
            EXPECT_EQ(row.gate_share(), 0);
        } else {
            EXPECT_LT(row.kept, 1);
            EXPECT_GT(row.kept, 0);
            EXPECT_GT(row.gate_share(), 0);
            EXPECT_LT(row.gate_share(), 1);
        }
    }
    EXPECT_EQ((*rows)[0].n_tokens, 40);
    EXPECT_EQ((*rows)[3].n_tokens, 90);
    options.n_generate = 0;
    EXPECT_EQ(measure_gate_costs(*model, options).status().code(), ErrorCode::kInvalidArgument);
}

// By medians: 2 s longer, 1/64 s less for each token.
TEST(GateCosts, ALongerPrefillComesBackOverSoManyTokens) {
    GateCostRow full;
    full.prefill_s = {10, 9, 50};
    full.token_s = {0.125, 0.5, 0.125};
    GateCostRow gated;
    gated.prefill_s = {12, 1, 13};
    gated.token_s = {0.109375, 0.0625, 1};
    EXPECT_EQ(gated.tokens_until_even(full), 128);
    EXPECT_EQ(full.tokens_until_even(full), 0);
    gated.prefill_s = {10};
    EXPECT_EQ(gated.tokens_until_even(full), 0);
    gated.prefill_s = {12};
    gated.token_s = {0.125};
    EXPECT_EQ(gated.tokens_until_even(full), std::nullopt);
}

}  // namespace
}  // namespace pith::inspect_gates_test
