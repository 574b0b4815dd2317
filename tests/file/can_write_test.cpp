// can_write_test.cpp - whether a file can be written is known before it is.
#include "file/can_write.h"

#include <gtest/gtest.h>

#include "model/gguf_edit.h"

namespace pith {
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

TEST(CanWrite, NamesThePathAndTheReason) {
    const TempFolder folder;
    for (const std::string & path : {folder.file("none/file"), std::string("/proc/file"), folder.file(".")}) {
        const Status status = check_can_write(path);
        EXPECT_EQ(status.code(), ErrorCode::kIo) << path;
        EXPECT_NE(status.message().find("'" + path + "' cannot be written: "), std::string::npos) << status.message();
    }
}

}  // namespace
}  // namespace pith
