// new_file_test.cpp - files that appear whole or not at all.
#include "file/new_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <memory>

#include "file/write_file.h"
#include "model/gguf_edit.h"

namespace pith {
namespace {

using testing::read_file;
using testing::TempFolder;

std::string text_of(const std::string & path) {
    const std::vector<char> bytes = read_file(path);
    return {bytes.begin(), bytes.end()};
}
bool is_there(const std::string & path) {
    return std::filesystem::exists(path);
}

TEST(NewFile, WhatIsNotPublishedLeavesWhatWasThereAndNothingElse) {
    const TempFolder folder;
    const std::string path = folder.file("f");
    ASSERT_TRUE(write_file(path, "old").ok());
    {
        auto file = NewFile::create(path);
        ASSERT_TRUE(file.ok() && file->write("new", 3).ok() && file->close().ok());
        EXPECT_TRUE(is_there(path + ".tmp"));
    }
    EXPECT_FALSE(is_there(path + ".tmp"));
    EXPECT_EQ(text_of(path), "old");
    auto file = NewFile::create(path, ".mine");
    ASSERT_TRUE(file.ok() && file->write("new", 3).ok());
    EXPECT_TRUE(is_there(path + ".mine"));
    EXPECT_TRUE(file->publish().ok());
    EXPECT_FALSE(is_there(path + ".mine"));
    EXPECT_EQ(text_of(path), "new");
}

TEST(NewFile, BytesBehindARewindGoOverTheFirstOnes) {
    const TempFolder folder;
    auto file = NewFile::create(folder.file("f"));
    ASSERT_TRUE(file.ok() && file->write("head and rest", 13).ok() && file->rewind().ok() && file->write("HEAD", 4).ok());
    ASSERT_TRUE(file->publish().ok());
    EXPECT_EQ(text_of(folder.file("f")), "HEAD and rest");
}

TEST(NewFile, AFailureNamesThePathAndTheReason) {
    const TempFolder folder;
    const Status no_folder = write_file(folder.file("no/f"), "x");
    EXPECT_EQ(no_folder.code(), ErrorCode::kIo);
    EXPECT_EQ(no_folder.message(), "'" + folder.file("no/f") + "' cannot be written: No such file or directory");
    ASSERT_TRUE(std::filesystem::create_directory(folder.file("taken")));
    EXPECT_EQ(write_file(folder.file("taken"), "x").message(),
              "'" + folder.file("taken") + "' cannot be written: Is a directory");
    EXPECT_FALSE(is_there(folder.file("taken.tmp")));

    ASSERT_TRUE(write_file(folder.file("f"), "old").ok());
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, before.rlim_max};  // writing past it fails as a full disk does
    setrlimit(RLIMIT_FSIZE, &small);
    const Status full = write_file(folder.file("f"), std::string(100000, 'x'));
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(full.message(), "'" + folder.file("f") + "' cannot be written: File too large");
    EXPECT_EQ(text_of(folder.file("f")), "old");
    EXPECT_FALSE(is_there(folder.file("f.tmp")));
}

TEST(WriteGguf, WritesWhatGgmlWrites) {
    const TempFolder folder;
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), &gguf_free);
    gguf_set_val_str(gguf.get(), "general.architecture", "none");
    ASSERT_TRUE(write_gguf(folder.file("empty.gguf"), gguf.get(), {}).ok());
    ASSERT_TRUE(gguf_write_to_file(gguf.get(), folder.file("of-ggml.gguf").c_str(), false));
    EXPECT_EQ(read_file(folder.file("empty.gguf")), read_file(folder.file("of-ggml.gguf")));

    const std::unique_ptr<ggml_context, decltype(&ggml_free)> ctx(ggml_init({size_t{1} << 16, nullptr, false}), &ggml_free);
    std::vector<const void *> data;
    for (const int n : {8, 5, 1}) {  // whole and cut alignments
        ggml_tensor * tensor = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, n, 2);
        ggml_set_name(tensor, ("of-" + std::to_string(n)).c_str());
        for (int i = 0; i < 2 * n; ++i) { static_cast<float *>(tensor->data)[i] = static_cast<float>(n + i); }
        gguf_add_tensor(gguf.get(), tensor);
        data.push_back(tensor->data);
    }
    ASSERT_TRUE(write_gguf(folder.file("ours.gguf"), gguf.get(), data).ok());
    ASSERT_TRUE(gguf_write_to_file(gguf.get(), folder.file("of-ggml.gguf").c_str(), false));
    EXPECT_EQ(read_file(folder.file("ours.gguf")), read_file(folder.file("of-ggml.gguf")));
}

}  // namespace
}  // namespace pith
