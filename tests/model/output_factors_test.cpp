// output_factors_test.cpp - factors are made side by side, without one stalling the others, and again where that failed.
#include "model/output_factors.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "model/bare_model.h"

namespace pith::output_factors_test {
namespace {

constexpr int kHeads = 3;
constexpr int kDim = 20;

std::vector<float> projection(int layer) {
    std::vector<float> rows(size_t{50} * kHeads * kDim);
    for (size_t i = 0; i < rows.size(); ++i) { rows[i] = std::sin(static_cast<float>(i * i) + static_cast<float>(layer)); }
    return rows;
}

class FourLayers : public testing::BareModel {
public:
    FourLayers() {
        hparams_.n_layers = 4;
        hparams_.n_heads = kHeads;
        hparams_.n_kv_heads = kHeads;
        hparams_.head_dim_v = kDim;
    }
    Result<std::vector<float>> read_output_projection(int layer) const override {
        ++n_reads;
        if (on_read) { PITH_RETURN_IF_ERROR(on_read(layer)); }
        return projection(layer);
    }

    mutable std::atomic<int> n_reads{0};
    std::function<Status(int layer)> on_read;
};

// While one session has a layer made, others get theirs, and count bytes.
TEST(OutputFactors, OneLayerInTheMakingStallsNoOther) {
    const auto model = std::make_shared<FourLayers>();
    OutputFactors factors(model);
    std::atomic<bool> others_done{false};
    std::thread others;
    model->on_read = [&](int layer) -> Status {
        if (layer != 0) { return {}; }
        others = std::thread([&] {
            EXPECT_TRUE(factors.factor(1).ok());
            EXPECT_TRUE(factors.group_factor(2).ok());
            EXPECT_GT(factors.size_bytes(), 0U);
            others_done = true;
        });
        for (int i = 0; i < 2000 && !others_done; ++i) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }
        EXPECT_TRUE(others_done) << "they wait for layer 0";
        return {};
    };
    EXPECT_TRUE(factors.factor(0).ok());
    others.join();
    EXPECT_EQ(model->n_reads, 3);
    EXPECT_TRUE(factors.factor(0).ok() && factors.factor(1).ok());
    EXPECT_EQ(model->n_reads, 3) << "made once";
    EXPECT_EQ(factors.size_bytes(), size_t{3} * kHeads * kDim * kDim * sizeof(float));
}

TEST(OutputFactors, WhatFailedIsTriedAgain) {
    const auto model = std::make_shared<FourLayers>();
    OutputFactors factors(model);
    model->on_read = [](int) -> Status { return {ErrorCode::kBadFile, "the file is gone"}; };
    EXPECT_EQ(factors.factor(2).status().code(), ErrorCode::kBadFile);
    model->on_read = [](int) -> Status { throw std::bad_alloc(); };
    EXPECT_THROW(static_cast<void>(factors.factor(2)), std::bad_alloc);
    model->on_read = {};
    const RunTasks half = [](int n_tasks, const std::function<void(int)> & task) -> Status {
        for (int i = 0; i < n_tasks / 2; ++i) { task(i); }
        return {ErrorCode::kOutOfMemory, "no memory for the rest"};
    };
    EXPECT_EQ(factors.factor(2, half).status().code(), ErrorCode::kOutOfMemory);
    EXPECT_EQ(factors.size_bytes(), 0U);
    const auto factor = factors.factor(2);
    ASSERT_TRUE(factor.ok());
    EXPECT_EQ(std::vector<float>(factor->begin(), factor->end()), *factor_slices(projection(2), kHeads, kDim));
}

TEST(OutputFactors, AreTheSameWhoeverMakesThem) {
    const auto in_turn = factor_slices(projection(0), kHeads, kDim);
    const RunTasks on_threads = [](int n_tasks, const std::function<void(int)> & task) -> Status {
        std::vector<std::thread> threads;
        for (int i = n_tasks; i-- > 0;) { threads.emplace_back(task, i); }
        for (std::thread & thread : threads) { thread.join(); }
        return {};
    };
    const auto side_by_side = factor_slices(projection(0), kHeads, kDim, on_threads);
    ASSERT_TRUE(in_turn.ok() && side_by_side.ok());
    EXPECT_EQ(*in_turn, *side_by_side);
}

}  // namespace
}  // namespace pith::output_factors_test
