// can_write_test.cpp - whether a file can be written is known before it is.
#include "file/can_write.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "model/gguf_edit.h"

namespace pith::can_write_test {
namespace {

using testing::TempFolder;

TEST(CanWrite, LeavesEverythingAsItWas) {
    const TempFolder folder;
    EXPECT_TRUE(check_can_write(folder.file("new")).ok());
    EXPECT_TRUE(std::filesystem::is_empty(folder.file("")));
    std::ofstream(folder.file("old")) << "precious";
    EXPECT_TRUE(check_can_write(folder.file("old")).ok());
    EXPECT_EQ(testing::read_file(folder.file("old")).size(), 8U);
}

// Not for a moment, either: whoever is killed then would leave it.
TEST(CanWrite, ShowsNoFileMeanwhile) {
    const TempFolder folder;
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ASSERT_GE(watch, 0);
    ASSERT_GE(inotify_add_watch(watch, folder.file("").c_str(), IN_CREATE | IN_DELETE | IN_MOVE), 0);
    char events[4096];
    EXPECT_TRUE(check_can_write(folder.file("new")).ok());
    EXPECT_LT(read(watch, events, sizeof(events)), 0);
    std::ofstream(folder.file("other")) << "seen";
    EXPECT_GT(read(watch, events, sizeof(events)), 0);
    close(watch);
}

TEST(CanWrite, NamesThePathAndTheReason) {
    const TempFolder folder;
    for (const std::string & path :
         {folder.file("none/file"), std::string("/proc/file"), folder.file("."), folder.file(std::string(253, 'x'))}) {
        const Status status = check_can_write(path);
        EXPECT_EQ(status.code(), ErrorCode::kIo) << path;
        EXPECT_NE(status.message().find("'" + path + "' cannot be written: "), std::string::npos) << status.message();
    }
}

}  // namespace
}  // namespace pith::can_write_test
