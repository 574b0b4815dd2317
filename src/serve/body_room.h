// body_room.h - how many bytes the bodies of all requests in hand, and what is made of them, may have together. Stage: serve.
//
// One body has a largest size, and connections a largest number: their product is more memory than machines have. A body counts
// from its first byte until its request is answered, or its stream has begun; what reading it makes, from when it is whole.
// Behind a large one the allocator is asked to give back what it keeps, where it can be asked: what was read of a body lies in
// small pieces, and would stay. Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

namespace pith::serve {

class BodyRoom {
public:
    explicit BodyRoom(size_t most_bytes) : most_(most_bytes) {}

    // What one request has of it. Threads: one.
    class Share {
    public:
        explicit Share(BodyRoom & room) : room_(room) {}
        ~Share();
        Share(const Share &) = delete;
        Share & operator=(const Share &) = delete;
        // false: there is no room for so many more now.
        bool take(size_t n_bytes);
        // There would be, if nobody else was here.
        bool could_take(size_t n_bytes) const { return bytes_ + n_bytes <= room_.most_; }
        size_t most_bytes() const { return room_.most_; }

    private:
        BodyRoom & room_;
        size_t bytes_ = 0;
    };

    size_t bytes() const { return bytes_.load(); }

private:
    const size_t most_;
    std::atomic<size_t> bytes_{0};
};

// What reading a body of JSON makes of it, about, at most: a tree of its values, and copies of its texts.
size_t bytes_made_of(std::string_view body);

}  // namespace pith::serve
