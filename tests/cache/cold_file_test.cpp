// cold_file_test.cpp - what nobody refers to any more takes no room on the disk.
#include "cache/cold_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cache/spill_memory.h"

namespace pith::cold_file_test {
namespace {

// Bytes on disk of all files that this process has open.
int64_t bytes_on_disk() {
    std::map<std::pair<dev_t, ino_t>, int64_t> files;
    for (const auto & entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        struct stat about {};
        if (stat(entry.path().c_str(), &about) == 0 && S_ISREG(about.st_mode)) {
            files[{about.st_dev, about.st_ino}] = int64_t{about.st_blocks} * 512;
        }
    }
    int64_t n = 0;
    for (const auto & [file, bytes] : files) { n += bytes; }
    return n;
}

// Whether the file system of such files takes bytes back from the middle of one.
bool has_holes() {
    const auto descriptor = open_file_without_name();
    if (!descriptor.ok()) { return false; }
    const std::vector<uint8_t> bytes(8192, 1);
    const bool written = write(*descriptor, bytes.data(), bytes.size()) == std::ssize(bytes);
    const bool has = written && fallocate(*descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0;
    close(*descriptor);
    return has;
}

TEST(ColdFile, GivesTheRoomOfWhatNobodyHoldsBackToTheDisk) {
    if (!has_holes()) { GTEST_SKIP() << "the file system of temporary files has no holes"; }
    constexpr size_t kRoom = size_t{1} << 20U;
    const int64_t before = bytes_on_disk();
    auto file = ColdFile::make();
    ASSERT_TRUE(file.ok()) << file.status().message();
    std::vector<std::shared_ptr<const ColdFile::Room>> rooms;
    for (uint8_t i = 0; i < 8; ++i) {
        rooms.push_back((*file)->take_room(kRoom));
        ASSERT_TRUE((*file)->write(rooms.back()->begin(), std::vector<uint8_t>(kRoom, i)).ok());
    }
    const int64_t all = bytes_on_disk() - before;
    EXPECT_GE(all, int64_t{8 * kRoom});
    const auto held_twice = rooms[5];
    for (size_t i = 0; i < 8; ++i) {
        if (i != 3) { rooms[i] = nullptr; }
    }
    const int64_t left = bytes_on_disk() - before;
    EXPECT_LE(left, int64_t{2 * kRoom + (64U << 10U)});
    for (const size_t i : {3U, 5U}) {  // and of what is held nothing has changed
        std::vector<uint8_t> read(kRoom);
        ASSERT_TRUE((*file)->read(i * kRoom, read).ok());
        EXPECT_TRUE(std::ranges::all_of(read, [i](uint8_t byte) { return byte == i; })) << i;
    }
}

}  // namespace
}  // namespace pith::cold_file_test
