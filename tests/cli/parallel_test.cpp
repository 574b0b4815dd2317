// parallel_test.cpp - `pith run --parallel` says what `pith run` says, on the built-in model.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"

namespace pith::testing::parallel_test {
namespace {

using Json = nlohmann::json;

const std::string kModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";

std::string text_with_facts() {
    const std::string noise = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n";
    std::string text;
    for (int i = 0; i < 16; ++i) {
        text += noise;
        if (i == 4) { text += "One of the special magic numbers for red is: 4821.\n"; }
        if (i == 11) { text += "One of the special magic numbers for blue is: 7733.\n"; }
    }
    return text;
}

class Parallel : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kModel)) { GTEST_SKIP() << "no reference model"; }
        write_text(file_, text_with_facts());
        write_text(prompts_, "The sky is\r\n\nOne, two, three,\nThe sun is yellow. The grass\nHere we\n");
    }
    static Outcome run(std::vector<std::string> more) {
        std::vector<std::string> all = {"run", "-m", kModel, "--raw", "-t", "1", "-n", "9", "--temp", "0"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    }
    std::vector<std::string> on_text(const std::vector<std::string> & more) const {
        std::vector<std::string> all = {"-f", file_};
        for (const char * question :
             {"What is the special magic number for red? The special magic number for red is",
              "What is the special magic number for blue? The special magic number for blue is", "The sky is", "Here we"}) {
            all.insert(all.end(), {"-p", question});
        }
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    static Json json_of(std::vector<std::string> more) {
        more.emplace_back("--json");
        const Outcome outcome = run(more);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return Json::parse(outcome.out, nullptr, false);
    }
    // The same answers, and the same told of them. Returns those of --parallel.
    static Json expect_same(const std::vector<std::string> & arguments) {
        const Json plain = json_of(arguments);
        Json last;
        for (const char * n : {"2", "8"}) {
            SCOPED_TRACE(n);
            std::vector<std::string> more = arguments;
            more.insert(more.end(), {"--parallel", n});
            last = json_of(more);
            EXPECT_EQ(last["answers"], plain["answers"]);
            EXPECT_EQ(last["text"], plain["text"]);
            for (const char * key : {"n_prompt", "n_generated", "policy", "schedule", "evicted_entries", "n_evictions",
                                     "questions_in_sight", "budget_entries", "attention", "interrupted"}) {
                EXPECT_EQ(last.value(key, Json()), plain.value(key, Json())) << key;
            }
            EXPECT_GT(last["n_steps"], 0);
            EXPECT_GT(last["prefill_s"], 0);
            EXPECT_GT(last["decode_s"], 0);
        }
        return last;
    }

    TempFolder folder_;
    const std::string file_ = folder_.file("facts.txt");
    const std::string prompts_ = folder_.file("prompts.txt");
};

TEST_F(Parallel, QuestionsOnOneTextHaveTheSameAnswers) {
    const Json all = expect_same(on_text({}));
    EXPECT_NE(all["answers"][0]["text"].get<std::string>().find("4821"), std::string::npos) << all["text"];
    EXPECT_NE(all["answers"][1]["text"].get<std::string>().find("7733"), std::string::npos) << all["text"];
    const Json seen = expect_same(on_text({"--policy", "snapkv", "--budget", "20%"}));
    EXPECT_EQ(seen["questions_in_sight"], true);
    const Json on_grid = expect_same(on_text({"--policy", "snapkv", "--budget", "20%", "--grid", "64"}));
    EXPECT_EQ(on_grid["questions_in_sight"], true);
    const Json later = expect_same(on_text({"--budget", "20%", "--question-later"}));
    EXPECT_NE(seen["answers"], later["answers"]) << "the questions were in sight of neither";
    expect_same(on_text({"--policy", "h2o", "--budget", "60", "--prefill", "chunked", "--chunk", "128", "--evict-every", "4"}));
    expect_same(on_text({"--question-aware", "--budget", "20%"}));
}

TEST_F(Parallel, PromptsOfAFileAreAnsweredInOrderAndWhole) {
    const Json all = expect_same({"--prompts", prompts_, "-p", "There and back"});
    ASSERT_EQ(all["answers"].size(), 5U);
    EXPECT_EQ(all["answers"][0]["question"], "There and back");
    EXPECT_EQ(all["answers"][2]["question"], "One, two, three,");
    expect_same({"--prompts", prompts_, "--temp", "0.9", "-s", "5", "--logprobs", "2", "-r", "e", "-n", "20"});

    const Outcome plain = run({"--prompts", prompts_});
    const Outcome together = run({"--prompts", prompts_, "-np", "3"});
    ASSERT_EQ(together.exit_code, 0) << together.err;
    EXPECT_EQ(together.out, plain.out);
    EXPECT_LT(together.err.find("> The sky is"), together.err.find("> Here we")) << together.err;
    EXPECT_NE(together.err.find("parallel 3 answers"), std::string::npos) << together.err;
}

TEST_F(Parallel, AnswersEndWhereTheContextDoes) {
    const Json all = expect_same({"--prompts", prompts_, "-n", "-1", "-c", "14", "--ignore-eos"});
    for (const Json & answer : all["answers"]) { EXPECT_EQ(answer["stop"], "limit"); }
}

TEST_F(Parallel, RefusesWhatMeansOneAfterTheOther) {
    const std::string logits = folder_.file("logits.npy");
    const auto refused = [&](std::vector<std::string> more, const std::vector<std::string> & words) {
        more.insert(more.end(), {"-p", "The sky is", "--parallel", "4"});
        expect_error(run(more), 2, words);
    };
    refused({"--kept", "--json"}, {"--kept", "leave out --parallel"});
    refused({"--logits", logits}, {"--logits", "leave out --parallel"});
    refused({"-n", "-1"}, {"--n-predict -1", "--ctx-size"});
    refused({"--policy", "snapkv", "--budget", "auto"}, {"--budget auto", "'snapkv'", "in numbers"});
    expect_error(run({"-p", "x", "--parallel", "0"}), 2, {"--parallel is 0", "1 or more"});
    expect_error(run({"--prompts", folder_.file("none.txt")}), 1, {"none.txt"});
    write_text(prompts_, "\n\n");
    expect_error(run({"--prompts", prompts_}), 1, {"prompts.txt", "no line of text"});
    expect_error(run({"--prompts", "-", "-f", "-"}), 2, {"standard input"});
}

TEST_F(Parallel, KeepsWhatAllHaveSaidWhenInterrupted) {
    const Outcome outcome = run_pith({"run", "-m", kModel, "--raw", "-p", "Hello", "-p", "Here we", "-n", "-1", "-c", "60000",
                                      "--ignore-eos", "-t", "1", "-np", "2", "--json"},
                                     {.interrupt_after_s = 2});
    EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
    const Json json = Json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << outcome.out;
    EXPECT_EQ(json["interrupted"], true);
    ASSERT_EQ(json["answers"].size(), 2U);
    for (const Json & answer : json["answers"]) {
        EXPECT_EQ(answer["stop"], "interrupt");
        EXPECT_GT(answer["n_generated"], 0);
    }
}

TEST_F(Parallel, PromptsThatNoBudgetServesAreNamedLineByLine) {
    const Outcome outcome = run({"-f", file_, "-p", "The sky is", "-p", "Here", "--question-aware", "--policy",
                                 "h2o:recent=300", "--budget", "20%", "--parallel", "2"});
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_EQ(outcome.out, "\n\n") << "an empty line stands for each";
    for (const char * prompt : {"prompt 1: ", "prompt 2: "}) {
        EXPECT_NE(outcome.err.find(prompt), std::string::npos) << outcome.err;
    }
}

}  // namespace
}  // namespace pith::testing::parallel_test
