// http_client.h - HTTP by hand, so that a test may also do it badly: slowly, in part, or walking away.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace pith::testing {

using Json = nlohmann::ordered_json;

struct HttpAnswer {
    int status = 0;  // 0: none came
    std::string headers;
    std::string body;

    Json json() const { return Json::parse(body, nullptr, false); }
    // The objects of a stream of server-sent events; "[DONE]" is a text.
    std::vector<Json> events() const {
        std::vector<Json> found;
        for (size_t at = body.find("data: "); at != std::string::npos; at = body.find("data: ", at + 1)) {
            const std::string text = body.substr(at + 6, body.find("\n\n", at) - at - 6);
            found.push_back(text == "[DONE]" ? Json("[DONE]") : Json::parse(text, nullptr, false));
        }
        return found;
    }
};

// One connection. Threads: one at a time.
class Connection {
public:
    explicit Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        open_ = connect(socket_, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
    }
    ~Connection() { close(socket_); }
    Connection(const Connection &) = delete;
    Connection & operator=(const Connection &) = delete;

    bool open() const { return open_; }
    // Closing does not wait for what is still on its way, and tells the other side so.
    void reset_when_closed() const {
        const linger at_once{1, 0};
        setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    bool send(const std::string & text) const {
        for (size_t at = 0; at < text.size();) {
            const ssize_t n = ::send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
            if (n <= 0) { return false; }
            at += static_cast<size_t>(n);
        }
        return true;
    }
    // It writes no more, and still reads.
    void end() const { shutdown(socket_, SHUT_WR); }
    // Until `end` has come, or the other side closes, or nothing comes for so long.
    std::string read_until(const std::string & end, int wait_ms = 60'000) {
        while (came_.find(end) == std::string::npos) {
            pollfd ready{socket_, POLLIN, 0};
            if (poll(&ready, 1, wait_ms) <= 0) { break; }
            char bytes[4096];
            const ssize_t n = recv(socket_, bytes, sizeof bytes, 0);
            if (n <= 0) {
                closed_ = true;
                break;
            }
            came_.append(bytes, static_cast<size_t>(n));
        }
        return came_;
    }
    bool closed() const { return closed_; }

private:
    int socket_;
    bool open_ = false;
    bool closed_ = false;
    std::string came_;
};

inline std::string request_text(const std::string & method, const std::string & path, const std::string & body,
                                const std::string & headers = "") {
    return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
           (method != "GET" ? "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n"
                            : "") +
           "\r\n" + body;
}

inline std::string without_chunk_sizes(const std::string & body) {
    std::string out;
    for (size_t at = 0; at < body.size();) {
        const size_t end = body.find("\r\n", at);
        if (end == std::string::npos) { break; }
        const size_t n = std::stoul("0" + body.substr(at, end - at), nullptr, 16);
        if (n == 0) { break; }
        out += body.substr(end + 2, n);
        at = end + 2 + n + 2;
    }
    return out;
}

inline HttpAnswer answer_of(const std::string & text) {
    HttpAnswer answer;
    const size_t border = text.find("\r\n\r\n");
    if (border == std::string::npos || !text.starts_with("HTTP/1.1 ")) { return answer; }
    answer.status = std::stoi(text.substr(9, 3));
    answer.headers = text.substr(0, border + 2);
    answer.body = text.substr(border + 4);
    if (answer.headers.find("chunked") != std::string::npos) { answer.body = without_chunk_sizes(answer.body); }
    return answer;
}

inline HttpAnswer ask(int port, const std::string & method, const std::string & path, const std::string & body = "",
                      const std::string & headers = "") {
    Connection connection(port);
    if (!connection.open() || !connection.send(request_text(method, path, body, headers))) {
        return answer_of(connection.read_until("\r\n\r\n never", 2000));
    }
    return answer_of(connection.read_until("\r\n\r\n never"));
}
inline HttpAnswer get(int port, const std::string & path, const std::string & headers = "") {
    return ask(port, "GET", path, "", headers);
}
inline HttpAnswer post(int port, const std::string & path, const Json & body, const std::string & headers = "") {
    return ask(port, "POST", path, body.dump(), headers);
}

}  // namespace pith::testing
