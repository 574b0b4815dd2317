// spill_memory_test.cpp - where files for what is put aside come to lie.
#include "cache/spill_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "pith/log.h"

namespace pith::spill_memory_test {
namespace {

// Of this process, as long as this lives. Empty: none.
class TmpDir {
public:
    explicit TmpDir(const std::string & folder) {
        if (const char * now = std::getenv("TMPDIR")) { before_ = now; }
        folder.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", folder.c_str(), 1);
    }
    ~TmpDir() { before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1); }
    TmpDir(const TmpDir &) = delete;
    TmpDir & operator=(const TmpDir &) = delete;

private:
    std::string before_;
};

TEST(SpillMemory, AFolderThatIsNamedIsTakenAndIfItLiesInMemoryAWarningSaysSoOnce) {
    const std::string in_memory = "/dev/shm";
    if (!std::filesystem::is_directory(in_memory) || !lies_in_memory(in_memory)) { GTEST_SKIP() << "there is no tmpfs"; }
    const TmpDir named(in_memory);
    std::vector<std::string> lines;
    set_log_sink([&](LogLevel level, std::string_view line) {
        if (level == LogLevel::kWarning) { lines.emplace_back(line); }
    });
    for (int i = 0; i < 3; ++i) { EXPECT_EQ(spill_folder(), in_memory); }
    const auto spilled = SpillMemory::make(5000, Spill::kFile);
    set_log_sink({});
    ASSERT_TRUE(spilled.ok()) << spilled.status().message();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_NE(lines[0].find("/dev/shm, which lies in memory"), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("TMPDIR"), std::string::npos) << lines[0];
}

TEST(SpillMemory, WithoutAFolderThatIsNamedADiskIsPreferred) {
    const TmpDir none("");
    const std::string folder = spill_folder();
    EXPECT_TRUE(folder == "/tmp" || folder == "/var/tmp" || std::getenv("TMP") != nullptr) << folder;
    if (lies_in_memory("/tmp") && !lies_in_memory("/var/tmp")) { EXPECT_EQ(folder, "/var/tmp"); }
    if (!lies_in_memory("/tmp")) { EXPECT_NE(folder, "/var/tmp"); }
}

TEST(SpillMemory, AFolderThatIsNotThereIsNamed) {
    const TmpDir named("/nowhere/at/all");
    const auto spilled = SpillMemory::make(5000, Spill::kFile);
    ASSERT_FALSE(spilled.ok());
    EXPECT_NE(spilled.status().message().find("TMPDIR"), std::string::npos) << spilled.status().message();
}

}  // namespace
}  // namespace pith::spill_memory_test
