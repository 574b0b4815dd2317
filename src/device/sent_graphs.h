// sent_graphs.h - whether servers still have the graphs that were sent to them. Stage: device.
//
// ggml's RPC client sends a graph once and from then on its number alone. A server lets go of graphs when memory there is given
// back, and does not say so: a number that it no longer knows ends the connection. So a graph is built anew, which gives it
// another number, where memory of devices was taken or given back since it was planned.
// Threads: any.
#pragma once

#include <cstdint>

namespace pith {

// Another number whenever graphs that were planned before must not be run again.
uint64_t sent_graphs_epoch();
// Memory of devices is taken or given back.
void forget_sent_graphs();

}  // namespace pith
