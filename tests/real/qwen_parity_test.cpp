// qwen_parity_test.cpp - Qwen2.5-Coder, 1.5 billion parameters: logits and texts against libllama's on the same file.
#include "real/parity.h"
#include "real/qwen.h"
#include "real/story.h"

namespace pith {
namespace {

// What rounded activations make of SmolLM2 and of Gemma 3, which are tested against f32; in f32 this one takes 6 GB.
constexpr double kNoise = 0.045;

class QwenParity : public testing::Qwen {};

TEST_F(QwenParity, LogitsDifferFromLibllamasByLessThanRoundedActivationsMake) {
    auto tokens = encode(testing::kStory);
    tokens.resize(160);
    constexpr size_t kFirst = 96;
    const testing::LogitRows reference = testing::LlamaModel(path()).rows(tokens, kFirst);
    const testing::Distance d = testing::distance(testing::pith_rows(model(), tokens, kFirst), reference);
    testing::report("Pith from libllama", d);
    testing::expect_inside_noise(d, kNoise);
    EXPECT_LE(d.n_best_differ, 3);
}

TEST_F(QwenParity, GreedyTextPartsFromLibllamasOnlyWhereItsBestTokensAreTied) {
    const testing::LlamaModel llama(path());
    const auto prompt = encode(prompt_of("Write a function in C that counts the words of a text."));
    testing::expect_greedy_text_of(model(), llama, prompt, 32, 4 * kNoise);
}

}  // namespace
}  // namespace pith
