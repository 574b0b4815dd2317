// cancel_flag.h - a flag of the caller's that ends all calls which run under it. Stage: façade.
// Threads: any; set() and clear() take no lock, so that a signal handler may call them.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace pith::c {

class CancelFlag {
    // What a call watches: each its own, so that a callback that says no ends one call alone.
    struct Mark {
        std::atomic<bool> ends = false;
        std::atomic<bool> is_taken = true;
        Mark * next = nullptr;
    };

public:
    CancelFlag() = default;
    ~CancelFlag() {
        for (Mark * mark = first_; mark != nullptr;) { delete std::exchange(mark, mark->next); }
    }
    CancelFlag(const CancelFlag &) = delete;
    CancelFlag & operator=(const CancelFlag &) = delete;

    void set() {
        is_set_ = true;
        for (Mark * mark = first_; mark != nullptr; mark = mark->next) { mark->ends = true; }
    }
    void clear() { is_set_ = false; }  // calls that it has ended stay so

    // One call. The flag lives at least as long.
    class Call {
    public:
        explicit Call(std::shared_ptr<CancelFlag> flag) : flag_(std::move(flag)), mark_(flag_->take_mark()) {}
        ~Call() { mark_->is_taken = false; }
        Call(const Call &) = delete;
        Call & operator=(const Call &) = delete;

        const std::atomic<bool> * get() const { return &mark_->ends; }
        void end() { mark_->ends = true; }

    private:
        std::shared_ptr<CancelFlag> flag_;
        Mark * mark_;
    };

private:
    // Marks are used again, and stay as long as the flag does: whoever walks along them takes no lock.
    Mark * take_mark() {
        Mark * mark = first_;
        for (bool free = false; mark != nullptr && !mark->is_taken.compare_exchange_strong(free, true); free = false) {
            mark = mark->next;
        }
        if (mark == nullptr) {
            mark = new Mark;
            mark->next = first_;
            while (!first_.compare_exchange_weak(mark->next, mark)) {}
        }
        mark->ends = false;
        if (is_set_) { mark->ends = true; }  // before, or by another thread meanwhile
        return mark;
    }

    std::atomic<bool> is_set_ = false;
    std::atomic<Mark *> first_ = nullptr;
};

}  // namespace pith::c
