// graph_runner_test.cpp - one graph run many times, and graphs that follow each other in the same memory.
#include "device/graph_runner.h"

#include <gtest/gtest.h>

#include <memory>

#include "device/backend.h"

namespace pith::graph_runner_test {
namespace {

class GraphRunnerTest : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(load_backends().ok());
        auto made = make_cpu_backend(1);
        ASSERT_TRUE(made.ok());
        backend_.reset(*made);
        runner_ = std::make_unique<GraphRunner>(backend_.get());
    }
    // ((3 x) · 3) + y, four numbers; x is read first, so that what follows may take its memory.
    void build(const float * x, const float * y, float * out) {
        auto begun = runner_->begin(16);
        ASSERT_TRUE(begun.ok());
        GraphBuild & build = **begun;
        ggml_tensor * a = build.input(GGML_TYPE_F32, 4, 1, x);
        ggml_tensor * b = build.input(GGML_TYPE_F32, 4, 1, y);
        a = ggml_scale(build.ctx(), ggml_scale(build.ctx(), a, 3.0F), 3.0F);
        build.output(ggml_add(build.ctx(), a, b), out);
    }
    OwnedBackend backend_;
    std::unique_ptr<GraphRunner> runner_;
};

TEST_F(GraphRunnerTest, EveryRunOfAGraphStartsFromItsInputs) {
    std::vector<float> x = {1, 2, 3, 4};
    std::vector<float> y = {10, 20, 30, 40};
    std::vector<float> out(4);
    build(x.data(), y.data(), out.data());
    for (int round = 0; round < 3; ++round) {  // the inputs' memory was used for other things in between
        ASSERT_TRUE(runner_->run().ok());
        EXPECT_EQ(out, (std::vector<float>{19, 38, 57, 76}));
    }
    x = {0, 0, 1, 1};
    y = {5, 6, 7, 8};
    ASSERT_TRUE(runner_->run().ok());
    EXPECT_EQ(out, (std::vector<float>{5, 6, 16, 17}));
}

// As many nodes of the same sizes with other lifetimes: the plan of the graph before would overwrite x while it is needed.
TEST_F(GraphRunnerTest, AGraphLikeTheOneBeforeGetsAPlanOfItsOwn) {
    const std::vector<float> x = {1, 2, 3, 4};
    const std::vector<float> y = {10, 20, 30, 40};
    std::vector<float> out(4);
    build(x.data(), y.data(), out.data());
    ASSERT_TRUE(runner_->run().ok());

    auto begun = runner_->begin(16);
    ASSERT_TRUE(begun.ok());
    GraphBuild & build = **begun;
    ggml_tensor * a = build.input(GGML_TYPE_F32, 4, 1, x.data());
    ggml_tensor * b = build.input(GGML_TYPE_F32, 4, 1, y.data());
    ggml_tensor * c = ggml_scale(build.ctx(), ggml_scale(build.ctx(), b, 3.0F), 3.0F);
    build.output(ggml_add(build.ctx(), a, c), out.data());  // x is still the first leaf, but lives to the end
    for (int round = 0; round < 2; ++round) {
        ASSERT_TRUE(runner_->run().ok());
        EXPECT_EQ(out, (std::vector<float>{91, 182, 273, 364}));
    }
}

TEST_F(GraphRunnerTest, WhatIsKeptCanBeReadUntilTheNextRun) {
    const std::vector<float> x = {1, 2, 3, 4};
    auto begun = runner_->begin(16);
    ASSERT_TRUE(begun.ok());
    GraphBuild & build = **begun;
    ggml_tensor * a = build.input(GGML_TYPE_F32, 4, 1, x.data());
    ggml_tensor * doubled = ggml_scale(build.ctx(), a, 2.0F);
    build.keep(doubled);
    std::vector<float> out(4);
    build.output(ggml_scale(build.ctx(), ggml_scale(build.ctx(), doubled, 5.0F), 0.1F), out.data());
    ASSERT_TRUE(runner_->run().ok());
    std::vector<float> kept(4);
    ggml_backend_tensor_get(doubled, kept.data(), 0, kept.size() * sizeof(float));
    EXPECT_EQ(kept, (std::vector<float>{2, 4, 6, 8}));
}

// The queries of a layer that does not rotate are a view of what their product made.
TEST_F(GraphRunnerTest, AViewThatIsKeptKeepsWhatItLooksAt) {
    const std::vector<float> x = {1, 2, 3, 4};
    const std::vector<float> turns = {0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    auto begun = runner_->begin(16);
    ASSERT_TRUE(begun.ok());
    GraphBuild & build = **begun;
    ggml_tensor * matrix = build.input(GGML_TYPE_F32, 4, 4, turns.data());
    ggml_tensor * seen = ggml_mul_mat(build.ctx(), matrix, build.input(GGML_TYPE_F32, 4, 1, x.data()));
    ggml_tensor * view = ggml_reshape_2d(build.ctx(), seen, 2, 2);
    build.keep(view);
    ggml_tensor * y = ggml_reshape_2d(build.ctx(), view, 4, 1);
    for (int i = 0; i < 3; ++i) { y = ggml_mul_mat(build.ctx(), matrix, y); }
    std::vector<float> out(4);
    build.output(y, out.data());
    ASSERT_TRUE(runner_->run().ok());
    EXPECT_EQ(out, x);  // turned four times
    std::vector<float> kept(4);
    ggml_backend_tensor_get(view, kept.data(), 0, kept.size() * sizeof(float));
    EXPECT_EQ(kept, (std::vector<float>{4, 1, 2, 3}));
}

// Pieces of one kind, in order, and the same numbers.
TEST_F(GraphRunnerTest, AProfiledGraphGivesTheSameAndSaysWhereTimeWent) {
    const std::vector<float> x = {1, 2, 3, 4};
    const std::vector<float> y = {10, 20, 30, 40};
    std::vector<float> out(4);
    GraphProfile profile;
    runner_->set_profile(&profile);
    build(x.data(), y.data(), out.data());
    for (int round = 0; round < 2; ++round) {
        ASSERT_TRUE(runner_->run().ok());
        EXPECT_EQ(out, (std::vector<float>{19, 38, 57, 76}));
    }
    EXPECT_GT(profile.rest_s, 0);
    EXPECT_GT(profile.build_s, 0);
    EXPECT_EQ(profile.weights_s, 0);
    EXPECT_EQ(profile.attention_s, 0);
    runner_->set_profile(nullptr);
    const double rest = profile.rest_s;
    ASSERT_TRUE(runner_->run().ok());
    EXPECT_EQ(profile.rest_s, rest);
}

}  // namespace
}  // namespace pith::graph_runner_test
