// available_memory_test.cpp - what is left on this machine, and a session that lives in it.
#include "device/available_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "engine/pass/live_session.h"
#include "engine/tiny_model.h"
#include "model/gguf_edit.h"
#include "pith/session.h"

namespace pith::available_memory_test {
namespace {

using testing::random_tokens;
using testing::TempFolder;
using testing::tiny_model;
using testing::tiny_spec;

TEST(AvailableMemory, IsLessByWhatMappedFilesWillWant) {
    const size_t all = available_memory();
    ASSERT_GT(all, size_t{64} << 20U);
    EXPECT_LT(available_memory(all / 2), all * 3 / 4);
    EXPECT_EQ(available_memory(SIZE_MAX), 1U) << "nothing left is not the same as nothing known";
}

// What a child under a limit sees, in whole GiB, at most 255.
int in_limited_child(int resource, size_t bytes, const std::function<size_t()> & look) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{bytes, bytes};
        setrlimit(resource, &limit);
        _exit(static_cast<int>(std::min<size_t>(look() >> 30U, 255)));
    }
    int state = 0;
    waitpid(child, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

// ulimit -v and ulimit -d. Sanitisers map many terabytes of addresses: nothing is left then, which counts as less than 1 GiB.
TEST(AvailableMemory, KeepsToTheLimitsOnAddresses) {
    EXPECT_EQ(available_addresses(), 0U) << "this test wants to start without a limit";
    for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
        EXPECT_LT(in_limited_child(resource, size_t{3} << 30U, [] { return available_memory(); }), 3);
        EXPECT_LT(in_limited_child(resource, size_t{3} << 30U, [] { return available_addresses(); }), 3);
    }
    EXPECT_EQ(in_limited_child(RLIMIT_DATA, size_t{1} << 46U, [] { return available_addresses(); }), 255);
}

// An emptied session's addresses are the next prompt's: there is no room for both.
#if !defined(__SANITIZE_ADDRESS__)
TEST(AvailableMemory, AnEmptiedSessionReadsAgainWithinTheSameAddresses) {
    const Model model = tiny_model(tiny_spec()).value();
    const auto prompt = random_tokens(20, tiny_spec().n_vocab);
    SessionOptions options;
    options.n_threads = 1;
    auto probe = model.session(options);
    ASSERT_TRUE(probe.ok() && probe->prefill(prompt).ok());
    const size_t token_bytes = probe->ledger().kv_full_bytes / prompt.size();
    options.max_context = static_cast<int>((size_t{512} << 20U) / token_bytes);

    const pid_t child = fork();
    if (child == 0) {
        constexpr size_t kAll = size_t{1} << 40U;
        const rlimit all{kAll, kAll};
        setrlimit(RLIMIT_AS, &all);
        const size_t used = kAll - available_addresses();
        const rlimit limit{used + (size_t{800} << 20U), kAll};  // one cache of 512 MiB, and no second
        setrlimit(RLIMIT_AS, &limit);
        auto session = model.session(options);
        if (!session.ok()) { _exit(1); }
        const auto empty = session->snapshot();
        if (!session->prefill(prompt).ok()) { _exit(2); }
        const auto full = session->snapshot();
        if (!session->restore(*empty).ok()) { _exit(3); }
        if (!session->prefill(prompt).ok()) { _exit(4); }
        if (!session->restore(*full).ok()) { _exit(5); }
        _exit(session->n_tokens() == 20 && session->lane_positions(0, 0).size() == 20 ? 0 : 6);
    }
    int state = 0;
    waitpid(child, &state, 0);
    EXPECT_EQ(WIFEXITED(state) ? WEXITSTATUS(state) : -1, 0) << "how far it came";
}
#endif

// A system of files: what /proc and /sys/fs/cgroup would say.
class MemoryFiles : public ::testing::Test {
protected:
    void write(const std::string & path, const std::string & text) const {
        const std::filesystem::path file = root() + path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    // limits: of files whose names are the keys, in MiB where they are numbers.
    void group(const std::string & path, const std::map<std::string, std::string> & files) const {
        for (const auto & [name, text] : files) { write("/sys/fs/cgroup" + path + "/" + name, text + "\n"); }
    }
    static std::string mib(size_t n) { return std::to_string(n << 20U); }
    std::string root() const { return folder_.file("root"); }
    size_t left_mib(size_t mapped_mib = 0) const { return available_memory(mapped_mib << 20U, root()) >> 20U; }
    void SetUp() override { write("/proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 10 kB\nMemAvailable: 4194304 kB\n"); }

    TempFolder folder_;
};

TEST_F(MemoryFiles, WithoutGroupsTheSystemSays) {
    EXPECT_EQ(left_mib(), 4096U);
    EXPECT_EQ(left_mib(1000), 3096U);
    write("/proc/self/cgroup", "0::/\n");
    EXPECT_EQ(left_mib(), 4096U) << "no file of a group is there";
    std::filesystem::remove(root() + "/proc/meminfo");
    EXPECT_EQ(available_memory(0, root()), 0U) << "nothing is known";
}

TEST_F(MemoryFiles, TheSmallestLimitUpTheTreeCountsLessWhatIsUsed) {
    write("/proc/self/cgroup", "0::/user.slice/job\n");
    group("/user.slice/job", {{"memory.max", "max"}, {"memory.high", "max"}, {"memory.current", mib(100)}});
    EXPECT_EQ(left_mib(), 4096U);
    group("/user.slice", {{"memory.max", mib(1000)}, {"memory.current", mib(700)}});
    EXPECT_EQ(left_mib(), 300U);
    group("/user.slice/job", {{"memory.max", mib(256)}});
    EXPECT_EQ(left_mib(), 156U);
    group("/user.slice/job", {{"memory.high", mib(200)}});
    EXPECT_EQ(left_mib(), 100U) << "above it everything slows to a crawl";
    group("", {{"memory.max", mib(90)}, {"memory.current", mib(80)}});
    EXPECT_EQ(left_mib(), 10U) << "in a container the root has limits, too";
    group("", {{"memory.current", mib(95)}});
    EXPECT_EQ(available_memory(0, root()), 1U) << "nothing left is not the same as nothing known";
}

// The kernel drops cached files before it kills; files that are in memory alone it cannot drop.
TEST_F(MemoryFiles, CachedFilesCountAsLeftButTmpfsDoesNot) {
    write("/proc/self/cgroup", "0::/job\n");
    group("/job", {{"memory.max", mib(1000)},
                   {"memory.current", mib(900)},
                   {"memory.stat", "anon " + mib(100) + "\nfile " + mib(800) + "\nshmem " + mib(300) + "\ninactive_file " +
                                       mib(200) + "\nactive_file " + mib(300)}});
    EXPECT_EQ(left_mib(), 600U);
    EXPECT_EQ(left_mib(150), 450U) << "mapped weights want to stay";
    group("/job", {{"memory.stat", "nonsense"}});
    EXPECT_EQ(left_mib(), 100U);
    std::filesystem::remove(root() + "/sys/fs/cgroup/job/memory.current");
    EXPECT_EQ(left_mib(), 1000U) << "a limit without usage is still a limit";
}

TEST_F(MemoryFiles, VersionOneHasOtherNames) {
    write("/proc/self/cgroup", "12:cpu,cpuacct:/\n7:memory:/docker/abc\n1:name=systemd:/memory\n0::/\n");
    group("/memory/docker/abc",
          {{"memory.limit_in_bytes", mib(512)},
           {"memory.usage_in_bytes", mib(400)},
           {"memory.stat", "cache 1\ntotal_inactive_file " + mib(50) + "\ntotal_active_file " + mib(30)}});
    EXPECT_EQ(left_mib(), 192U);
    group("/memory/docker/abc", {{"memory.stat", "hierarchical_memory_limit " + mib(450)}});
    EXPECT_EQ(left_mib(), 50U) << "a limit of a group above that cannot be seen";
    // A container sees its own group as the root, under a path that is not there.
    std::filesystem::remove_all(root() + "/sys/fs/cgroup/memory/docker");
    group("/memory", {{"memory.limit_in_bytes", mib(64)}, {"memory.usage_in_bytes", mib(4)}});
    EXPECT_EQ(left_mib(), 60U);
    group("/memory", {{"memory.limit_in_bytes", "9223372036854771712"}});
    EXPECT_EQ(left_mib(), 4096U) << "how version 1 says: no limit";
}

TEST_F(MemoryFiles, BothVersionsMayBeMounted) {
    write("/proc/self/cgroup", "0::/job\n");
    group("/unified/job", {{"memory.max", mib(70)}, {"memory.current", mib(20)}});
    EXPECT_EQ(left_mib(), 50U);
}

// Lines and paths that mean nothing here.
TEST_F(MemoryFiles, WhatCannotBeUnderstoodIsPassedOver) {
    write("/proc/self/cgroup", "rubbish\n\n0::\n0::/../../outside\n3:memory\n");
    EXPECT_EQ(left_mib(), 4096U);
    write("/proc/self/cgroup", "0::/a//b/\n");
    group("/a", {{"memory.max", mib(30)}, {"memory.current", "no number"}});
    EXPECT_EQ(left_mib(), 30U);
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

// `auto` gathers nothing where it will never have to choose; where the model takes more than memory holds, it may have to.
TEST(BudgetAuto, TakesTheFullCacheWhereMemoryHoldsTheModelsWholeContext) {
    struct Case {
        int n_ctx_train;
        int max_context;
        const char * policy;
    };
    constexpr int kMoreThanAnyMemory = 1 << 30;
    for (const Case & one :
         {Case{2048, 0, "full"}, Case{kMoreThanAnyMemory, 0, "keydiff+ada:alpha=0"}, Case{kMoreThanAnyMemory, 2048, "full"}}) {
        RandomModelSpec spec = tiny_spec();
        spec.n_ctx_train = one.n_ctx_train;
        const Model model = tiny_model(spec).value();
        SessionOptions options;
        options.budget = Budget::parse("auto").value();
        options.max_context = one.max_context;
        options.n_threads = 1;
        auto session = model.session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        ASSERT_TRUE(session->prefill(random_tokens(300, spec.n_vocab)).ok());
        const Ledger & ledger = session->ledger();
        EXPECT_EQ(ledger.policy, one.policy);
        const bool full = ledger.policy == "full";
        EXPECT_EQ(ledger.policy_reason, full ? "memory holds the whole context" : "what will be asked is not known");
        EXPECT_EQ(ledger.evidence_peak_bytes, 0) << "keeping all needs none, and keys by themselves are none";
        EXPECT_EQ(ledger.evicted_entries, 0);
    }
}

// What keeps all may have what memory holds, and no more: refused, with all that is there still there.
TEST(BudgetAuto, WhatKeepsAllEndsWhereMemoryDoes) {
    const Model model = tiny_model(tiny_spec()).value();
    SessionOptions options;
    options.budget = Budget::parse("auto").value();
    options.n_threads = 1;
    auto session = model.session(options);
    ASSERT_TRUE(session.ok() && session->prefill(random_tokens(300, tiny_spec().n_vocab)).ok());
    EXPECT_GT(live_session(*session).seq.plan->capacity, 300);
    live_session(*session).seq.plan->capacity = 302;
    EXPECT_TRUE(session->append(1).ok());
    EXPECT_TRUE(session->append(1).ok());
    const std::vector<float> logits(session->logits().begin(), session->logits().end());
    const Status full = session->append(1);
    EXPECT_EQ(full.code(), ErrorCode::kBudget);
    EXPECT_NE(full.message().find("holds 302 tokens"), std::string::npos) << full.message();
    EXPECT_EQ(session->n_tokens(), 302);
    EXPECT_TRUE(std::ranges::equal(session->logits(), logits));
}

// Snapshots' copies are the budget's, too.
TEST(BudgetAuto, LeavesRoomForSnapshots) {
    const Model model = tiny_model(tiny_spec()).value();
    const auto entries = [&](int n_snapshots) {
        SessionOptions options;
        options.policy = "snapkv:window=8";
        options.budget = Budget::parse("auto").value();
        options.n_threads = 1;
        options.n_snapshots = n_snapshots;
        auto session = model.session(options);
        EXPECT_TRUE(session.ok() && session->prefill(random_tokens(300, tiny_spec().n_vocab)).ok());
        return static_cast<double>(session->ledger().budget_entries);
    };
    EXPECT_NEAR(entries(3) / entries(0), 0.25, 0.05) << "give or take what the machine does meanwhile";
    SessionOptions wrong;
    wrong.n_snapshots = -1;
    EXPECT_EQ(model.session(wrong).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pith::available_memory_test
