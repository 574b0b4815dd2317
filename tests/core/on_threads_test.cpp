// on_threads_test.cpp - parts of a piece of work, with threads that cannot be had and parts that throw.
#include "core/on_threads.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <vector>

namespace {

std::atomic<int> n_threads_left{1 << 20};
std::atomic<int> n_refused{0};

}  // namespace

// A program's own definition comes before the library's.
extern "C" int pthread_create(pthread_t * thread, const pthread_attr_t * attributes, void * (*run)(void *), void * argument) {
    if (n_threads_left.fetch_sub(1) <= 0) {
        ++n_refused;
        return EAGAIN;
    }
    using Create = int(pthread_t *, const pthread_attr_t *, void * (*)(void *), void *);
    static auto * const next = reinterpret_cast<Create *>(dlsym(RTLD_NEXT, "pthread_create"));
    return next(thread, attributes, run, argument);
}

namespace pith::on_threads_test {
namespace {

constexpr int kParts = 5;

TEST(OnThreads, EveryPartRunsOnceHoweverManyThreadsThereAre) {
    for (int n_more = 0; n_more < kParts; ++n_more) {
        n_threads_left = n_more;
        n_refused = 0;
        std::vector<std::atomic<int>> n_runs(kParts);
        const Status status = on_threads(kParts, [&](int i) -> Status {
            ++n_runs[static_cast<size_t>(i)];
            return {};
        });
        EXPECT_TRUE(status.ok()) << status.message();
        for (const auto & n : n_runs) { EXPECT_EQ(n, 1) << n_more << " threads"; }
        EXPECT_EQ(n_refused, n_more < kParts - 1 ? 1 : 0) << n_more << " threads";  // one refusal, and no more are asked for
    }
    n_threads_left = 1 << 20;
}

TEST(OnThreads, WhatAPartThrowsIsAnErrorAndTheLowestPartsComesFirst) {
    std::atomic<int> n_done = 0;
    const Status status = on_threads(kParts, [&](int i) -> Status {
        ++n_done;
        if (i == 2) { throw std::bad_alloc(); }
        if (i == 3) { throw std::runtime_error("no"); }
        return {};
    });
    EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
    EXPECT_EQ(n_done, kParts);
}

TEST(OnThreads, NoPartIsNoWork) {
    EXPECT_TRUE(on_threads(0, [](int) -> Status { return {ErrorCode::kInternal, "called"}; }).ok());
}

}  // namespace
}  // namespace pith::on_threads_test
