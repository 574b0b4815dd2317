// ruler_files_test.cpp - RULER's own files, SQuAD and HotpotQA: read, written, and refused when they are not what they should
// be.
#include <gtest/gtest.h>

#include <set>

#include "benchmarks/benchmark.h"
#include "benchmarks/ruler/ruler.h"
#include "lab/benchmarks/reader.h"
#include "lab/corpus/word_counter.h"
#include "tasks/random.h"

namespace pith::benchmarks::ruler_files_test {
namespace {

SampleRequest request_of(int n_tokens, int n_samples) {
    SampleRequest request;
    request.n_tokens = n_tokens;
    request.n_samples = n_samples;
    request.count = corpus::count_words;
    return request;
}

Result<std::vector<Sample>> read(std::string_view task, std::string text, int n_tokens = 0) {
    SampleRequest request = request_of(n_tokens, 0);
    request.ready = std::move(text);
    return find_task("ruler", task)->samples(request);
}

TEST(RulerFiles, GiveBackTheSamplesThatWereWritten) {
    for (const auto & task : all_tasks()) {
        if (task->rules().family != "ruler" || !task->rules().file.empty()) { continue; }
        EXPECT_EQ(task->rules().ready, task->rules().name + "/validation.jsonl");
        const auto samples = task->samples(request_of(2048, 3));
        ASSERT_TRUE(samples.ok()) << samples.status().message();
        const std::string lines = ruler_lines(*samples, corpus::count_words);
        const auto again = read(task->rules().name, lines, 2048);
        ASSERT_TRUE(again.ok()) << again.status().message();
        ASSERT_EQ(again->size(), 3U);
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ((*again)[i].id, (*samples)[i].id);
            EXPECT_EQ((*again)[i].context, (*samples)[i].context);
            EXPECT_EQ((*again)[i].turns[0].question, (*samples)[i].turns[0].question);
            EXPECT_EQ((*again)[i].turns[0].answer_prefix, (*samples)[i].turns[0].answer_prefix);
            EXPECT_EQ((*again)[i].turns[0].references, (*samples)[i].turns[0].references);
            EXPECT_EQ((*again)[i].turns[0].max_new_tokens, (*samples)[i].turns[0].max_new_tokens);
        }
    }
}

TEST(RulerFiles, AreWrittenWithRulersFields) {
    Sample sample;
    sample.context = "Caf\xC3\xA9.\n";
    sample.turns.push_back({"What is the special magic number for a-b?", " The special magic number is", {"1"}, 128, {}, {}});
    EXPECT_EQ(
        ruler_lines(std::span(&sample, 1), [](std::string_view text) { return static_cast<int>(text.size()); }),
        "{\"index\":0,\"input\":\"Caf\\u00e9.\\nWhat is the special magic number for a-b?\",\"outputs\":[\"1\"],\"length\":204,"
        "\"answer_prefix\":\" The special magic number is\"}\n");
}

TEST(RulerFiles, MayHaveThePrefixInsideTheInputAndAnyIndex) {
    const auto samples = read(
        "niah_single_1",
        R"({"index": 77, "input": "Text. What is the special magic number for x? no.\nWhat is the special magic number for a-b mentioned in the provided text? The special magic number for a-b mentioned in the provided text is", "outputs": ["42"], "length": 99})"
        "\n"
        R"({"index": 77, "input": "Text.\nWhat is the special magic number for c-d?", "answer_prefix": " The special", "outputs": ["43"], "length": 99})"
        "\n");
    ASSERT_TRUE(samples.ok()) << samples.status().message();
    ASSERT_EQ(samples->size(), 2U);
    EXPECT_EQ((*samples)[0].id, "0");
    EXPECT_EQ((*samples)[0].context, "Text. What is the special magic number for x? no.\n");
    EXPECT_EQ((*samples)[0].turns[0].question, "What is the special magic number for a-b mentioned in the provided text?");
    EXPECT_EQ((*samples)[0].turns[0].answer_prefix, " The special magic number for a-b mentioned in the provided text is");
    EXPECT_EQ((*samples)[1].id, "1");
    EXPECT_EQ((*samples)[1].turns[0].answer_prefix, " The special");
}

TEST(RulerFiles, AreRefusedByLineAndField) {
    const std::string good =
        R"({"index": 0, "input": "T.\nQuestion: What are the 10 most common words?", "outputs": ["a"], "answer_prefix": " Answer:"})";
    const auto message = [&](const std::string & line, int n_tokens = 0) {
        const auto samples = read("cwe", good + "\n" + line, n_tokens);
        EXPECT_FALSE(samples.ok());
        EXPECT_NE(samples.status().message().find("'cwe/validation.jsonl', line 2"), std::string::npos)
            << samples.status().message();
        return samples.status().message();
    };
    const auto holds = [](const std::string & text, const std::string & part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    holds(message(good.substr(0, 60)), "not whole JSON");
    holds(message(R"({"index": 1, "outputs": ["a"]})"), "'input'");
    holds(message(R"({"index": 1, "input": 5, "outputs": ["a"]})"), "'input'");
    holds(message(R"({"index": 1, "input": "Question: What are the 10 most common words?"})"), "'outputs'");
    holds(message(R"({"index": 1, "input": "Question: What are the 10 most common words?", "outputs": []})"),
          "'outputs' is an empty list");
    holds(message(R"({"index": 1, "input": "Question: What are the 10 most common words?", "outputs": ["a", ""]})"),
          "empty text");
    holds(message(R"({"index": 1, "input": "What is the special magic number?", "outputs": ["a"]})"), "of task 'cwe'");
    holds(message(good), "twice");
    const std::string longer =
        R"({"index": 1, "input": "A b c d e f g.\nQuestion: What are the 10 most common words?", "outputs": ["a"]})";
    holds(message(longer, 138), "takes 139 tokens");
    const auto first = read("cwe", good + "\n" + longer, 139);
    EXPECT_TRUE(first.ok()) << first.status().message();
}

// 400 paragraphs of 8 to 120 words in 20 articles, each with a question; every tenth question has no answer.
std::string squad() {
    corpus::Random random(corpus::SeedSpace::kTask, 9, 9);
    std::string out = R"({"version": "v2.0", "data": [)";
    for (int i = 0; i < 400; ++i) {
        const std::string id = std::to_string(i);
        std::string words;
        for (int w = random.between(8, 120); w > 0; --w) { words += " word"; }
        out += i % 20 == 0 ? (i > 0 ? "]}, " : "") + std::string(R"({"title": "t", "paragraphs": [)") : ", ";
        out += R"({"context": "Paragraph )" + id + words + R"( holds code)" + id + R"(.", "qas": [{"id": "q)" + id +
               R"(", "question": "Which code has )" + id + R"(?", "is_impossible": )" + (i % 10 == 3 ? "true" : "false") +
               R"(, "answers": [)" +
               (i % 10 == 3 ? ""
                            : R"({"text": "code)" + id + R"(", "answer_start": 1}, {"text": "the code)" + id +
                                  R"(", "answer_start": 1})") +
               "]}]}";
    }
    return out + "]}]}";
}

