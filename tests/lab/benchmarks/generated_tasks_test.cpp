// generated_tasks_test.cpp - what holds for every generated task: length, a solvable question, no luck, the same sample again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "benchmarks/benchmark.h"
#include "lab/benchmarks/reader.h"
#include "lab/corpus/word_counter.h"

namespace pith::benchmarks::generated_tasks_test {
namespace {

const std::vector<std::string> kGenerated = {"ruler/niah_single_1",
                                             "ruler/niah_single_2",
                                             "ruler/niah_single_3",
                                             "ruler/niah_multikey_1",
                                             "ruler/niah_multikey_2",
                                             "ruler/niah_multikey_3",
                                             "ruler/niah_multivalue",
                                             "ruler/niah_multiquery",
                                             "ruler/vt",
                                             "ruler/cwe",
                                             "ruler/fwe",
                                             "needle/needle",
                                             "needle/needle_contains",
                                             "needlebench/single_retrieval",
                                             "needlebench/multi_retrieval",
                                             "needlebench/multi_reasoning"};

SampleRequest request_of(int n_tokens, int n_samples, uint64_t seed = 1) {
    SampleRequest request;
    request.n_tokens = n_tokens;
    request.n_samples = n_samples;
    request.seed = seed;
    request.count = corpus::count_words;
    return request;
}

std::vector<Sample> samples_of(const Task & task, const SampleRequest & request) {
    auto samples = task.samples(request);
    EXPECT_TRUE(samples.ok()) << task.rules().name << ": " << samples.status().message();
    return samples.ok() ? std::move(*samples) : std::vector<Sample>{};
}

std::string prompt_of(const Sample & sample) {
    return sample.context + sample.turns[0].question + sample.turns[0].answer_prefix;
}

class GeneratedTask : public ::testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        const size_t slash = GetParam().find('/');
        task_ = find_task(GetParam().substr(0, slash), GetParam().substr(slash + 1));
        ASSERT_NE(task_, nullptr);
    }
    const Task & task() const { return *task_; }

private:
    const Task * task_ = nullptr;
};

TEST_P(GeneratedTask, EndsWithinTwoPerCentUnderItsLimit) {
    for (const int n_tokens : {1024, 2048, 4096}) {
        const auto samples = samples_of(task(), request_of(n_tokens, 4));
        ASSERT_EQ(samples.size(), 4U);
        for (const auto & sample : samples) {
            ASSERT_EQ(sample.turns.size(), 1U);
            const int n = corpus::count_words(prompt_of(sample)) + sample.turns[0].max_new_tokens;
            EXPECT_LE(n, n_tokens) << sample.id;
            EXPECT_GE(n, n_tokens - n_tokens / 50) << sample.id;
        }
    }
}

TEST_P(GeneratedTask, IsSolvedByReadingTheTextAndNotByGuessing) {
    for (const int n_tokens : {1024, 2048, 4096}) {
        const auto samples = samples_of(task(), request_of(n_tokens, 8));
        double guessed = 0;
        for (size_t i = 0; i < samples.size(); ++i) {
            const Sample & sample = samples[i];
            const Turn & turn = sample.turns[0];
            EXPECT_EQ(task().score(sample, turn, testing::read_answer(task(), sample)), 1) << n_tokens << " " << sample.id;
            // Another sample's answer; where all have the same one, none.
            const bool same = task().rules().family == "needle";
            const std::string guess =
                same ? "I could not find this there." : testing::read_answer(task(), samples[(i + 1) % samples.size()]);
            guessed += task().score(sample, turn, guess) / static_cast<double>(samples.size());
            EXPECT_EQ(task().score(sample, turn, ""), 0);
        }
        EXPECT_LT(guessed, 0.06) << n_tokens;
    }
}

TEST_P(GeneratedTask, GivesTheSameSampleForTheSameSeedAndAnotherForAnother) {
    const auto first = samples_of(task(), request_of(1024, 3));
    const auto again = samples_of(task(), request_of(1024, 3));
    const auto other = samples_of(task(), request_of(1024, 3, 2));
    ASSERT_EQ(first.size(), 3U);
    for (size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(prompt_of(first[i]), prompt_of(again[i]));
        EXPECT_EQ(first[i].turns[0].references, again[i].turns[0].references);
        EXPECT_NE(prompt_of(first[i]), prompt_of(other[i]));
    }
    EXPECT_NE(prompt_of(first[0]), prompt_of(first[1]));
}

TEST_P(GeneratedTask, GivesTheSameSampleForAnIdHoweverManyAreAsked) {
    std::map<std::string, std::string> prompts;
    for (const auto & sample : samples_of(task(), request_of(1024, 5))) {
        EXPECT_TRUE(prompts.emplace(sample.id, prompt_of(sample)).second) << sample.id << " comes twice";
    }
    EXPECT_EQ(prompts.size(), 5U);
    for (const auto & sample : samples_of(task(), request_of(1024, 2))) { EXPECT_EQ(prompts[sample.id], prompt_of(sample)); }
}

TEST_P(GeneratedTask, SaysHowManyTokensItNeeds) {
    auto refused = task().samples(request_of(64, 1));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), ErrorCode::kBudget);
    const std::string needs = testing::all_between(refused.status().message(), "needs at least ", " tokens").at(0);
    EXPECT_NE(refused.status().message().find("'" + task().rules().name + "'"), std::string::npos);
    const int n = std::stoi(needs);
    EXPECT_TRUE(task().samples(request_of(n, 1)).ok()) << n;
    EXPECT_FALSE(task().samples(request_of(n - 1, 1)).ok()) << n;
    EXPECT_FALSE(task().samples(SampleRequest{}).ok());
}

TEST_P(GeneratedTask, TakesItsEssaysFromTheUsersText) {
    SampleRequest request = request_of(2048, 1);
    const std::string before = samples_of(task(), request).at(0).context;
    request.haystack = "Zebras graze.\nWhen Dr. Who left, nobody saw it! Rain fell.";
    const Sample sample = samples_of(task(), request).at(0);
    const bool has_essay = before.find(" the ") != std::string::npos && sample.context != before;
    EXPECT_EQ(sample.context.find("Zebras graze.") != std::string::npos, has_essay);
    EXPECT_EQ(task().score(sample, sample.turns[0], testing::read_answer(task(), sample)), 1);
    request.haystack = " \n ";
    EXPECT_EQ(task().samples(request).ok(), !has_essay);
}

std::string test_name(std::string name) {
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Every, GeneratedTask, ::testing::ValuesIn(kGenerated),
                         [](const auto & test) { return test_name(test.param); });

TEST(GeneratedTasks, AreAllTestedHere) {
    std::vector<std::string> all;
    for (const auto & task : all_tasks()) {
        if (task->rules().family == "world") { continue; }  // world_tasks_test.cpp
        if (task->rules().file.empty()) { all.push_back(task->rules().family + "/" + task->rules().name); }
    }
    EXPECT_EQ(all, kGenerated);
}

}  // namespace
}  // namespace pith::benchmarks::generated_tasks_test
