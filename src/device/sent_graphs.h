// sent_graphs.h - whether servers still have the graphs that were sent to them. Stage: device.
//
// ggml's RPC client sends a graph of ggml's scheduler once and from then on its number alone; a graph that one device runs
// whole (device_graph.h) has no number and is sent with every run. A server lets go of graphs when memory there is given back,
// and does not say so: a number that it no longer knows ends the connection. So a graph is built anew, which gives it another
// number, where memory of devices was taken or given back since it was planned. Threads: any.
#pragma once

#include <cstdint>
#include <functional>

#include "ggml-backend.h"

namespace pith {

// Another number whenever graphs that were planned before must not be run again.
uint64_t sent_graphs_epoch();
// Memory of devices is taken.   REQUIRES: inside on_devices().
void forget_sent_graphs();
// This back end sends a graph without a number, in place of the last that the server has. It knows itself that the number has
// gone; other back ends of the same device do not, so where they differ from the last sender graphs are forgotten.
// REQUIRES: inside on_devices().
void graph_is_sent_by(ggml_backend_t device);
// A graph with numbers is planned, over these back ends among others.   REQUIRES: inside on_devices().
void graph_is_planned_by(ggml_backend_t device);
// Memory, or a connection, is given back: `free` in one turn with the above, so that no graph is sent between the two. Of a
// device that has failed nothing can be given back.   Threads: any, inside or outside of on_devices().
void give_back(const std::function<void()> & free);

}  // namespace pith
