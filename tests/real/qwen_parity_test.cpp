// qwen_parity_test.cpp - Qwen2.5-Coder, 1.5 billion parameters: logits and texts against libllama's on the same file.
#include "real/parity.h"
#include "real/qwen.h"

namespace pith::qwen_parity_test {
namespace {

// How far libllama is from these weights in f32 on the text below, measured once: there the file takes 6 GB. Pith was as far.
constexpr double kNoise = 0.0403;

class QwenParity : public testing::Qwen {};

TEST_F(QwenParity, LogitsDifferFromLibllamasByLessThanRoundedActivationsMake) {
    const auto tokens = story(160);
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
}  // namespace pith::qwen_parity_test
