// architectures_test.cpp - adapters train on every dense architecture: the loss is that of the plain forward pass, and
// gradients are the slopes of the loss.
#include <ggml-backend.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/backend.h"
#include "model/architecture_files.h"
#include "model/gguf_edit.h"
#include "model/plain_attention.h"
#include "tiny_model.h"
#include "train/graph/lora_parameters.h"

namespace pith::train::architectures_test {
namespace {

using pith::testing::architecture_files;
using pith::testing::ArchitectureFile;
using pith::testing::plain_logits;
using pith::testing::TempFolder;

std::vector<ArchitectureFile> dense_files() {
    std::vector<ArchitectureFile> files = architecture_files();
    std::erase_if(files, [](const ArchitectureFile & file) {
        return file.arch.find("moe") != std::string::npos || file.arch == "minimax-m2";
    });
    return files;
}

class TrainArchitecture : public ::testing::TestWithParam<ArchitectureFile> {};

TEST_P(TrainArchitecture, LossAndGradientsOfAnAdapterAreThoseOfTheForwardPass) {
    const TempFolder folder;
    ASSERT_TRUE(write_architecture_file(GetParam(), folder.file("m.gguf")));
    ModelFileOptions options;
    options.use_mmap = options.repack = false;
    const auto loaded = ModelFile::load(folder.file("m.gguf"), options);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const ModelFile & file = **loaded;
    const Hparams & hparams = file.hparams();
    Weights weights = file.weights();
    ParameterSet parameters;
    ASSERT_TRUE(parameters.begin(8 * weights.layers.size()).ok());
    add_lora_parameters({3, 4.0F}, parameters, weights);
    ASSERT_TRUE(parameters.allocate().ok());
    parameters.initialise(3);
    corpus::Random random(4);
    for (Parameter & p : parameters.list()) {
        for (int64_t i = 0; i < ggml_nelements(p.value); ++i) {
            values(p.value)[i] += static_cast<float>(0.2 * (random.uniform() - 0.5));
        }
    }
    constexpr int kTokens = 21;
    Batch batch = random_batch({kTokens, 2}, hparams.n_vocab, 5);
    const StepModel model{&hparams, &weights, &parameters, nullptr};
    if (const Status status = check_trainable(model); hparams.n_experts > 0 || !hparams.governs_all()) {
        EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
        const char * what = hparams.n_experts > 0 ? "has experts" : hparams.ungoverned();
        EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
        return;
    }
    ASSERT_TRUE(check_trainable(model).ok());
    auto backend = make_cpu_backend(1);
    ASSERT_TRUE(backend.ok());
    {
        auto graph = StepGraph::make(model, batch.shape, true, false, *backend);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        const auto loss = (*graph)->run(batch, 1.0F, 0.0F);
        ASSERT_TRUE(loss.ok()) << loss.status().message();
        parameters.zero_gradients();
        (*graph)->add_gradients();

        double nll = 0;
        const auto n_vocab = static_cast<size_t>(hparams.n_vocab);
        for (int s = 0; s < 2; ++s) {
            const std::vector<int32_t> tokens(batch.tokens.begin() + s * kTokens, batch.tokens.begin() + (s + 1) * kTokens);
            const std::vector<float> logits = plain_logits(file, tokens, {}, {}, 1, GGML_TYPE_F32, &weights);
            for (size_t i = 0; i < tokens.size(); ++i) {
                const float * row = logits.data() + i * n_vocab;
                double sum = 0;
                for (size_t t = 0; t < n_vocab; ++t) { sum += std::exp(double{row[t]}); }
                const size_t at = static_cast<size_t>(s) * kTokens + i;
                nll += double{batch.weights[at]} * (std::log(sum) - double{row[static_cast<size_t>(batch.targets[at])]});
            }
        }
        EXPECT_NEAR(loss->nll_sum, nll, 1e-5 * nll);

        for (const Parameter & p : parameters.list()) {
            const auto n = static_cast<size_t>(ggml_nelements(p.value));
            const float * gradient = values(p.gradient);
            const auto i = static_cast<size_t>(
                std::max_element(gradient, gradient + n, [](float a, float b) { return std::abs(a) < std::abs(b); }) -
                gradient);
            constexpr float kStep = 1e-2F;
            float & x = values(p.value)[i];
            const float kept = x;
            const auto loss_at = [&](float value) {
                x = value;
                return (*graph)->run(batch, 1.0F, 0.0F)->nll_sum;
            };
            const double slope = (loss_at(kept + kStep) - loss_at(kept - kStep)) / (2 * double{kStep});
            x = kept;
            EXPECT_NEAR(double{gradient[i]}, slope, 2e-2 * std::abs(slope) + 1e-2) << p.name << " element " << i;
        }
    }
    ggml_backend_free(*backend);
}

INSTANTIATE_TEST_SUITE_P(Dense, TrainArchitecture, ::testing::ValuesIn(dense_files()),
                         [](const auto & one) { return one.param.name; });

}  // namespace
}  // namespace pith::train::architectures_test
