// unsupported_ops.h - operations that a device should have run and another place did, told by name. Stage: device.
//
// ggml's scheduler gives what a back end refuses to the next that takes it, without a word: results are the same, but what the
// operation reads and makes crosses with every token. Each is told once a process, through the log, by its own name and the
// device's: an operation whose weight or lanes lie on a device, and one that reads what a device has computed and that this
// device refuses. What is meant to run on the CPU (scheduled_graph.h) is none.
// Threads: one object at a time; the log's are any.
#pragma once

#include <array>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

namespace pith {

class UnsupportedOps {
public:
    // at: where a weight or the lanes lie that the operation reads or writes; null: it has none. Comes before the graph is
    // placed: then the scheduler puts copies in the place of what operations read.
    void expect(ggml_tensor * node, ggml_backend_t at);
    // Once the graph is placed.   cpu: the last of the scheduler's back ends. Cost: a look-up for what each operation reads.
    void tell(ggml_backend_sched_t sched, ggml_backend_t cpu) const;

private:
    struct Operation {
        ggml_tensor * node;
        ggml_backend_t at;
        std::array<ggml_tensor *, GGML_MAX_SRC> sources;  // as they were
    };
    std::vector<Operation> operations_;
};

}  // namespace pith
