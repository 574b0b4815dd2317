// conversation_test.cpp - `pith chat` with Qwen2.5-Coder: ten turns under a budget, and at the end what was said first.
#include <cstdio>

#include "cli/run_process.h"
#include "real/real_model.h"
#include "real/story.h"

namespace pith::testing::conversation_test {
namespace {

class RealConversation : public OnRealModel<kQwenCoder> {
protected:
    static constexpr int kBudget = 384;
    static constexpr const char * kQuestion =
        "Now back to what I told you at the very beginning, before the story. What is my dog called, and what is the code of "
        "my "
        "locker?";

    // Two facts, eight paragraphs of something else, each with a question of its own, and what the facts were. Then the last
    // turn once more with `control` in place of the policy. Some 1,300 tokens.
    static std::string turns(const std::string & control) {
        std::string text =
            "Please remember this for later: my dog is called Biscuit, and the code of my locker is 7305. Just say OK.\n";
        std::string story = kStory;
        for (size_t at = 0; (at = story.find("\n\n", at)) != std::string::npos;) { story.replace(at, 2, "|"); }
        std::ranges::replace(story, '\n', ' ');
        for (size_t begin = 0; begin < story.size();) {
            const size_t end = std::min(story.find('|', begin), story.size());
            text += "Here is the next part of a story. " + story.substr(begin, end - begin) +
                    " Answer in three words: what is this part about?\n";
            begin = end + 1;
        }
        EXPECT_EQ(std::ranges::count(text, '\n'), 9);
        text += kQuestion + std::string("\n/stats\n/undo\n/policy ") + control + "\n" + kQuestion + "\n/stats\n";
        return text;
    }
};

// At some 28 % of the tokens. Were the facts to be had without remembering, the newest entries alone would give them, too.
TEST_F(RealConversation, OfTenTurnsUnderABudgetRecallsWhatWasSaidFirst) {
    const Outcome talk = run_pith({"chat", "-m", path(), "--budget", std::to_string(kBudget), "--temp", "0", "-n", "24"},
                                  {.address_space_bytes = 0, .standard_input = turns("streaming " + std::to_string(kBudget))});
    ASSERT_EQ(talk.exit_code, 0) << talk.err;
    std::cout << talk.out;
    const size_t stats = talk.out.find("kept ");
    ASSERT_NE(stats, std::string::npos) << talk.out;
    const size_t again = talk.out.find("\nprefill", stats);
    ASSERT_NE(again, std::string::npos) << talk.out;
    const std::string before = talk.out.substr(0, stats);
    const std::string answer = before.substr(before.rfind('\n', before.size() - 2) + 1);
    EXPECT_NE(answer.find("Biscuit"), std::string::npos) << answer;
    EXPECT_NE(answer.find("7305"), std::string::npos) << answer;
    // None of the answers between repeated them.
    EXPECT_EQ(before.find("7305"), before.rfind("7305")) << before;
    // The budget, and what has come since the last eviction; of more than three times as many.
    std::string line = talk.out.substr(stats, again - stats);
    std::erase(line, ',');
    int percent = 0;
    int held = 0;
    int all = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "kept %d %% (%d of %d", &percent, &held, &all), 3) << line;
    EXPECT_LE(held, kBudget + kDefaultEvictEvery);
    EXPECT_GT(all, 3 * kBudget);

    const std::string control = talk.out.substr(again);
    EXPECT_EQ(control.find("7305"), std::string::npos) << control;
    EXPECT_EQ(control.find("Biscuit"), std::string::npos) << control;
    EXPECT_NE(control.find("streaming, budget"), std::string::npos) << control;
}

}  // namespace
}  // namespace pith::testing::conversation_test
