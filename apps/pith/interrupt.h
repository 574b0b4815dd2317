// interrupt.h - Ctrl-C: the first one asks to stop, the second one kills.
#pragma once

#include <atomic>

namespace pith::app {

// Sets the handler for SIGINT; the flag turns true at the first one.
const std::atomic<bool> & catch_interrupt();

}  // namespace pith::app
