// Words, characters and subsequences: each number is worked out beside it.
#include <gtest/gtest.h>

#include "benchmarks/metrics/answer_f1.h"
#include "benchmarks/metrics/chinese.h"
#include "benchmarks/metrics/edit_similarity.h"
#include "benchmarks/metrics/lcs.h"
#include "benchmarks/metrics/longbench_scores.h"
#include "benchmarks/metrics/rouge.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks::text_metrics_test {
namespace {

TEST(Unicode, ReadsAndWritesCodePointsAndReplacesBrokenBytes) {
    EXPECT_EQ(code_points("aé中😀"), U"aé中😀");
    EXPECT_EQ(to_utf8(U"aé中😀"), "aé中😀");
    // A head without its tail, an overlong slash, a surrogate: one replacement for each byte that begins nothing.
    EXPECT_EQ(code_points("a\xC3"), U"a\xFFFD");
    EXPECT_EQ(code_points("\xC0\xAF"), U"\xFFFD\xFFFD");
    EXPECT_EQ(code_points("\xED\xA0\x80"), U"\xFFFD\xFFFD\xFFFD");
}

TEST(Unicode, KnowsPythonsClassesBeyondAscii) {
    for (const char32_t space : {U'\t', U'\n', U' ', U'\x1C', U'\x85', U'\xA0', U'\x2009', U'\x3000'}) {
        EXPECT_TRUE(is_space(space));
    }
    EXPECT_FALSE(is_space(U'\x200B'));  // zero width: no white space
    EXPECT_TRUE(is_decimal(U'7') && is_decimal(U'٣') && is_decimal(U'７'));
    EXPECT_FALSE(is_decimal(U'²'));
    EXPECT_TRUE(is_word(U'_') && is_word(U'é') && is_word(U'中') && is_word(U'²') && is_word(U'９'));
    EXPECT_FALSE(is_word(U'’') || is_word(U'—') || is_word(U'。') || is_word(U' '));
    EXPECT_EQ(lower(U"ÀÉŽΣЖＡ"), U"àéžσжａ");
    EXPECT_EQ(upper(U"àéžжａß"), U"ÀÉŽЖＡß");
}

TEST(Unicode, StripsAndSplitsAtWhiteSpaceOnly) {
    EXPECT_EQ(strip(std::string_view("\n\xC2\xA0 a b\xE3\x80\x80")), "a b");  // no-break space before, ideographic space after
    EXPECT_EQ(strip(std::string_view(" \t")), "");
    const std::u32string text = U" one\n\ttwo  ";
    EXPECT_EQ(split_words(text), (std::vector<std::u32string_view>{U"one", U"two"}));
    EXPECT_EQ(replace_all(U"aaa", U"aa", U"a"), U"aa");  // what was put in is not looked at again
}

TEST(AnswerF1, DropsCasePunctuationAndArticles) {
    EXPECT_EQ(normalized_answer("The  Eiffel-Tower, a\tsight!"), U"eiffeltower sight");
    EXPECT_EQ(normalized_answer("l’a theatre an"),
              U"l’ theatre");  // a curly quote parts words, a word that begins like an article stays
}

TEST(AnswerF1, IsTheHarmonicMeanOverTheBagsOfWords) {
    // {cat, sat, on, mat} against {cat, on, mat}: 3 shared, P = 3/4, R = 1, F = 2 · 0.75 / 1.75.
    EXPECT_DOUBLE_EQ(answer_f1("The cat sat on the mat.", "a cat, on a mat"), 6.0 / 7);
    // A word counts as often as both have it: {no, no, no} against {no, no, way}: 2 shared, P = R = 2/3.
    EXPECT_DOUBLE_EQ(answer_f1("no no no", "no no way"), 2.0 / 3);
    EXPECT_EQ(answer_f1("dog", "cat"), 0);
    EXPECT_EQ(answer_f1("", ""), 0);        // nothing shared
    EXPECT_EQ(answer_f1("the", "the"), 0);  // nor here: articles go
    const std::vector<std::string> references = {"dog", "cat", "cat dog"};
    EXPECT_DOUBLE_EQ(best_answer_f1("cat", references), 1);
    EXPECT_EQ(best_answer_f1("cat", {}), 0);
}

TEST(CharacterF1, CountsChineseCharactersWithoutPunctuation) {
    // 北京大学 against 北京: 2 of 4 and 2 of 2, F = 2 · 0.5 / 1.5. Full stops and white space of both scripts go.
    EXPECT_DOUBLE_EQ(character_f1("北京，大学。", "「北 京」."), 2.0 / 3);
    EXPECT_DOUBLE_EQ(character_f1("ＡB", "ａb"), 1);  // full-width letters have case
}

TEST(Lcs, TakesTheSubsequenceThatEachProgramReadsBack) {
    const std::vector<std::u32string> a = {U"a", U"b"};
    const std::vector<std::u32string> b = {U"b", U"a"};
    // Both "a" and "b" are longest. From the corner, going back in b meets b = b first, going back in a meets a = a.
    EXPECT_EQ(longest_common_subsequence(a, b, Tie::kBackInB), std::vector<size_t>{1});
    EXPECT_EQ(longest_common_subsequence(a, b, Tie::kBackInA), std::vector<size_t>{0});
    EXPECT_TRUE(longest_common_subsequence(a, {}, Tie::kBackInA).empty());
}

TEST(RougeL, UnitesTheSubsequencesOfAllSentencePairs) {
    // "the dog sat on the mat" with "the cat sat": the, sat; with "the dog": the, dog. United {the, sat, dog}: 3 of the
    // prediction's {the, cat, sat, dog}, 3 of the reference's {the, dog, sat, on, mat}. F = 2 · 3/4 · 3/5 / (3/4 + 3/5) = 2/3.
    EXPECT_NEAR(rouge_l("the cat sat.the dog", "the dog sat on the mat"), 2.0 / 3, 1e-8);
}

TEST(RougeL, CountsSetsKeepsCaseAndKeepsBlankSentences) {
    EXPECT_NEAR(rouge_l("no no no", "no"), 1, 1e-8);  // one unique word on both sides
    EXPECT_EQ(rouge_l("No", "no"), 0);
    // "yes. " is the sentences "yes" and, of white space alone, the empty word: P = 1/2, R = 1.
    EXPECT_NEAR(rouge_l("yes. ", "yes"), 2.0 / 3, 1e-8);
    EXPECT_EQ(rouge_l("...", "yes"), 0);  // no sentence
    EXPECT_EQ(rouge_l("yes", ""), 0);
    EXPECT_LT(rouge_l("yes", "yes"), 1);  // the 1e-8 in the denominator
}

TEST(RougeLsum, FollowsLinsExampleOfTheUnion) {
    // Reference w1 … w5; lines w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5 share w1 w2 and w1 w3 w5, united 4 of 5 (Lin 2004,
    // section 3.2); P = 4/10. F = 2 · 0.8 · 0.4 / 1.2.
    EXPECT_DOUBLE_EQ(rouge_lsum("w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", "w1 w2 w3 w4 w5"), 0.64 / 1.2);
}

TEST(RougeLsum, UsesUpOneOccurrenceForEachHit) {
    // Two reference lines hit the same single word: one hit. P = 1, R = 1/2.
    EXPECT_DOUBLE_EQ(rouge_lsum("yes", "yes\nyes"), 2.0 / 3);
    EXPECT_DOUBLE_EQ(rouge_lsum("It's 2 CATS!\n\n", "it s 2 cats"), 1);  // lower case, a–z and 0–9 only, empty lines gone
    EXPECT_EQ(rouge_lsum("cats", "cat"), 0);                             // no stemming
    EXPECT_EQ(rouge_lsum("é", "é"), 0);                                  // no letter of a–z: no word
    EXPECT_EQ(rouge_lsum("", "cat"), 0);
}

TEST(EditSimilarity, MatchesRunsAsRatcliffAndObershelp) {
    EXPECT_DOUBLE_EQ(sequence_ratio(U"abcd", U"bcde"), 0.75);  // bcd: 2 · 3 / 8
    // The first longest run of "tide" in "diet" is t, at the end: nothing is left beside it. The other way round it is d, then
    // e follows.
    EXPECT_DOUBLE_EQ(sequence_ratio(U"tide", U"diet"), 0.25);
    EXPECT_DOUBLE_EQ(sequence_ratio(U"diet", U"tide"), 0.5);
    EXPECT_DOUBLE_EQ(sequence_ratio(U"", U""), 1);
}

TEST(EditSimilarity, IgnoresPopularCharactersOfALongSecondText) {
    // In 200 characters more than 3 of a kind are popular and start no run; in 199 none is: xxxx matches, 2 · 4 / (5 + 199).
    EXPECT_DOUBLE_EQ(sequence_ratio(U"yxxxx", std::u32string(200, U'x')), 0);
    EXPECT_DOUBLE_EQ(sequence_ratio(U"yxxxx", std::u32string(199, U'x')), 8.0 / 204);
    // A run that another character starts goes on over popular ones: qxxxx, 2 · 5 / (6 + 201).
    EXPECT_DOUBLE_EQ(sequence_ratio(U"zqxxxx", U"q" + std::u32string(200, U'x')), 10.0 / 207);
    // So does the empty run at both beginnings: xxxx, 2 · 4 / (5 + 200).
    EXPECT_DOUBLE_EQ(sequence_ratio(U"xxxxy", std::u32string(200, U'x')), 8.0 / 205);
}

TEST(EditSimilarity, RoundsToWholePerCentsHalvesToEven) {
    EXPECT_EQ(fuzz_ratio("a1234567", "aBCDEFGH"), 12);  // 2 · 1 / 16 = 12.5 %
    EXPECT_EQ(fuzz_ratio("abc34567", "abcDEFGH"), 38);  // 2 · 3 / 16 = 37.5 %
    EXPECT_EQ(fuzz_ratio("", ""), 100);
    EXPECT_EQ(fuzz_ratio("", "a"), 0);
    EXPECT_EQ(fuzz_ratio("é", "e"), 0);  // one character each, not a shared byte
}

TEST(EditSimilarity, ComparesTheFirstLineOfCode) {
    EXPECT_DOUBLE_EQ(code_similarity("\n\n```python\n# comment\nx = 1 // 2\nreturn x\nreturn y", "return x"), 1);
    EXPECT_DOUBLE_EQ(code_similarity("abcd\nbcde", "bcde"), 0.75);
    EXPECT_DOUBLE_EQ(code_similarity("# only a comment", "return x"), 0);
}

// By hand: 4 tokens 北 京 gpt4 好 and 3 tokens 北 京 好, 3 shared: P = 3/4, R = 1.
TEST(ChineseScores, CountCharactersAndRunsOfLatinLetters) {
    EXPECT_DOUBLE_EQ(character_token_f1("北京，GPT4 好。", "北京好"), 2 * 0.75 / 1.75);
    EXPECT_EQ(character_token_f1("gpt", "gpt4"), 0);
    EXPECT_EQ(character_token_f1("。", "。"), 0) << "punctuation alone";
    // Rouge-L keeps punctuation: 他 来 了 。 and 他 走 了 。 share three of four.
    EXPECT_NEAR(character_rouge_l("他来了。", "他走了。"), 0.75, 1e-7);
    EXPECT_NEAR(character_rouge_l("GPT 3.5", "GPT 3.5"), 1, 1e-7);
    EXPECT_EQ(character_rouge_l("", "他"), 0);
}

TEST(ParagraphNumber, IsFoundInChinese) {
    EXPECT_EQ(paragraph_number("答案是段落12。", U"段落"), "12");
    EXPECT_EQ(paragraph_number("Paragraph 12", U"段落"), std::nullopt);
}

}  // namespace
}  // namespace pith::benchmarks::text_metrics_test
