// train_gate_test.cpp - `pith train gate` from the outside: what it says, what it leaves, and bad input.
#include <algorithm>
#include <filesystem>

#include "cli/run_process.h"
#include "text/tiny_vocabulary.h"

namespace pith::train_gate_test {
namespace {

using testing::expect_error;
using testing::run_pith;
using testing::TempFolder;
using testing::words;
using testing::write_model;
using testing::write_text;

class TrainGate : public ::testing::Test {
protected:
    std::vector<std::string> command(const std::vector<std::string> & more) const {
        std::vector<std::string> all = {"train", "gate", "-m",       model_, "-o",          gate(),
                                        "-t",    "1",    "--tokens", "32",   "--sequences", "2"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    std::string gate() const { return folder_.file("gate.gguf"); }
    std::string file(const std::string & name, const std::string & text) const {
        write_text(folder_.file(name), text);
        return folder_.file(name);
    }
    TempFolder folder_;
    std::string model_ = write_model(folder_);
};

TEST_F(TrainGate, LeavesAGateFileSaysWhatItTakesAndGoesOnWhereItStopped) {
    const std::string text = file("text.txt", words(1200));
    const auto outcome = run_pith(command({"-f", text, "--samples", "8"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("parameters to learn in 4 steps of 256 tokens in all; memory about"), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("gate.gguf written"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.out.find("held-out loss"), std::string::npos) << outcome.out;
    EXPECT_GT(std::filesystem::file_size(gate()), 1000U);
    const std::string written = testing::read_text_file(gate());
    std::filesystem::remove(gate());
    const auto again = run_pith(command({"-f", text, "--samples", "8"}));
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(testing::read_text_file(gate()), written);
    EXPECT_NE(again.err.find("resumed at step 4"), std::string::npos) << again.err;
    const auto other = run_pith(command({"-f", text, "--samples", "8", "--alpha", "1"}));
    expect_error(other, 1, {"made with other options", "another folder"});
}

TEST_F(TrainGate, ReadsJsonLines) {
    std::string lines;
    for (int i = 0; i < 20; ++i) { lines += "{\"text\": \"" + words(20 + i) + "\", \"n\": 1}\n\n"; }
    const auto outcome = run_pith(command({"-f", file("a.jsonl", lines), "--kind", "linear"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    expect_error(run_pith(command({"-f", file("b.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n")})), 1,
                 {"b.jsonl', line 2", "field 'text'", "--field"});
    expect_error(run_pith(command({"-f", file("c.jsonl", "{\"text\": \"a\"}\nnonsense\n")})), 1,
                 {"c.jsonl', line 2", "no JSON"});
}

TEST_F(TrainGate, BadInputIsOneLineThatNamesIt) {
    const std::string text = file("text.txt", words(600));
    expect_error(run_pith(command({"-f", file("empty.txt", "")})), 1, {"training text is empty"});
    expect_error(run_pith(command({"-f", file("short.txt", "a few words")})), 1, {"one sequence needs 33"});
    expect_error(run_pith(command({"-f", folder_.file("none.txt")})), 1, {"none.txt"});
    expect_error(run_pith(command({})), 1, {"-f TEXT"});  // the built-in text is the built-in model's
    expect_error(run_pith(command({"-f", text, "--beta", "0.7"})), 1, {"beta is 0.7", "tau (0.5"});
    expect_error(run_pith(command({"-f", text, "--tau", "1.5"})), 1, {"tau is 1.5"});
    expect_error(run_pith(command({"-f", text, "--kind", "conv"})), 1, {"'attention' or 'linear'"});
    expect_error(run_pith(command({"-f", text, "--source", "next"})), 1, {"'own' or the 'previous'"});
    expect_error(run_pith(command({"-f", text, "--source", "previous", "--first-layer", "0"})), 1, {"first layer is 0"});
    expect_error(run_pith(command({"-f", text, "--recent", "0"})), 1, {"recent tokens is 0"});
    expect_error(run_pith({"train"}), 2, {"pith train gate -m MODEL", "pith train reference"});
}

class TrainSft : public TrainGate {
protected:
    std::vector<std::string> sft(const std::vector<std::string> & more) const {
        std::vector<std::string> all = {"train", "sft", "-m", model_, "-o", folder_.file("out"), "-t", "1", "--sequences", "2"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    std::string pairs() const {
        std::string lines;
        for (int i = 0; i < 12; ++i) { lines += R"({"prompt": ")" + words(6 + i) + R"(", "completion": " the end"})" + "\n"; }
        return file("pairs.jsonl", lines);
    }
};

TEST_F(TrainSft, LeavesAnAdapterAndGatesOrTheAdapterAlone) {
    const auto both = run_pith(sft({"-f", pairs(), "--rank", "2"}));
    EXPECT_EQ(both.exit_code, 0) << both.err;
    EXPECT_NE(both.err.find("out.lora.gguf written"), std::string::npos) << both.err;
    EXPECT_NE(both.err.find("out.gate.gguf written"), std::string::npos) << both.err;
    EXPECT_TRUE(std::filesystem::exists(folder_.file("out.lora.gguf")));
    std::filesystem::remove(folder_.file("out.gate.gguf"));
    const auto alone = run_pith(sft({"-f", pairs(), "--rank", "2", "--no-gates", "--work-dir", folder_.file("other")}));
    EXPECT_EQ(alone.exit_code, 0) << alone.err;
    EXPECT_FALSE(std::filesystem::exists(folder_.file("out.gate.gguf")));
}

// From a benchmark's samples to an adapter: what `pith eval` writes becomes pairs, and pairs are trained on.
TEST_F(TrainSft, LearnsFromTheSamplesOfABenchmark) {
    const std::string samples = folder_.file("samples.jsonl");
    const auto written = run_pith({"eval", "ruler", "-m", model_, "--tasks", "niah_single_1", "--context", "512", "--samples",
                                   "6", "--write-samples", samples});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    const auto said = run_pith({"train", "pairs", samples});
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 6);
    const std::string file = folder_.file("made.jsonl");
    const auto made = run_pith({"train", "pairs", samples, "-o", file});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_NE(made.err.find("6 pairs of 6 samples written to"), std::string::npos) << made.err;
    EXPECT_EQ(testing::read_text_file(file), said.out);
    const auto trained = run_pith(sft({"-f", file, "--rank", "2", "--no-gates", "--tokens", "640"}));
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_EQ(trained.err.find("left out"), std::string::npos) << trained.err;
    EXPECT_TRUE(std::filesystem::exists(folder_.file("out.lora.gguf")));
}

// A file whose name says nothing is read as the task that --task names, and the model's template stands around the prompts.
TEST_F(TrainSft, PairsAreOfTheTaskSamplesAndTemplateAskedFor) {
    std::string lines;
    for (const std::string name : {"a", "b", "c"}) {
        lines += R"({"context": "C.", "input": "Who?", "answers": ["Ann"], "length": 2, "all_classes": null, "_id": ")" + name +
                 "\"}\n";
    }
    const std::string samples = file("mine.jsonl", lines);
    const auto plain = run_pith({"train", "pairs", samples, "--task", "longbench/qasper", "--samples", "2"});
    ASSERT_EQ(plain.exit_code, 0) << plain.err;
    EXPECT_EQ(std::count(plain.out.begin(), plain.out.end(), '\n'), 2);
    EXPECT_NE(plain.out.find("\"task\":\"longbench/qasper\""), std::string::npos) << plain.out;
    EXPECT_NE(plain.out.find("\"completion\":\" Ann\""), std::string::npos) << plain.out;
    EXPECT_EQ(plain.out.find("<|im_start|>"), std::string::npos) << plain.out;
    const std::string chat = testing::write_tiny(folder_, testing::kChatMl);
    const auto framed = run_pith({"train", "pairs", samples, "--task", "longbench/qasper", "--samples", "1", "-m", chat});
    ASSERT_EQ(framed.exit_code, 0) << framed.err;
    EXPECT_EQ(std::count(framed.out.begin(), framed.out.end(), '\n'), 1);
    EXPECT_NE(framed.out.find("\"prompt\":\"<|im_start|>user\\n"), std::string::npos) << framed.out;
    EXPECT_NE(framed.out.find("<|im_start|>assistant\\nAnswer:"), std::string::npos) << framed.out;
    expect_error(run_pith({"train", "pairs", samples, "--task", "longbench/qaspr"}), 1, {"qaspr"});
}

TEST_F(TrainSft, PairsSayWhatIsWrongInOneLine) {
    const std::string text = file("texts.jsonl", "{\"text\": \"Nothing is asked.\"}\n");
    expect_error(run_pith({"train", "pairs", text}), 1, {"none of the 1 samples"});
    expect_error(run_pith({"train", "pairs", folder_.file("none.jsonl")}), 1, {"none.jsonl"});
    expect_error(run_pith({"train", "pairs", file("odd.jsonl", "{\"a\": 1}\n")}), 1, {"odd.jsonl", "--task FAMILY/NAME"});
    expect_error(run_pith({"train", "pairs", text, "--samples", "-1"}), 2, {"--samples is -1"});
    expect_error(run_pith({"train", "pairs"}), 2, {"FILES"});
}

TEST_F(TrainSft, BadInputIsOneLineThatNamesIt) {
    expect_error(run_pith(sft({})), 2, {"-f PAIRS.jsonl", "--task"});
    expect_error(run_pith(sft({"-f", pairs(), "--rank", "0"})), 2, {"--rank is 0"});
    expect_error(run_pith(sft({"-f", pairs(), "--tau", "0.2"})), 1, {"beta is 0.28", "tau (0.2"});
    expect_error(run_pith(sft({"-f", pairs(), "--tokens", "3"})), 1, {"none of 12 prompts", "fits 3 tokens"});
    expect_error(run_pith(sft({"-f", file("one.jsonl", R"({"prompt": "a"})")})), 1,
                 {"line 1", "'completion'", "--completion-field"});
    expect_error(run_pith(sft({"--task", "single"})), 1, {"tokeniser of the reference model"});
}

}  // namespace
}  // namespace pith::train_gate_test
