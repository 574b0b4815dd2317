// listener.cpp - getaddrinfo, bind, poll, accept. Stage: serve.
#include "serve/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

namespace pith::serve {
namespace {

constexpr int kBacklog = 1024;
constexpr auto kShortOfFiles = std::chrono::milliseconds(20);  // others are closed meanwhile

int port_of(int socket) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getsockname(socket, reinterpret_cast<sockaddr *>(&address), &size) != 0) { return 0; }
    return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6 &>(address).sin6_port
                                               : reinterpret_cast<const sockaddr_in &>(address).sin_port);
}

}  // namespace

Listener::~Listener() {
    for (const int file : {socket_, wake_[0], wake_[1]}) {
        if (file >= 0) { close(file); }
    }
}

bool Listener::bind_to(const void * address) {
    const auto & info = *static_cast<const addrinfo *>(address);
    socket_ = socket(info.ai_family, info.ai_socktype, info.ai_protocol);
    if (socket_ < 0) { return false; }
    const int yes = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // not SO_REUSEPORT: two servers would share a port
#ifdef TCP_DEFER_ACCEPT
    const int seconds = 5;  // a connection that says nothing takes no thread
    setsockopt(socket_, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
#endif
    fcntl(socket_, F_SETFD, FD_CLOEXEC);
    fcntl(socket_, F_SETFL, O_NONBLOCK);
    if (::bind(socket_, info.ai_addr, info.ai_addrlen) == 0 && listen(socket_, kBacklog) == 0) {
        port_ = port_of(socket_);
        return true;
    }
    close(socket_);
    socket_ = -1;
    return false;
}

bool Listener::bind(const std::string & host, int port) {
    if (pipe(wake_) != 0) { return false; }
    for (const int file : wake_) { fcntl(file, F_SETFD, FD_CLOEXEC); }
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo * all = nullptr;
    if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &all) != 0) { return false; }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(all, freeaddrinfo);
    for (const addrinfo * one = all; one != nullptr; one = one->ai_next) {
        if (bind_to(one)) { return true; }
    }
    return false;
}

std::optional<int> Listener::accept() {
    for (;;) {
        std::array<pollfd, 2> ready{{{socket_, POLLIN, 0}, {wake_[0], POLLIN, 0}}};
        const int n = poll(ready.data(), ready.size(), -1);
        if (n < 0 && errno != EINTR) { return {}; }
        if (n <= 0) { continue; }
        if (ready[1].revents != 0) { return {}; }
        const int file = ::accept(socket_, nullptr, nullptr);
        if (file >= 0) { return file; }
        switch (errno) {
            case EMFILE:
            case ENFILE:
            case ENOBUFS:
            case ENOMEM:
                std::this_thread::sleep_for(kShortOfFiles);
                break;
            case EBADF:
            case EINVAL:
            case ENOTSOCK:
                return {};
            default:  // that one is gone again
                break;
        }
    }
}

void Listener::end() const {
    const char byte = 0;
    [[maybe_unused]] const ssize_t n = write(wake_[1], &byte, 1);
}

}  // namespace pith::serve
