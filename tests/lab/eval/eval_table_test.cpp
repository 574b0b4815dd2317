// eval_table_test.cpp - answers into rows, with numbers that can be worked out by hand.
#include "eval/report/eval_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "eval/report/compare_runs.h"
#include "eval/report/eval_report.h"
#include "eval/report/sample_table.h"
#include "figures/text_table.h"

namespace pith::eval_table_test {
namespace {

RunInfo two_tasks() {
    RunInfo info;
    info.family = "fake";
    info.tasks = {{"a", "F1", {"depth"}, false}, {"b", "exact match", {}, false}};
    info.lengths = {512};
    info.cases = {{"full", ""}, {"snapkv", "20%"}, {"h2o", "20%"}};
    info.settings = {{"FAMILY", "fake"}, {"model", "tiny"}, {"--samples", "4"}};
    return info;
}

Answer make(const std::string & task, int index, const std::string & policy, double score, int turn = 0) {
    Answer answer;
    answer.task = task;
    answer.length = 512;
    answer.sample = "s" + std::to_string(index);
    answer.index = index;
    answer.turn = turn;
    answer.policy = policy;
    answer.budget = policy == "full" ? "" : "20%";
    answer.groups = {{"depth", index % 2 == 0 ? "0" : "50"}};
    answer.score = score;
    answer.kept = policy == "full" ? 500 : 100;
    answer.n_prompt = 500;
    answer.n_kv_heads = 2;
    return answer;
}

std::vector<Answer> some_answers() {
    std::vector<Answer> answers;
    const double full[] = {1, 1, 0.5, 1};
    const double snapkv[] = {1, 0, 0.5, 0.5};
    for (int i = 0; i < 4; ++i) {
        answers.push_back(make("a", i, "full", full[i]));
        answers.push_back(make("a", i, "snapkv", snapkv[i]));
        answers.push_back(make("b", i, "full", 1));
        answers.push_back(make("b", i, "snapkv", i < 1 ? 1 : 0));
        answers.push_back(make("a", i, "h2o", 0.25));
    }
    return answers;
}

TEST(EvalTable, MeansAndDifferencesAreThoseOfTheSamples) {
    const EvalTable table = make_eval_table(two_tasks(), some_answers());
    const EvalRow * a = table.find("a", 512, 1);
    ASSERT_NE(a, nullptr);
    EXPECT_NEAR(*a->score, 50, 1e-9);          // (1 + 0 + ½ + ½)/4
    EXPECT_NEAR(*a->difference, -37.5, 1e-9);  // (0 − 1 + 0 − ½)/4
    EXPECT_LE(a->difference_interval->low, -37.5);
    EXPECT_GE(a->difference_interval->high, -37.5);
    EXPECT_EQ(a->kept, 100);
    EXPECT_FALSE(table.find("a", 512, 0)->difference.has_value());
    const EvalRow * b = table.find("b", 512, 1);
    EXPECT_NEAR(*b->score, 25, 1e-9);
    const Interval wilson = wilson_interval(1, 4);
    EXPECT_NEAR(b->interval->low, wilson.low * 100, 1e-9);
    EXPECT_NEAR(b->interval->high, wilson.high * 100, 1e-9);
}

TEST(EvalTable, TheAverageWeighsTasksAlike) {
    const EvalTable table = make_eval_table(two_tasks(), some_answers());
    const EvalRow * average = table.find("", 512, 1);
    ASSERT_NE(average, nullptr);
    EXPECT_NEAR(*average->score, (50 + 25) / 2.0, 1e-9);
    EXPECT_NEAR(*average->difference, (-37.5 - 75) / 2.0, 1e-9);
    const EvalRow * a = table.find("a", 512, 1);
    const EvalRow * b = table.find("b", 512, 1);
    const double above = std::hypot(a->interval->high - *a->score, b->interval->high - *b->score) / 2;
    EXPECT_NEAR(average->interval->high - *average->score, above, 1e-6);
    EXPECT_EQ(table.find("", 512, 2), nullptr) << "h2o has no answer to b";
    EXPECT_EQ(table.find("b", 512, 2), nullptr);
}

// At 0 and at 100 the normal interval is a point, and near them it leaves the range.
TEST(EvalTable, IntervalsHaveAWidthAndStayWithinZeroAndAHundred) {
    for (const double score : {0.0, 0.1, 0.9, 1.0}) {
        std::vector<Answer> answers;
        for (int i = 0; i < 30; ++i) {
            for (const char * task : {"a", "b"}) {
                answers.push_back(make(task, i, "full", i == 0 ? score : std::round(score)));
                answers.push_back(make(task, i, "snapkv", i == 0 ? score : std::round(score)));
            }
        }
        const EvalTable table = make_eval_table(two_tasks(), answers);
        for (const char * task : {"a", ""}) {
            const EvalRow * row = table.find(task, 512, 1);
            ASSERT_NE(row, nullptr);
            EXPECT_GE(row->interval->low, 0) << task << score;
            EXPECT_LE(row->interval->high, 100) << task << score;
            EXPECT_GT(row->interval->high - row->interval->low, 5) << task << score;
            EXPECT_EQ(*row->difference_interval, (Interval{0, 0})) << "answers alike, " << task << score;
            EXPECT_EQ(*row->p, 1) << task << score;
        }
    }
}

// 100 entries a head of 500 are kept: too few for any of duo's heads to keep more than the others.
TEST(EvalTable, ARowWhosePolicyHadNothingToChooseIsMarked) {
    RunInfo info = two_tasks();
    info.cases = {{"full", ""}, {"duo", "20%"}, {"snapkv", "20%"}};
    std::vector<Answer> answers;
    for (int i = 0; i < 4; ++i) {
        for (const char * policy : {"full", "duo", "snapkv"}) {
            answers.push_back(make("a", i, policy, 1));
            answers.push_back(make("b", i, policy, 1));
        }
    }
    const std::string why = "all heads are alike: each has room for 320 entries, and 100 are kept";
    const EvalTable table = make_eval_table(info, answers);
    EXPECT_EQ(table.find("a", 512, 1)->no_choice, why);
    EXPECT_EQ(table.find("", 512, 1)->no_choice, why);
    EXPECT_EQ(table.find("", 512, 2)->no_choice, "");
    const std::string text = eval_text(table, false);
    EXPECT_NE(text.find("duo*"), std::string::npos) << text;
    EXPECT_EQ(text.find("snapkv*"), std::string::npos) << text;
    EXPECT_NE(text.find("* duo at 20%, 512 tokens: " + why + "\n"), std::string::npos) << text;
    EXPECT_NE(eval_csv(table).find(why.substr(0, 20)), std::string::npos);
    for (Answer & answer : answers) { answer.n_prompt = 100; }  // nothing was evicted
    EXPECT_EQ(make_eval_table(info, answers).find("a", 512, 1)->no_choice, "");
}

TEST(EvalTable, TheScoresOfEverySampleAreALineEach) {
    const std::string csv = sample_csv(two_tasks(), some_answers());
    EXPECT_EQ(csv.substr(0, csv.find('\n')), "task,context,sample,full,snapkv 20%,h2o 20%");
    EXPECT_NE(csv.find("\na,512,s2,0.5,0.5,0.25\n"), std::string::npos) << csv;
    EXPECT_NE(csv.find("\nb,512,s0,1,1,\n"), std::string::npos) << csv;
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
}

TEST(EvalTable, ASingleSampleHasAWideInterval) {
    std::vector<Answer> answers;
    for (const Answer & answer : some_answers()) {
        if (answer.index == 2) { answers.push_back(answer); }
    }
    const EvalTable table = make_eval_table(two_tasks(), answers);
    for (const char * task : {"a", "b"}) {
        EXPECT_GT(table.find(task, 512, 1)->interval->high - table.find(task, 512, 1)->interval->low, 60) << task;
    }
}

TEST(EvalTable, BytesAreAMeanWhereEveryAnswerSaysThem) {
    std::vector<Answer> answers = some_answers();
    for (Answer & answer : answers) { answer.kv_bytes = 1000 + 100 * answer.index + (answer.task == "b" ? 10 : 0); }
    const EvalTable table = make_eval_table(two_tasks(), answers);
    EXPECT_NEAR(*table.find("a", 512, 1)->kv_bytes, 1150, 1e-9);
    EXPECT_NEAR(*table.find("", 512, 1)->kv_bytes, 1155, 1e-9);
    EXPECT_NE(eval_csv(table).find(",1155,"), std::string::npos);
    answers[1].kv_bytes = 0;  // snapkv's first, of a
    const EvalTable partly = make_eval_table(two_tasks(), answers);
    EXPECT_FALSE(partly.find("a", 512, 1)->kv_bytes.has_value());
    EXPECT_FALSE(partly.find("", 512, 1)->kv_bytes.has_value());
    EXPECT_TRUE(partly.find("b", 512, 1)->kv_bytes.has_value());
}

TEST(EvalTable, GroupsHoldTheirOwnSamples) {
    const EvalTable table = make_eval_table(two_tasks(), some_answers());
    const auto at = std::find_if(table.rows.begin(), table.rows.end(), [](const EvalRow & row) {
        return row.task == "a" && row.index == 1 && row.group == "depth" && row.value == "50";
    });
    ASSERT_NE(at, table.rows.end());
    EXPECT_NEAR(*at->score, 25, 1e-9);  // samples 1 and 3
    EXPECT_NEAR(*at->difference, -75, 1e-9);
    EXPECT_EQ(at->n_samples, 2);
}

TEST(EvalTable, TurnsAreAveragedWithinTheirSampleAndShownByThemselves) {
    RunInfo info = two_tasks();
    info.tasks = {{"a", "F1", {}, false}};
    std::vector<Answer> answers;
    for (int turn = 0; turn < 3; ++turn) { answers.push_back(make("a", 0, "full", turn == 0 ? 1 : 0, turn)); }
    answers.push_back(make("a", 1, "full", 1));
    const EvalTable table = make_eval_table(info, answers);
    EXPECT_NEAR(*table.find("a", 512, 0)->score, 100 * (1.0 / 3 + 1) / 2, 1e-9);
    EXPECT_EQ(table.find("a", 512, 0)->n_samples, 2);
    std::vector<std::string> turns;
    for (const EvalRow & row : table.rows) {
        if (row.group == "turn") { turns.push_back(row.value + " " + fixed(*row.score, 0)); }
    }
    EXPECT_EQ(turns, (std::vector<std::string>{"1 100", "2 0", "3 0"}));
}

TEST(EvalTable, TheOrderOfTheAnswersIsNowhereToBeSeen) {
    std::vector<Answer> answers = some_answers();
    for (size_t i = 0; i < answers.size(); ++i) { answers[i].lanes = {static_cast<int>(i), 3, 7, 1}; }
    const EvalTable table = make_eval_table(two_tasks(), answers);
    const std::string before =
        eval_text(table, true) + eval_csv(table) + eval_json(table) + eval_markdown(table) + eval_svg(table, answers);
    std::mt19937 random(3);
    std::shuffle(answers.begin(), answers.end(), random);
    const EvalTable again = make_eval_table(two_tasks(), answers);
    EXPECT_EQ(eval_text(again, true) + eval_csv(again) + eval_json(again) + eval_markdown(again) + eval_svg(again, answers),
              before);
    EXPECT_NE(before.find("average"), std::string::npos);
}

TEST(EvalTable, RefusedAndMissingAnswersAreSaid) {
    std::vector<Answer> answers = some_answers();
    for (Answer & answer : answers) {
        if (answer.task == "a" && answer.policy == "snapkv") {
            answer.refused = "too small a budget";
            answer.score = 0;
        }
    }
    const EvalTable table = make_eval_table(two_tasks(), answers);
    const EvalRow * row = table.find("a", 512, 1);
    ASSERT_NE(row, nullptr);
    EXPECT_FALSE(row->score.has_value());
    EXPECT_EQ(row->n_refused, 4);
    EXPECT_EQ(table.find("", 512, 1), nullptr) << "an average over tasks that are not all there";
    EXPECT_NE(eval_text(table, false).find("refused 4 samples: too small a budget"), std::string::npos);
}

TEST(EvalTable, ATaskThatDoesNotFitIsLeftOutOfTheAverageAndNamed) {
    std::vector<Answer> answers;
    for (const Answer & answer : some_answers()) {
        if (answer.task == "a") { answers.push_back(answer); }
    }
    EXPECT_EQ(make_eval_table(two_tasks(), answers).find("", 512, 1), nullptr) << "b is not answered yet";
    Answer left_out;
    left_out.task = "b";
    left_out.length = 512;
    left_out.turn = -1;
    left_out.refused = "task 'b' needs at least 902 tokens, and 511 are left to it by --context 512";
    answers.push_back(left_out);
    const EvalTable table = make_eval_table(two_tasks(), answers);
    ASSERT_NE(table.find("", 512, 1), nullptr);
    EXPECT_EQ(*table.find("", 512, 1)->score, *table.find("a", 512, 1)->score);
    EXPECT_NE(eval_text(table, false).find("b at 512 tokens: left out: task 'b' needs at least 902 tokens"), std::string::npos);
    EXPECT_NE(eval_json(table).find("\"task_left_out\": \"task 'b' needs"), std::string::npos);
}

TEST(EvalTable, CsvQuotesWhatNeedsIt) {
    EXPECT_EQ(to_csv({{"a", "b"}, {{"x,y", "say \"hi\""}, {"1", ""}}}), "a,b\n\"x,y\",\"say \"\"hi\"\"\"\n1,\n");
    EXPECT_EQ(fixed(-0.001, 2), "0.00");
    EXPECT_EQ(fixed(-1.25, 1), "-1.2");
}

TEST(EvalTable, WhatIsNotZeroOrNotSignificantDoesNotLookAsIfItWere) {
    EXPECT_EQ(interval_text(0.02, 3.44, 1), "[0.02, 3.4]");
    EXPECT_EQ(interval_text(-3, -0.0004, 1), "[-3.0, -0.0004]");
    EXPECT_EQ(interval_text(0, 0.5, 1), "[0.0, 0.5]");
    EXPECT_EQ(p_text(0.049999), "0.0499");
    EXPECT_EQ(p_text(0.0501), "0.0501");
    EXPECT_EQ(p_text(1), "1.0000");
    EXPECT_EQ(p_text(0.00002), "2.0e-05");
}

std::unique_ptr<RunFolder> folder_with(const RunInfo & info, const std::vector<Answer> & answers) {
    auto folder = RunFolder::open("", info);
    EXPECT_TRUE(folder.ok() && (*folder)->append(answers).ok());
    return std::move(*folder);
}

TEST(CompareRuns, PairsSamplesByTheirIds) {
    std::vector<Answer> first = some_answers();
    std::vector<Answer> second = some_answers();
    // The second run answers one more of b under snapkv, and has its samples in another order.
    for (Answer & answer : second) {
        if (answer.task == "b" && answer.policy == "snapkv" && answer.index == 1) { answer.score = 1; }
        answer.index = 3 - answer.index;
    }
    const auto comparison = compare_runs(*folder_with(two_tasks(), first), *folder_with(two_tasks(), second));
    ASSERT_TRUE(comparison.ok()) << comparison.status().message();
    const auto row = [&](const std::string & task, const std::string & policy) {
        return *std::find_if(comparison->rows.begin(), comparison->rows.end(),
                             [&](const CompareRow & r) { return r.task == task && r.first.policy == policy; });
    };
    EXPECT_NEAR(row("b", "snapkv").difference, 25, 1e-9);
    EXPECT_NEAR(row("b", "snapkv").first_score, 25, 1e-9);
    EXPECT_EQ(row("b", "snapkv").p, 1) << "one discordant pair says nothing";
    EXPECT_EQ(row("a", "snapkv").difference, 0);
    EXPECT_NEAR(row("", "snapkv").difference, 12.5, 1e-9);
    EXPECT_TRUE(row("", "snapkv").is_exact);
    EXPECT_EQ(row("", "snapkv").n_samples, 8);
}

// As a study asks: named pairs, overall, in one table that Holm's adjustment is over.
TEST(CompareRuns, HoldsNamedPairsAgainstEachOtherOverAllTasks) {
    const auto pairs = parse_pairs("snapkv<full,h2o<full,snapkv<snapkv");
    ASSERT_EQ(pairs.size(), 3U);
    EXPECT_EQ(pairs[1].first, "h2o");
    EXPECT_EQ(pairs[1].second, "full");
    const auto folder = folder_with(two_tasks(), some_answers());
    const auto comparison = compare_runs(*folder, *folder, {.policies = pairs, .overall = true});
    ASSERT_TRUE(comparison.ok()) << comparison.status().message();
    ASSERT_EQ(comparison->rows.size(), 2U) << "h2o has not answered all tasks";
    EXPECT_EQ(comparison->rows[0].first.policy, "snapkv");
    EXPECT_EQ(comparison->rows[0].second.policy, "full");
    EXPECT_NEAR(comparison->rows[0].difference, (37.5 + 75) / 2, 1e-9);
    EXPECT_EQ(comparison->rows[1].difference, 0);
    EXPECT_NEAR(comparison->rows[0].p_holm, 2 * comparison->rows[0].p, 1e-12);
    RunInfo unasked = two_tasks();
    unasked.tasks.push_back({"c", "F1", {}, false});  // no sample of it is short enough
    const auto without = folder_with(unasked, some_answers());
    EXPECT_NEAR(compare_runs(*without, *without, {.policies = pairs, .overall = true})->rows[0].difference, (37.5 + 75) / 2,
                1e-9);
    const auto alone = compare_runs(*folder, *folder, {.policies = pairs, .tasks = {"b"}, .overall = true});
    ASSERT_TRUE(alone.ok());
    EXPECT_EQ(alone->rows[0].task, "b") << "of a single task its own row";
}

TEST(CompareRuns, HoldsOnePolicyAgainstAnother) {
    RunInfo info = two_tasks();
    info.tasks = {{"a", "F1", {}, false}};
    std::vector<Answer> answers;
    for (int i = 0; i < 10; ++i) {
        answers.push_back(make("a", i, "snapkv", 1));
        answers.push_back(make("a", i, "h2o", i == 0 ? 1 : 0));
    }
    const auto folder = folder_with(info, answers);
    const auto comparison = compare_runs(*folder, *folder, {.policies = {{"h2o", "snapkv"}}});
    ASSERT_TRUE(comparison.ok());
    ASSERT_EQ(comparison->rows.size(), 1U);
    EXPECT_NEAR(comparison->rows[0].difference, 90, 1e-9);
    EXPECT_NEAR(comparison->rows[0].p, 2.0 / 512, 1e-9);
    EXPECT_GT(comparison->rows[0].interval->low, 0);
    EXPECT_EQ(compare_runs(*folder, *folder, {.policies = {{"tova", "snapkv"}}}).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pith::eval_table_test
