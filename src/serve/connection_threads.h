// connection_threads.h - a thread for each connection that is being served, as many as there are at once. Stage: serve.
//
// A connection may last as long as an answer, so none may wait for another's thread while more are allowed: a job that finds
// all threads taken gets a new one. Threads without work end after a while. Pure C++. Threads: any may enqueue; one calls
// shutdown(), once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace pith::serve {

class ConnectionThreads {
public:
    // most: threads; beyond those that are at work an eighth as many jobs may wait for one.
    explicit ConnectionThreads(size_t most) : most_(most) {}
    // REQUIRES: shutdown() was called, or nothing was enqueued.
    ~ConnectionThreads() = default;
    ConnectionThreads(const ConnectionThreads &) = delete;
    ConnectionThreads & operator=(const ConnectionThreads &) = delete;

    // false: too many wait, or there can be no thread.
    bool enqueue(std::function<void()> job);
    // What was enqueued is done first.
    void shutdown();

private:
    bool start_thread();
    void work(std::list<std::thread>::iterator self);

    const size_t most_;
    std::mutex mutex_;  // of what follows
    std::condition_variable came_;
    std::deque<std::function<void()>> jobs_;
    std::list<std::thread> threads_;
    std::list<std::thread> ended_;  // to be joined
    size_t n_idle_ = 0;
    size_t n_at_work_ = 0;
    bool ending_ = false;
};

}  // namespace pith::serve
