// run_folder_test.cpp - what a folder keeps when a process dies in the middle of a line, when the disk is full, and when
// somebody else's options come along.
#include "eval/run_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/tiny_model.h"
#include "file/failing_files.h"

namespace pith::run_folder_test {
namespace {

RunInfo some_info() {
    RunInfo info;
    info.family = "fake";
    info.tasks = {{"one", "F1", {"depth"}, false}};
    info.lengths = {1024, 2048};
    info.cases = {{"full", ""}, {"snapkv", "20%"}};
    info.settings = {{"model", "tiny 1234"}, {"--policy", "snapkv"}, {"--budget", "20%"}, {"--seed", "1"}};
    info.about = {{"machine", "a box"}};
    return info;
}

Answer some_answer(int index) {
    Answer answer;
    answer.task = "one";
    answer.length = 1024;
    answer.sample = "s" + std::to_string(index);
    answer.index = index;
    answer.policy = "snapkv";
    answer.budget = "20%";
    answer.groups = {{"depth", "25"}};
    answer.prediction = "said \"this\"\n";
    answer.score = 1.0 / 3 + index;
    answer.references = {"this", "that \"too\""};
    answer.fields = {{"all_classes", "a\nb"}};
    answer.prompt = "<s>Say\nit:";
    answer.kept = 204.5;
    answer.n_kv_heads = 2;
    answer.lanes = {204, 205};
    return answer;
}

std::string folder_name(const char * name) {
    return testing::scratch_file(name).string();
}

std::string answers_text(const std::string & folder) {
    std::ifstream in(folder + "/answers.jsonl", std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

TEST(RunFolder, AnswersComeBackAsTheyWere) {
    const std::string path = folder_name("back");
    {
        auto folder = RunFolder::open(path, some_info());
        ASSERT_TRUE(folder.ok()) << folder.status().message();
        ASSERT_TRUE((*folder)->append({some_answer(0), some_answer(1)}).ok());
        ASSERT_TRUE((*folder)->append({some_answer(1), some_answer(2)}).ok());  // one of them again
    }
    const auto folder = RunFolder::read(path);
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    ASSERT_EQ((*folder)->answers().size(), 3U);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(to_json_line((*folder)->answers()[static_cast<size_t>(i)]), to_json_line(some_answer(i)));
        EXPECT_EQ((*folder)->answers()[static_cast<size_t>(i)].score, 1.0 / 3 + i);  // to the last bit
    }
    EXPECT_EQ((*folder)->info().tasks, some_info().tasks);
    EXPECT_EQ((*folder)->info().cases, some_info().cases);
    EXPECT_EQ((*folder)->info().settings, some_info().settings);
}

// Whatever the byte at which the process died: all whole lines are there, the rest is gone, and what is appended next is whole.
TEST(RunFolder, IsItsOwnersAlone) {
    const std::string path = folder_name("private");
    const auto folder = RunFolder::open(path, some_info(), false);
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    using std::filesystem::perms;
    EXPECT_EQ(std::filesystem::status(path).permissions(), perms::owner_all);
    EXPECT_EQ(std::filesystem::status(path + "/answers.jsonl").permissions(), perms::owner_read | perms::owner_write);
}

TEST(RunFolder, AHalfWrittenLineIsDropped) {
    const std::string path = folder_name("half");
    ASSERT_TRUE((*RunFolder::open(path, some_info()))->append({some_answer(0), some_answer(1)}).ok());
    const std::string whole = answers_text(path);
    const size_t first = whole.find('\n') + 1;
    for (size_t n = 0; n <= whole.size(); n += 7) {
        std::filesystem::resize_file(path + "/answers.jsonl", 0);
        std::ofstream(path + "/answers.jsonl", std::ios::binary) << whole.substr(0, n);
        const size_t n_whole = n == whole.size() ? 2 : n >= first ? 1 : 0;
        auto folder = RunFolder::open(path, some_info());
        ASSERT_TRUE(folder.ok()) << n << ": " << folder.status().message();
        EXPECT_EQ((*folder)->answers().size(), n_whole) << n;
        EXPECT_EQ((*folder)->has(some_answer(1)), n_whole == 2);
        ASSERT_TRUE((*folder)->append({some_answer(0), some_answer(1)}).ok());
        EXPECT_EQ(answers_text(path), whole) << n;
    }
}

TEST(RunFolder, ALineThatIsNoAnswerIsNamed) {
    const std::string path = folder_name("broken");
    ASSERT_TRUE((*RunFolder::open(path, some_info()))->append({some_answer(0)}).ok());
    std::ofstream(path + "/answers.jsonl", std::ios::app) << "{\"task\": \"one\"}\n";
    const auto folder = RunFolder::open(path, some_info());
    EXPECT_EQ(folder.status().code(), ErrorCode::kBadFile);
    EXPECT_NE(folder.status().message().find("line 2"), std::string::npos) << folder.status().message();
    EXPECT_NE(folder.status().message().find("the field 'length' is missing"), std::string::npos) << folder.status().message();
}

// No line of the JSON library's own is passed on.
TEST(RunFolder, WhatIsWrongWithAFileIsSaidInPlainWords) {
    const std::string path = folder_name("wrong");
    ASSERT_TRUE((*RunFolder::open(path, some_info()))->append({some_answer(0)}).ok());
    const auto read = [](const std::string & name) {
        std::ifstream in(name, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const auto expect = [&path](const std::string & file, const std::string & text, const std::string & part) {
        std::ofstream(path + "/" + file, std::ios::trunc) << text;
        const Status status = RunFolder::read(path).status();
        EXPECT_EQ(status.code(), ErrorCode::kBadFile) << part;
        EXPECT_NE(status.message().find(file), std::string::npos) << status.message();
        EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
        EXPECT_EQ(status.message().find("json.exception"), std::string::npos) << status.message();
    };
    const auto replaced = [](std::string text, const std::string & from, const std::string & to) {
        EXPECT_NE(text.find(from), std::string::npos) << from;
        return text.replace(text.find(from), from.size(), to);
    };
    const std::string answers = read(path + "/answers.jsonl");
    expect("answers.jsonl", answers + "{\"task\": oops}\n", "line 2 is no answer: line 1, byte 10: a value belongs here");
    expect("answers.jsonl", replaced(answers, "\"score\":", "\"score\":null,\"was\":"),
           "the field 'score' is missing or holds");
    expect("answers.jsonl", replaced(answers, "\"groups\":", "\"groups\":7,\"was\":"),
           "the field 'groups' is missing or holds");
    std::ofstream(path + "/answers.jsonl", std::ios::trunc) << answers;
    const std::string about = read(path + "/run.json");
    expect("run.json", replaced(about, "\"family\"", "\"famly\""), "the field 'family' is missing or holds");
    expect("run.json", replaced(about, "\"metric\": \"F1\"", "\"metric\": 7"), "the field 'metric' is missing or holds");
    expect("run.json", replaced(about, "\"metric\": \"F1\"", "\"metric\" 7"), "':' belongs here, not '7'");
    expect("run.json", std::string(100000, '['), "nested deeper than 200");
    std::ofstream(path + "/run.json", std::ios::trunc) << about;
    EXPECT_TRUE(RunFolder::read(path).ok());
}

TEST(RunFolder, ADescriptionWithoutTasksOrLengthsIsRefused) {
    RunInfo no_tasks = some_info();
    no_tasks.tasks.clear();
    RunInfo no_lengths = some_info();
    no_lengths.lengths.clear();
    for (const RunInfo & info : {no_tasks, no_lengths}) {
        const std::string path = folder_name(info.tasks.empty() ? "no-tasks" : "no-lengths");
        ASSERT_TRUE(RunFolder::open(path, info).ok());
        const auto folder = RunFolder::read(path);
        EXPECT_EQ(folder.status().code(), ErrorCode::kBadFile);
        EXPECT_NE(folder.status().message().find("no tasks, or no lengths"), std::string::npos) << folder.status().message();
    }
}

TEST(RunFolder, AnotherRunIsRefusedAndWhatDiffersIsSaid) {
    const std::string path = folder_name("other");
    ASSERT_TRUE(RunFolder::open(path, some_info()).ok());
    RunInfo other = some_info();
    other.settings[0].second = "tiny 9999";
    other.settings[3].second = "2";
    other.about = {{"machine", "another box"}};
    const auto refused = RunFolder::open(path, other);
    EXPECT_EQ(refused.status().code(), ErrorCode::kInvalidArgument);
    for (const char * words : {"model was tiny 1234, is tiny 9999", "--seed was 1, is 2"}) {
        EXPECT_NE(refused.status().message().find(words), std::string::npos) << refused.status().message();
    }
    EXPECT_EQ(refused.status().message().find("machine"), std::string::npos);
    RunInfo more = some_info();
    more.settings[1].second = std::string("snapkv,") + std::string(100, 'x');
    const auto long_list = RunFolder::open(path, more);
    EXPECT_NE(long_list.status().message().find("--policy is now with xxx"), std::string::npos) << long_list.status().message();
}

TEST(RunFolder, OnlyOneProcessMayWrite) {
    const std::string path = folder_name("busy");
    const auto first = RunFolder::open(path, some_info());
    ASSERT_TRUE(first.ok());
    const auto second = RunFolder::open(path, some_info());
    EXPECT_NE(second.status().message().find("in use by another pith"), std::string::npos) << second.status().message();
    EXPECT_TRUE(RunFolder::read(path).ok());
}

TEST(RunFolder, AFullDiskIsSaidAndNothingFollowsTheHalfLine) {
    const std::string path = folder_name("full");
    const size_t n_line = to_json_line(some_answer(0)).size() + 1;
    const pid_t pid = fork();
    if (pid == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        auto folder = RunFolder::open(path, some_info());
        const rlimit limit{n_line * 2 + 10, n_line * 2 + 10};
        setrlimit(RLIMIT_FSIZE, &limit);
        bool good = folder.ok() && (*folder)->append({some_answer(0)}).ok() && (*folder)->append({some_answer(1)}).ok();
        const Status failed = (*folder)->append({some_answer(2)});
        good = good && failed.code() == ErrorCode::kIo && failed.message().find("same command again") != std::string::npos;
        good = good && !(*folder)->append({some_answer(3)}).ok();
        _exit(good ? 0 : 1);
    }
    int state = 0;
    waitpid(pid, &state, 0);
    EXPECT_EQ(state, 0);
    auto folder = RunFolder::open(path, some_info());
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    EXPECT_EQ((*folder)->answers().size(), 2U);
    ASSERT_TRUE((*folder)->append({some_answer(2)}).ok());
    EXPECT_EQ((*RunFolder::read(path))->answers().size(), 3U);
}

// Whatever call fails, once or from then on: one line, no half answer, and the same run goes on from there.
TEST(RunFolder, AFailedWriteLeavesWholeAnswersAndTheRunGoesOn) {
    int n_failed = 0;
    for (const bool stays_full : {false, true}) {
        for (int k = 1;; ++k) {
            SCOPED_TRACE(k);
            const std::string path = folder_name("failing");
            std::filesystem::remove_all(path);
            size_t n_written = 0;
            testing::fail_files_at(k, stays_full);
            Status status;
            {
                auto folder = RunFolder::open(path, some_info());
                status = folder.status();
                for (int i = 0; i < 3 && status.ok(); ++i) {
                    status = (*folder)->append({some_answer(2 * i), some_answer(2 * i + 1)});
                    n_written += status.ok() ? 2 : 0;
                    EXPECT_EQ((*folder)->answers().size(), n_written);
                    if (!status.ok()) { EXPECT_FALSE((*folder)->append({some_answer(9)}).ok()) << "nothing follows"; }
                }
                if (status.ok()) { status = (*folder)->sync(); }
            }
            const bool failed = testing::stop_failing_files();
            EXPECT_EQ(status.ok(), !failed) << status.message();
            if (failed) {
                ++n_failed;
                EXPECT_EQ(status.code(), ErrorCode::kIo);
                EXPECT_NE(status.message().find("No space left"), std::string::npos) << status.message();
                EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
                for (const auto & file : std::filesystem::directory_iterator(path)) {
                    EXPECT_NE(file.path().extension(), ".tmp") << file.path();
                }
            }
            const std::string left = std::filesystem::exists(path + "/answers.jsonl") ? answers_text(path) : "";
            if (!stays_full) { EXPECT_TRUE(left.empty() || left.back() == '\n') << "a half line stays"; }
            // Where the half piece could not even be cut off, its first answer may be a whole one.
            const size_t n_most = n_written + (stays_full ? 1 : 0);
            const auto is_right = [&](size_t n) { return n_written <= n && n <= n_most; };
            if (n_written > 0) { EXPECT_PRED1(is_right, (*RunFolder::read(path))->answers().size()); }

            auto folder = RunFolder::open(path, some_info());
            ASSERT_TRUE(folder.ok()) << folder.status().message();
            EXPECT_PRED1(is_right, (*folder)->answers().size());
            for (int i = 0; i < 6; ++i) { ASSERT_TRUE((*folder)->append({some_answer(i)}).ok()); }
            EXPECT_EQ((*RunFolder::read(path))->answers().size(), 6U);
            if (!failed) { break; }
        }
    }
    EXPECT_GT(n_failed, 10);
}

TEST(RunFolder, AFolderOfSomethingElseIsLeftAlone) {
    const std::string path = folder_name("mine");
    std::filesystem::create_directories(path);
    std::ofstream(path + "/letter.txt") << "dear";
    EXPECT_NE(RunFolder::open(path, some_info()).status().message().find("is not empty"), std::string::npos);
    EXPECT_EQ(RunFolder::open(folder_name("none"), some_info(), true).status().code(), ErrorCode::kNotFound);
    EXPECT_EQ(RunFolder::read(folder_name("none")).status().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace pith::run_folder_test
