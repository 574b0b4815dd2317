// smollm2_parity_test.cpp - SmolLM2's logits and texts against libllama's, on the file as it is and on its weights in f32.
#include "real/smollm2.h"

namespace pith::smollm2_parity_test {
namespace {

class SmolLM2Parity : public testing::SmolLM2 {};

TEST_F(SmolLM2Parity, LogitsOfItsWeightsInF32EqualLibllamas) {
    testing::expect_f32_logits_equal(both());
}

TEST_F(SmolLM2Parity, LogitsDifferFromLibllamasByLessThanRoundedActivationsMake) {
    testing::expect_logits_inside_noise(both());
}

TEST_F(SmolLM2Parity, QuantisedLogitsAreNoFurtherFromF32ThanLibllamas) {
    testing::expect_no_further_from_f32_than_llama(both());
}

TEST_F(SmolLM2Parity, GreedyTextsPartFromLibllamasOnlyWhereItsBestTokensAreTied) {
    const testing::LlamaModel llama(path());
    for (const char * message : {"Why is the sky blue?", "Write three sentences about a bridge."}) {
        testing::expect_greedy_text_of(model(), llama, encode(prompt_of(message)), 48, 4 * both().noise);
    }
}

}  // namespace
}  // namespace pith::smollm2_parity_test
