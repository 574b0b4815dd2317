// cpu_count_test.cpp - how many threads this process is worth.
#include "device/cpu_count.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "model/gguf_edit.h"

namespace pith::cpu_count_test {
namespace {

using testing::TempFolder;

int in_child(const std::function<int()> & look) {
    const pid_t child = fork();
    if (child == 0) { _exit(std::min(look(), 255)); }
    int state = 0;
    waitpid(child, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

// In a child that may run on the first n of its CPUs, where there are as many.
int on_cpus(int n, const std::string & root) {
    return in_child([&] {
        cpu_set_t mine;
        cpu_set_t fewer;
        CPU_ZERO(&fewer);
        if (sched_getaffinity(0, sizeof(mine), &mine) != 0) { return 0; }
        for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&fewer) < n; ++cpu) {
            if (CPU_ISSET(cpu, &mine)) { CPU_SET(cpu, &fewer); }
        }
        if (CPU_COUNT(&fewer) < n || sched_setaffinity(0, sizeof(fewer), &fewer) != 0) { return 0; }
        return available_cpus(root);
    });
}

// A system of files: what /proc and /sys/fs/cgroup would say.
class CpuCount : public ::testing::Test {
protected:
    void write(const std::string & path, const std::string & text) const {
        const std::filesystem::path file = root() + path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    void group(const std::string & file, const std::string & text) const { write("/sys/fs/cgroup" + file, text + "\n"); }
    std::string root() const { return folder_.file("root"); }
    int count() const { return available_cpus(root()); }
    void needs(int n) const {
        if (all_ < n) { GTEST_SKIP() << "this machine has " << all_ << " CPUs for us, and " << n << " are needed"; }
    }

    TempFolder folder_;
    int all_ = available_cpus(root());  // no groups there
};

TEST_F(CpuCount, FollowsTheAffinity) {
    EXPECT_GE(all_, 1);
    EXPECT_EQ(on_cpus(1, root()), 1);
    if (all_ >= 2) { EXPECT_EQ(on_cpus(2, root()), 2); }
    EXPECT_LE(available_cpus(), all_) << "groups only take away";
}

TEST_F(CpuCount, TheSmallestQuotaUpTheTreeCounts) {
    needs(2);
    if (IsSkipped()) { return; }
    write("/proc/self/cgroup", "0::/user.slice/job\n");
    EXPECT_EQ(count(), all_) << "no file of a group is there";
    group("/user.slice/job/cpu.max", "max 100000");
    EXPECT_EQ(count(), all_);
    group("/user.slice/job/cpu.max", "100000 100000");
    EXPECT_EQ(count(), 1);
    group("/user.slice/job/cpu.max", "9000000 100000");
    EXPECT_EQ(count(), std::min(all_, 90));
    group("/user.slice/cpu.max", "20000 100000");
    EXPECT_EQ(count(), 1) << "less than one CPU is still a thread";
    group("/user.slice/cpu.max", "101000 100000");
    EXPECT_EQ(count(), 2) << "a part of a CPU is worth a thread";
    group("/cpu.max", "50000 50000");
    EXPECT_EQ(count(), 1) << "in a container the root has limits, too";
}

TEST_F(CpuCount, VersionOneHasOtherNames) {
    needs(2);
    if (IsSkipped()) { return; }
    write("/proc/self/cgroup", "7:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n3:cpuset:/x\n0::/\n");
    group("/cpu/docker/abc/cpu.cfs_quota_us", "-1");
    group("/cpu/docker/abc/cpu.cfs_period_us", "100000");
    group("/memory/docker/abc/cpu.cfs_quota_us", "10000");
    group("/memory/docker/abc/cpu.cfs_period_us", "100000");
    EXPECT_EQ(count(), all_) << "the memory controller's folders say nothing of CPUs";
    group("/cpu/docker/abc/cpu.cfs_quota_us", "100000");
    EXPECT_EQ(count(), 1);
    // A container sees its own group as the root; not everywhere is there a folder of the short name.
    std::filesystem::remove_all(root() + "/sys/fs/cgroup/cpu");
    EXPECT_EQ(count(), all_);
    group("/cpu,cpuacct/cpu.cfs_quota_us", "50000");
    group("/cpu,cpuacct/cpu.cfs_period_us", "100000");
    EXPECT_EQ(count(), 1);
}

TEST_F(CpuCount, WhatCannotBeUnderstoodIsPassedOver) {
    write("/proc/self/cgroup", "rubbish\n\n0::\n0::/../../outside\n4:cpu\n0::/a\n");
    for (const char * text : {"", "max", "nonsense 100000", "100000", "100000 0", "-5 100000", "0 100000", "100000 -1"}) {
        group("/a/cpu.max", text);
        EXPECT_EQ(count(), all_) << text;
    }
}

}  // namespace
}  // namespace pith::cpu_count_test
