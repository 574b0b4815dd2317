// contained_work.cpp - fork, limits, a pipe. Stage: text.
#include "text/contained_work.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>

namespace pith {
namespace {

using Clock = std::chrono::steady_clock;

// What goes through the pipe: one of these, the number of bytes, the bytes. So many are read, not all until the pipe's end:
// processes that others start meanwhile may hold that open.
constexpr char kText = 'T';
constexpr char kFailed = 'F';
constexpr char kNoMemory = 'M';
constexpr char kTooLong = 'L';
constexpr size_t kHeadBytes = 1 + sizeof(uint64_t);

std::string mebibytes(size_t bytes) {
    return std::to_string(bytes >> 20U) + " MiB";
}

// --- in the other process ---

void lower_limit(int what, rlim_t limit) {
    struct rlimit old = {};
    if (getrlimit(static_cast<__rlimit_resource_t>(what), &old) != 0) { return; }
    const rlim_t hard = old.rlim_max;  // lowering it, too, would make SIGXCPU a SIGKILL
    const rlim_t soft = std::min({limit, old.rlim_cur, hard});
    const struct rlimit lowered = {soft, hard};
    setrlimit(static_cast<__rlimit_resource_t>(what), &lowered);
}

// Of the address space. 0: unknown.
size_t mapped_bytes() {
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) { return 0; }
    std::array<char, 128> text{};
    const ssize_t n = read(file, text.data(), text.size() - 1);
    close(file);
    return n > 0 ? std::strtoull(text.data(), nullptr, 10) * static_cast<size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// A server's port, for one, would stay taken after the server is gone.
void close_all_but(int fd) {
#ifdef SYS_close_range
    const auto kept = static_cast<unsigned>(fd);
    syscall(SYS_close_range, STDERR_FILENO + 1U, kept - 1, 0U);
    syscall(SYS_close_range, kept + 1, ~0U, 0U);
#else
    (void)fd;
#endif
}

void confine(const ContainedLimits & limits) {
    for (const int signal_number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM, SIGPIPE}) {
        std::signal(signal_number, SIG_DFL);  // the caller's handlers know nothing of this process
    }
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, nullptr);
#ifdef PR_SET_PDEATHSIG
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for it any more
#endif
    const int nowhere = open("/dev/null", O_RDWR);
    if (nowhere >= 0) {
        for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) { dup2(nowhere, fd); }
        if (nowhere > STDERR_FILENO) { close(nowhere); }
    }
    struct rusage usage = {};  // a new process has used nothing, but counting begins where the kernel says
    getrusage(RUSAGE_SELF, &usage);
    lower_limit(RLIMIT_CORE, 0);
    lower_limit(RLIMIT_CPU, static_cast<rlim_t>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + limits.cpu_seconds));
    if (const size_t mapped = mapped_bytes(); mapped > 0) { lower_limit(RLIMIT_AS, mapped + limits.memory_bytes); }
}

void write_all(int fd, const char * bytes, size_t n_bytes) {
    while (n_bytes > 0) {
        const ssize_t n = write(fd, bytes, n_bytes);
        if (n < 0 && errno != EINTR) { return; }
        if (n > 0) {
            bytes += n;
            n_bytes -= static_cast<size_t>(n);
        }
    }
}

void send(int fd, char kind, const std::string & text) {
    std::array<char, kHeadBytes> head{kind};
    const uint64_t n_bytes = text.size();
    std::memcpy(head.data() + 1, &n_bytes, sizeof n_bytes);
    write_all(fd, head.data(), head.size());
    write_all(fd, text.data(), text.size());
}

[[noreturn]] void work_in_child(int fd, const std::function<std::string()> & work, const ContainedLimits & limits) {
    close_all_but(fd);
    confine(limits);
    try {
        const std::string text = work();
        if (text.size() > limits.output_bytes) {
            send(fd, kTooLong, "");
        } else {
            send(fd, kText, text);
        }
    } catch (const std::bad_alloc &) { send(fd, kNoMemory, ""); } catch (const std::length_error &) {
        send(fd, kNoMemory, "");
    } catch (const std::exception & error) { send(fd, kFailed, error.what()); } catch (...) {
        send(fd, kFailed, "failed");
    }
    _exit(0);
}

// --- in this process ---

