// cpu_threads_test.cpp - tasks on ggml's threads: each done once, and a task without memory is an error, not an end.
#include "device/cpu_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "device/backend.h"

namespace pith::cpu_threads_test {
namespace {

class CpuThreadsTest : public ::testing::TestWithParam<int> {
protected:
    void SetUp() override {
        ASSERT_TRUE(load_backends().ok());
        auto made = make_cpu_backend(GetParam());
        ASSERT_TRUE(made.ok());
        backend_.reset(*made);
        runner_ = std::make_unique<GraphRunner>(backend_.get());
    }
    OwnedBackend backend_;
    std::unique_ptr<GraphRunner> runner_;
};

TEST_P(CpuThreadsTest, EveryTaskIsDoneOnce) {
    for (const int n_tasks : {0, 1, 2, 100}) {
        std::vector<int> done(static_cast<size_t>(n_tasks), 0);
        ASSERT_TRUE(run_tasks(*runner_, n_tasks, [&](int i) { ++done[static_cast<size_t>(i)]; }).ok());
        EXPECT_EQ(done, std::vector<int>(static_cast<size_t>(n_tasks), 1));
    }
}

TEST_P(CpuThreadsTest, ATaskThatFindsNoMemoryIsAnErrorAndTheThreadsGoOn) {
    const Status status = run_tasks(*runner_, 20, [](int i) {
        if (i == 7) { throw std::bad_alloc(); }
    });
    EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
    const Status other = run_tasks(*runner_, 20, [](int i) {
        if (i == 7) { throw std::length_error("too long"); }
    });
    EXPECT_EQ(other.code(), ErrorCode::kInternal);
    std::vector<int> done(20, 0);
    ASSERT_TRUE(run_tasks(*runner_, 20, [&](int i) { ++done[static_cast<size_t>(i)]; }).ok());
    EXPECT_EQ(std::count(done.begin(), done.end(), 1), 20);
}

TEST_P(CpuThreadsTest, OnceTheyAreCancelledNoTaskBegins) {
    std::atomic<bool> cancel = false;
    std::atomic<int> n_done = 0;
    runner_->set_cancel(&cancel);
    const auto count = [&](int) { cancel = ++n_done >= 10 || cancel; };
    EXPECT_EQ(run_tasks(*runner_, 1000, count).code(), ErrorCode::kCancelled);
    EXPECT_LT(n_done, 10 + GetParam());
    n_done = 0;
    EXPECT_EQ(run_tasks(*runner_, 1000, count).code(), ErrorCode::kCancelled);
    EXPECT_EQ(n_done, 0);

    cancel = false;
    runner_->set_custom_operations(false);
    EXPECT_EQ(tasks_on(*runner_)(1000, count).code(), ErrorCode::kCancelled);
    EXPECT_EQ(n_done, 10);
    runner_->set_custom_operations(true);
    runner_->set_cancel(nullptr);
    n_done = 0;
    EXPECT_TRUE(run_tasks(*runner_, 1000, count).ok());
    EXPECT_EQ(n_done, 1000);
}

// ggml's own operations: the graph ends behind the one that is under way.
TEST_P(CpuThreadsTest, AGraphThatIsCancelledEndsBetweenTwoOperations) {
    std::atomic<bool> cancel = false;
    runner_->set_cancel(&cancel);
    GraphBuild * build = runner_->begin(64).value();
    std::vector<float> zeros(8, 0.0F);
    std::vector<float> out(8, -1.0F);
    ggml_tensor * x = build->input(GGML_TYPE_F32, 8, 1, static_cast<const float *>(zeros.data()));
    for (int i = 0; i < 20; ++i) { x = ggml_scale_bias(build->ctx(), x, 1.0F, 1.0F); }
    build->output(x, out.data());
    bool sets = true;
    build->before_run([&] { cancel = sets; });
    EXPECT_EQ(runner_->run().code(), ErrorCode::kCancelled);
    EXPECT_EQ(out.front(), -1.0F) << "what was left undone is not read";
    sets = cancel = false;
    ASSERT_TRUE(runner_->run().ok()) << "the same graph, once more";
    EXPECT_EQ(out.front(), 20.0F);
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuThreadsTest, ::testing::Values(1, 3));

}  // namespace
}  // namespace pith::cpu_threads_test
