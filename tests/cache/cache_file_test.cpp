// cache_file_test.cpp - a cache file whose bytes can no longer be read is an error, and not the end of the process.
#include "cache/cache_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "file/mapped_file.h"
#include "model/gguf_edit.h"

namespace pith::cache_file_test {
namespace {

TEST(CacheFile, WhatCannotBeReadIsAnError) {
    const testing::TempFolder folder;
    const std::string path = folder.file("rows.pith");
    std::vector<uint8_t> rows(size_t{6} << 20U);  // in more than one piece
    std::iota(rows.begin(), rows.end(), uint8_t{0});
    auto file = CacheFileWriter::create(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(file->add("rows", rows).ok());
    ASSERT_TRUE(file->publish().ok());
    {
        const auto whole = CacheFile::open(path);
        ASSERT_TRUE(whole.ok()) << whole.status().message();
        EXPECT_EQ(whole->view().section("rows")->size(), rows.size());
    }
    for (const uint64_t left : {uint64_t{5} << 20U, uint64_t{2} << 20U, uint64_t{100}, uint64_t{0}}) {
        auto opened = MappedFile::open(path, "cache", /*keeps_open=*/true);
        ASSERT_TRUE(opened.ok()) << opened.status().message();
        const auto mapped = std::make_shared<const MappedFile>(std::move(*opened));
        const auto before = std::filesystem::file_size(path);
        std::filesystem::resize_file(path, left);  // as another process does, or a server that it lies on
        const auto view = CacheFileView::parse(mapped->bytes(), path, mapped);
        ASSERT_FALSE(view.ok()) << left;
        EXPECT_EQ(view.status().code(), ErrorCode::kIo) << view.status().message();
        EXPECT_NE(view.status().message().find(path), std::string::npos) << view.status().message();
        std::filesystem::resize_file(path, before);
    }
}

}  // namespace
}  // namespace pith::cache_file_test
