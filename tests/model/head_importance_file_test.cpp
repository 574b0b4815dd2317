// head_importance_file_test.cpp - importances come back as they were written, and every way a file may be wrong has its line.
#include "model/head_importance_file.h"
#include "model/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/parts/model_parts.h"
#include "engine/tiny_model.h"

namespace pith::head_importance_file_test {
namespace {

using testing::scratch_file;
using testing::tiny_model;
using testing::tiny_spec;
using Json = nlohmann::ordered_json;

std::string read(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

class HeadImportanceFile : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        auto model = tiny_model(tiny_spec());
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = new Model(*model);
    }
    static void TearDownTestSuite() {
        delete model_;
        model_ = nullptr;
    }
    static HeadImportance some_heads() {
        HeadImportance heads;
        for (int i = 0; i < 12; ++i) {  // 3 layers of 4 heads
            heads.copy.push_back(0.125 * i);
            heads.reason.push_back(1.0 / (1 + i));
        }
        return heads;
    }
    static std::string save(const std::string & name, const HeadImportance & heads) {
        const std::string path = scratch_file(name);
        const Status status = save_head_importance(path, heads, {.count = 5, .lengths = {256}, .seed = 7}, file_of(*model_));
        EXPECT_TRUE(status.ok()) << status.message();
        return path;
    }
    static Status load(const std::string & path) { return load_head_importance(path, file_of(*model_)).status(); }
    // A good file after `change`.
    static Status load_changed(const std::function<void(Json &)> & change) {
        const std::string path = save("changed.json", some_heads());
        Json json = Json::parse(read(path));
        change(json);
        std::ofstream(path) << json.dump();
        return load(path);
    }
    static void expect(const Status & status, ErrorCode code, const std::vector<std::string> & words) {
        EXPECT_EQ(status.code(), code) << status.message();
        EXPECT_EQ(status.message().find('\n'), std::string::npos);
        for (const std::string & word : words) {
            EXPECT_NE(status.message().find(word), std::string::npos) << word << " in: " << status.message();
        }
    }
    static Model * model_;
};

Model * HeadImportanceFile::model_ = nullptr;

TEST_F(HeadImportanceFile, ComesBackAsItWasWritten) {
    const HeadImportance heads = some_heads();
    const auto loaded = load_head_importance(save("same.json", heads), file_of(*model_));
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_EQ((*loaded)->copy, heads.copy);
    for (size_t i = 0; i < heads.reason.size(); ++i) { EXPECT_NEAR((*loaded)->reason[i], heads.reason[i], 5e-5); }
}

TEST_F(HeadImportanceFile, SaysHowItWasMade) {
    const Json json = Json::parse(read(save("how.json", some_heads())));
    EXPECT_EQ(json["pith_heads"], 1);
    EXPECT_EQ(json["probes"]["count"], 5);
    EXPECT_EQ(json["probes"]["lengths"], Json({256}));
    EXPECT_EQ(json["probes"]["seed"], 7);
    EXPECT_EQ(json["probes"]["file"], std::filesystem::path(model_->info().path).filename().string());
    EXPECT_EQ(json["model"]["n_layers"], 3);
    EXPECT_EQ(json["model"]["norms_hash"], file_of(*model_).norms_hash());
    EXPECT_EQ(json["model"]["norm_hash"], norm_hash(file_of(*model_)));
}

TEST_F(HeadImportanceFile, ThatDoesNotExistIsNamed) {
    expect(load("nowhere.json"), ErrorCode::kNotFound, {"nowhere.json", "pith calibrate heads"});
}

TEST_F(HeadImportanceFile, CutOffIsNotWholeJson) {
    const std::string path = save("cut.json", some_heads());
    const std::string text = read(path);
    for (const size_t size : {text.size() / 2, text.size() - 3, size_t{1}, size_t{0}}) {
        std::ofstream(path, std::ios::trunc) << text.substr(0, size);
        expect(load(path), ErrorCode::kBadFile, {"cut.json", "not whole JSON"});
    }
}

TEST_F(HeadImportanceFile, BrokenNamesThePlace) {
    const std::string path = scratch_file("broken.json");
    std::ofstream(path, std::ios::trunc) << "{\n  \"pith_heads\": 1\n  \"model\": {}}";
    expect(load(path), ErrorCode::kBadFile,
           {"broken.json", "not whole JSON (line 3, byte 3: ',' or '}' belongs here, not '\"')"});
    std::ofstream(path, std::ios::trunc) << R"({"pith_heads": 1e999})";
    expect(load(path), ErrorCode::kBadFile, {"a number that is too large"});
}

// Whoever compares, copies or prints such a value runs out of stack.
TEST_F(HeadImportanceFile, NestedWithoutEndIsRefused) {
    const std::string deep = std::string(100000, '[') + std::string(100000, ']');
    for (const std::string before : {R"({"pith_heads":)", R"({"pith_heads":1,"model":)", R"({"pith_heads":1,"copy":)"}) {
        const std::string path = scratch_file("deep.json");
        std::ofstream(path, std::ios::trunc) << before << deep << "}";
        expect(load(path), ErrorCode::kBadFile, {"deep.json", "nested deeper than 200"});
    }
}

TEST_F(HeadImportanceFile, WithoutEndIsRefused) {
    expect(load("/dev/zero"), ErrorCode::kInvalidArgument, {"/dev/zero", "not a device"});
}

TEST_F(HeadImportanceFile, OfSomethingElseIsRefused) {
    for (const char * text : {"[]", "{}", "3", R"({"layers": 3})"}) {
        const std::string path = scratch_file("else.json");
        std::ofstream(path, std::ios::trunc) << text;
        expect(load(path), ErrorCode::kBadFile, {"is not a file of head importances"});
    }
    expect(load_changed([](Json & json) { json["pith_heads"] = 2; }), ErrorCode::kBadFile, {"version 2"});
}

TEST_F(HeadImportanceFile, OfAnotherModelNamesTheNumberThatDiffers) {
    for (const char * key : {"n_layers", "n_heads", "n_kv_heads", "head_dim", "n_embd", "n_vocab", "n_params"}) {
        const Status status = load_changed([key](Json & json) { json["model"][key] = 77; });
        expect(status, ErrorCode::kInvalidArgument, {key, "is 77", "another model"});
    }
    expect(load_changed([](Json & json) { json["model"]["architecture"] = "gpt"; }), ErrorCode::kInvalidArgument,
           {"architecture", "gpt", "llama"});
}

TEST_F(HeadImportanceFile, OfTheSameShapeWithOtherWeightsIsRefused) {
    RandomModelSpec spec = tiny_spec();
    spec.seed = 2;
    const auto other = tiny_model(spec);
    ASSERT_TRUE(other.ok());
    const auto loaded = load_head_importance(save("weights.json", some_heads()), file_of(*other));
    expect(loaded.status(), ErrorCode::kInvalidArgument, {"norm_hash"});
}

// Files that were written before there was such a hash lack it, and are read.
TEST_F(HeadImportanceFile, OfOtherNormsIsRefusedWhereItSaysWhichTheyWere) {
    expect(load_changed([](Json & json) { json["model"]["norms_hash"] = "0123456789abcdef"; }), ErrorCode::kInvalidArgument,
           {"norms_hash", "another model"});
    EXPECT_TRUE(load_changed([](Json & json) { json["model"].erase("norms_hash"); }).ok());
}

TEST_F(HeadImportanceFile, ServesEveryQuantisationOfItsModel) {
    RandomModelSpec spec = tiny_spec();
    spec.weight_type = "q8_0";
    const auto quantised = tiny_model(spec);
    ASSERT_TRUE(quantised.ok());
    const auto loaded = load_head_importance(save("quantised.json", some_heads()), file_of(*quantised));
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
}

TEST_F(HeadImportanceFile, WithoutAFieldNamesIt) {
    expect(load_changed([](Json & json) { json.erase("model"); }), ErrorCode::kBadFile, {"which model"});
    expect(load_changed([](Json & json) { json["model"].erase("n_vocab"); }), ErrorCode::kBadFile, {"n_vocab"});
    expect(load_changed([](Json & json) { json.erase("copy"); }), ErrorCode::kBadFile, {"'copy'"});
    expect(load_changed([](Json & json) { json["reason"] = 1; }), ErrorCode::kBadFile, {"'reason'"});
}

TEST_F(HeadImportanceFile, OfWrongLengthsSaysWhere) {
    expect(load_changed([](Json & json) { json["copy"].erase(0); }), ErrorCode::kBadFile, {"2 layers", "'copy'"});
    expect(load_changed([](Json & json) { json["reason"][1].push_back(0.5); }), ErrorCode::kBadFile,
           {"5 heads", "'reason', layer 1"});
    expect(load_changed([](Json & json) { json["reason"][2] = 0.5; }), ErrorCode::kBadFile, {"'reason', layer 2"});
}

TEST_F(HeadImportanceFile, WithANegativeOrNonFiniteNumberSaysWhere) {
    expect(load_changed([](Json & json) { json["copy"][2][3] = -0.5; }), ErrorCode::kBadFile,
           {"-0.5", "head 3", "'copy', layer 2"});
    expect(load_changed([](Json & json) { json["reason"][0][1] = nullptr; }), ErrorCode::kBadFile,
           {"null", "head 1", "'reason', layer 0"});
    expect(load_changed([](Json & json) { json["reason"][0][1] = "much"; }), ErrorCode::kBadFile, {"much"});
}

TEST_F(HeadImportanceFile, IsNotWrittenWithWrongNumbers) {
    HeadImportance heads = some_heads();
    heads.copy[3] = std::numeric_limits<double>::quiet_NaN();
    const std::string path = scratch_file("never.json");
    expect(save_head_importance(path, heads, {}, file_of(*model_)), ErrorCode::kInvalidArgument, {"copy", "head 3"});
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
    expect(save_head_importance("no/such/folder/h.json", some_heads(), {}, file_of(*model_)), ErrorCode::kIo,
           {"no/such/folder/h.json"});
}

TEST_F(HeadImportanceFile, LiesBesideItsModel) {
    EXPECT_EQ(default_heads_path("models/a.gguf"), "models/a.heads.json");
    EXPECT_EQ(default_heads_path("a-00001-of-00003.gguf"), "a.heads.json");
    EXPECT_EQ(default_heads_path("-00001-of-00003.gguf"), "-00001-of-00003.heads.json");
    EXPECT_EQ(default_heads_path("a-0000x-of-00003.gguf"), "a-0000x-of-00003.heads.json");
    EXPECT_EQ(default_heads_path("model"), "model.heads.json");
}

TEST_F(HeadImportanceFile, IsCheckedWhenASessionIsMade) {
    SessionOptions options;
    options.policy = "headkv";
    options.budget = 64;
    options.heads_file = save("session.json", some_heads());
    EXPECT_TRUE(model_->session(options).ok());
    options.heads_file = "nowhere.json";
    expect(model_->session(options).status(), ErrorCode::kNotFound, {"nowhere.json"});
    options.policy = "auto";
    expect(model_->session(options).status(), ErrorCode::kNotFound, {"nowhere.json"});
    options.policy = "snapkv";
    EXPECT_TRUE(model_->session(options).ok()) << "it has no use for them, and reads none";
    options.observe = {"headkv"};
    expect(model_->session(options).status(), ErrorCode::kNotFound, {"nowhere.json"});
    options = {};
    auto heads = std::make_shared<HeadImportance>(some_heads());
    options.heads = heads;
    EXPECT_TRUE(model_->session(options).ok());
    heads->reason.pop_back();
    expect(model_->session(options).status(), ErrorCode::kInvalidArgument, {"11 reason scores", "12 query heads"});
}

}  // namespace
}  // namespace pith::head_importance_file_test
