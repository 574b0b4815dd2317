// interrupt.h - Ctrl-C: the first one asks to stop, the second one kills; or every one asks, in a conversation.
#pragma once

#include <atomic>

namespace pith::app {

// Sets the handler for SIGINT; the flag turns true at the first one.
const std::atomic<bool> & catch_interrupt();

// The same for SIGTERM, too: of a command that goes on until somebody ends it.
const std::atomic<bool> & catch_end();

// From the first call on every SIGINT sets the flag, and nothing else; whoever saw it sets it back. A write goes on, and so
// does a read, but for WakeReads.
std::atomic<bool> & every_interrupt();

// While it lives, a Ctrl-C interrupts reads. A read that began just behind it does not wait for the next key: it is interrupted
// a second later, and again, until the flag is set back.   REQUIRES: every_interrupt() was called; one at a time.
class WakeReads {
public:
    WakeReads();
    ~WakeReads();
    WakeReads(const WakeReads &) = delete;
    WakeReads & operator=(const WakeReads &) = delete;
};

}  // namespace pith::app
