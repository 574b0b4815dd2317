// output_projection_test.cpp - W_O read back from the file: every placement of the weights, several types, split files; and its
// factors, shared and made once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "ggml-backend.h"
#include "model/output_factors.h"
#include "model/random/random_model.h"

namespace pith::output_projection_test {
namespace {

class OutputProjectionTest : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() / ("pith-output-projection-" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    static RandomModelSpec spec(const std::string & type, int n_splits = 1) {
        RandomModelSpec spec;
        spec.n_layers = 3;
        spec.n_embd = 64;
        spec.n_heads = 6;  // dv·H is not D
        spec.n_kv_heads = 2;
        spec.n_vocab = 384;
        spec.head_dim = 32;
        spec.weight_type = type;
        spec.n_splits = n_splits;
        return spec;
    }
    void write(const RandomModelSpec & spec) {
        const std::string path = (folder_ / "model.gguf").string();
        const Status status = write_random_model(spec, path);
        EXPECT_TRUE(status.ok()) << status.message();
        first_file_ = random_model_files(spec, path).front();
    }
    std::shared_ptr<ModelFile> load(const ModelFileOptions & options) {
        auto model = ModelFile::load(first_file_, options);
        EXPECT_TRUE(model.ok()) << model.status().message();
        return *model;
    }

    std::string first_file_;
    std::filesystem::path folder_;
};

// The mapped tensor, read as ggml sees it, is the reference: plain bytes, no repacking.
std::vector<float> of_mapped_tensor(const ModelFile & model, int layer) {
    const ggml_tensor * wo = model.weights().layers[static_cast<size_t>(layer)].wo;
    std::vector<float> values(static_cast<size_t>(ggml_nelements(wo)));
    if (wo->type == GGML_TYPE_F32) {
        ggml_backend_tensor_get(wo, values.data(), 0, ggml_nbytes(wo));
    } else {
        ggml_get_type_traits(wo->type)->to_float(wo->data, values.data(), ggml_nelements(wo));
    }
    return values;
}

TEST_F(OutputProjectionTest, IsTheSameHoweverTheWeightsArePlaced) {
    for (const char * type : {"f32", "f16", "bf16", "q8_0", "q4_0"}) {
        for (const int n_splits : {1, 3}) {
            SCOPED_TRACE(std::string(type) + ", " + std::to_string(n_splits) + " files");
            write(spec(type, n_splits));
            const auto mapped = load({.use_mmap = true, .repack = false});
            for (const bool use_mmap : {true, false}) {
                for (const bool repack : {true, false}) {
                    const auto other = load({.use_mmap = use_mmap, .repack = repack});
                    for (int layer = 0; layer < 3; ++layer) {
                        const auto rows = other->read_output_projection(layer);
                        ASSERT_TRUE(rows.ok()) << rows.status().message();
                        ASSERT_EQ(rows->size(), 64U * 6 * 32);
                        EXPECT_EQ(*rows, of_mapped_tensor(*mapped, layer)) << "mmap " << use_mmap << ", repack " << repack;
                    }
                }
            }
        }
    }
}

TEST_F(OutputProjectionTest, FactorsAreMadeOnceAndSharedAmongThreads) {
    write(spec("q8_0"));
    const auto model = load({});
    OutputFactors factors(model);
    EXPECT_EQ(factors.size_bytes(), 0U);
    std::vector<const float *> seen(4);
    std::vector<std::thread> threads;
    for (auto & one : seen) {
        threads.emplace_back([&factors, &one] {
            const auto factor = factors.factor(1);
            one = factor.ok() ? factor->data() : nullptr;
        });
    }
    for (auto & thread : threads) { thread.join(); }
    for (const float * one : seen) { EXPECT_EQ(one, seen[0]); }
    ASSERT_NE(seen[0], nullptr);
    EXPECT_EQ(factors.size_bytes(), 6U * 32 * 32 * sizeof(float));

    // |v·W_O^g|₂ = |v·C_g|₂ for a vector.
    const auto rows = model->read_output_projection(1);
    for (size_t g = 0; g < 6; ++g) {
        double direct = 0;
        double factored = 0;
        for (size_t r = 0; r < 64; ++r) {
            double sum = 0;
            for (size_t c = 0; c < 32; ++c) { sum += std::cos(static_cast<double>(c)) * (*rows)[(r * 6 + g) * 32 + c]; }
            direct += sum * sum;
        }
        for (size_t k = 0; k < 32; ++k) {
            double sum = 0;
            for (size_t c = 0; c < 32; ++c) { sum += std::cos(static_cast<double>(c)) * seen[0][(g * 32 + k) * 32 + c]; }
            factored += sum * sum;
        }
        EXPECT_NEAR(factored, direct, 1e-6 * direct);
    }
}

}  // namespace
}  // namespace pith::output_projection_test
