// random_model_test.cpp - random models are the same every time, and a failure leaves no file.
#include "model/random/random_model.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace pith {
namespace {

namespace fs = std::filesystem;

class RandomModel : public testing::Test {
protected:
    void SetUp() override {
        const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
        folder_ = fs::path(testing::TempDir()) / ("pith_random_model_" + test);
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string path(const std::string & name) const { return folder_ / name; }
    bool folder_is_empty() const { return fs::is_empty(folder_); }
    static std::string bytes(const std::string & path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

private:
    fs::path folder_;
};

TEST_F(RandomModel, IsTheSameForTheSameSeedAndAnotherForAnother) {
    RandomModelSpec spec;
    ASSERT_TRUE(write_random_model(spec, path("a.gguf")).ok());
    ASSERT_TRUE(write_random_model(spec, path("b.gguf")).ok());
    spec.seed = 2;
    ASSERT_TRUE(write_random_model(spec, path("c.gguf")).ok());
    EXPECT_EQ(bytes(path("a.gguf")), bytes(path("b.gguf")));
    EXPECT_NE(bytes(path("a.gguf")), bytes(path("c.gguf")));
}

TEST_F(RandomModel, NamesItsPartsAsSplitFilesAreNamed) {
    RandomModelSpec spec;
    spec.n_splits = 2;
    ASSERT_TRUE(write_random_model(spec, path("m.gguf")).ok());
    EXPECT_TRUE(fs::exists(path("m-00001-of-00002.gguf")));
    EXPECT_TRUE(fs::exists(path("m-00002-of-00002.gguf")));
    EXPECT_FALSE(fs::exists(path("m.gguf")));
}

TEST_F(RandomModel, NamesTheFolderThatCannotBeWritten) {
    const Status status = write_random_model({}, path("missing/m.gguf"));
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_NE(status.message().find("missing/m.gguf' cannot be written: No such file or directory"), std::string::npos)
        << status.message();
}

TEST_F(RandomModel, LeavesNothingBehindWhenTheDiskIsFull) {
    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    rlimit small = old;
    small.rlim_cur = 4096;  // writing past it fails as a full disk does
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status status = write_random_model({}, path("m.gguf"));
    setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_NE(status.message().find("m.gguf"), std::string::npos) << status.message();
    EXPECT_TRUE(folder_is_empty());
}

TEST_F(RandomModel, LeavesNothingBehindWhenCancelled) {
    const Status status = write_random_model({}, path("m.gguf"), [](double fraction) { return fraction < 0.5; });
    EXPECT_EQ(status.code(), ErrorCode::kCancelled);
    EXPECT_TRUE(folder_is_empty());
}

TEST_F(RandomModel, NamesTheFieldThatCannotBe) {
    const auto message = [&](auto change) {
        RandomModelSpec spec;
        change(spec);
        const Status status = write_random_model(spec, path("m.gguf"));
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        return status.message();
    };
    using Spec = RandomModelSpec;
    EXPECT_NE(message([](Spec & spec) { spec.arch = "gpt2"; }).find("'gpt2'"), std::string::npos);
    EXPECT_NE(message([](Spec & spec) { spec.weight_type = "q9"; }).find("'q9'"), std::string::npos);
    EXPECT_NE(message([](Spec & spec) { spec.n_vocab = 10; }).find("n_vocab is 10"), std::string::npos);
    EXPECT_NE(message([](Spec & spec) { spec.n_kv_heads = 3; }).find("n_kv_heads 3"), std::string::npos);
    EXPECT_NE(message([](Spec & spec) { spec.n_splits = 1000; }).find("n_splits is 1000"), std::string::npos);
    EXPECT_TRUE(folder_is_empty());
}

TEST(ShapePreset, NamesTheShapesThereAre) {
    EXPECT_EQ(shape_preset("1b")->n_layers, 16);
    const auto unknown = shape_preset("2b");
    ASSERT_FALSE(unknown.ok());
    EXPECT_NE(unknown.status().message().find("0.5b, 1b, 3b, 8b"), std::string::npos);
}

}  // namespace
}  // namespace pith
