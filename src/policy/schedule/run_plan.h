// run_plan.h - turns what the user asked for into entries and a schedule, once, when the prompt is known. Stage: schedule.
// Pure C++: no ggml, no I/O.
//
// Bytes bound the peak: (budget + headroom) entries a lane, and two partly used pages a lane (one of K, one of V), fit in them.
// Headroom is what arrives between two evictions: the chunk and the question that guides it, or evict_every decoded tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pith/budget.h"
#include "pith/prefill_schedule.h"
#include "pith/status.h"

namespace pith {

struct RunRequest {
    Budget budget;              // not kAuto: whoever plans says how many bytes those are
    bool is_auto = false;       // bytes that nobody asked for: a policy that keeps all may have them
    bool evicts = false;        // the policy drops entries at all
    bool gated = false;         // gates decide what is cached
    bool whole_prompt = false;  // a gate must see the prompt whole, so it cannot go in chunks
    PrefillSchedule prefill = PrefillSchedule::kAuto;
    int chunk = kDefaultChunk;
    int evict_every = kDefaultEvictEvery;
    int64_t n_prompt = 0;
    int64_t n_protected = 0;  // tokens per head that no budget in bytes may come to less than
    int n_question = 0;       // tokens at the prompt's end that ask; 0: not known
    bool taken_back = false;  // those come behind the prompt, not at its end, and none of them stays
    size_t free_bytes = 0;    // memory that is left now; 0: not known
    size_t free_addresses =
        0;                   // and of addresses, beside a chunk's: a one-shot prefill reserves the whole prompt; 0: not limited
    size_t state_bytes = 0;  // what a one-shot prefill holds of every token beside its KV: the hidden state
    int n_lanes = 0;         // layers · KV heads
    int n_kv_heads = 0;
    size_t entry_bytes = 0;  // one entry's K and V rows
    size_t page_bytes = 4096;
};

struct RunPlan {
    int64_t budget = 0;  // mean entries per lane; 0: nothing is ever evicted
    bool one_shot = false;
    int chunk = 0;
    int evict_every = 0;   // 0: no eviction in decode
    int n_guide = 0;       // of a chunked prefill: tokens of the question that every chunk is judged by; 0: none
    int64_t capacity = 0;  // tokens that memory holds where nothing is evicted and the budget is what it allows; 0: not bounded
};

// Errors: kInvalidArgument (a budget without an evicting policy or the other way round, chunk < 1, evict_every < 0, chunks
//         asked for where the prompt must be seen whole);
//         kBudget when the bytes do not hold what the schedule needs (names both).
Result<RunPlan> plan_run(const RunRequest & request);

}  // namespace pith
