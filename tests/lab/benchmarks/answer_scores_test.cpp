// LongBench's, InfiniteBench's, SCBench's, BABILong's answers and multiple choice: the rules one by one.
#include <gtest/gtest.h>

#include "benchmarks/benchmark.h"
#include "benchmarks/metrics/babilong_score.h"
#include "benchmarks/metrics/infinitebench_scores.h"
#include "benchmarks/metrics/longbench_scores.h"
#include "benchmarks/metrics/multiple_choice.h"

namespace pith::benchmarks::answer_scores_test {
namespace {

using Texts = std::vector<std::string>;

TEST(FirstLine, SkipsLeadingLineBreaksOnly) {
    EXPECT_EQ(first_line("\n\n yes\nno"), " yes");
    EXPECT_EQ(first_line("\n"), "");
}

TEST(ClassScore, SharesThePointAmongTheClassesNamed) {
    const Texts classes = {"Food", "Animal", "Sport"};
    EXPECT_DOUBLE_EQ(class_score("Animal", "Animal", classes), 1);
    EXPECT_DOUBLE_EQ(class_score("Animal or Food", "Animal", classes), 0.5);
    EXPECT_EQ(class_score("Food", "Animal", classes), 0);
    EXPECT_EQ(class_score("animal", "Animal", classes), 0);  // case counts
}

TEST(ClassScore, LeavesOutAClassThatIsPartOfTheReference) {
    EXPECT_DOUBLE_EQ(
        class_score("Definition of something", "Definition of something", Texts{"Definition", "Definition of something"}), 1);
}

TEST(ClassScore, SkipsTheClassAfterEachOneItTakesOut) {
    // [a, b, c, abc]: a goes, and the loop's second turn sees c, not b; c goes; b stays beside abc: 1/2 (1 if the list were
    // copied first).
    EXPECT_DOUBLE_EQ(class_score("abc", "abc", Texts{"a", "b", "c", "abc"}), 0.5);
}

TEST(NumberShare, IsTheShareOfTheNumbersThatAreRight) {
    EXPECT_DOUBLE_EQ(number_share("I count 3, so 3 of 5", "3"), 2.0 / 3);
    EXPECT_EQ(number_share("thirteen", "13"), 0);
    EXPECT_EQ(number_share("03", "3"), 0);  // compared as text
    EXPECT_DOUBLE_EQ(number_share("Paragraph 12 or 7", paragraph_number("Paragraph 12").value()), 0.5);
    EXPECT_EQ(paragraph_number("Paragraph of 12"), std::nullopt);
}

TEST(CorrectLetter, PrefersTheLetterInParentheses) {
    EXPECT_EQ(correct_letter("**The correct answer is (B)**, because"), 'B');
    EXPECT_EQ(correct_letter("The correct answer is C."), 'C');
    EXPECT_EQ(correct_letter("The correct answer is A. No: The correct answer is (D)"), 'D');
    EXPECT_EQ(correct_letter("The correct answer is (E)"), std::nullopt);
    EXPECT_EQ(correct_letter("The correct answer is (A"), std::nullopt);
    EXPECT_EQ(correct_letter("B"), std::nullopt);
}

TEST(InfiniteBench, ReadsTheLastWordAsPythonReadsAnInteger) {
    EXPECT_TRUE(last_word_is_number("func_6351(2) = 8 - 4\n\nThe return value is: 4.", "4"));
    EXPECT_TRUE(last_word_is_number("`-17`", "-17"));
    EXPECT_TRUE(last_word_is_number("+007", "7"));
    EXPECT_TRUE(last_word_is_number("1_000", "1000"));
    EXPECT_TRUE(last_word_is_number("-0", "0"));
    EXPECT_FALSE(last_word_is_number("4 it is", "4"));
    EXPECT_FALSE(last_word_is_number("**4**", "4"));
    EXPECT_FALSE(last_word_is_number("1__0", "10"));
    EXPECT_FALSE(last_word_is_number("_4", "4"));
    EXPECT_FALSE(last_word_is_number("4_", "4"));
    EXPECT_FALSE(last_word_is_number("-", "0"));
    EXPECT_FALSE(last_word_is_number(" . ", "0"));
    EXPECT_TRUE(last_word_is_number("3.4", "4")) << "a point separates words";
}

TEST(InfiniteBench, CountsLeadingNumbersUpToTheFirstThatDiffers) {
    const Texts values = {"1", "4", "8", "3"};
    EXPECT_EQ(leading_numbers_share("[1, 4, 8, 3, 99]", values), 1);
    EXPECT_EQ(leading_numbers_share("1 04 and 8", values), 0.75);
    EXPECT_EQ(leading_numbers_share("[1, 5, 8, 3]", values), 0.25);
    EXPECT_EQ(leading_numbers_share("0, 1, 4", values), 0) << "GPT-4's way, without GPT-4's rule";
    EXPECT_EQ(leading_numbers_share("3, -1", Texts{"3", "-1"}), 0.5) << "no run of digits has a sign";
    EXPECT_EQ(leading_numbers_share("", values), 0);
}

TEST(InfiniteBench, ComparesTheFirstRunOfDigits) {
    EXPECT_TRUE(first_digits_are(" 71432. Remember it: 1", "71432"));
    EXPECT_FALSE(first_digits_are("71,432", "71432"));
    EXPECT_FALSE(first_digits_are("none", "71432"));
}

TEST(InfiniteBench, FindsAValueAsAWord) {
    EXPECT_TRUE(says_word("the value is: \"c14c-b8ba\".", "c14c-b8ba"));
    EXPECT_FALSE(says_word("c14c-b8ba-00", "c14c-b8ba"));  // a longer word
    EXPECT_FALSE(says_word("(c14c)", "c14c"));             // parentheses part no words
}

TEST(InfiniteBench, FindsANameInCapitals) {
    EXPECT_TRUE(says_name("Ace, of course", "ACE"));
    EXPECT_FALSE(says_name("Remo", "Remo"));                    // the prediction is REMO by then
    EXPECT_FALSE(says_name("ACE ROTHSTEIN", "ACE ROTHSTEIN"));  // two words
}

TEST(InfiniteBench, ChoosesByItsLetterRules) {
    const Texts right = {"Walking Georgie", "A"};
    EXPECT_TRUE(chooses(" A. Walking", right));
    EXPECT_FALSE(chooses("Because", right));  // begins with B
    EXPECT_TRUE(chooses("Walking Georgie", right));
    EXPECT_TRUE(chooses("the answer is: A", right));
    EXPECT_TRUE(chooses("the answer is\nWalking Georgie", right));
    EXPECT_FALSE(chooses("the answer is: B, not A", right));
    EXPECT_FALSE(chooses("the answer is", right));  // ends with it
    EXPECT_TRUE(chooses("perhaps A", right));
    EXPECT_FALSE(chooses("perhaps BC or A", right));  // BC is a piece of ABCD, and is taken as the answer
    EXPECT_FALSE(chooses("", right));
}

TEST(InfiniteBench, NamesTheFunctionByItsCodeRules) {
    const Texts right = {"cmd_gen", "C"};
    EXPECT_TRUE(names_function(" C. cmd_gen", right));
    EXPECT_TRUE(names_function("C: ", right));
    EXPECT_FALSE(names_function("C", right));  // a letter alone is not enough
    EXPECT_TRUE(names_function("The answer is:\ncmd_gen", right));
    EXPECT_TRUE(names_function("The correct option is: C", right));
    EXPECT_TRUE(names_function("It is: Option C", right));  // "It is:      C": the spaces are one before the rule looks
    EXPECT_FALSE(names_function("answer is:", right));
    EXPECT_FALSE(names_function("answer is: B", right));
}

TEST(InfiniteBench, ComparesTheFirstNumber) {
    EXPECT_TRUE(first_number_is("it is 88.", "88", NumberRule::kWhole));
    EXPECT_TRUE(first_number_is("088", "88", NumberRule::kWhole));
    EXPECT_FALSE(first_number_is("88.5", "88", NumberRule::kWhole));
    EXPECT_TRUE(first_number_is("88.5", "88", NumberRule::kTruncated));
    EXPECT_TRUE(first_number_is("0.50", "0.5", NumberRule::kWhole));
    EXPECT_TRUE(first_number_is("-3", "3", NumberRule::kWhole));  // the sign is no part of the number
    EXPECT_FALSE(first_number_is("none", "0", NumberRule::kWhole));
}

TEST(ScBench, ContainsAnAnswerInAnyCase) {
    EXPECT_TRUE(contains_any_case("it was Élise.", Texts{"élise"}));
    EXPECT_TRUE(contains_any_case("ab", Texts{"x", "B"}));
    EXPECT_FALSE(contains_any_case("b a", Texts{"ab"}));
}

TEST(BabiLong, WantsTheTargetAndNoOtherLabel) {
    constexpr std::string_view kPlaces[] = {"bathroom", "bedroom", "garden", "hallway", "kitchen", "office"};
    const auto right = [&](std::string_view said, std::string_view question) {
        return names_only_target(said, "garden", question, kPlaces);
    };
    EXPECT_TRUE(right("The most recent location of Mary is GARDEN", "Where is Mary?"));
    EXPECT_FALSE(right("garden or office", "Where is Mary?"));
    EXPECT_TRUE(right("garden. Not the office", "Where is Mary?"));  // cut at the full stop
    EXPECT_TRUE(right("garden<example>office", "Where is Mary?"));   // and at a tag
    EXPECT_TRUE(right("Before the kitchen it was in the garden", "Where was the apple before the kitchen?"));
    EXPECT_FALSE(right("garden", "What is north of the garden?"));  // labels of the question never count
    EXPECT_FALSE(right("", "Where is Mary?"));
}

TEST(OwnDocuments, ContainAnAnswerAsAWordOfItsOwn) {
    const Task & task = *find_task("documents", "questions");
    const auto score = [&](std::vector<std::string> references, std::string_view said) {
        Turn turn;
        turn.references = std::move(references);
        return task.score({}, turn, said);
    };
    EXPECT_EQ(score({"low"}, "It is LOW."), 1);
    EXPECT_EQ(score({"low"}, "As the following says, slow."), 0);
    EXPECT_EQ(score({"low"}, "Following this: low"), 1) << "a later place counts, too";
    EXPECT_EQ(score({"15"}, "150 or 215 seconds"), 0);
    EXPECT_EQ(score({"15", "fifteen"}, "Fifteen seconds"), 1);
    EXPECT_EQ(score({"-1"}, "revision -1"), 1);
    EXPECT_EQ(score({".i"}, "data.i and data.d"), 1) << "a sign may touch a word";
    EXPECT_EQ(score({".i"}, "data.index"), 0);
    EXPECT_EQ(score({""}, "anything"), 0);
}

TEST(MultipleChoice, TakesTheFirstLargest) {
    EXPECT_EQ(likeliest_choice(std::vector<double>{-4, -3, -3}), 1U);
}

TEST(MultipleChoice, DividesByCharactersWithoutTheSpaceBefore) {
    // −1 / 1 against −3 / 4; with the spaces, −1 / 2 against −3 / 5, the first would win.
    EXPECT_EQ(likeliest_choice_per_character(std::vector<double>{-1, -3}, Texts{" a", " abcd"}), 1U);
    EXPECT_EQ(likeliest_choice_per_character(std::vector<double>{-3, -4}, Texts{" é", " ab"}),
              1U);  // −3 / 1 against −4 / 2: é is one character
}

}  // namespace
}  // namespace pith::benchmarks::answer_scores_test
