// import_importance_test.cpp - files in the published layout, written here: what they say of every token, and damaged ones.
#include "engine/probe/import_importance.h"

#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/layer_probe.h"
#include "engine/policy_probe.h"
#include "engine/tiny_model.h"

namespace pith::import_importance_test {
namespace {

using Json = nlohmann::ordered_json;

struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
};

std::string bytes_of(const std::vector<float> & values, const std::string & type) {
    std::string bytes;
    for (const float value : values) {
        if (type == "F32") {
            bytes.append(reinterpret_cast<const char *>(&value), 4);
        } else if (type == "F16") {
            const ggml_fp16_t half = ggml_fp32_to_fp16(value);
            bytes.append(reinterpret_cast<const char *>(&half), 2);
        } else {
            const ggml_bf16_t half = ggml_fp32_to_bf16(value);
            bytes.append(reinterpret_cast<const char *>(&half), 2);
        }
    }
    return bytes;
}

void write_safetensors(const std::string & path, const std::vector<Tensor> & tensors, const std::string & type) {
    Json header;
    header["__metadata__"] = {{"format", "pt"}};
    std::string data;
    for (const Tensor & one : tensors) {
        const size_t begin = data.size();
        data += bytes_of(one.values, type);
        header[one.name] = {{"dtype", type}, {"shape", one.shape}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    const auto n = static_cast<uint64_t>(text.size());
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(&n), sizeof n);
    file << text << data;
}

class ImportImportance : public ::testing::TestWithParam<std::pair<int, const char *>> {  // hidden size (0: linear), type
protected:
    void SetUp() override {
        path_ = testing::scratch_file("imported.gguf");
        file_ = testing::scratch_file("published.safetensors");
        ASSERT_TRUE(write_random_model(testing::tiny_spec(), path_).ok());
        auto model = Model::load(path_);
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = std::make_unique<Model>(*model);
    }
    std::vector<Tensor> published(int n_hidden) const {
        std::mt19937 random(5);
        std::normal_distribution<float> normal(0, 0.3F);
        std::vector<Tensor> all;
        const auto add = [&](const std::string & name, const std::vector<int64_t> & shape) {
            int64_t n = 1;
            for (const int64_t one : shape) { n *= one; }
            Tensor & tensor = all.emplace_back(Tensor{name, shape, {}});
            for (int64_t i = 0; i < n; ++i) { tensor.values.push_back(ggml_bf16_to_fp32(ggml_fp32_to_bf16(normal(random)))); }
        };
        const int64_t d = model_->info().n_embd;
        const int64_t k = model_->info().n_kv_heads;
        for (int l = 0; l < model_->info().n_layers; ++l) {
            const std::string prefix = "layers." + std::to_string(l) + ".";
            if (n_hidden == 0) {
                add(prefix + "weight", {k, d});
                add(prefix + "bias", {k});
            } else {
                add(prefix + "0.weight", {n_hidden, d});
                add(prefix + "0.bias", {n_hidden});
                add(prefix + "2.weight", {k, n_hidden});
                add(prefix + "2.bias", {k});
            }
        }
        return all;
    }
    std::string path_, file_;
    std::unique_ptr<Model> model_;
};

// y = W x + b, in f64.
std::vector<double> product(const Tensor & weight, const Tensor & bias, const std::vector<double> & x) {
    std::vector<double> y;
    for (size_t r = 0; r < bias.values.size(); ++r) {
        double sum = bias.values[r];
        for (size_t i = 0; i < x.size(); ++i) { sum += double{weight.values[r * x.size() + i]} * x[i]; }
        y.push_back(sum);
    }
    return y;
}

TEST_P(ImportImportance, SaysOfEveryTokenWhatThePublishedPredictorSays) {
    const auto [n_hidden, type] = GetParam();
    const std::vector<Tensor> tensors = published(n_hidden);
    write_safetensors(file_, tensors, type);
    const auto read = import_importance(file_, *model_);
    ASSERT_TRUE(read.ok()) << read.status().message();
    ModelOptions with_gate;
    with_gate.gate_file = testing::scratch_file("imported.gate.gguf");
    with_gate.repack = false;  // products in f32
    ASSERT_TRUE(save_importance(with_gate.gate_file, *read, *model_).ok());
    const auto model = Model::load(path_, with_gate);
    ASSERT_TRUE(model.ok()) << model.status().message();

    SessionOptions options;
    options.policy = "full";
    options.observe = {"gate"};
    options.n_threads = 1;
    auto session = model->session(options);
    ASSERT_TRUE(session.ok());
    std::vector<std::vector<float>> inputs(static_cast<size_t>(model->info().n_layers));
    LayerProbe layers(*session);
    layers.set_input_observer([&](int layer, std::span<const float> rows, int, int32_t) -> Status {
        inputs[static_cast<size_t>(layer)].assign(rows.begin(), rows.end());
        return {};
    });
    constexpr size_t kTokens = 40;
    ASSERT_TRUE(session->prefill(testing::random_tokens(kTokens, 384)).ok());
    layers.set_input_observer({});
    const auto width = static_cast<size_t>(model->info().n_embd);
    const size_t n_each = n_hidden == 0 ? 2 : 4;
    for (int l = 0; l < model->info().n_layers; ++l) {
        const auto seen = PolicyProbe(*session).evidence(l, {.retention = true});
        ASSERT_TRUE(seen.ok()) << seen.status().message();
        const Tensor * of_layer = tensors.data() + static_cast<size_t>(l) * n_each;
        for (size_t i = 0; i < kTokens; ++i) {
            const float * row = inputs[static_cast<size_t>(l)].data() + i * width;
            std::vector<double> x(row, row + width);
            if (n_hidden > 0) {
                x = product(of_layer[0], of_layer[1], x);
                for (double & one : x) { one = 0.5 * one * (1 + std::erf(one / std::sqrt(2.0))); }
            }
            const std::vector<double> wanted = product(of_layer[n_each - 2], of_layer[n_each - 1], x);
            for (size_t h = 0; h < wanted.size(); ++h) {
                const double probability = 1 / (1 + std::exp(-wanted[h]));
                EXPECT_NEAR(seen->retention.row(static_cast<int>(h))[i], probability, 1e-3 * probability + 1e-6)
                    << l << " " << h << " " << i;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, ImportImportance,
                         ::testing::Values(std::pair(0, "F32"), std::pair(0, "F16"), std::pair(48, "F32"),
                                           std::pair(48, "BF16")));

using ImportRefused = ImportImportance;

TEST_P(ImportRefused, WhatIsWrongIsNamed) {
    const auto refusal = [&] { return import_importance(file_, *model_).status().message(); };
    std::vector<Tensor> tensors = published(0);
    tensors.back().values.pop_back();
    tensors.back().shape[0] -= 1;
    write_safetensors(file_, tensors, "F32");
    EXPECT_NE(refusal().find("made for another model: its tensor 'layers."), std::string::npos) << refusal();

    tensors = published(0);
    tensors.pop_back();
    write_safetensors(file_, tensors, "F32");
    EXPECT_NE(refusal().find("tensors"), std::string::npos) << refusal();

    tensors = published(0);
    tensors.front().values.front() = INFINITY;
    write_safetensors(file_, tensors, "F32");
    EXPECT_NE(refusal().find("not finite"), std::string::npos) << refusal();

    for (Tensor & one : tensors) { one.name = "gates." + one.name; }
    write_safetensors(file_, tensors, "F32");
    EXPECT_NE(refusal().find("neither 'layers.0.weight'"), std::string::npos) << refusal();

    write_safetensors(file_, published(0), "F32");
    std::ifstream whole(file_, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(whole)), {});
    for (const size_t n : {size_t{3}, size_t{20}, bytes.size() / 2, bytes.size() - 1}) {
        std::ofstream(file_, std::ios::binary) << bytes.substr(0, n);
        EXPECT_FALSE(import_importance(file_, *model_).ok()) << n;
    }
    std::ofstream(file_, std::ios::binary) << std::string(64, '\x7f');
    EXPECT_NE(refusal().find("no safetensors"), std::string::npos) << refusal();
    EXPECT_EQ(import_importance(file_ + ".absent", *model_).status().code(), ErrorCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Linear, ImportRefused, ::testing::Values(std::pair(0, "F32")));

}  // namespace
}  // namespace pith::import_importance_test
