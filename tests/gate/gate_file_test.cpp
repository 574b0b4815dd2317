// gate_file_test.cpp - gates come back as they were written, and every way a file may be wrong has its line.
#include "gate/gate_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gate/random_gate.h"

namespace pith::gate_file_test {
namespace {

using testing::edit_gguf;
using testing::gate_model;
using testing::GgufEdit;
using testing::RandomGate;
using testing::read_file;
using testing::small_gate;
using testing::TempFolder;

class GateFile : public ::testing::Test {
protected:
    void SetUp() override {
        model_ = gate_model();
        gate_ = std::make_unique<RandomGate>(small_gate(), model_->hparams());
        const Status status = save_gate(path(), gate_->config, gate_->weights, {5.0F, 0.4F, 12, 3456, 0.5F}, *model_);
        ASSERT_TRUE(status.ok()) << status.message();
    }
    std::string path() const { return folder_.file("gate.gguf"); }
    Status load(const std::string & from) const { return Gate::load(from, *model_).status(); }
    Status load_edited(const GgufEdit & edit) const {
        EXPECT_TRUE(edit_gguf(path(), folder_.file("edited.gguf"), edit));
        return load(folder_.file("edited.gguf"));
    }
    static void expect(const Status & status, ErrorCode code, const std::string & words) {
        EXPECT_EQ(status.code(), code) << status.message();
        EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    }

    TempFolder folder_;
    std::shared_ptr<ModelFile> model_;
    std::unique_ptr<RandomGate> gate_;
};

TEST_F(GateFile, ComesBackAsItWasWritten) {
    for (const bool previous : {false, true}) {
        GateConfig config = small_gate();
        config.kind = previous ? GateKind::kLinear : GateKind::kAttention;
        config.source = previous ? GateSource::kPrevious : GateSource::kOwn;
        config.first_layer = previous ? 2 : 0;
        config.causal = previous;
        config.n_recent = 5;
        config.tau = 0.3F;
        config.gamma = 0.5F;
        RandomGate gate(config, model_->hparams());
        ASSERT_TRUE(save_gate(path(), config, gate.weights, {1.0F, 0.28F, 7, 99, 0.25F}, *model_).ok());
        const auto loaded = Gate::load(path(), *model_);
        ASSERT_TRUE(loaded.ok()) << loaded.status().message();
        const GateConfig & c = (*loaded)->config();
        EXPECT_EQ(c.kind, config.kind);
        EXPECT_EQ(c.source, config.source);
        EXPECT_EQ(c.n_heads, config.n_heads);
        EXPECT_EQ(c.head_dim, config.head_dim);
        EXPECT_EQ(c.causal, config.causal);
        EXPECT_EQ(c.n_recent, 5);
        EXPECT_EQ(c.first_layer, config.first_layer);
        EXPECT_EQ(c.tau, 0.3F);
        EXPECT_EQ(c.gamma, 0.5F);
        EXPECT_EQ((*loaded)->training().alpha, 1.0F);
        EXPECT_EQ((*loaded)->training().n_tokens, 99);
        GateWeights written = gate.weights, read = (*loaded)->weights();
        const auto a = gate_tensors(config, model_->hparams(), written), b = gate_tensors(config, model_->hparams(), read);
        ASSERT_EQ(a.size(), previous ? 2U : 15U);
        for (size_t i = 0; i < a.size(); ++i) {
            EXPECT_EQ(std::memcmp((*a[i].slot)->data, (*b[i].slot)->data, ggml_nbytes(*a[i].slot)), 0) << a[i].name;
        }
    }
}

TEST_F(GateFile, OfAnotherModelIsRefusedAndTheNumberNamed) {
    const auto other = [&](const std::function<void(RandomModelSpec &)> & change) {
        return Gate::load(path(), *gate_model(change)).status();
    };
    expect(other([](RandomModelSpec & s) { s.n_layers = 2; }), ErrorCode::kInvalidArgument, "its n_layers is 3, that of");
    expect(other([](RandomModelSpec & s) { s.n_kv_heads = 4; }), ErrorCode::kInvalidArgument, "its n_kv_heads is 2, that of");
    expect(other([](RandomModelSpec & s) { s.seed = 9; }), ErrorCode::kInvalidArgument, "its norm_hash is ");
    EXPECT_TRUE(other([](RandomModelSpec & s) { s.weight_type = "q8_0"; }).ok()) << "a quantisation is the same model";
}

TEST_F(GateFile, EveryTruncationIsRefused) {
    const std::vector<char> bytes = read_file(path());
    for (size_t keep = 0; keep < bytes.size(); keep += keep < 64 ? 7 : 997) {
        testing::write_file(folder_.file("cut.gguf"), {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(keep)});
        EXPECT_EQ(load(folder_.file("cut.gguf")).code(), ErrorCode::kBadFile) << keep;
    }
    EXPECT_EQ(load(folder_.file("none.gguf")).code(), ErrorCode::kNotFound);
}

TEST_F(GateFile, WhatIsWrongInsideIsNamed) {
    expect(load_edited({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "general.architecture", "llama"); }}),
           ErrorCode::kBadFile, "not one of gates");
    expect(load_edited({.metadata = [](gguf_context * g) { gguf_remove_key(g, "pith.gate.tau"); }}), ErrorCode::kBadFile,
           "lacks 'pith.gate.tau'");
    expect(load_edited({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "pith.gate.heads", "four"); }}),
           ErrorCode::kBadFile, "another kind of value for 'pith.gate.heads'");
    expect(load_edited({.metadata = [](gguf_context * g) { gguf_set_val_i64(g, "pith.gate.version", 2); }}),
           ErrorCode::kBadFile, "has version 2");
    expect(load_edited({.metadata = [](gguf_context * g) { gguf_set_val_f32(g, "pith.gate.tau", 1.5F); }}), ErrorCode::kBadFile,
           "tau is 1.5");
    expect(load_edited({.metadata = [](gguf_context * g) { gguf_set_val_f32(g, "pith.gate.gamma", NAN); }}),
           ErrorCode::kBadFile, "gamma is nan");
    expect(load_edited({.metadata = [](gguf_context * g) { gguf_set_val_i64(g, "pith.gate.heads", 4); }}), ErrorCode::kBadFile,
           "'gate.0.q.weight'");
    expect(load_edited({.tensor = [](ggml_tensor * t) { return std::string(t->name) != "gate.1.k.weight"; }}),
           ErrorCode::kBadFile, "lacks tensor 'gate.1.k.weight'");
    expect(load_edited({.tensor =
                            [](ggml_tensor * t) {
                                static_cast<float *>(t->data)[0] = NAN;
                                return true;
                            }}),
           ErrorCode::kBadFile, "not finite");
    expect(load_edited({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "pith.gate.kind", "linear"); }}),
           ErrorCode::kBadFile, "out.weight");
}

TEST_F(GateFile, UnwritableTargetIsAnErrorThatNamesIt) {
    expect(save_gate("/no/such/folder/g.gguf", gate_->config, gate_->weights, {}, *model_), ErrorCode::kIo, "/no/such/folder");
}

}  // namespace
}  // namespace pith::gate_file_test
