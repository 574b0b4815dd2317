// failing_writes_test.cpp - the k-th write, close or rename of a file fails, for every k: nothing half-written stays, and the
// error is one line.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "file/failing_files.h"
#include "model/gguf_edit.h"
#include "model/random/random_model.h"
#include "tiny_model.h"
#include "train/trainer.h"
#include "train/training_curve.h"

namespace pith::failing_writes_test {
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
        testing::fail_files_at(k);
        const Status status = write();
        const bool failed = testing::stop_failing_files();
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

// Rows that were there stay, no half one is read, and the next run goes on.
TEST(FailingWrites, ATrainingCurveHasWholeRowsAndGoesOn) {
    using train::TrainingCurve;
    const TempFolder folder;
    const std::string path = folder.file("curve.csv");
    const auto n_rows = [&path] {
        const auto points = train::read_curve(path);
        EXPECT_TRUE(points.ok()) << points.status().message();
        return points.ok() ? points->size() : 0;
    };
    int n_failed = 0;
    for (const bool stays_full : {false, true}) {
        std::filesystem::remove(path);
        ASSERT_TRUE(TrainingCurve::open(path, 0)->append({{1, 100, 64, "loss", 2.5}, {1, 100, 64, "held-out loss", 3.5}}).ok());
        for (int k = 1;; ++k) {
            testing::fail_files_at(k, stays_full);
            Status status;
            {
                auto curve = TrainingCurve::open(path, 1);
                status = curve.ok() ? curve->append({{2, 200, 64, "loss", 1.125}, {2, 200, 64, "held-out loss", 1.25}})
                                    : curve.status();
            }
            if (!testing::stop_failing_files()) {
                ASSERT_TRUE(status.ok()) << status.message();
                break;
            }
            ++n_failed;
            ASSERT_EQ(status.code(), ErrorCode::kIo) << "the " << k << "th call";
            EXPECT_EQ(status.message(), "'" + path + "' cannot be written: No space left on device");
            const size_t n = n_rows();
            // 4: all were written, and the disk could not say so. 3: nor could the half piece be cut off.
            EXPECT_TRUE(n == 2 || n == 4 || (stays_full && n == 3)) << n;
            EXPECT_EQ(files_in(folder.file("")).size(), 1U) << "the " << k << "th call leaves a file";
        }
        EXPECT_EQ(n_rows(), 4U);
        EXPECT_EQ(train::read_curve(path)->back().value, 1.25);
    }
    EXPECT_GT(n_failed, 8);
}

}  // namespace
}  // namespace pith::failing_writes_test
