// in_use.h - one call at a time: a session or an engine that a call is in refuses another, instead of two being in it at once.
// Stage: façade.   Threads: any.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "pith/status.h"

namespace pith::c {

class InUse {
public:
    // Of the call that runs now: what one of its callbacks calls runs inside it.
    bool by_this_thread() const { return owner_.load() == std::this_thread::get_id(); }
    bool by_another_thread() const { return owner_.load() != std::thread::id() && !by_this_thread(); }

    // From here to its end, one call is in it.
    class Call {
    public:
        explicit Call(InUse & of) : of_(of) {
            std::thread::id nobody;
            has_it_ = of_.owner_.compare_exchange_strong(nobody, std::this_thread::get_id());
        }
        ~Call() {
            if (has_it_) { of_.owner_ = std::thread::id(); }
        }
        Call(const Call &) = delete;
        Call & operator=(const Call &) = delete;

        bool has_it() const { return has_it_; }

    private:
        InUse & of_;
        bool has_it_ = false;
    };

private:
    std::atomic<std::thread::id> owner_{};
};

inline Status refused_in_use(const char * what, const InUse & use) {
    return {ErrorCode::kInvalidArgument,
            std::string("the ") + what + " is in use: " +
                (use.by_this_thread() ? "this is a callback of its call, which may look at it and no more"
                                      : "a call of another thread has not ended; make one after the other")};
}

}  // namespace pith::c
