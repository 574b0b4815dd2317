// events.h - what the engine's thread tells who waits for an answer. Stage: serve.   Threads: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <variant>

#include "pith/status.h"
#include "serve/shapes/answer.h"
#include "serve/shapes/kv_map.h"

namespace pith::serve {

struct Accepted {};
struct Progress {
    int64_t n_cached = 0;  // of the prompt, with a state of an earlier one
    int64_t n_read = 0;    // these included
    double seconds = 0;
};
struct Failed {
    Status status;
    int64_t retry_after_s = 0;  // the line is full: so much later there may be room; 0: it is not that
    bool late = false;          // its deadline passed before anything was said
};
struct Event {
    int index = 0;  // of the job
    std::variant<Accepted, Progress, AnswerPiece, AnswerEnd, Failed, KvMap> what;
};

class Events {
public:
    void push(Event event);
    // Nothing: none came within so many milliseconds.
    std::optional<Event> pop(int wait_ms);
    void abandon() { abandoned_.store(true); }
    bool abandoned() const { return abandoned_.load(); }

private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::deque<Event> events_;
    std::atomic<bool> abandoned_{false};
};

}  // namespace pith::serve