std::string hotpot(int n_documents) {
    std::string out = "[";
    for (int q = 0; q < 3; ++q) {
        out += (q > 0 ? ", " : "") + std::string(R"({"_id": "id)") + std::to_string(q) + R"(", "question": "Who is )" +
               std::to_string(q) + R"(?", "answer": "person)" + std::to_string(q) + R"(", "context": [)";
        for (int d = 0; d < n_documents; ++d) {
            const std::string id = std::to_string(q * 100 + d);
            out += (d > 0 ? ", " : "") + std::string(R"(["Title )") + id + R"(", ["First )" + id + R"(.", " Then person)" +
                   std::to_string(q) + R"(."]])";
        }
        out += "]}";
    }
    return out + "]";
}

std::vector<Sample> questions(std::string_view task, std::string file, int n_tokens, int n_samples) {
    SampleRequest request = request_of(n_tokens, n_samples);
    request.file = std::move(file);
    auto samples = find_task("ruler", task)->samples(request);
    EXPECT_TRUE(samples.ok()) << samples.status().message();
    return samples.ok() ? std::move(*samples) : std::vector<Sample>{};
}

TEST(RulerQuestions, OfSquadStandAmongNumberedParagraphsWithinTwoPerCentOfTheLimit) {
    for (const int n_tokens : {1024, 2048, 4096}) {
        const auto samples = questions("qa_1", squad(), n_tokens, 12);
        ASSERT_EQ(samples.size(), 12U);
        int paragraph = -1;
        for (const auto & sample : samples) {
            do { ++paragraph; } while (paragraph % 10 == 3);  // those have no answer
            const std::string id = std::to_string(paragraph);
            const Turn & turn = sample.turns[0];
            EXPECT_EQ(turn.question,
                      "Answer the question based on the given documents. Only give me the answer and do not output any other "
                      "words.\n\nQuestion: Which code has " +
                          id + "?");
            EXPECT_EQ(turn.answer_prefix, " Answer:");
            EXPECT_EQ(turn.references, (std::vector<std::string>{"code" + id, "the code" + id}));
            EXPECT_TRUE(
                sample.context.starts_with("Answer the question based on the given documents. Only give me the answer and do "
                                           "not output any other words.\n\nThe "
                                           "following are given documents.\n\nDocument 1:\nParagraph "));
            EXPECT_TRUE(sample.context.ends_with(".\n\n"));
            EXPECT_NE(sample.context.find("holds code" + id + "."), std::string::npos);
            const int n = corpus::count_words(sample.context + turn.question + turn.answer_prefix) + 32;
            EXPECT_LE(n, n_tokens);
            EXPECT_GE(n, n_tokens - n_tokens / 50);
            // Paragraphs of the same article come before those of others.
            std::set<std::string> near;
            int n_documents = 0;
            for (const auto & number : testing::all_between(sample.context, "\nParagraph ", " ")) {
                ++n_documents;
                if (std::stoi(number) / 20 == paragraph / 20) { near.insert(number); }
            }
            EXPECT_GE(static_cast<int>(near.size()), std::min(20, n_documents - 1));
            EXPECT_EQ(find_task("ruler", "qa_1")->score(sample, turn, "code" + id), 1);
        }
    }
}

