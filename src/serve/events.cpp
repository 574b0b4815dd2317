// events.cpp - a line of events between two threads. Stage: serve.
#include "serve/events.h"

#include <chrono>
#include <utility>

namespace pith::serve {

void Events::push(Event event) {
    {
        const std::lock_guard lock(mutex_);
        if (std::holds_alternative<KvMap>(event.what)) {  // whoever reads slowly gets the newest
            std::erase_if(events_, [&](const Event & one) {
                return one.index == event.index && std::holds_alternative<KvMap>(one.what);
            });
        }
        events_.push_back(std::move(event));
    }
    came_.notify_one();
}

std::optional<Event> Events::pop(int wait_ms) {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, std::chrono::milliseconds(wait_ms), [this] { return !events_.empty(); })) { return {}; }
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
}

}  // namespace pith::serve
