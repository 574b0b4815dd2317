// failing_writes_test.cpp - the k-th write, close or rename of a file fails, for every k: nothing half-written stays, and the
// error is one line.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/gguf_edit.h"
#include "model/random/random_model.h"
#include "tiny_model.h"
#include "train/trainer.h"

namespace {

int n_left = 0;  // calls until one fails; 0: none does
bool fails_now() {
    if (n_left == 0 || --n_left > 0) { return false; }
    errno = ENOSPC;
    return true;
}

template <class F>
F * next_of(const char * name) {
    return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// A program's own definitions come before the library's.
extern "C" {

size_t fwrite(const void * data, size_t size, size_t n, FILE * file) {
    static auto * const next = next_of<size_t(const void *, size_t, size_t, FILE *)>("fwrite");
    if (n == 0 || !fails_now()) { return next(data, size, n, file); }
    const size_t written = next(data, size, n / 2, file);
    errno = ENOSPC;
    return written;
}

int fclose(FILE * file) {
    static auto * const next = next_of<int(FILE *)>("fclose");
    const bool reads = (fcntl(fileno(file), F_GETFL) & O_ACCMODE) == O_RDONLY;  // the number of CPUs is read from a file
    const bool fails = !reads && fails_now();
    const int closed = next(file);
    if (!fails) { return closed; }
    errno = ENOSPC;
    return EOF;
}

int rename(const char * from, const char * to) noexcept {
    if (fails_now()) { return -1; }
    static auto * const next = next_of<int(const char *, const char *)>("rename");
    return next(from, to);
}

}  // extern "C"

namespace pith {
namespace {

using testing::TempFolder;

std::map<std::string, std::vector<char>> files_in(const std::filesystem::path & folder) {
    std::map<std::string, std::vector<char>> files;
    for (const auto & file : std::filesystem::directory_iterator(folder)) {
        files[file.path().filename().string()] = testing::read_file(file.path().string());
    }
    return files;
}

// Returns how often something failed.
int fail_everywhere(const TempFolder & folder, const std::function<Status()> & write) {
    for (int k = 1;; ++k) {
        const auto before = files_in(folder.file(""));
        n_left = k;
        const Status status = write();
        const bool failed = n_left == 0;
        n_left = 0;
        if (!failed) {
            EXPECT_TRUE(status.ok()) << status.message();
            return k - 1;
        }
        EXPECT_EQ(status.code(), ErrorCode::kIo) << "the " << k << "th call";
        EXPECT_NE(status.message().find("No space left"), std::string::npos) << status.message();
        EXPECT_EQ(status.message().find('\n'), std::string::npos);
        EXPECT_TRUE(files_in(folder.file("")) == before) << "the " << k << "th call leaves a file or changes one";
        if (::testing::Test::HasFailure()) { return k; }
    }
}

TEST(FailingWrites, AModelIsThereWithAllItsPartsOrNotAtAll) {
    const TempFolder folder;
    RandomModelSpec spec;
    for (const int n_splits : {1, 3}) {
        spec.n_splits = n_splits;
        const auto write = [&] { return write_random_model(spec, folder.file("model.gguf")); };
        EXPECT_GT(fail_everywhere(folder, write), 10);
    }
}

TEST(FailingWrites, ACheckpointIsTheNewOneOrTheOldOne) {
    const TempFolder folder;
    auto trainer = train::Trainer::make(train::tiny_shape(), {}, 1);
    ASSERT_TRUE(trainer.ok()) << trainer.status().message();
    for (const char * state : {"old", "new"}) {
        EXPECT_GT(fail_everywhere(folder, [&] { return (*trainer)->save(folder.file("checkpoint"), "options", state); }), 10);
    }
    EXPECT_EQ((*trainer)->load(folder.file("checkpoint"), "options").value(), "new");
}

}  // namespace
}  // namespace pith
