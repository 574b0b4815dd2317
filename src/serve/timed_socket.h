// timed_socket.h - a connection whose reads and writes end when their time is over. Stage: serve.   Threads: one at a time; any
// may cut().
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace pith::serve {

using SteadyClock = std::chrono::steady_clock;

class TimedSocket {
public:
    enum class Read { kSome, kEnd, kLate, kBroken };
    // kHalfClosed: it writes no more. It may still read, or may be gone: only what is sent to it tells.
    enum class Peer { kThere, kHalfClosed, kGone };

    explicit TimedSocket(int file) : file_(file) {}
    ~TimedSocket();
    TimedSocket(const TimedSocket &) = delete;
    TimedSocket & operator=(const TimedSocket &) = delete;

    int file() const { return file_; }
    // Deadlines, small writes sent at once, no signals, and lost peers noticed some time.
    bool prepare() const;
    // Whether something can be read, or the end has been reached.
    bool wait(SteadyClock::time_point until) const;
    // Appends what there is, so many bytes at most.
    Read read(std::string & to, size_t most, SteadyClock::time_point until) const;
    // Both, one after the other. The peer must take something within so long each time. false: it does not, or is gone.
    bool write(std::string_view first, std::string_view second, std::chrono::seconds patience) const;
    Peer peer() const;
    // Tells the peer that nothing more comes, and reads for a moment what it still sends: closed before that, the system would
    // tell it that the connection broke, and it might lose what was sent last.
    void end(std::chrono::milliseconds patience) const;
    // Whoever reads or writes is done at once.
    void cut() const;

private:
    int file_;
};

}  // namespace pith::serve
