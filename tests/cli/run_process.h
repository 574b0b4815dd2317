// run_process.h - runs the built `pith` and keeps what it said; and the models the command-line tests share.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "model/gguf_edit.h"
#include "model/random/random_model.h"

namespace pith::testing {

struct Outcome {
    int exit_code = -1;  // negative: the signal that ended it
    std::string out;
    std::string err;

    size_t error_lines() const { return static_cast<size_t>(std::count(err.begin(), err.end(), '\n')); }
};

inline std::string read_text_file(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

struct RunLimits {
    size_t address_space_bytes = 0;  // 0: no limit
    std::string standard_input;
    std::string standard_output = {};  // a file to write to instead of Outcome::out
    int interrupt_after_s = 0;         // Ctrl-C then; 0: never
};

// `pith ARGUMENTS…`, with these files as its standard streams.
struct Streams {
    std::string in;
    std::string out;
    std::string err;
};
inline pid_t start_pith(const std::vector<std::string> & arguments, const Streams & streams, size_t address_space_bytes = 0) {
    std::vector<std::string> words = {PITH_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char *> argv;
    for (std::string & word : words) { argv.push_back(word.data()); }
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(open(streams.in.c_str(), O_RDONLY), STDIN_FILENO);
        dup2(open(streams.out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
        dup2(open(streams.err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
        if (address_space_bytes > 0) {
            const rlimit limit{address_space_bytes, address_space_bytes};
            setrlimit(RLIMIT_AS, &limit);
        }
        execv(argv[0], argv.data());
        _exit(127);
    }
    return pid;
}

// The exit code; negative: the signal that ended it.
inline int wait_for_exit(pid_t pid) {
    int state = 0;
    waitpid(pid, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

// The same, to its end, with nothing on standard input unless the limits say so.
inline Outcome run_pith(const std::vector<std::string> & arguments, const RunLimits & limits = {}) {
    const TempFolder folder;
    const Streams streams{folder.file("in"), limits.standard_output.empty() ? folder.file("out") : limits.standard_output,
                          folder.file("err")};
    std::ofstream(streams.in, std::ios::binary) << limits.standard_input;
    const pid_t pid = start_pith(arguments, streams, limits.address_space_bytes);
    if (limits.interrupt_after_s > 0) {
        sleep(static_cast<unsigned>(limits.interrupt_after_s));
        kill(pid, SIGINT);
    }
    Outcome outcome;
    outcome.exit_code = wait_for_exit(pid);
    if (limits.standard_output.empty()) { outcome.out = read_text_file(streams.out); }
    outcome.err = read_text_file(streams.err);
    return outcome;
}

// Failed as it should: this code, one line on stderr that begins with "pith: " and holds each of the words, nothing on stdout.
inline void expect_error(const Outcome & outcome, int exit_code, const std::vector<std::string> & words) {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_EQ(outcome.err.substr(0, 6), "pith: ") << outcome.err;
    EXPECT_EQ(outcome.out, "");
    for (const std::string & word : words) {
        EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in: " << outcome.err;
    }
}

inline void write_text(const std::string & path, const std::string & text) {
    std::ofstream(path, std::ios::binary) << text;
}

inline std::string write_model(const TempFolder & folder, const RandomModelSpec & spec = {},
                               const std::string & name = "model.gguf") {
    const std::string path = folder.file(name);
    const Status status = write_random_model(spec, path);
    EXPECT_TRUE(status.ok()) << status.message();
    return path;
}

// About n_words tokens or a little more.
inline std::string words(int n_words) {
    std::string text = "Once";
    for (int i = 1; i < n_words; ++i) { text += i % 7 == 0 ? " and the" : " the"; }
    return text;
}

}  // namespace pith::testing
