// hub_server.h - a server on this machine that gives what a test puts there, as Hugging Face's hub does on good days and on
// bad.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace pith::testing {

// One request at a time, a connection each. Threads: any.
class HubServer {
public:
    struct Request {
        std::string path;   // with what stands behind '?'
        std::string token;  // behind "Bearer "
        std::string range;  // "bytes=100-"
    };

    struct Answer {
        std::string body;
        int status = 200;
        std::string headers;                      // more of them, each with "\r\n"
        bool knows_ranges = true;                 // else all is sent, whatever part was asked for
        size_t breaks_after = std::string::npos;  // bytes of the body; once
        int pause_ms = 0;                         // between pieces of 4 KiB
    };

    HubServer() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        auto * generic = reinterpret_cast<sockaddr *>(&address);
        ok_ = bind(socket_, generic, length) == 0 && listen(socket_, 16) == 0 && getsockname(socket_, generic, &length) == 0;
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    ~HubServer() { stop(); }
    HubServer(const HubServer &) = delete;
    HubServer & operator=(const HubServer &) = delete;

    // From now on nobody answers there.
    void stop() {
        stopping_ = true;
        if (thread_.joinable()) { thread_.join(); }
        if (socket_ >= 0) { close(socket_); }
        socket_ = -1;
    }

    bool ok() const { return ok_; }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

    void put(const std::string & path, Answer answer) {
        const std::lock_guard lock(mutex_);
        answers_[path] = std::move(answer);
    }
    std::vector<Request> requests() {
        const std::lock_guard lock(mutex_);
        return requests_;
    }
    void forget_requests() {
        const std::lock_guard lock(mutex_);
        requests_.clear();
    }

private:
    void serve() {
        while (!stopping_) {
            pollfd waiting{socket_, POLLIN, 0};
            if (poll(&waiting, 1, 20) <= 0) { continue; }
            const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
            if (connection < 0) { continue; }
            handle(connection);
            close(connection);
        }
    }

    static std::string header(const std::string & head, const std::string & name, const std::string & before) {
        const size_t at = head.find("\r\n" + name + ": " + before);
        if (at == std::string::npos) { return {}; }
        const size_t begin = at + 4 + name.size() + before.size();
        return head.substr(begin, head.find("\r\n", begin) - begin);
    }

    void handle(int connection) {
        std::string head;
        char buffer[4096];
        while (head.find("\r\n\r\n") == std::string::npos) {
            const ssize_t n = recv(connection, buffer, sizeof buffer, 0);
            if (n <= 0) { return; }
            head.append(buffer, static_cast<size_t>(n));
        }
        const size_t begin = head.find(' ') + 1;
        const Request request{head.substr(begin, head.find(' ', begin) - begin), header(head, "Authorization", "Bearer "),
                              header(head, "Range", "")};
        send_answer(connection, request, take(request));
    }

    Answer take(const Request & request) {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        auto it = answers_.find(request.path);
        if (it == answers_.end()) { it = answers_.find(request.path.substr(0, request.path.find('?'))); }
        if (it == answers_.end()) { return {.body = "{\"error\": \"not here\"}", .status = 404, .headers = ""}; }
        Answer answer = it->second;
        it->second.breaks_after = std::string::npos;
        return answer;
    }

    void send_answer(int connection, const Request & request, const Answer & answer) const {
        size_t begin = 0;
        if (request.range.starts_with("bytes=") && answer.knows_ranges && answer.status == 200) {
            begin = std::min<size_t>(std::stoul(request.range.substr(6)), answer.body.size());
        }
        if (begin > 0 && begin == answer.body.size()) {
            send_all(connection, "HTTP/1.1 416 Nothing there\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        std::string text = "HTTP/1.1 " + std::to_string(begin > 0 ? 206 : answer.status) + " As asked\r\n" + answer.headers +
                           "Connection: close\r\nContent-Length: " + std::to_string(answer.body.size() - begin) + "\r\n";
        if (begin > 0) {
            text += "Content-Range: bytes " + std::to_string(begin) + "-" + std::to_string(answer.body.size() - 1) + "/" +
                    std::to_string(answer.body.size()) + "\r\n";
        }
        text += "\r\n";
        if (!send_all(connection, text)) { return; }
        const size_t end = std::min(answer.body.size(), answer.breaks_after);
        const size_t piece = answer.pause_ms > 0 ? 4096 : answer.body.size();
        for (size_t at = begin; at < end && !stopping_; at += piece) {
            if (!send_all(connection, std::string_view(answer.body).substr(at, std::min(piece, end - at)))) { return; }
            if (answer.pause_ms > 0) { std::this_thread::sleep_for(std::chrono::milliseconds(answer.pause_ms)); }
        }
    }

    static bool send_all(int connection, std::string_view text) {
        while (!text.empty()) {
            const ssize_t n = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
            if (n <= 0) { return false; }
            text.remove_prefix(static_cast<size_t>(n));
        }
        return true;
    }

    int socket_;
    int port_ = 0;
    bool ok_ = false;
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::map<std::string, Answer> answers_;
    std::vector<Request> requests_;
    std::thread thread_;
};

}  // namespace pith::testing
