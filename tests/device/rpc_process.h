// rpc_process.h - a ggml-rpc-server as a process of its own, on a free port of this machine, for as long as a test wants it.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "device/device_work.h"
#include "device/rpc_server.h"

namespace pith::testing {

// A socket that listens on a free port of this machine.
class Listener {
public:
    Listener() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (bind(descriptor_, reinterpret_cast<sockaddr *>(&address), size) == 0 && listen(descriptor_, 8) == 0 &&
            getsockname(descriptor_, reinterpret_cast<sockaddr *>(&address), &size) == 0) {
            port_ = ntohs(address.sin_port);
        }
    }
    ~Listener() { close(); }
    Listener(const Listener &) = delete;
    Listener & operator=(const Listener &) = delete;

    int port() const { return port_; }
    RpcEndpoint endpoint() const { return {"127.0.0.1", port_}; }
    int descriptor() const { return descriptor_; }
    void close() {
        if (descriptor_ >= 0) { ::close(descriptor_); }
        descriptor_ = -1;
    }

private:
    int descriptor_;
    int port_ = 0;
};

class RpcProcess {
public:
    // Waits until it answers, or there is none here.
    RpcProcess() {
        Listener listener;
        port_ = listener.port();
        listener.close();
        std::vector<std::string> words = {
            PITH_SOURCE_DIR "/scripts/rpc_server", "-H", "127.0.0.1", "-t", "1", "-p", std::to_string(port_)};
        std::vector<char *> argv;
        for (std::string & word : words) { argv.push_back(word.data()); }
        argv.push_back(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
#ifdef __linux__
            prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
            // The test's own libraries and back ends are none of its.
            unsetenv("LD_LIBRARY_PATH");
            unsetenv("GGML_BACKEND_PATH");
            dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
            dup2(STDOUT_FILENO, STDERR_FILENO);
            execv(argv[0], argv.data());
            _exit(127);
        }
        wait_until_it_answers();
    }
    ~RpcProcess() {
        end();
    }
    RpcProcess(const RpcProcess &) = delete;
    RpcProcess & operator=(const RpcProcess &) = delete;

    bool answers() const {
        return answers_;
    }
    std::string endpoint() const {
        return "127.0.0.1:" + std::to_string(port_);
    }
    void end() {
        if (pid_ <= 0) { return; }
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

private:
    void wait_until_it_answers() {
        const auto end_of_patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!answers_ && std::chrono::steady_clock::now() < end_of_patience) {
            if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
                pid_ = 0;
                return;
            }
            answers_ = on_devices([&] { return ask_rpc_server({"127.0.0.1", port_}, std::chrono::seconds(5)); }).ok();
            if (!answers_) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }
        }
    }

    int port_ = 0;
    pid_t pid_ = 0;
    bool answers_ = false;
};

}  // namespace pith::testing
