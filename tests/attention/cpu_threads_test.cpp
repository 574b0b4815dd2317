// cpu_threads_test.cpp - tasks on ggml's threads: each done once, and a task without memory is an error, not an end.
#include "device/cpu_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "device/backend.h"

namespace pith {
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

INSTANTIATE_TEST_SUITE_P(Threads, CpuThreadsTest, ::testing::Values(1, 3));

}  // namespace
}  // namespace pith
