// connection_threads.cpp - threads that come with jobs, and go. Stage: serve.
#include "serve/connection_threads.h"

#include <chrono>
#include <exception>
#include <new>
#include <utility>

namespace pith::serve {
namespace {

constexpr auto kIdle = std::chrono::seconds(5);  // without work a thread ends
constexpr size_t kShareThatMayWait = 8;          // one for so many threads

}  // namespace

bool ConnectionThreads::enqueue(std::function<void()> job) {
    std::list<std::thread> ended;
    {
        const std::lock_guard lock(mutex_);
        // What waits has no deadline yet, so few may: as many as come while as many others are about to go.
        if (ending_ || n_at_work_ + jobs_.size() >= most_ + most_ / kShareThatMayWait) { return false; }
        jobs_.push_back(std::move(job));
        ended.swap(ended_);
        if (jobs_.size() > n_idle_ && threads_.size() < most_) {
            if (!start_thread() && threads_.empty()) {  // else those that there are serve it
                jobs_.pop_back();
                return false;
            }
        }
    }
    came_.notify_one();
    for (std::thread & thread : ended) { thread.join(); }
    return true;
}

// false: the system has no more, or no memory for it.
bool ConnectionThreads::start_thread() {
    std::list<std::thread>::iterator self;
    try {
        self = threads_.emplace(threads_.begin());
    } catch (const std::bad_alloc &) { return false; }
    try {
        *self = std::thread([this, self] { work(self); });
        return true;
    } catch (const std::exception &) {
        threads_.erase(self);
        return false;
    }
}

void ConnectionThreads::work(std::list<std::thread>::iterator self) {
    std::unique_lock lock(mutex_);
    for (;;) {
        ++n_idle_;
        const bool woken = came_.wait_for(lock, kIdle, [this] { return !jobs_.empty() || ending_; });
        --n_idle_;
        if (!jobs_.empty()) {
            std::function<void()> job = std::move(jobs_.front());
            jobs_.pop_front();
            ++n_at_work_;
            lock.unlock();
            job();
            job = nullptr;
            lock.lock();
            --n_at_work_;
            continue;
        }
        if (ending_) { return; }  // shutdown() joins it where it stands
        if (!woken) {
            ended_.splice(ended_.begin(), threads_, self);
            return;
        }
    }
}

void ConnectionThreads::shutdown() {
    std::list<std::thread> all;
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
        all.splice(all.end(), threads_);
        all.splice(all.end(), ended_);
    }
    came_.notify_all();
    for (std::thread & thread : all) { thread.join(); }
}

}  // namespace pith::serve
