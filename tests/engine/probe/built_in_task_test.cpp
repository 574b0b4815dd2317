// built_in_task_test.cpp - a length that is too small is told from a mistake, for every task of the generator.
#include "engine/probe/built_in_task.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pith::built_in_task_test {
namespace {

int count_words(std::string_view text) {
    return static_cast<int>(std::ranges::count(text, ' ')) + 1;
}

TEST(BuiltInTask, SaysWhichLengthIsTooSmallForWhichTask) {
    for (const corpus::TaskInfo & info : corpus::task_list()) {
        corpus::TaskOptions options;
        options.n_tokens = info.min_tokens - 1;
        const auto refused = make_built_in_task(info.id, options, count_words);
        ASSERT_TRUE(refused.ok()) << refused.status().message();
        EXPECT_EQ(refused->too_short,
                  "task '" + std::string(info.id) + "' needs at least " + std::to_string(info.min_tokens) + " tokens");
        options.n_tokens = 1024;
        const auto made = make_built_in_task(info.id, options, count_words);
        ASSERT_TRUE(made.ok()) << made.status().message();
        EXPECT_EQ(made->too_short, "");
        EXPECT_FALSE(made->task.answers.empty());
        // A tokeniser of so many tokens a word that even the bare question does not fit.
        const auto many = [](std::string_view text) { return 100 * count_words(text); };
        const auto long_words = make_built_in_task(info.id, options, many);
        ASSERT_TRUE(long_words.ok()) << long_words.status().message();
        EXPECT_EQ(long_words->too_short.find("task '" + std::string(info.id) + "' needs at least "), 0U);
        EXPECT_EQ(long_words->too_short.find("n_tokens"), std::string::npos) << long_words->too_short;
        EXPECT_TRUE(long_words->too_short.ends_with(" tokens")) << long_words->too_short;
    }
}

TEST(BuiltInTask, ATaskThatThereIsNotIsAnError) {
    const auto unknown = make_built_in_task("needle", {}, count_words);
    EXPECT_EQ(unknown.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(unknown.status().message().find("'needle'"), std::string::npos) << unknown.status().message();
}

}  // namespace
}  // namespace pith::built_in_task_test
