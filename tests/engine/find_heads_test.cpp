// find_heads_test.cpp - where importances are looked for, in which order, and what is said where they are not used.
#include "engine/parts/find_heads.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/parts/model_parts.h"
#include "engine/tiny_model.h"
#include "model/head_importance_file.h"
#include "pith/log.h"

namespace pith::find_heads_test {
namespace {

using testing::scratch_file;
using testing::tiny_spec;

std::string read(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// A model, importances of 0.25 "with Pith", and what else a test lays beside it.
class FindHeads : public ::testing::Test {
protected:
    void SetUp() override {
        path_ = scratch_file("find-heads-" + std::to_string(n_files_++) + ".gguf");
        ASSERT_TRUE(write_random_model(tiny_spec(), path_).ok());
        auto file = ModelFile::load(path_, {});
        ASSERT_TRUE(file.ok()) << file.status().message();
        file_ = *file;
        text_ = text_of(0.25, *file_);
        set_log_sink([](LogLevel level, std::string_view text) {
            lines_.emplace_back((level == LogLevel::kWarning ? "warning: " : "") + std::string(text));
        });
        lines_.clear();
    }
    void TearDown() override { set_log_sink({}); }

    static std::string text_of(double score, const ModelFile & file) {
        HeadImportance heads;
        heads.copy.assign(12, score);  // 3 layers of 4 heads
        heads.reason.assign(12, score);
        const std::string path = scratch_file("text.json");
        EXPECT_TRUE(save_head_importance(path, heads, {.count = 8, .lengths = {256}, .seed = 7}, file).ok());
        return read(path);
    }
    void lay_beside(const std::string & text) const { std::ofstream(default_heads_path(path_)) << text; }

    std::vector<ShippedHeads> shipped() const { return {{"Tiny", text_}}; }
    KnownHeads find_for_auto(SessionOptions & options) const {
        const auto all = shipped();
        const ModelHeads heads(file_, all);
        const auto known = find_heads_for_auto(heads, options);
        EXPECT_TRUE(known.ok()) << known.status().message();
        return *known;
    }
    Status find_for_headkv(SessionOptions & options) const {
        const auto all = shipped();
        const ModelHeads heads(file_, all);
        return find_heads(heads, *Policy::parse("headkv"), options);
    }
    static bool said(const std::string & words) {
        return std::ranges::any_of(lines_, [&](const auto & line) { return line.find(words) != std::string::npos; });
    }

    static inline int n_files_ = 0;
    static inline std::vector<std::string> lines_;
    std::string path_;
    std::shared_ptr<const ModelFile> file_;
    std::string text_;
};

TEST_F(FindHeads, TakesWhatIsGivenBeforeWhatLiesBesideTheModelBeforeWhatComesWithPith) {
    SessionOptions options;
    EXPECT_EQ(find_for_auto(options), KnownHeads::kShipped);
    EXPECT_EQ(options.heads->copy.front(), 0.25);
    EXPECT_TRUE(said("head importances that come with Pith for Tiny: 8 probes of up to 256 tokens on find-heads-"));
    SessionOptions by_name;
    ASSERT_TRUE(find_for_headkv(by_name).ok());
    EXPECT_EQ(by_name.heads->copy.front(), 0.25);

    lay_beside(text_of(0.5, *file_));
    options = by_name = {};
    EXPECT_EQ(find_for_auto(options), KnownHeads::kBesideModel);
    EXPECT_EQ(options.heads->copy.front(), 0.5);
    ASSERT_TRUE(find_for_headkv(by_name).ok());
    EXPECT_EQ(by_name.heads->copy.front(), 0.5);

    options = by_name = {};
    options.heads_file = by_name.heads_file = scratch_file("given.json");
    std::ofstream(options.heads_file) << text_of(0.75, *file_);
    EXPECT_EQ(find_for_auto(options), KnownHeads::kGiven);
    EXPECT_EQ(options.heads->copy.front(), 0.75);
    ASSERT_TRUE(find_for_headkv(by_name).ok());
    EXPECT_EQ(by_name.heads->copy.front(), 0.75);
}

TEST_F(FindHeads, LooksNowhereForAFileCalledNone) {
    lay_beside(text_of(0.5, *file_));
    SessionOptions options;
    options.heads_file = "none";
    EXPECT_EQ(find_for_auto(options), KnownHeads::kNone);
    EXPECT_EQ(options.heads, nullptr);
    const Status refused = find_for_headkv(options);
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("policy 'headkv' needs head importances, and heads_file none"), std::string::npos)
        << refused.message();
    options.heads =
        std::make_shared<HeadImportance>(HeadImportance{std::vector<double>(12, 1.0), std::vector<double>(12, 1.0)});
    EXPECT_EQ(find_for_auto(options), KnownHeads::kGiven) << "numbers are no file";
}

TEST_F(FindHeads, OfAFineTuneFallsBackAndSaysSo) {
    RandomModelSpec spec = tiny_spec();
    spec.seed = 2;
    ASSERT_TRUE(write_random_model(spec, path_).ok());
    file_ = *ModelFile::load(path_, {});
    SessionOptions options;
    EXPECT_EQ(find_for_auto(options), KnownHeads::kOthers);
    EXPECT_EQ(options.heads, nullptr);
    EXPECT_TRUE(said("policy auto does without head importances: those that come with Pith for Tiny are not for this model"));
    const Status refused = find_for_headkv(options);
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
    for (const char * words :
         {"policy 'headkv' needs head importances; those that come with Pith for Tiny are not for this model",
          "make them with `pith calibrate heads"}) {
        EXPECT_NE(refused.message().find(words), std::string::npos) << refused.message();
    }
}

TEST_F(FindHeads, ThatAreDamagedGiveOneWarningAndAutoDoesWithout) {
    text_.replace(text_.find("\"reason\""), 8, "\"raison\"");
    SessionOptions options;
    EXPECT_EQ(find_for_auto(options), KnownHeads::kNone);
    EXPECT_EQ(options.heads, nullptr);
    ASSERT_EQ(lines_.size(), 1U);
    EXPECT_TRUE(said("warning: policy auto does without head importances: those that come with Pith for Tiny are damaged"))
        << lines_[0];
    EXPECT_EQ(find_for_headkv(options).code(), ErrorCode::kInvalidArgument);
}

// A user's own file that does not fit is no reason to do without.
TEST_F(FindHeads, ADamagedFileBesideTheModelIsPassedOverForWhatComesWithPith) {
    lay_beside("{");
    SessionOptions options;
    EXPECT_EQ(find_for_auto(options), KnownHeads::kShipped);
    EXPECT_EQ(options.heads->copy.front(), 0.25);
    EXPECT_TRUE(said("warning: policy auto does without the head importances beside the model"));
    options = {};
    EXPECT_EQ(find_for_headkv(options).code(), ErrorCode::kBadFile) << "who asks for them by name is told";
    text_ = text_of(0.25, *file_).substr(0, 20);
    options = {};
    EXPECT_EQ(find_for_auto(options), KnownHeads::kUnfit);
}

// Without importances for the model, as ever.
TEST_F(FindHeads, OfAModelThatNoneComeForAreNotMissed) {
    SessionOptions options;
    const ModelHeads heads(file_);
    const auto known = find_heads_for_auto(heads, options);
    ASSERT_TRUE(known.ok());
    EXPECT_EQ(*known, KnownHeads::kNone);
    EXPECT_TRUE(lines_.empty());
}

}  // namespace
}  // namespace pith::find_heads_test
