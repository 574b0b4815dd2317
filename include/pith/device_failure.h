// device_failure.h - the last word where ggml gives up on a device and ends the process.
#pragma once

namespace pith {

// ggml's RPC client calls abort(), on a thread of its own, where a server goes in the middle. What is set here is told why
// first: it may end the process in another way, with _exit() say; where it returns, ggml's message and abort() follow.
// nullptr, the default: these alone. What ggml finds out on the thread that calls Pith is an error of that call instead (kIo).
// Threads: the handler runs on any thread, while others go on.
using DeviceFailureHandler = void (*)(const char * why);
void set_device_failure_handler(DeviceFailureHandler handler);

}  // namespace pith
