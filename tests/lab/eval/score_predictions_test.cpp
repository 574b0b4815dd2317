// score_predictions_test.cpp - predictions in every published shape, and what is said of lines that are none.
#include "eval/score_predictions.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "eval/report/score_report.h"

namespace pith::score_predictions_test {
namespace {

using Rows = std::vector<ScoredPredictions>;

Result<std::string> no_data(const std::string & file) {
    return {ErrorCode::kNotFound, "name the folder with '" + file + "'"};
}

Result<Rows> scored(const std::string & name, const std::string & text, const ReadDataFile & data = no_data,
                    const std::string & task = "") {
    PredictionFile file{name, text, "", nullptr};
    if (!task.empty()) { file.task = *task_by_name(task); }
    return score_predictions(file, data);
}

struct Shape {
    std::string file, lines, task;
    double score;
};

// Two lines each, the second of them wrong unless said otherwise.
TEST(ScorePredictions, ReadsTheShapesThatBenchmarksPublish) {
    const Shape shapes[] = {
        {"results/gpt4/preds_kv_retrieval.jsonl",
         R"({"id": 0, "prediction": "It is \"c14c-b8ba\".", "ground_truth": "c14c-b8ba"}
{"id": 1, "prediction": "\"f300-91db\"", "ground_truth": "a6d5-6913"}
)",
         "infinitebench/kv_retrieval", 0.5},
        {"preds_longbook_choice_eng.jsonl",
         R"({"id": 0, "pred": "B", "label": ["Bo", "B"]}
{"id": 1, "pred": "C. Cy", "label": ["Bo", "B"]}
)",
         "infinitebench/longbook_choice_eng", 0.5},
        {"preds_math_find.jsonl",
         R"({"id": 0, "prediction": "88", "ground_truth": 88}
{"id": 1, "prediction": "0.50", "ground_truth": 0.5}
{"id": 2, "prediction": "7", "ground_truth": [8], "truncated": true}
)",
         "infinitebench/math_find", 2.0 / 3},
        {"preds_code_run.jsonl",
         R"({"id": 0, "prediction": "The return value is: -4.", "ground_truth": -4}
{"id": 1, "prediction": "4 or so", "ground_truth": [4]}
)",
         "infinitebench/code_run", 0.5},
        {"preds_math_calc.jsonl",
         R"({"id": 0, "prediction": "[1, 4, 8, 2]", "ground_truth": [[1, 4, 8, 3]]}
{"id": 1, "prediction": "4", "ground_truth": [4, 5, 6, 7]}
)",
         "infinitebench/math_calc", 0.5},
        {"qasper.jsonl",
         R"({"pred": "the WSJ", "answers": ["PTB", "WSJ"], "all_classes": null, "length": 4200}
{"pred": "Brown", "answers": ["WSJ"], "all_classes": null, "length": 4200}
)",
         "longbench/qasper", 0.5},
        {"snapkv.json",
         R"([{"pred": "Distance\nQuestion:", "answers": ["Distance"], "all_classes": ["Person", "Distance"], "dataset": "trec"},
             {"pred": "Person", "answers": ["Distance"], "all_classes": ["Person", "Distance"], "dataset": "trec"}])",
         "longbench/trec", 0.5},
        {"niah_multivalue.jsonl",
         R"({"index": 0, "pred": "1, 2 and 3", "input": "…", "outputs": ["1", "2", "3", "4"], "others": {}, "truncation": -1, "length": 4096}
)",
         "ruler/niah_multivalue", 0.75},
        {"qa1.json",
         R"({"output": "The most recent location of Mary is office.", "target": "office", "question": "Where is Mary?"}
{"output": "kitchen", "target": "office", "question": "Where is Mary?"}
)",
         "babilong/qa1", 0.5},
        {"longbench_v2.jsonl",
         R"({"_id": "a", "response": "The correct answer is (B).", "pred": "B", "answer": "B", "judge": true, "length": "short"}
{"_id": "b", "response": "None.", "pred": null, "answer": "C", "judge": false, "length": "short"}
)",
         "longbench-v2/longbench_v2", 0.5},
        {"prediction_scbench_kv.jsonl",
         R"({"id": 0, "turn_idx": 0, "prediction": "1x", "ground_truth": "1x"}
{"id": 0, "turn_idx": 1, "prediction": "?", "ground_truth": "2y"}
{"id": 1, "turn_idx": 0, "prediction": "3z", "ground_truth": "3z"}
)",
         "scbench/scbench_kv", 0.75},
    };
    for (const Shape & shape : shapes) {
        const auto rows = scored(shape.file, shape.lines);
        ASSERT_TRUE(rows.ok()) << rows.status().message();
        ASSERT_EQ(rows->size(), 1U) << shape.file;
        const ScoredPredictions & row = rows->front();
        EXPECT_EQ(row.task->rules().family + "/" + row.task->rules().name, shape.task);
        EXPECT_NEAR(row.score->mean, shape.score, 1e-12) << shape.file;
        EXPECT_LT(row.score->interval.low, shape.score);
        EXPECT_GT(row.score->interval.high, shape.score);
    }
}

