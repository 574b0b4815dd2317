// document_perplexity_test.cpp - the full cache's perplexity is libllama's on the same tokens, and a budget's is that of a
// session that evicts as it goes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "eval/evaluate.h"
#include "eval/report/eval_table.h"
#include "model/gguf_edit.h"
#include "model/llama_logits.h"

namespace pith::document_perplexity_test {
namespace {

const std::string kModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";

// exp of the mean over all tokens but the first, from logits [n][n_vocab].
double perplexity_of(const std::vector<float> & logits, const std::vector<int32_t> & tokens) {
    const size_t width = logits.size() / tokens.size();
    double sum = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        double total = 0;
        for (size_t v = 0; v < width; ++v) { total += std::exp(static_cast<double>(logits[i * width + v])); }
        sum += std::log(total) - logits[i * width + static_cast<size_t>(tokens[i + 1])];
    }
    return std::exp(sum / static_cast<double>(tokens.size() - 1));
}

TEST(DocumentPerplexity, OfTheFullCacheIsLibllamas) {
    if (!std::filesystem::exists(kModel)) { GTEST_SKIP() << "no reference model"; }
    const auto model = Model::load(kModel);
    const auto tokenizer = Tokenizer::load(kModel);
    ASSERT_TRUE(model.ok() && tokenizer.ok());
    EvalOptions options;
    options.family = "perplexity";
    options.lengths = {512};
    options.n_samples = 3;
    options.policies = {"snapkv", "random"};
    options.budgets = {Budget(64), Budget(512)};
    options.session.n_threads = 1;
    options.session.chunk = 64;
    const auto plan = plan_evaluation(*model, *tokenizer, options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_EQ(plan->units.size(), 3U);
    auto folder = RunFolder::open("", plan->info);
    ASSERT_TRUE(run_evaluation(*model, *tokenizer, options, *plan, **folder, {}).ok());
    double mean = 0;
    for (const EvalUnit & unit : plan->units) {
        ASSERT_EQ(unit.compressed.size(), 512U);
        const double expected = perplexity_of(testing::llama_logits(kModel, unit.compressed), unit.compressed);
        mean += expected / 3;
        for (const Answer & answer : (*folder)->answers()) {
            if (answer.index != unit.questions[0].key.index) { continue; }
            if (answer.policy == "full") { EXPECT_NEAR(answer.score / expected, 1, 1e-3); }
            if (answer.budget == "512") { EXPECT_NEAR(answer.score / expected, 1, 1e-3) << "a budget that holds everything"; }
            if (answer.budget == "64") { EXPECT_GT(answer.score, expected * 1.001) << answer.policy; }
        }
    }
    const EvalTable table = make_eval_table(plan->info, (*folder)->answers());
    EXPECT_NEAR(*table.find("perplexity", 512, 0)->score / mean, 1, 1e-3) << "the mean over documents of their perplexities";
    EXPECT_NEAR(*table.find("perplexity", 512, 1)->difference,
                *table.find("perplexity", 512, 1)->score - *table.find("perplexity", 512, 0)->score, 1e-9);
}

TEST(DocumentPerplexity, ATextIsCutIntoStretchesOfTheLengthAsked) {
    if (!std::filesystem::exists(kModel)) { GTEST_SKIP() << "no reference model"; }
    const auto model = Model::load(kModel);
    const auto tokenizer = Tokenizer::load(kModel);
    EvalOptions options;
    options.family = "perplexity";
    options.lengths = {50};
    std::string text;
    for (int i = 0; i < 40; ++i) { text += "Anna kept the key in the garden. "; }
    options.texts = {text};
    const auto plan = plan_evaluation(*model, *tokenizer, options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const auto tokens = *tokenizer->encode(text, false, false);
    ASSERT_EQ(plan->units.size(), tokens.size() / 49);
    std::vector<int32_t> joined;
    for (const EvalUnit & unit : plan->units) {
        ASSERT_EQ(unit.compressed.size(), 50U);
        EXPECT_EQ(unit.compressed[0], tokenizer->bos());
        joined.insert(joined.end(), unit.compressed.begin() + 1, unit.compressed.end());
    }
    EXPECT_TRUE(std::equal(joined.begin(), joined.end(), tokens.begin()));
}

// A vocabulary may have a begin token that its tokeniser does not put in front of texts, as SmolLM2's and Qwen2.5's.
TEST(DocumentPerplexity, BeginsAsTheTokeniserDoes) {
    if (!std::filesystem::exists(kModel)) { GTEST_SKIP() << "no reference model"; }
    const testing::TempFolder folder;
    const std::string path = folder.file("no-begin.gguf");
    ASSERT_TRUE(testing::edit_gguf(kModel, path, {.metadata = [](gguf_context * gguf) {
                                       gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", false);
                                   }}));
    const auto model = Model::load(path);
    const auto tokenizer = Tokenizer::load(path);
    ASSERT_GE(tokenizer->bos(), 0);
    EvalOptions options;
    options.family = "perplexity";
    options.lengths = {20};
    options.n_samples = 2;
    options.texts = {"Anna kept the key in the garden. Anna kept the key in the garden. Anna kept the key in the garden."};
    for (int i = 0; i < 2; ++i) {
        const auto plan = plan_evaluation(*model, *tokenizer, options);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        ASSERT_FALSE(plan->units.empty());
        for (const EvalUnit & unit : plan->units) {
            EXPECT_EQ(unit.compressed.size(), 20U);
            EXPECT_NE(unit.compressed[0], tokenizer->bos());
        }
        options.texts.clear();  // the built-in generator's
    }
}

}  // namespace
}  // namespace pith::document_perplexity_test
