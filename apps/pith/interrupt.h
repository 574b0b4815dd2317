// interrupt.h - Ctrl-C: the first one asks to stop, the second one kills; or every one asks, in a conversation.
#pragma once

#include <atomic>

namespace pith::app {

// Sets the handler for SIGINT; the flag turns true at the first one.
const std::atomic<bool> & catch_interrupt();

// From the first call on every SIGINT sets the flag, and nothing else; whoever saw it sets it back. Reads are interrupted.
std::atomic<bool> & every_interrupt();

}  // namespace pith::app
