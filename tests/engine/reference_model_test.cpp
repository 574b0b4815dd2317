// reference_model_test.cpp - the built-in model against libllama: logits at every position, and greedy text.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "model/llama_logits.h"
#include "pith/engine.h"
#include "tasks/tasks.h"

namespace pith::reference_model_test {
namespace {

constexpr double kTie = 2e-3;  // of the logits' range: where libllama's best two are this close, either may win

class ReferenceModel : public ::testing::Test {
protected:
    static inline const std::string path_ = std::string(PITH_SOURCE_DIR) + "/models/pith-reference.gguf";

    void SetUp() override {
        auto model = Model::load(path_);
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = std::make_unique<Model>(*model);
        auto tokenizer = Tokenizer::load(path_);
        ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
        tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
    }

    std::vector<int32_t> encode(std::string_view text) const {
        auto tokens = tokenizer_->encode(text, true, false);
        EXPECT_TRUE(tokens.ok());
        return *tokens;
    }

    corpus::Task task(const std::string & id, int n_tokens) const {
        corpus::TaskOptions options;
        options.n_tokens = n_tokens;
        options.seed = 3;
        auto made =
            corpus::make_task(id, options, [this](std::string_view text) { return static_cast<int>(encode(text).size()); });
        EXPECT_TRUE(made.ok()) << made.status().message();
        return *made;
    }

    static SessionOptions f32_cache() {
        SessionOptions options;
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 1;
        return options;
    }

    std::unique_ptr<Model> model_;
    std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(ReferenceModel, LogitsEqualLibllamasAtEveryPosition) {
    const auto tokens = encode(task("multikey", 512).prompt());
    const auto reference = testing::llama_logits(path_, tokens);
    auto session = model_->session(f32_cache());
    ASSERT_TRUE(session.ok());
    std::vector<float> logits;
    RunHooks hooks;
    hooks.on_logits = [&](int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); };
    ASSERT_TRUE(session->prefill(tokens, hooks).ok());
    ASSERT_EQ(logits.size(), reference.size());
    const auto difference = testing::compare_logits(logits, reference, model_->info().n_vocab, kTie);
    std::cout << "reference model, " << tokens.size() << " tokens: max |d|/range " << difference.max_relative << "\n";
    EXPECT_LE(difference.max_relative, 1e-3);
    EXPECT_EQ(difference.n_argmax_changed, 0);
}

// The tokens Pith says, fed to libllama in one batch: at every step its best token must be the one said, up to ties.
TEST_F(ReferenceModel, GreedyTextEqualsLibllamasFor128Tokens) {
    for (const char * id : {"single", "facts"}) {
        std::vector<int32_t> tokens = encode(task(id, 384).prompt());
        const size_t n_prompt = tokens.size();
        auto session = model_->session(f32_cache());
        ASSERT_TRUE(session.ok());
        ASSERT_TRUE(session->prefill(tokens).ok());
        for (int i = 0; i < 128; ++i) {
            const auto next = session->decode();
            ASSERT_TRUE(next.ok()) << next.status().message();
            tokens.push_back(*next);
        }
        const auto reference = testing::llama_logits(path_, tokens, /*one_at_a_time=*/true);
        const auto n_vocab = static_cast<size_t>(model_->info().n_vocab);
        ASSERT_EQ(reference.size(), tokens.size() * n_vocab);
        for (size_t i = n_prompt; i < tokens.size(); ++i) {
            const auto row = std::span(reference).subspan((i - 1) * n_vocab, n_vocab);
            const auto [low, high] = std::ranges::minmax(row);
            EXPECT_GE(row[static_cast<size_t>(tokens[i])], high - kTie * (high - low))
                << id << ", generated token " << i - n_prompt;
        }
    }
}

}  // namespace
}  // namespace pith::reference_model_test