TEST(ScorePredictions, OwnAnswersAreScoredByTaskLengthPolicyAndBudget) {
    const std::string text =
        R"({"task":"vt","length":512,"sample":"0","index":0,"turn":0,"policy":"snapkv","budget":"20%","prediction":"AAA","references":["AAA","BBB"]}
{"task":"vt","length":512,"sample":"0","index":0,"turn":0,"policy":"full","budget":"","prediction":"AAA BBB","references":["AAA","BBB"]}
{"task":"vt","length":512,"sample":"1","index":1,"turn":0,"policy":"snapkv","budget":"20%","refused":"too small"}
{"task":"cwe","length":512,"sample":"9","index":9,"turn":-1,"policy":"","budget":"","refused":"too long"}
)";
    const auto rows = scored("run/answers.jsonl", text);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    ASSERT_EQ(rows->size(), 2U);
    EXPECT_EQ(rows->at(0).policy, "full");
    EXPECT_EQ(rows->at(0).score->mean, 1);
    EXPECT_EQ(rows->at(1).budget, "20%");
    EXPECT_EQ(rows->at(1).score->mean, 0.5);
    EXPECT_EQ(rows->at(1).n_samples, 1);
    EXPECT_EQ(rows->at(1).n_refused, 1);
    EXPECT_EQ(scored("answers.jsonl", text, no_data, "ruler/vt")->size(), 2U);
    EXPECT_FALSE(scored("answers.jsonl", text, no_data, "ruler/fwe").ok()) << "no line is of this task";
    const auto nameless = scored("answers.jsonl", R"({"sample":"0","turn":0,"policy":"full","prediction":"x"})");
    EXPECT_NE(nameless.status().message().find("line 1: the field 'task' is missing"), std::string::npos);
}

TEST(ScorePredictions, EveryAnswerHasItsScoreWithWhatItIsOf) {
    const auto rows = scored(
        "run/answers.jsonl",
        R"({"task":"vt","length":512,"sample":"a","turn":0,"policy":"full","budget":"","prediction":"AAA","references":["AAA","BBB"]}
{"task":"vt","length":512,"sample":"a","turn":1,"policy":"full","budget":"","prediction":"AAA BBB","references":["AAA","BBB"]}
{"task":"vt","length":512,"sample":"b","turn":0,"policy":"full","budget":"","refused":"too small"}
)");
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    EXPECT_EQ(
        score_lines(*rows),
        R"({"file":"run/answers.jsonl","family":"ruler","task":"vt","length":512,"policy":"full","budget":"","sample":"a","turn":0,"score":0.5}
{"file":"run/answers.jsonl","family":"ruler","task":"vt","length":512,"policy":"full","budget":"","sample":"a","turn":1,"score":1.0}
)");
    EXPECT_EQ(score_lines(*scored("preds_passkey.jsonl", R"({"id": 7, "prediction": "1", "ground_truth": "1"})")),
              R"({"file":"preds_passkey.jsonl","family":"infinitebench","task":"passkey","sample":"7","turn":0,"score":1.0})"
              "\n");
}

TEST(ScorePredictions, WhatALineLacksComesFromTheDataFile) {
    std::string asked;
    const ReadDataFile data = [&](const std::string & file) -> Result<std::string> {
        asked += file + ";";
        return file == "copa.jsonl"
                   ? std::string(R"({"premise": "The glass fell.", "choice1": "It broke.", "choice2": "It sang.", )"
                                 R"("question": "effect", "idx": 7, "label": 0})")
                   : std::string(R"({"input": "Who?", "context": "x", "answers": ["Bo"], "length": 9, "_id": "f1"})");
    };
    const std::string line = R"({"_id": "f1", "pred": "Bo"})";
    const auto rows = scored("hotpotqa.jsonl", line, data);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    EXPECT_EQ(rows->front().score->mean, 1);
    EXPECT_EQ(asked, "hotpotqa.jsonl;");
    const auto without = scored("hotpotqa.jsonl", line);
    EXPECT_EQ(without.status().code(), ErrorCode::kNotFound);
    EXPECT_EQ(without.status().message().find("'hotpotqa.jsonl', line 1: lacks references (ground_truth"), 0U)
        << without.status().message();
    const auto other = scored("hotpotqa.jsonl", R"({"_id": "f2", "pred": "Bo"})", data);
    EXPECT_NE(other.status().message().find("has no sample 'f2'"), std::string::npos) << other.status().message();
    // The choice that was taken means nothing without the others.
    const auto choice = scored("copa.jsonl", R"({"pred": " It broke.", "answer": " It broke."})", data);
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    EXPECT_EQ(choice->front().score->mean, 1);
    const auto classes = scored("trec.jsonl", R"({"pred": "x", "answers": ["Person"]})");
    EXPECT_NE(classes.status().message().find("lacks the field 'all_classes'"), std::string::npos);
}

