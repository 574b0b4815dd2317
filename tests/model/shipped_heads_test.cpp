// shipped_heads_test.cpp - which models find the head importances that come with Pith, and which do not.
#include "model/shipped_heads.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>

#include "model/adapted_model.h"
#include "model/fingerprint.h"
#include "model/gguf_edit.h"
#include "model/head_importance_file.h"
#include "model/lora_file.h"
#include "model/random/random_model.h"
#include "model/random_lora.h"
#include "pith/log.h"

namespace pith::shipped_heads_test {
namespace {

using Kind = ShippedMatch::Kind;

class ShippedHeadImportances : public ::testing::Test {
protected:
    void SetUp() override {
        spec_.n_layers = 3;
        spec_.n_embd = 256;
        spec_.head_dim = 64;
        spec_.n_ff = 512;
        base_ = write("base.gguf", spec_);
        for (int i = 0; i < 12; ++i) {
            heads_.copy.push_back(0.01 * i);
            heads_.reason.push_back(0.02 * i);
        }
        const HeadProbes probes{.count = 60, .lengths = {1024, 512}, .seed = 7};
        ASSERT_TRUE(save_head_importance(folder_.file("base.json"), heads_, probes, *base_).ok());
        const auto bytes = testing::read_file(folder_.file("base.json"));
        text_.assign(bytes.begin(), bytes.end());
    }
    std::shared_ptr<const ModelFile> load(const std::string & path) {
        auto file = ModelFile::load(path, {});
        EXPECT_TRUE(file.ok()) << file.status().message();
        return *file;
    }
    std::shared_ptr<const ModelFile> write(const std::string & name, const RandomModelSpec & spec) {
        EXPECT_TRUE(write_random_model(spec, folder_.file(name)).ok());
        return load(folder_.file(name));
    }
    ShippedMatch match(const ModelFile & file, const std::vector<ShippedHeads> & before = {}) const {
        std::vector<ShippedHeads> all = before;
        all.push_back({"Base-3L", text_});
        return match_shipped_heads(file, all);
    }

