// smollm2_template_test.cpp - conversations as SmolLM2's own chat template has them.
#include "real/smollm2.h"
#include "real/templates.h"

namespace pith::smollm2_template_test {
namespace {

using testing::expect_rendered;
using testing::kBeBrief;
using testing::kWillItRain;

class SmolLM2Template : public testing::SmolLM2 {};

TEST_F(SmolLM2Template, HasASystemPromptOfItsOwnUnlessOneIsGiven) {
    const std::string asked = "<|im_start|>user\nWill it rain?<|im_end|>\n<|im_start|>assistant\n";
    expect_rendered(
        tokenizer(), {kWillItRain}, false,
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" + asked);
    expect_rendered(tokenizer(), {kBeBrief, kWillItRain}, false, "<|im_start|>system\nBe brief.<|im_end|>\n" + asked);
}

TEST_F(SmolLM2Template, KeepsTurnsAndTheirSpaces) {
    expect_rendered(tokenizer(), {kBeBrief, kWillItRain, {"assistant", "No."}, {"user", "  Sure? "}}, false,
                    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWill it rain?<|im_end|>\n"
                    "<|im_start|>assistant\nNo.<|im_end|>\n<|im_start|>user\n  Sure? <|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(SmolLM2Template, MakesOneTokenOfEachMark) {
    const auto tokens = encode("<|im_start|>user\nHi<|im_end|>");
    ASSERT_EQ(tokens.size(), 5U);  // mark, "user", line break, "Hi", mark
    EXPECT_TRUE(tokenizer().is_end_of_generation(tokens.back()));
    EXPECT_EQ(tokenizer().decode(tokens), "user\nHi");
}

}  // namespace
}  // namespace pith::smollm2_template_test
