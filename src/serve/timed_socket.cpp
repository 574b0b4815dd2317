// timed_socket.cpp - poll, before each read and write. Stage: serve.
#include "serve/timed_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace pith::serve {
namespace {

#ifdef MSG_NOSIGNAL
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif

#ifdef POLLRDHUP
constexpr short kPeerEnded = POLLRDHUP;
#else
constexpr short kPeerEnded = 0;
#endif

void set_option(int file, int level, int name, int value) {
    setsockopt(file, level, name, &value, sizeof value);
}

// What has happened of it by then; 0: nothing.
short wait_for(int file, short events, SteadyClock::time_point until) {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now()).count();
        pollfd ready{file, events, 0};
        const int n = poll(&ready, 1, static_cast<int>(std::clamp<long long>(left, 0, 1 << 30)));
        if (n > 0) { return ready.revents; }
        if (n < 0 && errno != EINTR) { return POLLERR; }
        if (left <= 0) { return 0; }
    }
}

bool would_wait() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

TimedSocket::~TimedSocket() {
    close(file_);
}

bool TimedSocket::prepare() const {
    const int flags = fcntl(file_, F_GETFL);
    if (flags < 0 || fcntl(file_, F_SETFL, flags | O_NONBLOCK) < 0) { return false; }
    fcntl(file_, F_SETFD, FD_CLOEXEC);
    set_option(file_, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(file_, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
    set_option(file_, IPPROTO_TCP, TCP_KEEPIDLE, 20);  // seconds
    set_option(file_, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set_option(file_, IPPROTO_TCP, TCP_KEEPCNT, 4);
#endif
#ifdef SO_NOSIGPIPE
    set_option(file_, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
    return true;
}

bool TimedSocket::wait(SteadyClock::time_point until) const {
    return wait_for(file_, POLLIN, until) != 0;
}

TimedSocket::Read TimedSocket::read(std::string & to, size_t most, SteadyClock::time_point until) const {
    const size_t before = to.size();
    to.resize(before + most);
    for (;;) {
        const ssize_t n = recv(file_, to.data() + before, most, 0);
        const bool waits = n < 0 && would_wait();
        to.resize(before + (n > 0 ? static_cast<size_t>(n) : waits ? most : 0));
        if (n > 0) { return SteadyClock::now() > until ? Read::kLate : Read::kSome; }
        if (n == 0) { return Read::kEnd; }
        if (!waits) { return Read::kBroken; }
        if (wait_for(file_, POLLIN, until) == 0) {
            to.resize(before);
            return Read::kLate;
        }
    }
}

bool TimedSocket::write(std::string_view first, std::string_view second, std::chrono::seconds patience) const {
    while (!first.empty() || !second.empty()) {
        std::array<iovec, 2> parts{
            {{const_cast<char *>(first.data()), first.size()}, {const_cast<char *>(second.data()), second.size()}}};
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = parts.size();
        const ssize_t n = sendmsg(file_, &message, kNoSignal);
        if (n < 0 && !would_wait()) { return false; }
        if (n < 0) {
            const short happened = wait_for(file_, POLLOUT, SteadyClock::now() + patience);
            if ((happened & POLLOUT) == 0) { return false; }
            continue;
        }
        const size_t of_first = std::min(first.size(), static_cast<size_t>(n));
        first.remove_prefix(of_first);
        second.remove_prefix(static_cast<size_t>(n) - of_first);
    }
    return true;
}

TimedSocket::Peer TimedSocket::peer() const {
    const short happened = wait_for(file_, kPeerEnded, SteadyClock::now());
    if ((happened & (POLLERR | POLLHUP | POLLNVAL)) != 0) { return Peer::kGone; }
    if (kPeerEnded != 0) { return happened != 0 ? Peer::kHalfClosed : Peer::kThere; }
    char byte = 0;
    const ssize_t n = recv(file_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 ? Peer::kHalfClosed : n < 0 && !would_wait() ? Peer::kGone : Peer::kThere;
}

void TimedSocket::end(std::chrono::milliseconds patience) const {
    const auto until = SteadyClock::now() + patience;
    if (shutdown(file_, SHUT_WR) != 0) { return; }
    std::array<char, 16384> left;
    for (;;) {
        const ssize_t n = recv(file_, left.data(), left.size(), 0);
        const bool goes_on = n > 0 ? SteadyClock::now() < until : n < 0 && would_wait() && wait_for(file_, POLLIN, until) != 0;
        if (!goes_on) { return; }
    }
}

void TimedSocket::cut() const {
    shutdown(file_, SHUT_RDWR);
}

}  // namespace pith::serve
