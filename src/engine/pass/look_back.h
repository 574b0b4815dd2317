// look_back.h - what was evicted of a layer is back in its lanes while a prompt's tokens go through that layer, and no longer:
// they see all that came before them, and one layer at a time holds more than the budget. Stage: cache → attention.
//
// Source:  keys and values outside memory, read back layer by layer: FlexGen. Ying Sheng et al. ICML 2023. arXiv:2303.06865.
// Differs: there for every token; here for prompts alone. What an answer sees is the budget, chosen behind its question
//          (evict/repair.h).
#pragma once

#include <cstdint>
#include <vector>

#include "cache/spill_memory.h"
#include "core/copy_on_write.h"
#include "core/ragged.h"
#include "pith/status.h"

namespace pith {

struct LiveSession;

// Whether a prompt's tokens look back: the session's options say so, and something was evicted that can come back.
bool looks_back(const LiveSession & session);

// One layer's evicted entries. Memory: their rows, and the same once more in the staging (kTimesBack).
class LookBack {
public:
    // Of each lane the newest evicted entries come, at most RunPlan::most_back of them, and what attention left behind gets
    // room for them. n_new: tokens that will join the layer's lanes before end(). staging: where rows lie on their way, which
    // the next layer's may take over: fresh pages cost as much as reading. Nothing else stays of an error.
    // REQUIRES: looks_back(). Errors: kIo, kOutOfMemory, also thrown.   Cost: reads the rows from disk; moves the rest.
    Status bring(LiveSession & session, int layer, int64_t n_new, SpillMemory & staging);
    // Whoever asks (LiveSession::asking) is told what is paid to all of them, and they leave again. Errors: kOutOfMemory, also
    // thrown: evidence is then of longer lanes, and the call must fail; kCancelled.
    Status end();
    LookBack() = default;
    ~LookBack();
    LookBack(const LookBack &) = delete;
    LookBack & operator=(const LookBack &) = delete;

private:
    LiveSession * session_ = nullptr;  // null: nothing is back
    int layer_ = 0;
    bool all_ = true;  // of the lanes' evicted entries came
    int64_t n_new_ = 0;
    // [K] which entries are the lanes' own: in front of the new tokens, and with them.
    Ragged<int32_t> keep_before_;
    Ragged<int32_t> keep_then_;
    CopyOnWrite<std::vector<std::vector<float>>> norms_;  // what was known of the lanes' own
};

}  // namespace pith
