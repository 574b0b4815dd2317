// The tasks that read data files: what they make of a sample, and what they say of a file that is not what it should be.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "benchmarks/benchmark.h"
#include "benchmarks/files/documents.h"
#include "file_fixtures.h"

namespace pith::benchmarks::file_tasks_test {
namespace {

using Json = nlohmann::json;

Result<std::vector<Sample>> load(const Fixture & fixture, const std::string & file) {
    const Task * task = find_task(fixture.family, fixture.task);
    EXPECT_NE(task, nullptr) << fixture.family << " " << fixture.task;
    return task->samples({.file = file});
}

// On one line, as a file of JSON Lines has it.
std::string one_line(const std::string & json) {
    return Json::parse(json).dump();
}

const Fixture & fixture_of(std::string_view task) {
    const auto & all = fixtures();
    return *std::find_if(all.begin(), all.end(), [&](const Fixture & fixture) { return fixture.task == task; });
}

Sample only_sample(std::string_view task) {
    const Fixture & fixture = fixture_of(task);
    auto samples = load(fixture, one_line(fixture.line));
    EXPECT_TRUE(samples.ok()) << samples.status().message();
    return samples.ok() ? samples->front() : Sample{.turns = {Turn{}}};
}

std::string prompt_of(const Sample & sample) {
    return sample.context + sample.turns[0].question + sample.turns[0].answer_prefix;
}

TEST(FileTasks, HaveAFixtureEach) {
    std::set<std::string> families;
    std::set<std::string> covered;
    for (const Fixture & fixture : fixtures()) {
        families.insert(fixture.family);
        covered.insert(fixture.family + " " + fixture.task);
    }
    size_t n_tasks = 0;
    for (const auto & task : all_tasks()) {
        const TaskRules & rules = task->rules();
        if (families.count(rules.family) == 0) { continue; }
        ++n_tasks;
        EXPECT_TRUE(covered.count(rules.family + " " + rules.name)) << rules.family << " " << rules.name;
    }
    EXPECT_EQ(n_tasks, covered.size());
}

TEST(FileTasks, ScoreAPerfectAnswerOneAndAnEmptyOrWrongOneZero) {
    for (const Fixture & fixture : fixtures()) {
        SCOPED_TRACE(fixture.task);
        const Task & task = *find_task(fixture.family, fixture.task);
        const Sample sample = only_sample(fixture.task);
        ASSERT_EQ(sample.turns.size(), fixture.perfect.size());
        for (size_t i = 0; i < sample.turns.size(); ++i) {
            EXPECT_NEAR(task.score(sample, sample.turns[i], fixture.perfect[i]), 1, 1e-8);
            EXPECT_EQ(task.score(sample, sample.turns[i], "~"), 0);
            EXPECT_EQ(task.score(sample, sample.turns[i], ""), 0);
        }
    }
}

TEST(FileTasks, ReadLinesAListAndAByteOrderMarkAlike) {
    for (const Fixture & fixture : fixtures()) {
        SCOPED_TRACE(fixture.task);
        const std::string line = one_line(fixture.line);
        const auto expect_same = [&](const std::string & file) {
            const auto samples = load(fixture, file);
            ASSERT_TRUE(samples.ok()) << samples.status().message();
            ASSERT_EQ(samples->size(), 1U);
            EXPECT_EQ(samples->front().context, only_sample(fixture.task).context);
        };
        expect_same(line + "\r\n\n");
        expect_same("\xEF\xBB\xBF" + line);
        expect_same(" [\n" + fixture.line + "\n]\n");
    }
}

TEST(FileTasks, NameTheFileAndLineOfAHalfWrittenSample) {
    for (const Fixture & fixture : fixtures()) {
        SCOPED_TRACE(fixture.task);
        const std::string file = find_task(fixture.family, fixture.task)->rules().file;
        const std::string line = one_line(fixture.line);
        const std::string half = line.substr(0, line.size() - 2);
        const auto cut = load(fixture, line + "\n" + half);
        ASSERT_FALSE(cut.ok());
        EXPECT_EQ(cut.status().code(), ErrorCode::kBadFile);
        EXPECT_EQ(cut.status().message(), "'" + file + "', line 2 is not whole JSON (it is cut off after " +
                                              std::to_string(half.size()) + " bytes): get the file again or delete the line");
        const auto cut_list = load(fixture, "[\n" + line + ",\n" + half);
        ASSERT_FALSE(cut_list.ok());
        EXPECT_EQ(cut_list.status().message(),
                  "'" + file + "', line 3: the list is not whole JSON (cut off?): get the file again");
    }
}

TEST(FileTasks, RefuseAFileThatIsEmptyOrHoldsSomethingElse) {
    const Fixture & fixture = fixture_of("hotpotqa");
    const std::string line = one_line(fixture.line);
    const auto message = [&](const std::string & file) {
        const auto samples = load(fixture, file);
        EXPECT_FALSE(samples.ok());
        EXPECT_EQ(samples.status().code(), ErrorCode::kBadFile);
        return samples.status().message();
    };
    EXPECT_EQ(message(""), "'hotpotqa.jsonl' is empty: no samples; get the file again");
    EXPECT_EQ(message(" \n\n"), "'hotpotqa.jsonl' is empty: no samples; get the file again");
    EXPECT_EQ(message("[]"), "'hotpotqa.jsonl' holds an empty list: no samples");
    EXPECT_EQ(message("3"), "'hotpotqa.jsonl', line 1: holds the number 3 where a sample's JSON object belongs");
    EXPECT_EQ(message("[\"no\"]"), "'hotpotqa.jsonl', record 1: holds the text \"no\" where a sample's JSON object belongs");
    EXPECT_EQ(message("<html>"),
              "'hotpotqa.jsonl', line 1 is not whole JSON (it breaks at byte 1): get the file again or delete the line");
    EXPECT_EQ(message(line + "\n\n" + line),
              "'hotpotqa.jsonl', line 2 is empty between others (is a sample missing?): get the file again or delete the line");
    EXPECT_EQ(message(line + "\n" + line),
              "'hotpotqa.jsonl', line 2: the field '_id' is 'f1', as in 'hotpotqa.jsonl', line 1: a sample would "
              "count twice; delete one");
    EXPECT_NE(message("{\"input\": \"\xFF\"}").find("line 1 is not whole JSON"), std::string::npos);  // no UTF-8
}

// Fields that a benchmark's file has and that no task needs.
const std::set<std::string> kUnused = {"dataset", "language", "sub_domain",  "idx",  "ind",
                                       "options", "input",    "all_classes", "label"};

TEST(FileTasks, NameAFieldThatIsMissingOrOfAnotherKind) {
    for (const Fixture & fixture : fixtures()) {
        const Json whole = Json::parse(fixture.line);
        int n_refused = 0;
        for (const auto & [field, value] : whole.items()) {
            SCOPED_TRACE(fixture.task + " " + field);
            Json without = whole;
            without.erase(field);
            const auto missing = load(fixture, without.dump());
            EXPECT_TRUE(!missing.ok() || kUnused.count(field) > 0);
            Json other = whole;
            other[field] = Json::array({Json::object()});
            const auto wrong = load(fixture, other.dump());
            EXPECT_TRUE(!wrong.ok() || kUnused.count(field) > 0);
            for (const auto * result : {&missing, &wrong}) {
                if (result->ok()) { continue; }
                ++n_refused;
                EXPECT_EQ(result->status().code(), ErrorCode::kBadFile);
                EXPECT_NE(result->status().message().find("line 1: the field '" + field), std::string::npos)
                    << result->status().message();
            }
        }
        EXPECT_GE(n_refused, 4) << fixture.task;
    }
}

TEST(FileTasks, RefuseASampleWithoutAnAnswer) {
    const std::set<std::string> with_answers = {"longbench", "infinitebench", "scbench", "babilong", "documents"};
    for (const Fixture & fixture : fixtures()) {
        if (with_answers.count(fixture.family) == 0) { continue; }
        SCOPED_TRACE(fixture.task);
        Json sample = Json::parse(fixture.line);
        if (fixture.family == "longbench" || fixture.family == "documents") { sample["answers"] = {"", ""}; }
        if (fixture.family == "infinitebench") { sample["answer"] = Json::array(); }
        if (fixture.family == "scbench") { sample["multi_turns"][1]["answer"] = ""; }
        if (fixture.family == "babilong") { sample["target"] = ""; }
        const auto samples = load(fixture, sample.dump());
        ASSERT_FALSE(samples.ok());
        EXPECT_NE(samples.status().message().find("line 1: the field '"), std::string::npos) << samples.status().message();
    }
}

TEST(FileTasks, NameThePartOfASampleThatIsWrong) {
    const auto message = [&](std::string_view task, const std::function<void(Json &)> & spoil) {
        const Fixture & fixture = fixture_of(task);
        Json sample = Json::parse(fixture.line);
        spoil(sample);
        const auto samples = load(fixture, sample.dump());
        EXPECT_FALSE(samples.ok());
        return samples.status().message();
    };
    EXPECT_EQ(message("scbench_kv", [](Json & sample) { sample["multi_turns"][1].erase("answer"); }),
              "'scbench_kv.jsonl', line 1: the field 'multi_turns[1].answer' is missing: is this the benchmark's own file, of "
              "this task?");
    EXPECT_EQ(message("hotpotqa",
                      [](Json & sample) {
                          sample["answers"] = {"Bo", 3};
                      }),
              "'hotpotqa.jsonl', line 1: the field 'answers[1]' holds the number 3 where a text belongs");
    EXPECT_EQ(message("passage_retrieval_en", [](Json & sample) { sample["answers"] = {"7"}; }),
              "'passage_retrieval_en.jsonl', line 1: the field 'answers' holds '7' where \"Paragraph 12\" belongs");
    EXPECT_EQ(message("longbench_v2", [](Json & sample) { sample["answer"] = "E"; }),
              "'data.json', line 1: the field 'answer' holds 'E' where A, B, C or D belongs");
    EXPECT_EQ(message("longbook_choice_eng", [](Json & sample) { sample["answer"] = {"Eve"}; }),
              "'longbook_choice_eng.jsonl', line 1: the field 'answer' is none of the four options");
    EXPECT_EQ(message("code_debug",
                      [](Json & sample) {
                          sample["options"] = {"f", "g"};
                      }),
              "'code_debug.jsonl', line 1: the field 'options' holds 2 options where 4 belong");
    EXPECT_EQ(message("math_find", [](Json & sample) { sample["input"] = "What?"; }),
              "'math_find.jsonl', line 1: the field 'input' does not say what to find (\"The … of the list\")");
    EXPECT_EQ(message("arc_easy", [](Json & sample) { sample["answerKey"] = "E"; }),
              "'arc_easy.jsonl', line 1: the field 'answerKey' is 'E', which labels no choice");
    EXPECT_EQ(message("arc_easy", [](Json & sample) { sample["choices"]["label"] = {"A"}; }),
              "'arc_easy.jsonl', line 1: the field 'choices.label' has 1 labels for 3 texts");
    EXPECT_EQ(message("piqa", [](Json & sample) { sample["label"] = -1; }),
              "'piqa.jsonl', line 1: the field 'label' is -1 where 0 … 1 belongs (a test set without labels cannot be scored)");
    EXPECT_EQ(message("copa", [](Json & sample) { sample["question"] = "why"; }),
              "'copa.jsonl', line 1: the field 'question' is 'why' where cause or effect belongs");
}

TEST(FileTasks, ReadOnlyAsManySamplesAsAreWanted) {
    const Task & task = *find_task("longbench", "hotpotqa");
    std::string file;
    for (int i = 0; i < 5; ++i) {
        Json sample = Json::parse(fixture_of("hotpotqa").line);
        sample["_id"] = "n" + std::to_string(i);
        file += sample.dump() + "\n";
    }
    const auto two = task.samples({.n_samples = 2, .file = file + "half"});
    ASSERT_TRUE(two.ok()) << two.status().message();
    ASSERT_EQ(two->size(), 2U);
    EXPECT_EQ((*two)[1].id, "n1");
    EXPECT_EQ(task.samples({.file = file})->size(), 5U);
}

TEST(FileTasks, RefuseASampleTooLongWhereTheProtocolDoesNotCut) {
    const auto count = [](std::string_view text) { return static_cast<int>(text.size()); };
    const Fixture & fixture = fixture_of("qa4");
    const Task & task = *find_task("babilong", "qa4");
    const int n = count(prompt_of(only_sample("qa4"))) + 20;
    EXPECT_TRUE(task.samples({.n_tokens = n, .count = count, .file = fixture.line}).ok());
    const auto refused = task.samples({.n_tokens = n - 1, .count = count, .file = fixture.line});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), ErrorCode::kBudget);
    EXPECT_EQ(refused.status().message(), "'qa4.json', line 1: qa4 takes " + std::to_string(n) +
                                              " tokens with its answer, its protocol does not cut, and " +
                                              std::to_string(n - 1) + " are left to it");
    // LongBench cuts in the middle: the runner's to do.
    EXPECT_TRUE(find_task("longbench", "hotpotqa")
                    ->samples({.n_tokens = 10, .count = count, .file = fixture_of("hotpotqa").line})
                    .ok());
}

TEST(Documents, AreTheChaptersOfBookSumOrTexts) {
    const auto documents = read_documents(
        "{\"chapter\": \"One.\", \"summary_text\": \"s\", \"bid\": 3}\n"
        "{\"chapter\": \"Two.\"}\n{\"text\": \"Three.\"}\n{\"chapter\": \"One.\"}\n",
        "booksum.jsonl");
    ASSERT_TRUE(documents.ok()) << documents.status().message();
    EXPECT_EQ(*documents, (std::vector<std::string>{"One.", "Two.", "Three."})) << "a chapter has several summaries";
    EXPECT_EQ(read_documents("{\"chapter\": \"\"}", "b.jsonl").status().message(),
              "'b.jsonl', line 1: the field 'chapter' is empty: delete the line");
    EXPECT_EQ(read_documents("{\"summary\": \"s\"}", "b.jsonl")
                  .status()
                  .message()
                  .find("'b.jsonl', line 1: the field 'text' is missing"),
              0U);
}

}  // namespace
}  // namespace pith::benchmarks::file_tasks_test
