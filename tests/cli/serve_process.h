// serve_process.h - a server as a process of its own, for as long as a test looks at it.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "cli/run_process.h"
#include "serve/http_client.h"

namespace pith::testing {

// `pith serve` on a free port.
inline std::vector<std::string> serve_command(const std::vector<std::string> & more) {
    std::vector<std::string> words = {PITH_PROGRAM, "serve", "--port", "0", "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// A port that nobody listens at now; -1: none was found.
inline int free_port() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const bool bound = bind(fd, reinterpret_cast<sockaddr *>(&address), size) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size) == 0;
    close(fd);
    return bound ? ntohs(address.sin_port) : -1;
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
    // Of a program that prints no line: whether it says within a minute, there, that it is well. false also where it has ended.
    bool is_well_at(int port) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (std::chrono::steady_clock::now() < end) {
            int state = 0;
            if (waitpid(pid_, &state, WNOHANG) == pid_) {
                pid_ = 0;
                return false;
            }
            if (get(port, "/health").status == 200) { return true; }
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        return false;
    }
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