    testing::TempFolder folder_;
    RandomModelSpec spec_;
    HeadImportance heads_;
    std::shared_ptr<const ModelFile> base_;
    std::string text_;
};

TEST_F(ShippedHeadImportances, AreFoundByEveryQuantisationOfTheirModel) {
    for (const char * type : {"f32", "f16", "q8_0", "q4_0", "q4_1", "q6_K"}) {
        spec_.weight_type = type;
        const auto quantised = write("quantised.gguf", spec_);
        EXPECT_EQ(quantised->norms_hash(), base_->norms_hash()) << type;
        const ShippedMatch found = match(*quantised);
        ASSERT_EQ(found.kind, Kind::kSame) << type;
        EXPECT_EQ(found.name, "Base-3L");
        EXPECT_EQ(found.made, "60 probes of up to 1024 tokens on base.gguf");
        EXPECT_EQ(found.heads->copy, heads_.copy);
        EXPECT_EQ(found.why_not(), "");
    }
    // In parts, under another name, before its weights are loaded; with an output matrix of its own where the base has none.
    RandomModelSpec split = spec_;
    split.n_splits = 3;
    ASSERT_TRUE(write_random_model(split, folder_.file("split.gguf")).ok());
    EXPECT_EQ(match(*load(random_model_files(split, folder_.file("split.gguf")).front())).kind, Kind::kSame);
    const auto checked = ModelFile::check(folder_.file("quantised.gguf"));
    ASSERT_TRUE(checked.ok());
    EXPECT_EQ(match(**checked).kind, Kind::kSame);
    RandomModelSpec tied = spec_;
    tied.tied = true;
    const auto other_output = write("tied.gguf", tied);
    ASSERT_NE(fingerprint_of(*other_output), fingerprint_of(*base_));
    EXPECT_EQ(match(*other_output).kind, Kind::kSame);
}

// One bit of one norm, whichever it is: the last one tells no more than the others.
TEST_F(ShippedHeadImportances, AreNotForAFineTune) {
    for (const char * norm : {"blk.0.attn_norm.weight", "blk.2.ffn_norm.weight", "output_norm.weight"}) {
        const auto change = [norm](ggml_tensor * tensor) {
            if (std::strcmp(tensor->name, norm) == 0) { static_cast<uint32_t *>(tensor->data)[3] ^= 1U; }
            return true;
        };
        ASSERT_TRUE(testing::edit_gguf(folder_.file("base.gguf"), folder_.file("tuned.gguf"), {{}, change}));
        const ShippedMatch found = match(*load(folder_.file("tuned.gguf")));
        EXPECT_EQ(found.kind, Kind::kOtherWeights) << norm;
        EXPECT_EQ(found.heads, nullptr);
        EXPECT_EQ(found.why_not(),
                  "those that come with Pith for Base-3L are not for this model: the shape is the same, the norms are not");
    }
}

// The base's entry may stand anywhere among others of its shape.
TEST_F(ShippedHeadImportances, AreThoseOfTheSameNormsAmongOthersOfTheShape) {
    spec_.seed = 2;
    const auto sibling = write("sibling.gguf", spec_);
    ASSERT_TRUE(save_head_importance(folder_.file("sibling.json"), heads_, {}, *sibling).ok());
    const auto bytes = testing::read_file(folder_.file("sibling.json"));
    const std::string other(bytes.begin(), bytes.end());
    EXPECT_EQ(match(*base_, {{"Sibling", other}}).name, "Base-3L");
    EXPECT_EQ(match(*sibling, {{"Sibling", other}}).name, "Sibling");
}

TEST_F(ShippedHeadImportances, AreNotNamedForAnotherShape) {
    spec_.n_layers = 2;
    const ShippedMatch found = match(*write("short.gguf", spec_));
    EXPECT_EQ(found.kind, Kind::kNone);
    EXPECT_EQ(found.why_not(), "");
}

TEST_F(ShippedHeadImportances, AreNotForAModelWithAnAdapterThatCounts) {
    const std::string path = folder_.file("lora.gguf");
    ASSERT_TRUE(testing::write_random_lora(*base_, path).ok());
    auto adapter = LoraAdapter::load(path, *base_);
    ASSERT_TRUE(adapter.ok()) << adapter.status().message();
    const std::shared_ptr<const LoraAdapter> shared = std::move(*adapter);
    EXPECT_EQ(match(*adapt_model(base_, shared, 0.0F)).kind, Kind::kSame) << "as without one, to the bit";
    const ShippedMatch found = match(*adapt_model(base_, shared, 0.5F));
    EXPECT_EQ(found.kind, Kind::kAdapted);
    EXPECT_NE(found.why_not().find("LoRA adapter"), std::string::npos) << found.why_not();
}

TEST_F(ShippedHeadImportances, ThatAreDamagedGiveOneLineAndNothingElse) {
    static std::vector<std::string> * lines = nullptr;
    std::vector<std::string> seen;
    lines = &seen;
    set_log_sink([](LogLevel, std::string_view text) { lines->emplace_back(text); });
    const std::string whole = text_;
    const size_t at = whole.find("\"reason\"");
    text_ = whole.substr(0, at) + "\"raison\"" + whole.substr(at + 8);
    ShippedMatch found = match(*base_);
    EXPECT_EQ(found.kind, Kind::kDamaged);
    EXPECT_EQ(found.heads, nullptr);
    EXPECT_NE(found.why_not().find("Base-3L are damaged ('Base-3L' lacks the list 'reason'"), std::string::npos)
        << found.why_not();
    EXPECT_EQ(found.why_not().find('\n'), std::string::npos);
    EXPECT_TRUE(seen.empty());
    text_ = whole.substr(0, whole.size() / 3);  // nobody can tell which model it is for
    found = match(*base_);
    set_log_sink({});
    EXPECT_EQ(found.kind, Kind::kNone);
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_NE(seen[0].find("'Base-3L' is not whole JSON"), std::string::npos) << seen[0];
}

// What is in models/heads: each whole, each for a model of its own.
TEST(AllShippedHeadImportances, AreWholeAndNameDifferentModels) {
    ASSERT_FALSE(all_shipped_heads().empty());
    std::set<std::string> norms;
    for (const ShippedHeads & one : all_shipped_heads()) {
        const std::string name(one.name);
        const auto origin = parse_heads_origin(name, one.text);
        ASSERT_TRUE(origin.ok()) << origin.status().message();
        Hparams hparams;
        for (const auto & [key, value] : origin->model) {
            if (key == "n_layers") { hparams.n_layers = static_cast<int>(std::get<int64_t>(value)); }
            if (key == "n_heads") { hparams.n_heads = static_cast<int>(std::get<int64_t>(value)); }
            if (key == "norms_hash") { EXPECT_TRUE(norms.insert(std::get<std::string>(value)).second) << name; }
        }
        const auto heads = parse_head_importance(name, one.text, hparams);
        ASSERT_TRUE(heads.ok()) << heads.status().message();
        double most = 0;
        for (const double copy : (*heads)->copy) { most = std::max(most, copy); }
        EXPECT_GT(most, 0.5) << name << ": a head that retrieves";
        EXPECT_GE(origin->probes.count, 60) << name;
        EXPECT_FALSE(origin->file.empty()) << name;
    }
    EXPECT_EQ(norms.size(), all_shipped_heads().size());
}

}  // namespace
}  // namespace pith::shipped_heads_test