TEST(RulerQuestions, OfSquadMayLeaveParagraphsWithoutAny) {
    const auto samples =
        questions("qa_1",
                  R"({"data": [{"paragraphs": [{"context": "Nobody asks about this.", "qas": []},)"
                  R"({"context": "Ice is cold.", "qas": [{"id": "1", "is_impossible": false, "question": "What is ice?",)"
                  R"("answers": [{"text": "cold"}]}]}]}]})",
                  200, 0);
    ASSERT_EQ(samples.size(), 1U);
    EXPECT_NE(samples[0].context.find("Nobody asks about this."), std::string::npos);
    EXPECT_NE(samples[0].context.find("Ice is cold."), std::string::npos);
}

TEST(RulerQuestions, OfHotpotBringAllTheirDocumentsAndRepeatThemWhenThereAreNoMore) {
    const auto samples = questions("qa_2", hotpot(4), 400, 0);
    ASSERT_EQ(samples.size(), 3U);
    for (int q = 0; q < 3; ++q) {
        const Sample & sample = samples[static_cast<size_t>(q)];
        for (int d = 0; d < 4; ++d) {
            const std::string id = std::to_string(q * 100 + d);
            EXPECT_NE(sample.context.find(":\nTitle " + id + "\nFirst " + id + ". Then person" + std::to_string(q) + "."),
                      std::string::npos);
        }
        EXPECT_GT(testing::all_between(sample.context, "Document ", ":").size(), 12U);
        EXPECT_EQ(sample.turns[0].references, std::vector<std::string>{"person" + std::to_string(q)});
    }
}

TEST(RulerQuestions, SayWhichQuestionNeedsHowManyTokens) {
    SampleRequest request = request_of(200, 2);
    request.file = hotpot(30);
    const auto refused = find_task("ruler", "qa_2")->samples(request);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), ErrorCode::kBudget);
    EXPECT_NE(refused.status().message().find("task 'qa_2 (question 0)' needs at least "), std::string::npos)
        << refused.status().message();
}

TEST(RulerQuestions, RefuseFilesThatAreNotTheDataset) {
    const auto message = [](std::string_view task, std::string file) {
        SampleRequest request = request_of(1024, 1);
        request.file = std::move(file);
        const auto refused = find_task("ruler", task)->samples(request);
        EXPECT_FALSE(refused.ok());
        EXPECT_EQ(refused.status().code(), ErrorCode::kBadFile);
        return refused.status().message();
    };
    const auto holds = [](const std::string & text, const std::string & part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    holds(message("qa_1", ""), "'dev-v2.0.json' is empty");
    holds(message("qa_1", squad().substr(0, 3000)), "not whole JSON");
    holds(
        message(
            "qa_1",
            R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "1", "is_impossible": false, "answers": [{"text": "a"}]}]}]}]})"),
        "'data[0].paragraphs[0].qas[0].question' is missing");
    holds(
        message(
            "qa_1",
            R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "1", "is_impossible": false, "question": "q", "answers": [{"text": ""}]}]}]}]})"),
        "answers' is empty");
    std::string twice = squad();
    twice.replace(twice.find("\"q5\""), 4, "\"q4\"");
    holds(message("qa_1", twice), "'q4' comes twice");
    holds(message("qa_2", R"([{"_id": "1", "question": "q", "answer": "", "context": [["t", ["s"]]]}])"),
          "record 1: the field 'answer' is empty");
    holds(message("qa_2", R"([{"_id": "1", "question": "q", "answer": "a", "context": [["t"]]}])"), "'context[0]'");
    holds(message("qa_2", R"([{"_id": "1", "question": "q", "answer": "a", "context": []}])"), "'context' is an empty list");
    holds(message("qa_2", hotpot(2).substr(0, 200)), "not whole JSON");
}

}  // namespace
}  // namespace pith::benchmarks::ruler_files_test
