// available_memory_test.cpp - what is left on this machine, and a session that lives in it.
#include "engine/available_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/tiny_model.h"
#include "pith/session.h"

namespace pith {
namespace {

using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

TEST(AvailableMemory, IsLessByWhatMappedFilesWillWant) {
    const size_t all = available_memory();
    ASSERT_GT(all, size_t{64} << 20U);
    EXPECT_LT(available_memory(all / 2), all * 3 / 4);
    EXPECT_EQ(available_memory(SIZE_MAX), 1U) << "nothing left is not the same as nothing known";
}

// ulimit -v: told, and kept to. In a child, whose limit goes with it.
TEST(AvailableMemory, KeepsToTheAddressSpaceLimit) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{size_t{8} << 30U, size_t{8} << 30U};
        setrlimit(RLIMIT_AS, &limit);
        const size_t left = available_memory();
        _exit(left > 0 && left < (size_t{8} << 30U) ? 0 : 1);
    }
    int state = 0;
    waitpid(child, &state, 0);
    EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST(BudgetAuto, EvictsNothingWhileTheMemoryHoldsAll) {
    const Model model = tiny_model(tiny_spec()).value();
    for (const char * policy : {"full", "snapkv:window=8"}) {
        SessionOptions options;
        options.policy = policy;
        options.budget = Budget::parse("auto").value();
        options.n_threads = 1;
        auto session = model.session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        ASSERT_TRUE(session->prefill(random_tokens(300, tiny_spec().n_vocab)).ok());
        EXPECT_EQ(session->ledger().evicted_entries, 0);
        EXPECT_EQ(session->lane_positions(0, 0).size(), 300U);
    }
}

}  // namespace
}  // namespace pith
