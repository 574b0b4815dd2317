// random_model_test.cpp - random models are the same every time, and a failure leaves no file.
#include "model/random/random_model.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/random/random_tensors.h"

namespace pith::random_model_test {
namespace {

namespace fs = std::filesystem;

class RandomModel : public ::testing::Test {
protected:
    void SetUp() override {
        const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
        folder_ = fs::path(::testing::TempDir()) / ("pith_random_model_" + test);
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string path(const std::string & name) const { return folder_ / name; }
    bool folder_is_empty() const { return fs::is_empty(folder_); }
    static std::string bytes(const std::string & path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

private:
    fs::path folder_;
};

TEST_F(RandomModel, IsTheSameForTheSameSeedAndAnotherForAnother) {
    RandomModelSpec spec;
    ASSERT_TRUE(write_random_model(spec, path("a.gguf")).ok());
    ASSERT_TRUE(write_random_model(spec, path("b.gguf")).ok());
    spec.seed = 2;
    ASSERT_TRUE(write_random_model(spec, path("c.gguf")).ok());
    EXPECT_EQ(bytes(path("a.gguf")), bytes(path("b.gguf")));
    EXPECT_NE(bytes(path("a.gguf")), bytes(path("c.gguf")));
}

TEST_F(RandomModel, NamesItsPartsAsSplitFilesAreNamed) {
    RandomModelSpec spec;
    spec.n_splits = 2;
    ASSERT_TRUE(write_random_model(spec, path("m.gguf")).ok());
    EXPECT_TRUE(fs::exists(path("m-00001-of-00002.gguf")));
    EXPECT_TRUE(fs::exists(path("m-00002-of-00002.gguf")));
    EXPECT_FALSE(fs::exists(path("m.gguf")));
}

TEST_F(RandomModel, NamesTheFolderThatCannotBeWritten) {
    const Status status = write_random_model({}, path("missing/m.gguf"));
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_NE(status.message().find("missing/m.gguf' cannot be written: No such file or directory"), std::string::npos)
        << status.message();
}

TEST_F(RandomModel, LeavesNothingBehindWhenTheDiskIsFull) {
    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    rlimit small = old;
    small.rlim_cur = 4096;  // writing past it fails as a full disk does
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status status = write_random_model({}, path("m.gguf"));
    setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_NE(status.message().find("m.gguf"), std::string::npos) << status.message();
    EXPECT_TRUE(folder_is_empty());
}

TEST_F(RandomModel, LeavesNothingBehindWhenCancelled) {
    const Status status = write_random_model({}, path("m.gguf"), [](double fraction) { return fraction < 0.5; });
    EXPECT_EQ(status.code(), ErrorCode::kCancelled);
    EXPECT_TRUE(folder_is_empty());
}

TEST_F(RandomModel, NamesTheFieldThatCannotBe) {
    const auto message = [&](auto change) {
        RandomModelSpec spec;
        change(spec);
        const Status status = write_random_model(spec, path("m.gguf"));
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        return status.message();
    };
    using Spec = RandomModelSpec;
    EXPECT_NE(message([](Spec & spec) { spec.arch = "gpt2"; }).find("'gpt2'"), std::string::npos);
    EXPECT_NE(message([](Spec & spec) { spec.weight_type = "q9"; }).find("'q9'"), std::string::npos);
    EXPECT_NE(message([](Spec & spec) { spec.n_vocab = 10; }).find("n_vocab is 10"), std::string::npos);
    EXPECT_NE(message([](Spec & spec) { spec.n_kv_heads = 3; }).find("n_kv_heads 3"), std::string::npos);
    EXPECT_NE(message([](Spec & spec) { spec.n_splits = 1000; }).find("n_splits is 1000"), std::string::npos);
    EXPECT_TRUE(folder_is_empty());
}

// As Qwen2.5's file of 28 layers has them: 14 of the two kinds of matrices, and the head.
TEST(RandomTypes, AMixtureGivesSomeMatricesMoreBits) {
    RandomModelSpec spec;
    spec.n_layers = 28;
    spec.n_embd = spec.n_ff = 256;
    spec.head_dim = 64;
    spec.weight_type = "q4_K_M";
    const auto count = [&](ggml_type type, const std::string & end) {
        const auto all = list_random_tensors(spec).value();
        return std::ranges::count_if(all, [&](const auto & t) { return t.type == type && t.name.ends_with(end); });
    };
    EXPECT_EQ(count(GGML_TYPE_Q6_K, "ffn_down.weight"), 14);
    EXPECT_EQ(count(GGML_TYPE_Q6_K, "attn_v.weight"), 14);
    EXPECT_EQ(count(GGML_TYPE_Q6_K, ""), 29);
    EXPECT_EQ(count(GGML_TYPE_Q6_K, "output.weight"), 1);
    EXPECT_EQ(count(GGML_TYPE_Q4_K, ""), 28 * 7 + 2 - 29);
    spec.tied = true;
    EXPECT_EQ(count(GGML_TYPE_Q6_K, "token_embd.weight"), 1);
}

TEST(RandomTypes, ExpertsMayHaveATypeOfTheirOwn) {
    RandomModelSpec spec;
    spec.n_experts = 4;
    spec.n_experts_used = 2;
    spec.n_ff_expert = 64;
    spec.weight_type = "mxfp4_moe";
    const std::vector<RandomTensorSpec> all = list_random_tensors(spec).value();
    for (const RandomTensorSpec & t : all) {
        const bool is_expert = t.name.ends_with("_exps.weight");
        const bool is_vector = t.n_dims == 1 || t.name.ends_with("ffn_gate_inp.weight");
        EXPECT_EQ(t.type, is_expert ? GGML_TYPE_MXFP4 : is_vector ? GGML_TYPE_F32 : GGML_TYPE_Q8_0) << t.name;
    }
}

TEST(ShapePreset, NamesTheShapesThereAre) {
    EXPECT_EQ(shape_preset("1b")->n_layers, 16);
    const auto unknown = shape_preset("2b");
    ASSERT_FALSE(unknown.ok());
    EXPECT_NE(unknown.status().message().find(shape_names()), std::string::npos);
    EXPECT_NE(shape_names().find("0.5b, 1b, 3b, 8b"), std::string::npos);
}

// As the published models' makers count them, in billions.
TEST(ShapePreset, HasAsManyParametersAsTheModelItNames) {
    const std::vector<std::pair<std::string, double>> shapes = {
        {"0.5b", 0.494},     {"1b", 1.236},        {"3b", 3.213},         {"8b", 8.030},        {"ministral3-3b", 3.43},
        {"gemma3-4b", 3.88}, {"gemma4-31b", 30.7}, {"qwen3.5-27b", 26.9}, {"gpt-oss-20b", 20.9}};
    for (const auto & [name, billions] : shapes) {
        const auto tensors = list_random_tensors(shape_preset(name).value());
        ASSERT_TRUE(tensors.ok()) << tensors.status().message();
        double n = 0;
        for (const RandomTensorSpec & tensor : *tensors) {
            n += static_cast<double>(tensor.ne[0]) * static_cast<double>(tensor.ne[1]) * static_cast<double>(tensor.ne[2]);
        }
        EXPECT_NEAR(n / 1e9, billions, 0.005 * billions) << name;
    }
    EXPECT_EQ(shapes.size(), static_cast<size_t>(std::ranges::count(shape_names(), ',') + 1));
}

}  // namespace
}  // namespace pith::random_model_test
