// sample_file_test.cpp - what a file is, is seen from its lines and its name; samples become the pairs that are asked.
#include "eval/sample_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "eval/sample_pairs.h"

namespace pith::sample_file_test {
namespace {

SampleFileRequest file(const std::string & name, const std::string & text) {
    SampleFileRequest request;
    request.name = name;
    request.text = text;
    return request;
}

const std::string kQasper =
    R"({"context": "C1.", "input": "Who?", "answers": ["Ann", "Anna"], "length": 2, "all_classes": null, "_id": "a"})"
    "\n"
    R"({"context": "C2.", "input": "Where?", "answers": ["here"], "length": 2, "all_classes": null, "_id": "b"})"
    "\n";
const std::string kOwn =
    R"({"family":"ruler","task":"vt","length":512,"id":"7","context":"VAR A = 1.","turns":[{"question":" Find them.","answer_prefix":" They are:","references":["A","B"],"max_new_tokens":30}]})"
    "\n";

TEST(SampleFile, ABenchmarksFileIsKnownByItsName) {
    const auto samples = read_samples(file("data/qasper.jsonl", kQasper));
    ASSERT_TRUE(samples.ok()) << samples.status().message();
    ASSERT_EQ(samples->size(), 2U);
    ASSERT_NE(samples->front().task, nullptr);
    EXPECT_EQ(samples->front().task->rules().family, "longbench");
    EXPECT_EQ(samples->front().task->rules().name, "qasper");
    EXPECT_NE(samples->front().sample.context.find("C1."), std::string::npos);
    SampleFileRequest one = file("other.jsonl", kQasper);
    EXPECT_NE(read_samples(one).status().message().find("--task FAMILY/NAME"), std::string::npos);
    one.task = "longbench/qasper";
    one.n_samples = 1;
    const auto named = read_samples(one);
    ASSERT_TRUE(named.ok()) << named.status().message();
    EXPECT_EQ(named->size(), 1U);
}

TEST(SampleFile, OwnSamplesAndPlainTextsAreKnownByTheirFields) {
    const auto own = read_samples(file("samples.jsonl", kOwn));
    ASSERT_TRUE(own.ok()) << own.status().message();
    ASSERT_EQ(own->size(), 1U);
    const benchmarks::Sample & sample = own->front().sample;
    EXPECT_EQ(own->front().task, benchmarks::find_task("ruler", "vt"));
    EXPECT_EQ(sample.id, "7");
    EXPECT_EQ(sample.context, "VAR A = 1.");
    ASSERT_EQ(sample.turns.size(), 1U);
    EXPECT_EQ(sample.turns[0].question, " Find them.");
    EXPECT_EQ(sample.turns[0].answer_prefix, " They are:");
    EXPECT_EQ(sample.turns[0].references, (std::vector<std::string>{"A", "B"}));
    EXPECT_EQ(sample.turns[0].max_new_tokens, 30);

    const auto texts = read_samples(file("texts.jsonl", "{\"text\": \"One.\"}\n{\"text\": \"Two.\"}\n{\"text\": \"One.\"}\n"));
    ASSERT_TRUE(texts.ok()) << texts.status().message();
    ASSERT_EQ(texts->size(), 2U) << "a text that comes again is taken once";
    EXPECT_EQ(texts->at(1).sample.context, "Two.");
    EXPECT_EQ(texts->at(1).task, nullptr);
    EXPECT_FALSE(texts->at(1).sample.turns.at(0).asks());
}

TEST(SampleFile, MadeSamplesHaveTheLengthAskedFor) {
    SampleFileRequest request;
    request.task = "ruler/niah_single_1";
    request.n_tokens = 300;
    request.n_samples = 3;
    request.count = [](std::string_view text) { return static_cast<int>(std::ranges::count(text, ' ')) + 1; };
    const auto made = read_samples(request);
    ASSERT_TRUE(made.ok()) << made.status().message();
    ASSERT_EQ(made->size(), 3U);
    for (const FileSample & one : *made) {
        const int n = request.count(one.sample.context);
        EXPECT_LE(n, 300);
        EXPECT_GT(n, 100);
    }
    request.n_tokens = 20;
    EXPECT_EQ(read_samples(request).status().code(), ErrorCode::kBudget);
    request.task = "longbench/qasper";
    EXPECT_NE(read_samples(request).status().message().find("--data FILE ('qasper.jsonl')"), std::string::npos);
}

TEST(SampleFile, WhatIsWrongIsNamed) {
    EXPECT_EQ(read_samples(file("qasper.jsonl", "{\"context\": \"C\"}\n")).status().code(), ErrorCode::kBadFile);
    std::string cut = kOwn;
    cut.replace(cut.find("\"question\""), 10, "\"ask\"     ");
    const Status status = read_samples(file("samples.jsonl", cut)).status();
    EXPECT_EQ(status.code(), ErrorCode::kBadFile);
    EXPECT_NE(status.message().find("'samples.jsonl', line 1"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("question"), std::string::npos) << status.message();
    for (const char * task : {"ruler/vt", "ruler/qa_1", "longbench/qasper"}) {
        SampleFileRequest other = file("mine/other.jsonl", "{\"foo\": 1}\n");
        other.task = task;
        other.n_tokens = 300;
        other.count = [](std::string_view text) { return static_cast<int>(text.size()); };
        const Status named = read_samples(other).status();
        EXPECT_NE(named.message().find("'mine/other.jsonl', line 1"), std::string::npos) << task << ": " << named.message();
    }
    SampleFileRequest twice = file("samples.jsonl", kOwn);
    twice.task = "ruler/vt";
    EXPECT_NE(read_samples(twice).status().message().find("leave out --task"), std::string::npos);
}

TEST(SamplePairs, APromptIsWhatIsAskedAndItsAnswerBeginsApart) {
    const auto own = read_samples(file("samples.jsonl", kOwn));
    ASSERT_TRUE(own.ok());
    const auto pairs = sample_pairs(own->front(), {});
    ASSERT_EQ(pairs.size(), 1U);
    EXPECT_EQ(pairs[0].prompt, "VAR A = 1. Find them. They are:");
    EXPECT_EQ(pairs[0].completion, " A, B") << "the metric counts every reference";
    const auto framed = sample_pairs(own->front(), {"<user>", "</user>", "<next>"});
    EXPECT_EQ(framed[0].prompt, "<user>VAR A = 1. Find them.</user> They are:");

    const auto qasper = read_samples(file("qasper.jsonl", kQasper));
    ASSERT_TRUE(qasper.ok());
    const auto first = sample_pairs(qasper->front(), {});
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].completion, " Ann") << "one reference is enough for F1";
    EXPECT_TRUE(first[0].prompt.ends_with("Answer:")) << "so the blank is the answer's";
    EXPECT_NE(first[0].prompt.find("Who?"), std::string::npos);
}

TEST(SamplePairs, LaterTurnsFollowTheContextOrTheDialogue) {
    FileSample one;
    one.sample.context = "C";
    benchmarks::Turn turn;
    turn.max_new_tokens = 4;
    for (const std::string name : {"1", "2", "3"}) {
        turn.question = " q" + name;
        turn.answer_prefix = "\n";
        turn.references = {"a" + name};
        one.sample.turns.push_back(turn);
    }
    const auto apart = sample_pairs(one, {});
    ASSERT_EQ(apart.size(), 3U);
    EXPECT_EQ(apart[2].prompt, "C q3\n");
    EXPECT_EQ(apart[2].completion, "a3");
    one.sample.turns[0].follow_up = "A1.";
    one.sample.turns[1].follow_up = "A2.";
    one.sample.turns[1].max_new_tokens = 0;  // says something and asks nothing
    const auto dialogue = sample_pairs(one, {"<u>", "</u>", "<n>"});
    ASSERT_EQ(dialogue.size(), 2U);
    EXPECT_EQ(dialogue[1].prompt, "<u>C q1</u>\nA1.<n> q2</u>\nA2.<n> q3</u>\n");
    one.sample.turns[2].references.clear();
    EXPECT_EQ(sample_pairs(one, {}).size(), 1U);
}

}  // namespace
}  // namespace pith::sample_file_test
