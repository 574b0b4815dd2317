// child_process.cpp - fork, pipe, wait. Stage: probe.
#include "engine/probe/child_process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

namespace pith {
namespace {

constexpr int kExitThrew = 125;
constexpr int kExitNoProgram = 127;

Status io_error(const char * what) {
    return {ErrorCode::kIo, std::string(what) + " failed: " + std::strerror(errno)};
}

void write_all(int fd, const std::string & text) {
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t n = write(fd, text.data() + done, text.size() - done);
        if (n < 0 && errno != EINTR) { return; }
        if (n > 0) { done += static_cast<size_t>(n); }
    }
}

// Starts `in_child(write_fd)` in a child and reads what it writes until it ends.
Result<ChildOutput> run_forked(const std::function<int(int write_fd)> & in_child) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) { return io_error("pipe"); }
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return io_error("fork");
    }
    if (pid == 0) {
        close(ends[0]);
        _exit(in_child(ends[1]));
    }
    close(ends[1]);
    ChildOutput output;
    std::array<char, 4096> block{};
    ssize_t n = 0;
    while ((n = read(ends[0], block.data(), block.size())) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0) { output.text.append(block.data(), static_cast<size_t>(n)); }
    }
    close(ends[0]);
    int state = 0;
    struct rusage usage = {};
    while (wait4(pid, &state, 0, &usage) < 0) {
        if (errno != EINTR) { return io_error("wait4"); }
    }
    output.exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    output.rss_peak_bytes = static_cast<size_t>(usage.ru_maxrss) * 1024;
    return output;
}

}  // namespace

Result<ChildOutput> run_in_child(const std::function<std::string()> & body) {
    return run_forked([&body](int fd) {
        try {
            write_all(fd, body());
            return 0;
        } catch (const std::exception & error) {
            write_all(fd, error.what());
            return kExitThrew;
        }
    });
}

Result<ChildOutput> run_program(const std::vector<std::string> & command, const std::string & working_folder) {
    std::vector<char *> argv;
    for (const std::string & word : command) { argv.push_back(const_cast<char *>(word.c_str())); }
    argv.push_back(nullptr);
    return run_forked([&](int fd) {
        if (!working_folder.empty() && chdir(working_folder.c_str()) != 0) { return kExitNoProgram; }
        const int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, STDIN_FILENO);
        dup2(fd, STDOUT_FILENO);
        dup2(nothing, STDERR_FILENO);
        execvp(argv[0], argv.data());
        return kExitNoProgram;
    });
}

}  // namespace pith
