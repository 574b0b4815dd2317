// looked_for.h - what the newest question looked for in its context: weighed beside what its answer looks for, while that is
// written (evict/repair.h). Stage: engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "evidence/evidence_state.h"

namespace pith {

struct LookedFor {
    int32_t end_of_context = 0;  // the position where the question began
    // [lane of the cache], empty where no policy governs it: of the context's entries, kept and evicted, ascending by position,
    // how much each is wanted (policy/lane/swaps.h), per query.
    std::vector<std::vector<float>> wants;
    int n_answer_queries = 0;                 // evidence keeps so many of the answer's newest ones
    std::vector<EvidenceNeeds> needs_before;  // and kept these before

    size_t size_bytes() const {
        size_t bytes = 0;
        for (const auto & lane : wants) { bytes += lane.size() * sizeof(float); }
        return bytes;
    }
};

}  // namespace pith
