// sent_graphs.h - whether servers still have the graphs that were sent to them. Stage: device.
//
// ggml's RPC client sends a graph once and from then on its number alone. A server lets go of graphs when memory there is given
// back, and does not say so: a number that it no longer knows ends the connection. So a graph is built anew, which gives it
// another number, where memory of devices was taken or given back since it was planned.
// Threads: any.
#pragma once

#include <cstdint>
#include <functional>

namespace pith {

// Another number whenever graphs that were planned before must not be run again.
uint64_t sent_graphs_epoch();
// Memory of devices is taken.   REQUIRES: inside on_devices().
void forget_sent_graphs();
// Memory, or a connection, is given back: `free` in one turn with the above, so that no graph is sent between the two. Of a
// device that has failed nothing can be given back.   Threads: any, inside or outside of on_devices().
void give_back(const std::function<void()> & free);

}  // namespace pith
