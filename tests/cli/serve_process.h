// serve_process.h - a server as a process of its own, for as long as a test looks at it.
#pragma once

#include <csignal>
#include <cstdlib>

#include "cli/run_process.h"
#include "serve/http_client.h"

namespace pith::testing {

// `pith serve` on a free port.
inline std::vector<std::string> serve_command(const std::vector<std::string> & more) {
    std::vector<std::string> words = {PITH_PROGRAM, "serve", "--port", "0", "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

class ServeProcess {
public:
    // Waits for the first line on standard output, where the program prints one. folder: to work in.
    explicit ServeProcess(std::vector<std::string> words, const std::string & folder = "", bool prints_line = true) {
        std::vector<char *> argv;
        for (std::string & word : words) { argv.push_back(word.data()); }
        argv.push_back(nullptr);
        int ends[2];
        if (pipe(ends) != 0) { return; }
        pid_ = fork();
        if (pid_ == 0) {
            dup2(prints_line ? ends[1] : open("/dev/null", O_WRONLY), STDOUT_FILENO);
            if (!prints_line) { dup2(STDOUT_FILENO, STDERR_FILENO); }
            if (!folder.empty() && chdir(folder.c_str()) != 0) { _exit(127); }
            execv(argv[0], argv.data());
            _exit(127);
        }
        close(ends[1]);
        if (!prints_line) {
            close(ends[0]);
            return;
        }
        FILE * out = fdopen(ends[0], "r");
        char line[256] = "";
        line_ = std::fgets(line, sizeof line, out) != nullptr ? line : "";
        std::fclose(out);
    }
    ~ServeProcess() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
    }
    ServeProcess(const ServeProcess &) = delete;
    ServeProcess & operator=(const ServeProcess &) = delete;

    const std::string & line() const { return line_; }
    int port() const { return std::atoi(line_.substr(line_.rfind(':') + 1).c_str()); }
    void ask_to_end() const { kill(pid_, SIGTERM); }
    int wait() {
        int state = 0;
        waitpid(pid_, &state, 0);
        pid_ = 0;
        return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
    }

private:
    pid_t pid_ = 0;
    std::string line_;
};

}  // namespace pith::testing
