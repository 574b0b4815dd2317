// mapped_file_test.cpp - the same bytes, whether they are copied or read where they are mapped.
#include "file/mapped_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "model/gguf_edit.h"

namespace pith::mapped_file_test {
namespace {

TEST(MappedFile, ReadsWhatIsMapped) {
    const testing::TempFolder folder;
    std::vector<char> written(100000);
    for (size_t i = 0; i < written.size(); ++i) { written[i] = static_cast<char>(i * i / 7); }
    testing::write_file(folder.file("a"), written);
    for (const bool keeps_open : {false, true}) {
        const auto file = MappedFile::open(folder.file("a"), "model", keeps_open);
        ASSERT_TRUE(file.ok());
        std::array<uint8_t, 5000> buffer{};
        for (const size_t offset : {size_t{0}, size_t{4097}, written.size() - buffer.size()}) {
            const auto read = file->read(offset, buffer);
            EXPECT_TRUE(std::ranges::equal(read, file->bytes().subspan(offset, buffer.size()))) << offset;
            EXPECT_EQ(read.data() == buffer.data(), keeps_open) << "copied only where the file was kept open";
            buffer.fill(0);
            ASSERT_TRUE(file->copy(offset, buffer).ok());
            EXPECT_TRUE(std::ranges::equal(buffer, file->bytes().subspan(offset, buffer.size()))) << offset;
        }
    }
}

// Where the mapping would end the process, a copy says what is wrong.
TEST(MappedFile, SaysWhereItCannotBeReadAnyMore) {
    const testing::TempFolder folder;
    testing::write_file(folder.file("a"), std::vector<char>(100000, 'x'));
    const auto file = MappedFile::open(folder.file("a"), "model", /*keeps_open=*/true);
    ASSERT_TRUE(file.ok());
    std::filesystem::resize_file(folder.file("a"), 5000);
    std::array<uint8_t, 3000> buffer{};
    EXPECT_TRUE(file->copy(2000, buffer).ok());
    const Status status = file->copy(50000, buffer);
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_NE(status.message().find("shorter"), std::string::npos) << status.message();
}

// The descriptor goes with the mapping: moved, it is closed once, and with the last of them.
TEST(MappedFile, IsKeptOpenAsLongAsItIsMapped) {
    const testing::TempFolder folder;
    testing::write_file(folder.file("a"), {'a', 'b'});
    const auto n_open = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    const auto before = n_open();
    {
        auto file = MappedFile::open(folder.file("a"), "model", true);
        ASSERT_TRUE(file.ok());
        MappedFile moved = std::move(*file);
        EXPECT_EQ(n_open(), before + 1);
        auto other = MappedFile::open(folder.file("a"), "model", true);
        ASSERT_TRUE(other.ok());
        moved = std::move(*other);
        EXPECT_EQ(n_open(), before + 1);
        std::array<uint8_t, 1> buffer{};
        EXPECT_EQ(moved.read(1, buffer)[0], 'b');
    }
    EXPECT_EQ(n_open(), before);
}

}  // namespace
}  // namespace pith::mapped_file_test
