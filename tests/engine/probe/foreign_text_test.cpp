// foreign_text_test.cpp - when a text is foreign to a model, and how that is measured on a prompt.
#include "engine/probe/foreign_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/probe/likelihood.h"
#include "engine/tiny_model.h"

namespace pith::foreign_text_test {
namespace {

using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

TEST(ForeignText, BeginsAboveTheRootOfTheVocabulary) {
    EXPECT_FALSE(is_foreign(2.4, 2048));
    EXPECT_FALSE(is_foreign(32, 1024));
    EXPECT_TRUE(is_foreign(33, 1024));
    EXPECT_TRUE(is_foreign(1024, 1024)) << "no better than a guess";
    EXPECT_TRUE(is_foreign(std::numeric_limits<double>::infinity(), 1024));
    EXPECT_TRUE(is_foreign(std::nan(""), 1024));
    const std::string message = foreign_text_message("the prompt", 770400, 2048);
    for (const char * word : {"the prompt", "7.704e+05", "2048", "45"}) {
        EXPECT_NE(message.find(word), std::string::npos) << message;
    }
    EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(ForeignText, ABeginningsPerplexityIsThatOfItsTokensAlone) {
    const auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok());
    const auto tokens = random_tokens(16 * 40, model->info().n_vocab, 3);
    const auto measured = perplexity_of_beginning(*model, tokens, 1, nullptr);
    ASSERT_TRUE(measured.ok()) << measured.status().message();
    SessionOptions options;
    options.n_threads = 1;
    auto session = model->session(options);
    ASSERT_TRUE(session.ok());
    double loss = 0;
    for (size_t i = 0; i + 1 < 40; ++i) {  // a sixteenth of the prompt, token by token
        ASSERT_TRUE((i == 0 ? session->prefill(std::span(tokens).first(1)) : session->append(tokens[i])).ok());
        loss += negative_log_likelihood(session->logits(), tokens[i + 1]);
    }
    EXPECT_NEAR(*measured / std::exp(loss / 39), 1, 1e-2);
    EXPECT_TRUE(is_foreign(*measured, model->info().n_vocab)) << "random tokens on a random model";
    const auto too_short = perplexity_of_beginning(*model, std::span(tokens).first(16 * 31), 1, nullptr);
    ASSERT_TRUE(too_short.ok());
    EXPECT_EQ(*too_short, 0);
}

}  // namespace
}  // namespace pith::foreign_text_test
