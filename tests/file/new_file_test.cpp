// new_file_test.cpp - files that appear whole or not at all.
#include "file/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <memory>

#include "file/write_file.h"
#include "model/gguf_edit.h"

namespace pith::new_file_test {
namespace {

using testing::read_file;
using testing::TempFolder;

std::string text_of(const std::string & path) {
    const std::vector<char> bytes = read_file(path);
    return {bytes.begin(), bytes.end()};
}
int64_t n_files_in(const std::string & folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(NewFile, WhatIsNotPublishedLeavesWhatWasThereAndNothingElse) {
    const TempFolder folder;
    const std::string path = folder.file("f");
    ASSERT_TRUE(write_file(path, "old").ok());
    {
        auto file = NewFile::create(path);
        ASSERT_TRUE(file.ok() && file->write("new", 3).ok() && file->close().ok());
    }
    EXPECT_EQ(n_files_in(folder.file("")), 1);
    EXPECT_EQ(text_of(path), "old");
    auto file = NewFile::create(path);
    ASSERT_TRUE(file.ok() && file->write("new", 3).ok());
    EXPECT_EQ(text_of(path), "old");
    EXPECT_TRUE(file->publish().ok());
    EXPECT_EQ(n_files_in(folder.file("")), 1);
    EXPECT_EQ(text_of(path), "new");
}

TEST(NewFile, MayHaveANameAsLongAsNamesMayBe) {
    const TempFolder folder;
    const std::string path = folder.file(std::string(255, 'x'));
    for (const char * text : {"first", "second"}) {
        const Status status = write_file(path, text);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(text_of(path), text);
    }
    EXPECT_EQ(n_files_in(folder.file("")), 1);
}

TEST(NewFile, AProcessThatIsKilledLeavesNothingOfIt) {
    const TempFolder folder;
    const int unnamed = open(folder.file("").c_str(), O_TMPFILE | O_WRONLY, 0600);
    if (unnamed < 0) { GTEST_SKIP() << "the file system has no files without names"; }
    close(unnamed);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto file = NewFile::create(folder.file("f"));
        static_cast<void>(file.ok() && file->write("half", 4).ok() && file->close().ok());
        raise(SIGKILL);
    }
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    ASSERT_TRUE(WIFSIGNALED(state));
    EXPECT_EQ(n_files_in(folder.file("")), 0);
}

TEST(NewFile, FilesThatLieBesideItAreLeftAlone) {
    const TempFolder folder;
    ASSERT_TRUE(write_file(folder.file("f.tmp"), "somebody's").ok());
    for (const char * text : {"first", "second"}) {
        ASSERT_TRUE(write_file(folder.file("f"), text).ok());
        EXPECT_EQ(text_of(folder.file("f")), text);
    }
    EXPECT_EQ(text_of(folder.file("f.tmp")), "somebody's");
    EXPECT_EQ(n_files_in(folder.file("")), 2);
}

TEST(NewFile, IsForWhomTheProcessSays) {
    const TempFolder folder;
    const mode_t before = umask(027);
    const bool written = write_file(folder.file("f"), "x").ok() && write_file(folder.file("f"), "y").ok();
    umask(before);
    ASSERT_TRUE(written);
    struct stat info {};
    ASSERT_EQ(stat(folder.file("f").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0640U);
}

constexpr NewFile::Beginning kBeginning{"MAGIC", 16};

Status write_private(const std::string & path, std::string_view bytes) {
    PITH_ASSIGN_OR_RETURN(NewFile file, NewFile::create_private(path, kBeginning));
    PITH_RETURN_IF_ERROR(file.write(bytes.data(), bytes.size()));
    return file.publish();
}

TEST(NewFile, APrivateOneTakesThePlaceOfWhatItsWritersLeftAlone) {
    const TempFolder folder;
    const std::string path = folder.file("f");
    for (const std::string & left :
         {std::string(), std::string(7, '\0'), std::string(16, '\0') + "rows", std::string("MAGIC and all")}) {
        std::ofstream(path + ".tmp") << left;
        EXPECT_TRUE(NewFile::check_private(path, kBeginning).ok());
        EXPECT_TRUE(write_private(path, "MAGIC").ok()) << left;
        EXPECT_EQ(n_files_in(folder.file("")), 1);
    }
    for (const std::string & others : {std::string("MAGI"), std::string("a letter"), std::string(15, '\0') + "x"}) {
        std::ofstream(path + ".tmp") << others;
        for (const Status & refused : {NewFile::check_private(path, kBeginning), write_private(path, "MAGIC")}) {
            EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
            EXPECT_EQ(refused.message(),
                      "'" + path + "' cannot be written: '" + path +
                          ".tmp', where it would lie until it is whole, is another file: name another one, or "
                          "move that");
        }
        EXPECT_EQ(text_of(path + ".tmp"), others);
        EXPECT_EQ(text_of(path), "MAGIC");
    }
}

TEST(NewFile, APrivateOneNeitherWaitsForAPipeNorFollowsALinkBesideIt) {
    const TempFolder folder;
    ASSERT_EQ(mkfifo(folder.file("pipe.tmp").c_str(), 0600), 0);
    std::filesystem::create_directory(folder.file("folder.tmp"));
    std::filesystem::create_symlink("nothing", folder.file("link.tmp"));
    for (const char * name : {"pipe", "folder", "link"}) {
        EXPECT_EQ(NewFile::check_private(folder.file(name), kBeginning).code(), ErrorCode::kInvalidArgument) << name;
        EXPECT_EQ(write_private(folder.file(name), "MAGIC").code(), ErrorCode::kInvalidArgument) << name;
    }
    EXPECT_FALSE(NewFile::remove_abandoned(folder.file("pipe")));
    EXPECT_EQ(n_files_in(folder.file("")), 3);
}

TEST(NewFile, ASymbolicLinkStaysOneAndItsFileIsWritten) {
    const TempFolder folder;
    std::filesystem::create_directory(folder.file("there"));
    ASSERT_TRUE(write_file(folder.file("there/old"), "old").ok());
    std::filesystem::create_symlink("there/old", folder.file("link"));
    std::filesystem::create_symlink("link", folder.file("link of a link"));
    std::filesystem::create_symlink(folder.file("there/new"), folder.file("to come"));
    ASSERT_TRUE(write_file(folder.file("link"), "first").ok());
    EXPECT_EQ(text_of(folder.file("there/old")), "first");
    ASSERT_TRUE(write_private(folder.file("link of a link"), "second").ok());
    EXPECT_EQ(text_of(folder.file("there/old")), "second");
    ASSERT_TRUE(write_private(folder.file("to come"), "third").ok());
    EXPECT_EQ(text_of(folder.file("there/new")), "third");
    for (const char * name : {"link", "link of a link", "to come"}) {
        EXPECT_TRUE(std::filesystem::is_symlink(folder.file(name))) << name;
    }
    EXPECT_EQ(n_files_in(folder.file("there")), 2);

    std::filesystem::create_symlink("circle", folder.file("circle"));
    const std::string refused = "'" + folder.file("circle") + "' cannot be written: Too many levels of symbolic links";
    EXPECT_EQ(write_file(folder.file("circle"), "x").message(), refused);
    EXPECT_EQ(write_private(folder.file("circle"), "x").message(), refused);
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
    EXPECT_EQ(n_files_in(folder.file("")), 1);

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
    EXPECT_EQ(n_files_in(folder.file("")), 2);
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
}  // namespace pith::new_file_test
