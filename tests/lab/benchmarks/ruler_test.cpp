// ruler_test.cpp - RULER's prompts word by word, and its two scores worked by hand.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <regex>
#include <set>

#include "benchmarks/benchmark.h"
#include "lab/benchmarks/reader.h"
#include "lab/corpus/word_counter.h"

namespace pith::benchmarks::ruler_test {
namespace {

using testing::all_between;
using testing::split;

std::vector<Sample> make(std::string_view name, int n_tokens, int n_samples) {
    SampleRequest request;
    request.n_tokens = n_tokens;
    request.n_samples = n_samples;
    request.count = corpus::count_words;
    auto samples = find_task("ruler", name)->samples(request);
    EXPECT_TRUE(samples.ok()) << samples.status().message();
    return samples.ok() ? std::move(*samples) : std::vector<Sample>{};
}

// Needles as (key, value), in the order of the text.
std::vector<std::pair<std::string, std::string>> needles_of(const std::string & text, const std::string & what) {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto & body : all_between(text, "One of the special magic " + what + " for ", ".")) {
        const size_t at = body.find(" is: ");
        out.emplace_back(body.substr(0, at), body.substr(at + 5));
    }
    return out;
}

const std::string kNoise = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

TEST(RulerNeedles, AskForOneNumberInTheSingular) {
    for (const auto & sample : make("niah_single_1", 2048, 5)) {
        const auto needles = needles_of(sample.context, "numbers");
        ASSERT_EQ(needles.size(), 1U);
        const auto & [key, value] = needles[0];
        EXPECT_TRUE(std::regex_match(key, std::regex("[a-z]+-[a-z]+"))) << key;
        EXPECT_TRUE(std::regex_match(value, std::regex("[1-9][0-9]{6}"))) << value;
        EXPECT_EQ(sample.turns[0].question, "What is the special magic number for " + key + " mentioned in the provided text?");
        EXPECT_EQ(sample.turns[0].answer_prefix, " The special magic number for " + key + " mentioned in the provided text is");
        EXPECT_EQ(sample.turns[0].references, std::vector<std::string>{value});
        EXPECT_EQ(sample.turns[0].max_new_tokens, 128);
        auto lines = split(sample.context, '\n');
        EXPECT_EQ(
            lines.front(),
            "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the "
            "number afterwards.");
        lines.erase(lines.begin());
        EXPECT_EQ(std::erase(lines, "One of the special magic numbers for " + key + " is: " + value + "."), 1U);
        EXPECT_GT(std::erase(lines, kNoise), 50U);
        EXPECT_TRUE(lines.empty() || (lines.size() == 1 && kNoise.starts_with(lines[0])))
            << "only part of a line may fill the gap";
    }
}

TEST(RulerNeedles, AskForFourKeysInTheOrderOfTheAnswers) {
    for (const auto & sample : make("niah_multiquery", 2048, 5)) {
        const auto needles = needles_of(sample.context, "numbers");
        ASSERT_EQ(needles.size(), 4U);
        std::map<std::string, std::string> values(needles.begin(), needles.end());
        EXPECT_EQ(values.size(), 4U);
        const Turn & turn = sample.turns[0];
        std::smatch asked;
        ASSERT_TRUE(std::regex_match(turn.question, asked,
                                     std::regex("What are all the special magic numbers for (\\S+), (\\S+), (\\S+), and (\\S+) "
                                                "mentioned in the provided text\\?")));
        for (size_t i = 0; i < 4; ++i) { EXPECT_EQ(turn.references.at(i), values[asked[i + 1]]); }
        EXPECT_TRUE(turn.answer_prefix.starts_with(" The special magic numbers for ") &&
                    turn.answer_prefix.ends_with("text are"));
        EXPECT_TRUE(
            sample.context.starts_with("Some special magic numbers are hidden within the following text. Make sure to memorize "
                                       "it. I will quiz you about the "
                                       "numbers afterwards.\n"));
    }
}

TEST(RulerNeedles, GiveOneKeyFourValuesOrFourKeysOneEach) {
    const Sample multivalue = make("niah_multivalue", 1024, 1).at(0);
    std::set<std::string> keys;
    std::set<std::string> values;
    for (const auto & [key, value] : needles_of(multivalue.context, "numbers")) {
        keys.insert(key);
        values.insert(value);
    }
    EXPECT_EQ(keys.size(), 1U);
    EXPECT_EQ(values, std::set<std::string>(multivalue.turns[0].references.begin(), multivalue.turns[0].references.end()));
    EXPECT_TRUE(multivalue.turns[0].question.starts_with("What are all the special magic numbers for " + *keys.begin()));
    const Sample multikey = make("niah_multikey_1", 1024, 1).at(0);
    EXPECT_EQ(needles_of(multikey.context, "numbers").size(), 4U);
    EXPECT_EQ(multikey.turns[0].references.size(), 1U);
}

TEST(RulerNeedles, HideANeedleAmongNeedlesWithKeysOfTheirOwn) {
    const std::regex uuid("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
    for (const auto & [name, what] :
         std::map<std::string, std::string>{{"niah_multikey_2", "numbers"}, {"niah_multikey_3", "uuids"}}) {
        const Sample sample = make(name, 4096, 1).at(0);
        const auto needles = needles_of(sample.context, what);
        std::set<std::string> keys;
        for (const auto & [key, value] : needles) {
            EXPECT_TRUE(keys.insert(key).second) << key;
            if (what == "uuids") {
                EXPECT_TRUE(std::regex_match(key, uuid) && std::regex_match(value, uuid)) << key << " " << value;
            }
        }
        EXPECT_GT(needles.size(), 50U) << name;
        // At 4,096 tokens whole lines come within 2 %: nothing else is in the context.
        EXPECT_EQ(split(sample.context, '\n').size(), needles.size() + 1) << name;
    }
}

TEST(RulerNeedles, StandBetweenSentencesOfAnEssayAtAnyDepth) {
    std::set<int> tenths;
    for (const auto & sample : make("niah_single_2", 2048, 40)) {
        const size_t at = sample.context.find("One of the special magic");
        ASSERT_NE(at, std::string::npos);
        const std::string before = sample.context.substr(0, at);
        const bool at_end = sample.context.find('\n', at) == sample.context.size() - 1 && sample.context.substr(at).size() < 80;
        EXPECT_TRUE(before.ends_with(". ") || before.ends_with("\n ") || at_end) << before.substr(before.size() - 20);
        tenths.insert(static_cast<int>(10 * at / sample.context.size()));
    }
    EXPECT_GE(tenths.size(), 8U);
}

TEST(RulerVariables, ShowAWorkedExampleThenAskForTheChain) {
    for (const auto & sample : make("vt", 2048, 5)) {
        const std::string preamble = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n";
        ASSERT_EQ(all_between(sample.context, preamble.substr(0, 40), "text").size(), 2U);
        const size_t own = sample.context.rfind(preamble);
        const std::string example = sample.context.substr(0, own);
        std::smatch solved;
        ASSERT_TRUE(std::regex_search(example, solved,
                                      std::regex("\nQuestion: Find all variables that are assigned the value ([0-9]{5}) in the "
                                                 "text above\\. Answer: According to the "
                                                 "chain\\(s\\) of variable assignment in the text above, 5 variables are "
                                                 "assigned the value ([0-9]{5}), they are:  "
                                                 "([A-Z]{3}) ([A-Z]{3}) ([A-Z]{3}) ([A-Z]{3}) ([A-Z]{3})\n\n$")));
        EXPECT_EQ(solved[1], solved[2]);
        EXPECT_EQ(testing::read_chain(example, solved[1]), " " + solved[3].str() + " " + solved[4].str() + " " +
                                                               solved[5].str() + " " + solved[6].str() + " " + solved[7].str());
        EXPECT_NEAR(corpus::count_words(example), 500, 30);
        const Turn & turn = sample.turns[0];
        ASSERT_EQ(turn.references.size(), 5U);
        EXPECT_EQ(turn.max_new_tokens, 30);
        const std::string value = all_between(turn.question, "the value ", " in").at(0);
        EXPECT_EQ(turn.answer_prefix,
                  " Answer: According to the chain(s) of variable assignment in the text above, 5 variables are assigned "
                  "the value " +
                      value + ", they are: ");
        // In order, each but the first with the space that RULER leaves.
        size_t last = sample.context.find("\nVAR " + turn.references[0] + " = " + value + "\n", own);
        for (size_t i = 1; i < 5; ++i) {
            const size_t at =
                sample.context.find("VAR " + turn.references[i] + " = VAR " + turn.references[i - 1] + " \n", own);
            ASSERT_NE(at, std::string::npos);
            EXPECT_GT(at, last);
            last = at;
        }
    }
}

std::map<std::string, int> times_of(const std::string & list) {
    std::map<std::string, int> times;
    for (const auto & word : testing::numbered_words(list)) { ++times[word]; }
    return times;
}

TEST(RulerCommonWords, StandSixTimesToOneAndFromFourThousandTokensThirtyToThree) {
    struct Case {
        int n_tokens, common, other, example_words, example_common, example_other;
    };
    for (const Case & c : {Case{2048, 6, 1, 20, 3, 1}, Case{4095, 6, 1, 20, 3, 1}, Case{4096, 30, 3, 40, 10, 3}}) {
        const Sample sample = make("cwe", c.n_tokens, 1).at(0);
        const auto lists = all_between(sample.context, "Memorize the ones that appear most often.\n", "\n");
        ASSERT_EQ(lists.size(), 2U);
        const auto example = times_of(lists[0]);
        EXPECT_EQ(example.size(), static_cast<size_t>(c.example_words));
        const std::string shown =
            all_between(sample.context, "Answer: The top 10 words that appear most often in the list are:", "\n").at(0);
        EXPECT_TRUE(shown.starts_with(" 1. "));
        const auto shown_words = testing::numbered_words(shown);
        EXPECT_EQ(shown_words.size(), 10U);
        for (const auto & word : shown_words) { EXPECT_EQ(example.at(word), c.example_common) << word; }
        const Turn & turn = sample.turns[0];
        const auto times = times_of(lists[1]);
        EXPECT_EQ(turn.references.size(), 10U);
        for (const auto & word : turn.references) { EXPECT_EQ(times.at(word), c.common) << word; }
        EXPECT_EQ(std::count_if(times.begin(), times.end(), [&](const auto & item) { return item.second == c.other; }),
                  static_cast<int>(times.size()) - 10);
        EXPECT_TRUE(lists[1].starts_with("1. ") && lists[1].find(" 2. ") != std::string::npos);
        EXPECT_EQ(turn.question, "Question: What are the 10 most common words in the above list?");
        EXPECT_EQ(turn.answer_prefix, " Answer: The top 10 words that appear most often in the list are:");
    }
}

TEST(RulerCommonWords, GoOnWithCompoundsWhereTheListOfWordsEnds) {
    const Sample sample = make("cwe", 49152, 1).at(0);
    const std::string list = all_between(sample.context, "Memorize the ones that appear most often.\n", "\n").at(1);
    const auto times = times_of(list);
    EXPECT_GT(times.size(), 1900U);
    EXPECT_EQ(std::count_if(times.begin(), times.end(), [](const auto & item) { return item.second != 3; }), 10);
}

TEST(RulerFrequentWords, AreCountedByAZetaDistribution) {
    for (const int n_tokens : {1024, 4096}) {
        const Sample sample = make("fwe", n_tokens, 1).at(0);
        std::string list = testing::after_last(sample.context, "Find the three most frequently appeared coded words. ");
        ASSERT_TRUE(list.ends_with("\n"));
        list.pop_back();
        std::map<std::string, int> times;
        for (const auto & word : split(list, ' ')) { ++times[word]; }
        std::vector<int> counts;
        for (const auto & [word, n] : times) {
            counts.push_back(n);
            EXPECT_TRUE(word == "..." || std::regex_match(word, std::regex("[a-z]{6}"))) << word;
        }
        std::sort(counts.rbegin(), counts.rend());
        EXPECT_EQ(times["..."], counts[0]);
        // Some N gives all counts.
        const auto count_of = [](int n, size_t rank) {
            return static_cast<int>(n / std::pow(rank, 2.0) / (std::numbers::pi * std::numbers::pi / 6));
        };
        bool found = false;
        for (int n = 80; n < 2 * n_tokens && !found; ++n) {
            found = true;
            for (size_t k = 1; k <= counts.size() && found; ++k) { found = count_of(n, k) == counts[k - 1]; }
        }
        EXPECT_TRUE(found);
        for (size_t i = 0; i < 3; ++i) { EXPECT_EQ(times.at(sample.turns[0].references.at(i)), counts[i + 1]); }
        EXPECT_EQ(sample.turns[0].question,
                  "Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently "
                  "appeared "
                  "words in the above coded text?");
    }
}

double score(std::string_view task, const std::vector<std::string> & references, std::string_view prediction) {
    Turn turn;
    turn.references = references;
    return find_task("ruler", task)->score({}, turn, prediction);
}

TEST(RulerScore, IsTheShareOfReferencesThatThePredictionHoldsInAnyCase) {
    EXPECT_EQ(score("niah_multivalue", {"111", "222", "333", "444"}, " 111, 333 and 4444."), 0.75);  // 444 is inside 4444
    EXPECT_EQ(score("cwe", {"Acorn", "bell"}, "1. ACORN 2. tree"), 0.5);
    EXPECT_EQ(score("vt", {"ABCDE"}, "abcde"), 1);
    EXPECT_EQ(score("fwe", {"abcdef", "ghijkl", "mnopqr"}, "..."), 0);
    EXPECT_EQ(score("niah_single_1", {"111"}, ""), 0);
}

TEST(RulerScore, OfQuestionsIsWhetherAnyReferenceIsFound) {
    EXPECT_EQ(score("qa_1", {"in Paris", "Paris"}, "It was paris."), 1);
    EXPECT_EQ(score("qa_2", {"yes"}, "no"), 0);
    EXPECT_EQ(score("qa_2", {"\xC3\x89mile"}, "\xC3\xA9mile Zola"), 1);  // É and é
}

TEST(RulerScore, TurnsControlCharactersIntoLineBreaks) {
    EXPECT_EQ(score("qa_1", {"new york"}, "New\tYork"), 0);
    EXPECT_EQ(score("qa_1", {"new york"}, "\x01\x02New York\x1f"), 1);
    EXPECT_EQ(score("qa_1", {"new\nyork"}, "New\x01York"), 1);
}

}  // namespace
}  // namespace pith::benchmarks::ruler_test