// The other one, and this end of its pipe: however this ends, it is over, collected, and the pipe closed.
class Child {
public:
    Child(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
    ~Child() {
        if (pid_ > 0) {
            end();
            collect();
        }
    }
    Child(const Child &) = delete;
    Child & operator=(const Child &) = delete;

    void end() const { kill(pid_, SIGKILL); }
    // Stays 0 where the program that Pith is part of collects its children itself: what it sent says enough.
    int collect() {
        close(fd_);
        int state = 0;
        while (waitpid(pid_, &state, 0) < 0 && errno == EINTR) {}
        pid_ = 0;
        return state;
    }

private:
    pid_t pid_;  // 0: collected
    int fd_;
};

struct Received {
    std::string bytes;
    bool timed_out = false;
    bool too_long = false;

    bool has_head() const { return bytes.size() >= kHeadBytes; }
    // Behind the head.   REQUIRES: has_head().
    uint64_t n_announced() const {
        uint64_t n_bytes = 0;
        std::memcpy(&n_bytes, bytes.data() + 1, sizeof n_bytes);
        return n_bytes;
    }
    bool is_whole() const { return has_head() && bytes.size() - kHeadBytes >= n_announced(); }
};

Received receive(int fd, const ContainedLimits & limits) {
    Received received;
    const Clock::time_point end = Clock::now() + std::chrono::seconds(limits.wall_seconds);
    std::array<char, 65536> block{};
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        struct pollfd waiting = {fd, POLLIN, 0};
        const int ready = left > 0 ? poll(&waiting, 1, static_cast<int>(left)) : 0;
        if (ready < 0 && errno == EINTR) { continue; }
        if (ready == 0) {
            received.timed_out = true;
            return received;
        }
        const ssize_t n = read(fd, block.data(), block.size());
        if (n < 0 && errno == EINTR) { continue; }
        if (n <= 0) { return received; }
        received.bytes.append(block.data(), static_cast<size_t>(n));
        if (received.bytes.size() > kHeadBytes + limits.output_bytes) {
            received.too_long = true;
            return received;
        }
        if (received.is_whole()) { return received; }
    }
}

Status did(std::string what) {
    return {ErrorCode::kUnsupported, std::move(what)};
}

Status ended_by(int signal_number, const ContainedLimits & limits) {
    switch (signal_number) {
        case SIGXCPU:
            return did("took more than " + std::to_string(limits.cpu_seconds) + " s of processor time");
        case SIGSEGV:
        case SIGBUS:
            return did("ran out of stack (recursion without end?), or faulted");
        case SIGFPE:
            return did("divided by zero");
        case SIGABRT:
            return did("gave up inside the library that reads it");
        case SIGKILL:
            return did("was ended by the system (out of memory?)");
        default:
            return did("ended by signal " + std::to_string(signal_number));
    }
}

Result<std::string> outcome(Received received, int state, const ContainedLimits & limits) {
    if (received.timed_out) { return did("took longer than " + std::to_string(limits.wall_seconds) + " s"); }
    if (received.too_long) { return did("wrote more than " + mebibytes(limits.output_bytes)); }
    std::string & bytes = received.bytes;
    if (received.has_head() && received.n_announced() == bytes.size() - kHeadBytes) {
        const char kind = bytes[0];
        bytes.erase(0, kHeadBytes);
        if (kind == kText) { return std::move(bytes); }
        if (kind == kNoMemory) { return did("needs more than " + mebibytes(limits.memory_bytes) + " of memory"); }
        if (kind == kTooLong) { return did("wrote more than " + mebibytes(limits.output_bytes)); }
        return did(std::move(bytes));
    }
    return WIFSIGNALED(state) ? ended_by(WTERMSIG(state), limits) : did("ended without a word");
}

}  // namespace

Result<std::string> run_contained(const std::function<std::string()> & work, const ContainedLimits & limits) {
    // One thread at a time: a process that another started meanwhile would have the end that is written to, too, and the pipe
    // would not end with this one's.
    static std::mutex starting;
    std::unique_lock lock(starting);
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        return {ErrorCode::kIo, std::string("no pipe to a process of its own: ") + std::strerror(errno)};
    }
    const pid_t pid = fork();
    if (pid < 0) {
        const int why = errno;
        close(ends[0]);
        close(ends[1]);
        return {why == ENOMEM ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
                std::string("no process of its own can be started: ") + std::strerror(why)};
    }
    if (pid == 0) {
        close(ends[0]);
        work_in_child(ends[1], work, limits);
    }
    close(ends[1]);
    lock.unlock();
    Child child(pid, ends[0]);
    Received received = receive(ends[0], limits);  // which may throw
    if (received.timed_out || received.too_long) { child.end(); }
    const int state = child.collect();
    return outcome(std::move(received), state, limits);
}

}  // namespace pith
