// needles_test.cpp - Kamradt's grid and NeedleBench: where needles stand, and their scores worked by hand.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "benchmarks/benchmark.h"
#include "benchmarks/needles/kinship.h"
#include "lab/benchmarks/reader.h"
#include "lab/corpus/word_counter.h"

namespace pith::benchmarks::needles_test {
namespace {

std::vector<Sample> make(std::string_view family, std::string_view name, int n_tokens, int n_samples) {
    SampleRequest request;
    request.n_tokens = n_tokens;
    request.n_samples = n_samples;
    request.count = corpus::count_words;
    auto samples = find_task(family, name)->samples(request);
    EXPECT_TRUE(samples.ok()) << samples.status().message();
    return samples.ok() ? std::move(*samples) : std::vector<Sample>{};
}

const std::string kNeedle =
    "\nThe best thing to do in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day.\n";

TEST(NeedleGrid, PutsTheNeedleAfterAFullStopAtEveryDepth) {
    const auto samples = make("needle", "needle", 2048, 0);
    ASSERT_EQ(samples.size(), 35U);
    EXPECT_EQ(samples[0].id, "depth-0");
    EXPECT_EQ(samples[1].groups.at("depth"), "3");  // 100 / 34, rounded
    EXPECT_EQ(samples[34].groups.at("depth"), "100");
    for (const auto & sample : samples) {
        const std::string book =
            testing::all_between(sample.context, "This is a very long story book: <book> ", " </book>.\n").at(0);
        const size_t at = book.find(kNeedle);
        ASSERT_NE(at, std::string::npos);
        const double depth = std::stod(sample.groups.at("depth"));
        if (depth == 0) { EXPECT_EQ(at, 0U); }
        if (depth > 0 && depth < 100) { EXPECT_EQ(book[at - 1], '.'); }
        if (depth == 100) { EXPECT_TRUE(book.ends_with(kNeedle)); }
        EXPECT_NEAR(100.0 * static_cast<double>(at) / static_cast<double>(book.size() - kNeedle.size()), depth, 2.5) << depth;
        EXPECT_EQ(sample.turns[0].question,
                  " Based on the content of the book, Question: The best thing to do in San Francisco is: \n");
        EXPECT_EQ(sample.turns[0].answer_prefix, "Answer:");
    }
}

TEST(NeedleGrid, SpreadsTheDepthsThatAreAskedFor) {
    std::string depths;
    for (const auto & sample : make("needle", "needle_contains", 1024, 5)) { depths += sample.groups.at("depth") + " "; }
    EXPECT_EQ(depths, "0 25 50 75 100 ");
    EXPECT_EQ(make("needle", "needle", 1024, 1).at(0).id, "depth-50");
    EXPECT_EQ(make("needle", "needle", 512, 1000).size(), 101U);
}

TEST(NeedleGrid, HasTheSamePromptsForBothScores) {
    const auto first = make("needle", "needle", 1024, 3);
    const auto second = make("needle", "needle_contains", 1024, 3);
    for (size_t i = 0; i < 3; ++i) { EXPECT_EQ(first[i].context, second[i].context); }
}

double grid_score(std::string_view task, std::string_view prediction) {
    return find_task("needle", task)->score({}, {}, prediction);
}

// The eleven different words: eat a sandwich and sit in dolores park on sunny day.
TEST(NeedleGrid, ScoresTheShareOfTheAnswersWords) {
    EXPECT_EQ(grid_score("needle", " Eat a SANDWICH and sit in Dolores Park on a sunny day."), 1);
    EXPECT_EQ(grid_score("needle", "eat a sandwich"), 3.0 / 11);
    EXPECT_EQ(grid_score("needle", "eat eat eat"), 1.0 / 11);
    EXPECT_EQ(grid_score("needle", "Dolores Park, on a sunny day"), 4.0 / 11);  // "park," and "day" are other words
    EXPECT_EQ(grid_score("needle", ""), 0);
}

TEST(NeedleGrid, ScoresWhetherTheAnswerIsContained) {
    EXPECT_EQ(grid_score("needle_contains", "You should eat a sandwich, and sit in the Dolores Park on a sunny day!"), 1);
    EXPECT_EQ(grid_score("needle_contains", "Eat a sandwich and sit in Dolores Park."), 0);
    EXPECT_EQ(grid_score("needle_contains", ""), 0);
}

TEST(NeedleBench, AsksForOneItemAtEachDepth) {
    std::map<std::string, int> depths;
    std::set<std::string> items;
    for (const auto & sample : make("needlebench", "single_retrieval", 2048, 22)) {
        ++depths[sample.groups.at("depth")];
        const std::string document = testing::all_between(sample.context, "<Document>\n", "\n</Document>").at(0);
        const std::string needle = "\nThe legendary item hidden on the ";
        const size_t at = document.find(needle);
        ASSERT_NE(at, std::string::npos);
        EXPECT_NEAR(100.0 * static_cast<double>(at) / static_cast<double>(document.size()),
                    std::stod(sample.groups.at("depth")), 3.5);
        const std::string island = testing::all_between(document, needle, " is the legendary").at(0);
        EXPECT_EQ(sample.turns[0].question,
                  "Based on the information in the document, now please answer: What legendary item is hidden on the " +
                      island + "? Please answer in the format 'The legendary item hidden on the " + island + " is ______.'\n");
        items.insert(sample.turns[0].references.at(0));
    }
    EXPECT_EQ(depths.size(), 11U);
    for (const auto & [depth, n] : depths) { EXPECT_EQ(n, 2) << depth; }
    EXPECT_GT(items.size(), 20U);
}

TEST(NeedleBench, AsksForElevenItemsAtOnce) {
    const Sample sample = make("needlebench", "multi_retrieval", 2048, 1).at(0);
    const Turn & turn = sample.turns[0];
    ASSERT_EQ(turn.references.size(), 11U);
    EXPECT_EQ(testing::all_between(sample.context, "\nThe legendary item hidden on the ", "\n").size(), 11U);
    EXPECT_EQ(testing::all_between(turn.question, "What legendary item is hidden on the ", "?").size(), 11U);
    EXPECT_NE(turn.question.find("?、What legendary"), std::string::npos);
    EXPECT_NE(turn.question.find("?Please answer in the format of 'The legendary item hidden on the "), std::string::npos);
    const Task & task = *find_task("needlebench", "multi_retrieval");
    EXPECT_DOUBLE_EQ(task.score(sample, turn, turn.references[0] + " and " + turn.references[7]), 2.0 / 11);
    std::string lower = turn.references[0];
    for (char & c : lower) { c = static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
    EXPECT_EQ(task.score(sample, turn, lower), 0) << "case counts";
}

TEST(NeedleBench, SpreadsReasoningOverDepthsAndNumbersOfNeedles) {
    std::set<std::pair<std::string, std::string>> cases;
    for (const auto & sample : make("needlebench", "multi_reasoning", 1024, 44)) {
        cases.emplace(sample.groups.at("depth"), sample.groups.at("needles"));
        const auto lines = testing::split(testing::all_between(sample.context, "<Document>\n", "\n</Document>").at(0), '\n');
        const auto n = std::count_if(lines.begin(), lines.end(), [](const auto & line) {
            return line.size() < 150 && (line.find("'s ") != std::string::npos || line.starts_with("For "));
        });
        EXPECT_EQ(n, std::stoi(sample.groups.at("needles"))) << sample.id;
    }
    EXPECT_EQ(cases.size(), 44U);
}

TEST(KinChain, NamesEveryoneOnceAsElderAndOnceAsYounger) {
    corpus::Random random(corpus::SeedSpace::kTask, 3, 3);
    for (int i = 0; i < 50; ++i) {
        const KinChain chain = draw_kin_chain(random, 5);
        ASSERT_EQ(chain.sentences.size(), 5U);
        std::string text;
        for (const auto & sentence : chain.sentences) { text += sentence + "\n"; }
        EXPECT_EQ(testing::read_eldest(text, chain.youngest), chain.eldest) << text;
    }
}

TEST(BoxedAnswer, IsTheLastBoxCleaned) {
    EXPECT_EQ(boxed_answer("First \\boxed{A B}, no: \\boxed{Adam  Abbott}."), "Adam Abbott");
    EXPECT_EQ(boxed_answer("\\boxed{{Adam Abbott}}"), "Adam Abbott");
    EXPECT_EQ(boxed_answer("$\\boxed{\\text{Adam~Abbott}}$"), "Adam Abbott");
    EXPECT_EQ(boxed_answer("\\boxed{'Adam\\ Abbott'}"), "Adam Abbott");
    EXPECT_EQ(boxed_answer("\\boxed{Adam"), "None");
    EXPECT_EQ(boxed_answer("Adam Abbott"), "None");
    EXPECT_EQ(boxed_answer("\\boxed Adam"), "None");
}

}  // namespace
}  // namespace pith::benchmarks::needles_test
