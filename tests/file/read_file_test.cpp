// read_file_test.cpp - what is too large, or has no end, is refused; everything else comes whole.
#include "file/read_file.h"

#include <gtest/gtest.h>

#include "model/gguf_edit.h"

namespace pith::read_file_test {
namespace {

using testing::TempFolder;

TEST(ReadFile, GivesTheBytesThatAreThere) {
    const TempFolder folder;
    const std::string bytes = std::string(200000, 'x') + std::string("\0\xFF\n", 3);
    std::ofstream(folder.file("a"), std::ios::binary) << bytes;
    EXPECT_EQ(read_file(folder.file("a")).value(), bytes);
    EXPECT_EQ(read_file(folder.file("a"), bytes.size()).value(), bytes) << "just so large";
    std::ofstream(folder.file("empty"), std::ios::binary) << "";
    EXPECT_EQ(read_file(folder.file("empty")).value(), "");
    EXPECT_EQ(read_file("/dev/null").value(), "");
}

TEST(ReadFile, TellsWhatIsNotThereFromWhatCannotBeOpened) {
    EXPECT_EQ(read_file("no/such/file").status().code(), ErrorCode::kNotFound);
    EXPECT_EQ(read_file(std::string(5000, 'a')).status().code(), ErrorCode::kIo) << "a name that is too long";
}

TEST(ReadFile, RefusesWhatIsTooLargeOrHasNoEnd) {
    const TempFolder folder;
    const std::string large = folder.file("large");
    std::ofstream(large, std::ios::binary) << "x";
    std::filesystem::resize_file(large, uint64_t{3} << 30U);  // it takes no room on the disk
    for (const auto & [path, part] :
         {std::pair{large, "has 3072 MiB: more than 1024 MiB are not read"}, {std::string("/dev/zero"), "not a device"}}) {
        const auto read = read_file(path);
        ASSERT_FALSE(read.ok()) << path;
        EXPECT_EQ(read.status().code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(read.status().message().find("'" + path + "'"), std::string::npos) << read.status().message();
        EXPECT_NE(read.status().message().find(part), std::string::npos) << read.status().message();
    }
    std::ofstream(folder.file("two"), std::ios::binary) << std::string(2U << 20U, 'x');
    EXPECT_FALSE(read_file(folder.file("two"), 1U << 20U).ok());
}

TEST(ReadFile, CountsWhatComesThroughAPipe) {
    std::FILE * pipe = popen("yes | head -c 3000000", "r");
    ASSERT_NE(pipe, nullptr);
    const auto read = read_file(pipe, "what is piped in", 1U << 20U);
    EXPECT_EQ(read.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(read.status().message(), "what is piped in does not end after 1 MiB: give less text");
    pclose(pipe);
    pipe = popen("yes | head -c 1000000", "r");
    EXPECT_EQ(read_file(pipe, "what is piped in", 1U << 20U).value().size(), 1000000U);
    pclose(pipe);
}

TEST(ReadFile, NamesWhatIsNotThere) {
    const TempFolder folder;
    EXPECT_EQ(read_file(folder.file("none")).status().code(), ErrorCode::kNotFound);
    EXPECT_EQ(read_file(folder.file("")).status().code(), ErrorCode::kIo) << "a folder";
}

}  // namespace
}  // namespace pith::read_file_test