TEST(ScorePredictions, BadLinesAreNamedWithFileLineAndField) {
    const std::string good = R"({"id": 0, "prediction": "1", "ground_truth": "1"})";
    const auto message = [](const Result<Rows> & rows) { return std::string(rows.status().message()); };
    const auto expect = [&](const std::string & lines, const std::string & words,
                            const std::string & file = "preds_passkey.jsonl") {
        const auto rows = scored(file, lines);
        ASSERT_FALSE(rows.ok()) << lines;
        EXPECT_EQ(rows.status().code(), ErrorCode::kBadFile) << lines;
        EXPECT_NE(message(rows).find(words), std::string::npos) << message(rows);
        EXPECT_EQ(message(rows).find('\n'), std::string::npos);
    };
    expect("", "'preds_passkey.jsonl' is empty");
    expect(good + "\n{\"id\": 1, \"pred", "'preds_passkey.jsonl', line 2 is not whole JSON");
    expect(good + "\n\n" + good, "line 2 is empty between others");
    expect(good + "\n[1]", "line 2: holds a list where a sample's JSON object belongs");
    expect(good + "\n" + R"({"id": 1, "ground_truth": "1"})",
           "line 2: holds no prediction: one of the fields response, prediction");
    expect(good + "\n" + R"({"id": 1, "prediction": ["1"], "ground_truth": "1"})",
           "line 2: the field 'prediction' holds a list");
    expect(good + "\n" + R"({"id": 1, "prediction": "1", "ground_truth": []})",
           "line 2: the field 'ground_truth' holds no answer");
    expect(good + "\n" + R"({"id": 1, "prediction": "1", "ground_truth": {"a": 1}})",
           "the field 'ground_truth' holds an object");
    expect(good + "\n" + good, "line 2: the field 'id' is '0', as in 'preds_passkey.jsonl', line 1");
    expect(R"({"id": 1, "prediction": "B", "ground_truth": ["f", "g"]})",
           "'ground_truth' holds 'g' where the right option's text", "preds_code_debug.jsonl");
    expect(R"({"id": 1, "prediction": "B", "ground_truth": "many"})", "holds 'many' where a number", "preds_math_find.jsonl");
    expect(R"({"pred": "1", "answers": ["7"]})", "holds '7' where \"Paragraph 12\"", "passage_retrieval_en.jsonl");
}

TEST(ScorePredictions, ATaskThatCannotBeFoundOutIsAskedFor) {
    const std::string line = R"({"id": 0, "prediction": "1", "ground_truth": ["f", "B"]})";
    const auto unknown = scored("gpt4/preds_code_debug_step_by_step.jsonl", line);
    EXPECT_EQ(unknown.status().code(), ErrorCode::kInvalidArgument);
    for (const char * words :
         {"preds_code_debug_step_by_step.jsonl", "--task FAMILY/NAME", "did you mean infinitebench/code_debug?"}) {
        EXPECT_NE(unknown.status().message().find(words), std::string::npos) << unknown.status().message();
    }
    EXPECT_TRUE(scored("gpt4/preds_code_debug_step_by_step.jsonl", line, no_data, "infinitebench/code_debug").ok());
    EXPECT_TRUE(task_by_name("code_debug").ok());
    EXPECT_NE(task_by_name("ruler/code_debug").status().message().find("did you mean infinitebench/code_debug?"),
              std::string::npos);
}

TEST(ScoreReport, AveragesDifferentTasksOfOneFolder) {
    const std::string right = R"({"id": 0, "prediction": "1", "ground_truth": "1"})";
    const std::string wrong = R"({"id": 0, "prediction": "2", "ground_truth": "1"})";
    Rows rows = *scored("m/preds_passkey.jsonl", right);
    const Rows more = *scored("m/preds_number_string.jsonl", wrong);
    rows.insert(rows.end(), more.begin(), more.end());
    const auto json = nlohmann::json::parse(score_json(rows));
    EXPECT_EQ(json["rows"][0]["score"], 100);
    EXPECT_EQ(json["rows"][1]["task"], "number_string");
    EXPECT_EQ(json["averages"][0]["score"], 50);
    const std::string text = to_text(score_table(rows));
    EXPECT_NE(text.find("infinitebench/passkey"), std::string::npos) << text;
    EXPECT_NE(text.find("average"), std::string::npos) << text;
    rows[1].file = "other/preds_number_string.jsonl";
    EXPECT_EQ(nlohmann::json::parse(score_json(rows))["averages"].size(), 0U) << "of two folders: two models";
    rows[1] = rows[0];
    EXPECT_EQ(nlohmann::json::parse(score_json(rows))["averages"].size(), 0U) << "a task twice";
}

}  // namespace
}  // namespace pith::score_predictions_test
