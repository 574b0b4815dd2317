// eval_test.cpp - `pith eval` as a user runs it: killed and resumed, refused, out of disk, compared.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "cli/run_process.h"

namespace pith::testing::eval_test {
namespace {

using Json = nlohmann::json;

// A model of a few thousand parameters, whose answers are noise, and enough work to be killed in.
class Eval : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        folder_ = new TempFolder;
        RandomModelSpec spec;
        spec.n_ctx_train = 4096;
        model_ = write_model(*folder_, spec);
        spec.seed = 2;
        other_model_ = write_model(*folder_, spec, "other.gguf");
    }
    static void TearDownTestSuite() {
        delete folder_;
        folder_ = nullptr;
    }

    static std::vector<std::string> command(const std::string & out, const std::vector<std::string> & more = {}) {
        std::vector<std::string> words = {"eval",      "ruler", "-m",       model_,       "--tasks",  "niah_single_1,vt",
                                          "--context", "1500",  "--policy", "snapkv,h2o", "--budget", "10%,40%",
                                          "--samples", "3",     "--jobs",   "2",          "-o",       out};
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }

    static std::string path(const std::string & name) { return folder_->file(name); }

    static inline TempFolder * folder_ = nullptr;
    static inline std::string model_, other_model_;
};

size_t n_lines(const std::string & path) {
    const std::string text = read_text_file(path);
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Starts `pith ARGUMENTS`, and sends it the signal as soon as the file has so many lines. Its exit code, negative: the signal
// that ended it. What it says on stderr goes to `err`.
int run_and_signal(const std::vector<std::string> & arguments, const std::string & answers, size_t lines, int signal,
                   const std::string & err) {
    std::vector<std::string> words = {PITH_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char *> argv;
    for (std::string & word : words) { argv.push_back(word.data()); }
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        execv(argv[0], argv.data());
        _exit(127);
    }
    int state = 0;
    while (waitpid(pid, &state, WNOHANG) != pid) {
        if (n_lines(answers) >= lines) {
            kill(pid, signal);
            waitpid(pid, &state, 0);
            break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

TEST_F(Eval, KilledAndResumedTheTableIsThatOfAnUnbrokenRun) {
    const Outcome whole = run_pith(command(path("whole")));
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const std::string out = path("killed");
    const std::string answers = out + "/answers.jsonl";
    int n_killed = 0;
    for (size_t lines = 4; lines < 30; lines += 11) {
        n_killed += run_and_signal(command(out), answers, lines, SIGKILL, path("err")) == -SIGKILL ? 1 : 0;
        // A line that was cut off in the middle, as a kill inside a write leaves it.
        std::ofstream(answers, std::ios::app) << "{\"task\":\"vt\",\"length\":90";
    }
    EXPECT_GE(n_killed, 1);
    const Outcome resumed = run_pith(command(out, {"--resume"}));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(resumed.out, whole.out);
    for (const char * file : {"/table.csv", "/table.json", "/table.md", "/figures.svg"}) {
        EXPECT_EQ(read_text_file(out + file), read_text_file(path("whole") + file)) << file;
    }
    EXPECT_EQ(n_lines(answers), 2U * 3 * 5);
    // Once more: nothing is left to do, and nothing changes.
    const Outcome again = run_pith(command(out));
    EXPECT_EQ(again.out, whole.out);
    EXPECT_EQ(n_lines(answers), 2U * 3 * 5);
    EXPECT_EQ(run_pith({"eval", "report", out}).out, whole.out);
    // One prefill for each case, and one job; or answers that decode together: the same answers.
    const Outcome apart = run_pith(command(path("apart"), {"--no-share", "--jobs", "1"}));
    EXPECT_EQ(apart.out, whole.out);
    EXPECT_EQ(run_pith(command(path("together"), {"--parallel", "6"})).out, whole.out);
    expect_error(run_pith(command(path("none"), {"--parallel", "0"})), 2, {"--parallel"});
}

// What a question looks for comes back, however it is asked.
TEST_F(Eval, WhatIsEvictedCanBeKeptForTheQuestion) {
    const auto table = [](const std::string & name, const std::vector<std::string> & more) {
        std::vector<std::string> words{"--cold", "f16"};
        words.insert(words.end(), more.begin(), more.end());
        const Outcome ran = run_pith(command(path(name), words));
        EXPECT_EQ(ran.exit_code, 0) << ran.err;
        return ran.out;
    };
    const std::string cold = table("cold", {"--look-back"});
    EXPECT_EQ(table("cold-one-by-one", {"--look-back", "--parallel", "1"}), cold);
    EXPECT_EQ(table("cold-apart", {"--look-back", "--no-share", "--jobs", "1"}), cold);
    expect_error(run_pith(command(path("none"), {"--prefill-cache", path("kept"), "--cold", "q8_0"})), 2, {"--cold"});
    expect_error(run_pith(command(path("none"), {"--look-back"})), 2, {"--look-back", "--cold"});
}

// Where anything differs that they depend on, others are kept.
TEST_F(Eval, PromptsThatAreKeptGiveTheSameAnswers) {
    const std::string kept = path("prefills");
    const auto n_kept = [&kept] {
        return std::distance(std::filesystem::directory_iterator(kept), std::filesystem::directory_iterator());
    };
    const auto table = [](const std::string & name, const std::vector<std::string> & more) {
        const Outcome ran = run_pith(command(path(name), more));
        EXPECT_EQ(ran.exit_code, 0) << ran.err;
        return ran.out;
    };
    const std::string plain = table("plain", {});
    EXPECT_EQ(table("keeping", {"--prefill-cache", kept}), plain);
    EXPECT_EQ(n_kept(), 2 * 3);
    EXPECT_EQ(table("kept", {"--prefill-cache", kept}), plain);
    EXPECT_EQ(n_kept(), 2 * 3);
    for (const auto & file : std::filesystem::directory_iterator(kept)) {  // one that is damaged is made anew
        std::ofstream(file.path(), std::ios::app) << "?";
        break;
    }
    EXPECT_EQ(table("mended", {"--prefill-cache", kept}), plain);
    EXPECT_EQ(table("seldom", {"--prefill-cache", kept, "--chunk", "100", "--samples", "1"}),
              table("seldom-plain", {"--chunk", "100", "--samples", "1"}));
    EXPECT_EQ(n_kept(), 2 * 3 + 2);
    expect_error(run_pith(command(path("none"), {"--prefill-cache", kept, "--parallel", "2"})), 2, {"--prefill-cache"});
    expect_error(run_pith(command(path("none"), {"--prefill-cache", model_ + "/x"})), 1, {"--prefill-cache", "cannot be made"});
}

TEST_F(Eval, CtrlCKeepsWhatWasAnsweredAndSaysHowToGoOn) {
    const std::string out = path("stopped");
    const std::vector<std::string> words = command(out, {"--samples", "40", "--tasks", "niah_single_1"});
    const int code = run_and_signal(words, out + "/answers.jsonl", 1, SIGINT, path("err"));
    EXPECT_EQ(code, 130);
    EXPECT_NE(read_text_file(path("err")).find("the same command goes on"), std::string::npos) << read_text_file(path("err"));
    EXPECT_GT(n_lines(out + "/answers.jsonl"), 0U);
    EXPECT_EQ(run_pith({"eval", "report", out}).exit_code, 0);  // of what is there
}

TEST_F(Eval, AnotherModelOrOtherOptionsAreRefused) {
    const std::string out = path("refuses");
    ASSERT_EQ(run_pith(command(out, {"--samples", "1"})).exit_code, 0);
    expect_error(run_pith(command(out, {"--samples", "1", "-m", other_model_})), 1, {"holds another run", "model was llama"});
    expect_error(run_pith(command(out, {"--samples", "2", "--seed", "9"})), 1,
                 {"--samples was 1, is 2", "--seed was 1, is 9", "another folder"});
    expect_error(run_pith(command(path("nothing"), {"--resume"})), 1, {"nothing to resume"});
    write_text(path("file"), "a file");
    expect_error(run_pith(command(path("file"))), 1, {path("file")});
}

TEST_F(Eval, ADiskThatFillsUpIsSaidAndTheRunGoesOnLater) {
    const std::string out = path("disk");
    const std::vector<std::string> words = command(out, {"--samples", "2", "--question-aware"});
    const pid_t pid = fork();
    if (pid == 0) {
        const rlimit limit{4000, 4000};
        setrlimit(RLIMIT_FSIZE, &limit);
        const Outcome full = run_pith(words);
        const bool good = full.exit_code == 1 && full.error_lines() == 1 &&
                          full.err.find("answers.jsonl") != std::string::npos &&
                          full.err.find("same command again") != std::string::npos;
        _exit(good ? 0 : 1);
    }
    int state = 0;
    waitpid(pid, &state, 0);
    EXPECT_EQ(state, 0);
    EXPECT_GT(n_lines(out + "/answers.jsonl"), 0U);
    const Outcome resumed = run_pith(words);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(resumed.out, run_pith(command(path("disk2"), {"--samples", "2", "--question-aware"})).out);
}

TEST_F(Eval, ComparesTwoRunsOfTheSameSamples) {
    const std::string f16 = path("f16");
    const std::string q4 = path("q4");
    ASSERT_EQ(run_pith(command(f16)).exit_code, 0);
    ASSERT_EQ(run_pith(command(q4, {"-ctk", "f32"})).exit_code, 0);
    const Outcome compared = run_pith({"eval", "compare", f16, q4, "--json"});
    ASSERT_EQ(compared.exit_code, 0) << compared.err;
    EXPECT_EQ(Json::parse(compared.out)["rows"].size(), 3U * 5);  // two tasks and their average
    const Outcome same = run_pith({"eval", "compare", f16, f16, "--csv"});
    EXPECT_EQ(same.exit_code, 0);
    EXPECT_EQ(n_lines(path("none")), 0U);
    const Json of_one = Json::parse(run_pith({"eval", "compare", f16, q4, "--tasks", "vt", "--json"}).out)["rows"];
    ASSERT_EQ(of_one.size(), 5U) << "and no average of one";
    for (const Json & row : of_one) { EXPECT_EQ(row["task"], "vt"); }
    expect_error(run_pith({"eval", "compare", f16, q4, "--tasks", "vt,cwe"}), 1, {"--tasks", "'cwe'", "niah_single_1, vt"});
    const Outcome policies = run_pith({"eval", "compare", f16, f16, "--policy", "snapkv,h2o"});
    EXPECT_NE(policies.out.find("snapkv 10% / h2o 10%"), std::string::npos) << policies.out << policies.err;
    ASSERT_EQ(run_pith(command(path("seed2"), {"--seed", "2", "--samples", "1"})).exit_code, 0);
    expect_error(run_pith({"eval", "compare", f16, path("seed2")}), 1, {"other samples", "--seed 1 and 2"});
    expect_error(run_pith({"eval", "compare", f16, f16, "--policy", "snapkv"}), 2, {"give two"});
    expect_error(run_pith({"eval", "compare", f16, path("none")}), 1, {"run.json"});
}

TEST_F(Eval, PartsPutTogetherAreTheRunThatWasNeverDivided) {
    const std::vector<std::string> small = {"--samples", "2"};
    const Outcome whole = run_pith(command(path("undivided"), small));
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const auto part = [&](const std::string & shard, const std::string & out, std::vector<std::string> more = {}) {
        more.insert(more.end(), {"--shard", shard});
        more.insert(more.end(), small.begin(), small.end());
        return run_pith(command(path(out), more));
    };
    EXPECT_EQ(part("1/3", "part1").exit_code, 0);
    EXPECT_EQ(part("2/3", "part2", {"--no-share"}).exit_code, 0);
    expect_error(run_pith({"eval", "merge", path("part1"), path("part2"), "-o", path("merged")}), 1, {"part 3/3 is missing"});
    const Outcome last = part("3/3", "part3");
    EXPECT_EQ(last.exit_code, 0) << last.err;
    EXPECT_NE(last.out.find("--shard 3/3"), std::string::npos) << last.out;

    const std::vector<std::string> merge = {"eval", "merge", path("part3"), path("part1"), path("part2"), "-o", path("merged")};
    for (int i = 0; i < 2; ++i) {  // the second time it is there
        const Outcome merged = run_pith(merge);
        ASSERT_EQ(merged.exit_code, 0) << merged.err;
        EXPECT_EQ(merged.out, whole.out);
        for (const char * file : {"/table.csv", "/table.json", "/table.md", "/figures.svg"}) {
            EXPECT_EQ(read_text_file(path("merged") + file), read_text_file(path("undivided") + file)) << file;
        }
        EXPECT_EQ(n_lines(path("merged") + "/answers.jsonl"), n_lines(path("undivided") + "/answers.jsonl"));
    }
    // The merged folder is the whole run's: its command finds nothing left to ask.
    EXPECT_EQ(run_pith(command(path("merged"), small)).out, whole.out);

    // More parts than prompts: one that has nothing to ask is well, too.
    const Outcome none = part("7/7", "part7");
    EXPECT_EQ(none.exit_code, 0) << none.err;
    EXPECT_EQ(n_lines(path("part7") + "/answers.jsonl"), 0U);

    const auto refused = [&](const std::vector<std::string> & folders, const std::vector<std::string> & words) {
        std::vector<std::string> line = {"eval", "merge", "-o", path("never")};
        for (const std::string & folder : folders) { line.push_back(path(folder)); }
        expect_error(run_pith(line), 1, words);
        EXPECT_FALSE(std::filesystem::exists(path("never")));
    };
    refused({"part1", "part2", "part3", "part1"}, {"part 1/3 comes twice"});
    refused({"part1", "undivided"}, {"undivided", "whole run"});
    refused({"part1", "part7"}, {"part7", "7 parts"});
    EXPECT_EQ(part("3/3", "seed3", {"--seed", "3"}).exit_code, 0);
    refused({"part1", "part2", "seed3"}, {"seed3", "another run", "--seed was 1, is 3"});
    const std::string answers = path("part2") + "/answers.jsonl";
    std::filesystem::resize_file(answers, std::filesystem::file_size(answers) - 5);
    refused({"part1", "part2", "part3"}, {"part2", "4 of its 5 answers"});
    expect_error(part("1/4", "part1"), 1, {"another run", "--shard was 1/3, is 1/4"});
    for (const char * shard : {"0/3", "4/3", "3", "a/b", "1/"}) { expect_error(part(shard, "never"), 2, {"--shard", "2/4"}); }
    expect_error(run_pith({"eval", "ruler", "-m", model_, "--shard", "1/2"}), 2, {"--shard", "-o FOLDER"});
}

TEST_F(Eval, PrintsWhatWasAskedFor) {
    const std::string out = path("formats");
    ASSERT_EQ(run_pith(command(out, {"--samples", "1"})).exit_code, 0);
    EXPECT_EQ(Json::parse(run_pith({"eval", "report", out, "--json"}).out)["rows"].size(), 3U * 5);
    EXPECT_EQ(run_pith({"eval", "report", out, "--csv"}).out, read_text_file(out + "/table.csv"));
    EXPECT_EQ(run_pith({"eval", "report", out, "--svg"}).out.substr(0, 4), "<svg");
    const std::string heads = run_pith({"eval", "report", out, "--figure", "heads"}).out;
    EXPECT_EQ(heads.substr(0, 4), "<svg");
    EXPECT_EQ(heads.find(": score"), std::string::npos) << "the charts were not asked for";
    expect_error(run_pith({"eval", "report", out, "--figure", "head"}), 1, {"'head'", "depths, heads"});
    for (const char * figure : {"heatmap", "memory"}) {
        const Outcome page = run_pith({"eval", "report", out, "--figure", figure});
        EXPECT_EQ(page.out.substr(0, 4), "<svg") << page.err;
        expect_error(run_pith({"eval", "report", out, "--figure", std::string("vt,") + figure}), 1, {figure, "give it alone"});
    }
    EXPECT_NE(run_pith({"eval", "report", out, "--figure", "memory"}).out.find("KV cache held (MiB)"), std::string::npos);
    const Json h2o = Json::parse(run_pith({"eval", "report", out, "--policy", "h2o", "--json"}).out);
    ASSERT_EQ(h2o["rows"].size(), 3U * 2);
    for (const Json & row : h2o["rows"]) {
        EXPECT_EQ(row["policy"], "h2o");
        EXPECT_TRUE(row.contains("to_full")) << "the difference is kept, though the full cache is not shown";
        EXPECT_GT(row["kv_bytes"].get<double>(), 0);
    }
    expect_error(run_pith({"eval", "report", out, "--policy", "h2oo"}), 1, {"'h2oo'", "full, snapkv, h2o"});
    EXPECT_NE(run_pith({"eval", "report", out, "--markdown"}).out.find("| snapkv | 10% |"), std::string::npos);
    EXPECT_NE(run_pith({"eval", "report", out, "--details"}).out.find("tokens/head"), std::string::npos);
    const Json run = Json::parse(read_text_file(out + "/run.json"));
    for (const char * key : {"model path", "machine", "started"}) { EXPECT_TRUE(run["about"].contains(key)) << key; }
    for (const char * key : {"model", "--budget", "--seed", "pith", "ggml"}) {
        EXPECT_TRUE(run["settings"].contains(key)) << key;
    }
}

TEST_F(Eval, ReportsSeveralRunsSideBySide) {
    const std::string later = path("later");
    const std::string known = path("known");
    ASSERT_EQ(run_pith(command(later, {"--samples", "1"})).exit_code, 0);
    ASSERT_EQ(run_pith(command(known, {"--samples", "1", "--question-aware"})).exit_code, 0);
    const Outcome csv = run_pith({"eval", "report", known, later, "--csv"});
    ASSERT_EQ(csv.exit_code, 0) << csv.err;
    EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 1 + 2 * 3 * 5);
    EXPECT_NE(csv.out.find("\nquestion known,ruler,"), std::string::npos) << csv.out;
    for (const char * figure : {"heatmap", "memory"}) {
        const Outcome page = run_pith({"eval", "report", known, later, "--figure", figure});
        ASSERT_EQ(page.exit_code, 0) << page.err;
        EXPECT_LT(page.out.find(">question known"), page.out.find(">question later")) << figure;
    }
    expect_error(run_pith({"eval", "report", known, later}), 1, {"several folders", "--csv"});
    expect_error(run_pith({"eval", "report", known, path("none"), "--csv"}), 1, {"none"});
}

TEST_F(Eval, WritesItsSamplesInsteadOfAskingThem) {
    const Outcome outcome = run_pith({"eval", "ruler", "-m", model_, "--tasks", "niah_single_1,vt", "--context", "1500",
                                      "--samples", "2", "--write-samples", path("samples.jsonl")});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    std::ifstream in(path("samples.jsonl"));
    int n = 0;
    for (std::string line; std::getline(in, line); ++n) {
        const Json sample = Json::parse(line);
        EXPECT_EQ(sample["family"], "ruler");
        EXPECT_FALSE(sample["context"].get<std::string>().empty());
        EXPECT_FALSE(sample["turns"][0]["references"].empty());
    }
    EXPECT_EQ(n, 4);
}

// For a program with this model's weights and without its tokeniser.
TEST_F(Eval, WritesTheTokensThatItWouldAsk) {
    const std::string file = path("tokens.jsonl");
    const auto written = [&](const std::vector<std::string> & more) {
        std::vector<std::string> words = {"eval", "-m", model_, "--samples", "1", "--write-samples", file, "--with-tokens"};
        words.insert(words.begin() + 1, more.begin(), more.end());
        const Outcome outcome = run_pith(words);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        std::ifstream in(file);
        std::string line;
        std::getline(in, line);
        return Json::parse(line);
    };
    const auto joined = [](const Json & first, const Json & second) {
        std::vector<int> all = first;
        for (const int token : second) { all.push_back(token); }
        return all;
    };
    const std::vector<std::string> needle = {"ruler", "--tasks", "niah_single_1", "--context", "700"};
    const Json later = written(needle);
    const Json & turn = later["turns"][0];
    const std::string prompt =
        later["context"].get<std::string>() + turn["question"].get<std::string>() + turn["answer_prefix"].get<std::string>();
    const Json tokens = Json::parse(run_pith({"tokenize", "-m", model_, "--json", "-p", prompt}).out)["tokens"];
    EXPECT_EQ(Json(joined(turn["compressed_tokens"], turn["tokens"])), tokens);
    EXPECT_FALSE(later["end_tokens"].empty());
    EXPECT_EQ(run_pith({"eval", "-m", model_, "--samples-file", file, "--policy", "window", "--budget", "50%"}).exit_code, 0);
    // What stands in front of the answer alone comes after, where the question is compressed, too; and answers may be shorter.
    std::vector<std::string> known = needle;
    known.insert(known.end(), {"--question-aware", "--max-new", "3"});
    const Json aware = written(known)["turns"][0];
    EXPECT_EQ(Json(joined(aware["compressed_tokens"], aware["tokens"])), tokens);
    EXPECT_GT(aware["compressed_tokens"].size(), turn["compressed_tokens"].size());
    EXPECT_EQ(aware["max_new_tokens"], 3);
    // Four questions: after one compressed context, or each compressed with it.
    const std::vector<std::string> facts = {"world", "--tasks", "facts", "--context", "1500"};
    std::vector<std::string> facts_known = facts;
    facts_known.emplace_back("--question-aware");
    const auto n_compressed = [](const Json & sample) {
        const Json & turns = sample["turns"];
        return std::count_if(turns.begin(), turns.end(), [](const Json & one) { return one.contains("compressed_tokens"); });
    };
    EXPECT_EQ(n_compressed(written(facts)), 1);
    EXPECT_EQ(n_compressed(written(facts_known)), 4);
    EXPECT_EQ(run_pith({"eval", "ruler", "-m", model_, "--with-tokens"}).exit_code, 2) << "nothing is written";
}

TEST_F(Eval, AsksWrittenSamplesAgainAsItAskedThemFirst) {
    const std::vector<std::string> made = {"--context", "1500,2000", "--policy", "snapkv", "--budget", "40%", "--samples", "2"};
    const auto words = [&](std::vector<std::string> more, const std::vector<std::string> & rest) {
        more.insert(more.begin(), {"eval", "ruler", "-m", model_, "--tasks", "niah_multikey_1,vt"});
        more.insert(more.end(), rest.begin(), rest.end());
        return more;
    };
    const std::string file = path("written.jsonl");
    ASSERT_EQ(run_pith(words(made, {"-o", path("made"), "--json"})).exit_code, 0);
    ASSERT_EQ(run_pith(words(made, {"--write-samples", file})).exit_code, 0);
    const std::vector<std::string> again = {"eval",   "-m",       model_, "--samples-file", file, "--policy",
                                            "snapkv", "--budget", "40%"};
    const auto with = [&again](const std::vector<std::string> & more) {
        std::vector<std::string> all = again;
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    };
    const Outcome asked = with({"-o", path("asked")});
    ASSERT_EQ(asked.exit_code, 0) << asked.err;
    // All but seconds.
    const auto answers = [&](const std::string & folder) {
        std::set<std::string> lines;
        std::ifstream in(path(folder) + "/answers.jsonl");
        for (std::string line; std::getline(in, line);) {
            Json answer = Json::parse(line);
            for (const char * key : {"prefill_s", "answer_s"}) { answer.erase(key); }
            lines.insert(answer.dump());
        }
        return lines;
    };
    EXPECT_EQ(answers("made").size(), 2U * 2 * 2 * 2);
    EXPECT_EQ(answers("asked"), answers("made"));
    EXPECT_EQ(Json::parse(read_text_file(path("asked") + "/table.json"))["rows"],
              Json::parse(read_text_file(path("made") + "/table.json"))["rows"]);
    const Json some = Json::parse(with({"--tasks", "vt", "--samples", "1", "--json"}).out);
    for (const Json & row : some["rows"]) {
        EXPECT_EQ(row["task"], "vt");
        EXPECT_EQ(row["samples"], 1);
    }
    EXPECT_EQ(with({"--seed", "2"}).exit_code, 2);
    expect_error(with({"--tasks", "vtt"}), 2, {"--samples-file", "'vtt'", "'vt'"});
    write_text(path("texts.jsonl"), R"({"text": "One."})");
    expect_error(run_pith({"eval", "-m", model_, "--samples-file", path("texts.jsonl")}), 2,
                 {"texts.jsonl", "--write-samples"});
    expect_error(run_pith({"eval", "needle", "-m", model_, "--samples-file", file}), 2, {"ruler", "needle"});
}

// A cache that has lost what is asked may ramble to the task's limit.
TEST_F(Eval, AnAnswerHasNoMoreTokensThanIsAllowed) {
    const std::string out = path("short");
    const Outcome outcome = run_pith(command(out, {"--samples", "1", "--max-new", "3"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    std::ifstream in(out + "/answers.jsonl");
    int n = 0;
    int longest = 0;
    for (std::string line; std::getline(in, line); ++n) { longest = std::max(longest, Json::parse(line)["n_new"].get<int>()); }
    EXPECT_EQ(n, 2 * 5);
    EXPECT_EQ(longest, 3);
    EXPECT_EQ(Json::parse(read_text_file(out + "/run.json"))["settings"]["--max-new"], "3");
    expect_error(run_pith(command(out, {"--samples", "1"})), 1, {"another run", "--max-new"});
    expect_error(run_pith({"eval", "perplexity", "-m", model_, "-n", "3"}), 2, {"--max-new"});
}

TEST_F(Eval, AsksSamplesInRulersOwnFormAsItAsksThoseItMakes) {
    const std::vector<std::string> one = {"eval",     "ruler",  "-m",       model_, "--tasks",   "vt", "--context", "1500",
                                          "--policy", "snapkv", "--budget", "40%",  "--samples", "2",  "--json"};
    const auto with = [&one](const std::vector<std::string> & more) {
        std::vector<std::string> words = one;
        words.insert(words.end(), more.begin(), more.end());
        return run_pith(words);
    };
    std::filesystem::create_directories(path("data/vt"));
    const Outcome written = with({"--write-samples", path("data/vt/validation.jsonl"), "--ruler-form"});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    const Outcome made = with({});
    const Outcome asked = with({"--data", path("data")});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    ASSERT_EQ(asked.exit_code, 0) << asked.err;
    EXPECT_EQ(Json::parse(asked.out)["rows"], Json::parse(made.out)["rows"]);
}

TEST_F(Eval, AFilesOwnLengthIsTheDefaultContext) {
    const std::vector<std::string> write = {"eval",      "ruler", "-m",        model_, "--tasks",      "vt",
                                            "--context", "1500",  "--samples", "2",    "--ruler-form", "--write-samples"};
    std::filesystem::create_directories(path("own/vt"));
    std::vector<std::string> words = write;
    words.push_back(path("own/vt/validation.jsonl"));
    ASSERT_EQ(run_pith(words).exit_code, 0);
    // Longer than the 1024 tokens that samples made here have without --context.
    const Outcome asked = run_pith({"eval", "ruler", "-m", model_, "--tasks", "vt", "--data", path("own"), "--policy", "snapkv",
                                    "--budget", "40%", "--json"});
    ASSERT_EQ(asked.exit_code, 0) << asked.err;
    const Json table = Json::parse(asked.out);
    EXPECT_EQ(table["rows"][0]["samples"], 2);
    EXPECT_TRUE(table["skipped"].empty());
    words[4] = "--tasks";
    words[5] = "vt,cwe";
    expect_error(run_pith(words), 2, {"--ruler-form", "--tasks", "--context"});
}

TEST_F(Eval, ATaskThatDoesNotFitIsNamedAndTheOthersAreAsked) {
    const std::vector<std::string> words = {"eval",   "ruler",    "-m",  model_,      "--tasks", "vt,niah_single_1", "--policy",
                                            "snapkv", "--budget", "40%", "--samples", "2",       "--context"};
    const auto with = [&words](const std::vector<std::string> & more) {
        std::vector<std::string> all = words;
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    };
    const Outcome asked = with({"512", "--json", "-o", path("short")});
    ASSERT_EQ(asked.exit_code, 0) << asked.err;
    for (const char * word : {"warning", "task 'vt' needs at least", "by --context 512"}) {
        EXPECT_NE(asked.err.find(word), std::string::npos) << word << " in: " << asked.err;
    }
    const Json table = Json::parse(asked.out);
    EXPECT_EQ(table["skipped"][0]["task"], "vt");
    EXPECT_NE(table["skipped"][0]["task_left_out"].get<std::string>().find("--context 512"), std::string::npos);
    ASSERT_EQ(table["rows"].size(), 4U);  // the other task, and the average of what is there
    EXPECT_EQ(table["rows"][0]["task"], "niah_single_1");
    EXPECT_EQ(table["rows"][2]["task"], "average");
    EXPECT_EQ(with({"512", "--json", "-o", path("short")}).out, asked.out) << "nothing is left to ask";
    const Outcome written = with({"512,2000", "--write-samples", path("fit.jsonl")});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    EXPECT_EQ(written.error_lines(), 1U) << written.err;
    EXPECT_NE(written.err.find("task 'vt'"), std::string::npos) << written.err;
    EXPECT_EQ(n_lines(path("fit.jsonl")), 2U * 3);
    expect_error(with({"512", "--tasks", "vt"}), 1, {"task 'vt' needs at least", "--context 512", "larger --context"});
}

TEST_F(Eval, AnswersHoldReferencesAndPromptsOnRequestAndAreScoredAgain) {
    const std::string out = path("kept");
    const Outcome run = run_pith(command(out, {"--keep-prompts", "--json"}));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    std::ifstream in(out + "/answers.jsonl");
    for (std::string line; std::getline(in, line);) {
        const Json answer = Json::parse(line);
        EXPECT_FALSE(answer["references"].empty());
        const std::string prompt = answer["prompt"];
        EXPECT_NE(prompt.find(answer["task"] == "vt" ? "variable assignment" : "special magic"), std::string::npos) << prompt;
    }
    ASSERT_EQ(run_pith(command(path("unkept"), {"--json"})).out, run.out);
    EXPECT_EQ(read_text_file(path("unkept") + "/answers.jsonl").find("\"prompt\""), std::string::npos);
    // The same scores by the predictions alone.
    const Outcome scored = run_pith({"eval", "score", out, "--json"});
    ASSERT_EQ(scored.exit_code, 0) << scored.err;
    const Json again = Json::parse(scored.out);
    ASSERT_EQ(again["rows"].size(), 2U * 5);
    size_t n_same = 0;
    const Json table = Json::parse(run.out);
    for (const Json & row : table["rows"]) {
        for (const Json & other : again["rows"]) {
            if (row["task"] != other["task"] || row["policy"] != other["policy"] || row["budget"] != other["budget"]) {
                continue;
            }
            ++n_same;
            EXPECT_NEAR(row["score"].get<double>(), other["score"].get<double>(), 1e-9) << row;
            EXPECT_EQ(row["samples"], other["samples"]);
        }
    }
    EXPECT_EQ(n_same, 2U * 5);
    EXPECT_EQ(again["averages"].size(), 5U);
}

TEST_F(Eval, ScoresPredictionsMadeElsewhere) {
    std::filesystem::create_directories(path("gpt"));
    const std::string file = path("gpt/preds_kv_retrieval.jsonl");
    write_text(file, R"({"id": 0, "prediction": "\"c14c\"", "ground_truth": "c14c"}
{"id": 1, "prediction": "none", "ground_truth": "a6d5"}
)");
    const Outcome table = run_pith({"eval", "score", file});
    ASSERT_EQ(table.exit_code, 0) << table.err;
    for (const char * word : {"infinitebench/kv_retrieval", "value is a word", "50.0", "[9.5, 90.5]", "2"}) {
        EXPECT_NE(table.out.find(word), std::string::npos) << word << " in: " << table.out;
    }
    EXPECT_EQ(Json::parse(run_pith({"eval", "score", file, "--json"}).out)["rows"][0]["score"], 50);
    EXPECT_EQ(run_pith({"eval", "score", file, file, "--csv"}).out.substr(0, 5), "task,");
    const std::string each = run_pith({"eval", "score", file, "--each"}).out;
    const Json second = Json::parse(each.substr(each.find('\n')));
    EXPECT_EQ(second["sample"], "1");
    EXPECT_EQ(second["score"], 0);
    expect_error(run_pith({"eval", "score", file, "--each", "--csv"}), 2, {"--each", "one of them"});
    write_text(path("mine.jsonl"), R"({"_id": "q0", "pred": "the"})");
    expect_error(run_pith({"eval", "score", path("mine.jsonl")}), 2, {"mine.jsonl", "--task FAMILY/NAME"});
    expect_error(run_pith({"eval", "score", path("mine.jsonl"), "--task", "longbench/qasper"}), 1,
                 {"mine.jsonl', line 1", "references", "qasper.jsonl", "--data"});
    std::filesystem::create_directories(path("gold"));
    write_text(path("gold/qasper.jsonl"),
               R"({"_id": "q0", "context": "x", "input": "Who?", "answers": ["the dog", "dog"], "length": 2})");
    const Outcome with_data =
        run_pith({"eval", "score", path("mine.jsonl"), "--task", "longbench/qasper", "--data", path("gold"), "--json"});
    ASSERT_EQ(with_data.exit_code, 0) << with_data.err;
    EXPECT_EQ(Json::parse(with_data.out)["rows"][0]["score"], 0) << "an article is no word of an answer";
    expect_error(run_pith({"eval", "score", file, "--task", "longbench/qaspr"}), 2,
                 {"--task", "longbench/qaspr", "did you mean"});
    write_text(path("preds_passkey.jsonl"), "");
    expect_error(run_pith({"eval", "score", path("preds_passkey.jsonl")}), 1, {"preds_passkey.jsonl", "is empty"});
    expect_error(run_pith({"eval", "score", path("nowhere.jsonl")}), 1, {"nowhere.jsonl"});
    expect_error(run_pith({"eval", "score"}), 2, {"FILE"});
}

TEST_F(Eval, PerplexityReadsADataSetsTextsAndLeavesOutShortOnes) {
    std::string lines;
    for (const int n : {300, 20, 300}) {
        lines += Json{{"chapter", words(n)}, {"summary_text", "s"}, {"bid", n}}.dump() + "\n";
    }
    lines += Json{{"chapter", words(400)}, {"summary_text", "another"}}.dump() + "\n";
    write_text(path("booksum.jsonl"), lines);
    const Outcome outcome = run_pith({"eval", "perplexity", "-m", model_, "--text", path("booksum.jsonl"), "--context", "256",
                                      "--policy", "snapkv", "--budget", "64", "--chunk", "64", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json table = Json::parse(outcome.out);
    EXPECT_EQ(table["rows"][0]["samples"], 2) << "a chapter comes twice, for two summaries";
    EXPECT_EQ(table["skipped"][0]["left_out"], 1);
    EXPECT_NE(table["settings"]["--text"].get<std::string>().find("of 3 texts"), std::string::npos);
    // A length that none of them has is passed over; none at all is an error.
    const auto at = [&](const std::string & lengths) {
        return run_pith({"eval", "perplexity", "-m", model_, "--text", path("booksum.jsonl"), "--context", lengths, "--policy",
                         "snapkv", "--budget", "64", "--chunk", "64", "--json"});
    };
    const Outcome some = at("256,2000");
    ASSERT_EQ(some.exit_code, 0) << some.err;
    EXPECT_NE(some.err.find("--context asks for 2000"), std::string::npos) << some.err;
    EXPECT_EQ(Json::parse(some.out)["rows"].size(), table["rows"].size());
    expect_error(at("2000"), 1, {"--context asks for 2000", "give a longer text"});
    write_text(path("none.jsonl"), R"({"summary_text": "s"})");
    expect_error(run_pith({"eval", "perplexity", "-m", model_, "--text", path("none.jsonl")}), 1,
                 {"none.jsonl', line 1", "'text'"});
}

TEST_F(Eval, ListsBenchmarksAndStudies) {
    const Outcome list = run_pith({"eval", "--list"});
    EXPECT_EQ(list.exit_code, 0);
    for (const char * word : {"ruler", "niah_single_1", "perplexity"}) {
        EXPECT_NE(list.out.find(word), std::string::npos) << word;
    }
    const Outcome listed = run_pith({"study", "--list"});
    for (const char * word : {"caote", "criticalkv", "score", "laprox", "Table 1"}) {
        EXPECT_NE(listed.out.find(word), std::string::npos) << word;
    }
    const Outcome one = run_pith({"study", "criticalkv", "--list"});
    EXPECT_EQ(one.exit_code, 0);
    for (const char * word :
         {"Table 1 and Figure 2", "critical-adakv", "32768 tokens, budgets 20%, 40%, 60%, 80%", "2048 tokens"}) {
        EXPECT_NE(one.out.find(word), std::string::npos) << word;
    }
    EXPECT_EQ(one.out.find("laprox"), std::string::npos) << "another study's";
}

TEST_F(Eval, RefusesWhatMakesNoSense) {
    expect_error(run_pith({"eval"}), 2, {"name a benchmark", "ruler", "perplexity"});
    expect_error(run_pith({"eval", "rulr"}), 2, {"unknown benchmark 'rulr'", "did you mean 'ruler'"});
    expect_error(run_pith({"eval", "ruler", "--tasks", "niah_single"}), 2, {"no task 'niah_single'", "niah_single_1"});
    expect_error(run_pith({"eval", "ruler", "-m", model_, "--policy", "snapvk"}), 2, {"snapvk"});
    expect_error(run_pith({"eval", "ruler", "-m", model_, "--budget", "0"}), 2, {"0"});
    expect_error(run_pith({"eval", "ruler", "-m", model_, "--context", "100000"}), 1, {"--context 100000", "4096"});
    expect_error(run_pith({"eval", "ruler", "-m", model_, "--context", "0"}), 2, {"--context is 0"});
    expect_error(run_pith({"eval", "ruler", "-m", model_, "--prefill", "never"}), 2, {"--prefill is 'never'"});
    expect_error(run_pith({"eval", "ruler", "--json", "--csv"}), 2, {"give one of them"});
    expect_error(run_pith({"eval", "ruler", "--resume"}), 2, {"--resume", "-o"});
    expect_error(run_pith({"eval", "perplexity", "--tasks", "x"}), 2, {"asks no questions"});
    expect_error(run_pith({"eval", "ruler", "--text", "x"}), 2, {"--text is for perplexity"});
    expect_error(run_pith({"eval", "perplexity", "-m", model_, "--text", path("missing.txt")}), 1, {"missing.txt"});
    write_text(path("short.txt"), "a few words");
    expect_error(run_pith({"eval", "perplexity", "-m", model_, "--text", path("short.txt")}), 1, {"text 1 has", "1024"});
    expect_error(run_pith({"eval", "ruler", "-m", path("none.gguf")}), 1, {"none.gguf"});
    expect_error(run_pith({"study", "caotee"}), 2, {"did you mean 'caote'"});
    expect_error(run_pith({"study", "caote", "--part", "x"}), 2, {"no part 'x'", "perplexity"});
}

TEST_F(Eval, ReadsDataFilesAndSaysWhichLineIsBroken) {
    const std::string data = path("data");
    std::filesystem::create_directories(data);
    std::string lines;
    for (int i = 0; i < 3; ++i) {
        const Json line = {{"_id", "q" + std::to_string(i)},
                           {"context", words(i == 2 ? 3000 : 100)},
                           {"input", "Who?"},
                           {"answers", {"the"}},
                           {"length", 200},
                           {"dataset", "qasper"},
                           {"language", "en"},
                           {"all_classes", nullptr}};
        lines += line.dump() + "\n";
    }
    write_text(data + "/qasper.jsonl", lines);
    std::vector<std::string> asked = {"eval", "longbench", "-m",     model_,     "--data",
                                      data,   "--policy",  "snapkv", "--budget", "25%"};
    asked.insert(asked.end(), {"--context", "2000", "--json"});
    const Outcome good = run_pith(asked);
    ASSERT_EQ(good.exit_code, 0) << good.err;
    const Json table = Json::parse(good.out);
    ASSERT_EQ(table["rows"][0]["task"], "qasper");  // the only one whose file is there
    EXPECT_EQ(table["rows"][0]["samples"], 3);
    EXPECT_EQ(table["skipped"][0]["middle_cut_out"], 1);
    write_text(data + "/qasper.jsonl", lines.substr(0, 60));
    expect_error(run_pith(asked), 1, {"qasper.jsonl", "line 1"});
    write_text(data + "/qasper.jsonl", lines + lines);
    expect_error(run_pith(asked), 1, {"qasper.jsonl", "q0"});
    write_text(data + "/qasper.jsonl", "");
    expect_error(run_pith(asked), 1, {"qasper.jsonl"});
    asked.insert(asked.end(), {"--tasks", "trec"});
    expect_error(run_pith(asked), 1, {"trec.jsonl", "does not exist", "--data"});
    expect_error(run_pith({"eval", "longbench", "-m", model_, "--data", path("nowhere")}), 1, {"none of the data files"});
    expect_error(run_pith({"eval", "longbench", "-m", model_}), 2, {"--data"});
}

TEST_F(Eval, MultipleChoiceGoesByLikelihood) {
    const std::string data = path("choices");
    std::filesystem::create_directories(data);
    std::string lines;
    for (int i = 0; i < 4; ++i) {
        lines += Json{{"goal", words(20 + i)}, {"sol1", "the and"}, {"sol2", "and the the"}, {"label", i % 2}}.dump() + "\n";
    }
    write_text(data + "/piqa.jsonl", lines);
    const Outcome outcome = run_pith(
        {"eval", "multiple-choice", "-m", model_, "--data", data, "--budget", "60%", "--json", "--policy", "snapkv:window=4"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json rows = Json::parse(outcome.out)["rows"];
    ASSERT_GE(rows.size(), 2U);
    EXPECT_EQ(rows[0]["samples"], 4);
    EXPECT_TRUE(rows[0].contains("per_character"));
}

TEST_F(Eval, PerplexityOfATextUnderEveryPolicy) {
    write_text(path("text.txt"), words(700));
    const Outcome outcome = run_pith({"eval", "perplexity", "-m", model_, "--text", path("text.txt"), "--context", "256",
                                      "--policy", "snapkv,random", "--budget", "64,256", "--chunk", "64", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json rows = Json::parse(outcome.out)["rows"];
    ASSERT_EQ(rows.size(), 5U);
    for (const Json & row : rows) {
        EXPECT_GE(row["samples"].get<int>(), 2);
        if (row["budget"] == "256") { EXPECT_EQ(row["to_full"], 0) << "a budget that holds everything"; }
        if (row["budget"] == "64") { EXPECT_EQ(row["entries_per_lane"], 64); }
    }
}

// A book is minutes of work: the first ten stretches, unless somebody wants more.
TEST_F(Eval, PerplexityReadsTheFirstStretchesOfAText) {
    write_text(path("long.txt"), words(700));
    const auto with = [&](const std::vector<std::string> & more) {
        std::vector<std::string> all = {"eval",           "perplexity", "-m",      model_,     "--text",
                                        path("long.txt"), "--context",  "32",      "--policy", "snapkv",
                                        "--budget",       "8%",         "--chunk", "16",       "--json"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    };
    const auto n_read = [](const Outcome & outcome) {
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return Json::parse(outcome.out)["rows"][0]["samples"].get<int>();
    };
    const Outcome some = with({});
    EXPECT_EQ(n_read(some), 10);
    EXPECT_NE(some.err.find("the first 10 of "), std::string::npos) << some.err;
    EXPECT_NE(some.err.find("all for all"), std::string::npos) << some.err;
    const Outcome asked = with({"--samples", "3"});
    EXPECT_EQ(n_read(asked), 3);
    EXPECT_EQ(asked.err.find("the first"), std::string::npos) << "somebody said how many";
    const int n_all = n_read(with({"--samples", "all"}));
    EXPECT_GT(n_all, 10);
    EXPECT_NE(some.err.find("10 of " + std::to_string(n_all) + " stretches of 32 tokens"), std::string::npos) << some.err;
    expect_error(with({"--context", "100000", "--no-context-shift"}), 1, {"--context 100000", "--ctx-size"});
}

TEST_F(Eval, AModelOfAnotherArchitectureRunsThrough) {
    RandomModelSpec spec;
    spec.arch = "qwen3moe";
    spec.n_experts = 4;
    spec.n_experts_used = 2;
    spec.n_ff_expert = 64;
    const std::string moe = write_model(*folder_, spec, "moe.gguf");
    const Outcome outcome =
        run_pith({"eval", "ruler", "-m", moe, "--context", "2000", "--policy", "snapkv", "--samples", "1", "--csv"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1 + 2 * (11 + 1)) << outcome.out;
}

}  // namespace
}  // namespace pith::testing::eval_test
