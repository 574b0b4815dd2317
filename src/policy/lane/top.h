// top.h - the best entries of a lane, around what is protected. Stage: allocate, select.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/evidence/layer_view.h"
#include "policy/lane/lane_choice.h"

namespace pith {

// Holds scratch, so that one object serves many lanes without allocating. Threads: one at a time.
class TopSelector {
public:
    // Appends to `out` the `n` candidates of highest score (all, if there are fewer), ascending; of equal scores the newer.
    // Cost: O(lane length) on average (partial selection).
    void candidates(std::span<const float> scores, std::span<const IndexRange> protected_ranges, int n,
                    std::vector<int32_t> & out);
    // The same with the protected entries, still ascending.
    void with_protected(std::span<const float> scores, std::span<const IndexRange> protected_ranges, int n,
                        std::vector<int32_t> & out);

private:
    void choose(std::span<const float> scores, std::span<const IndexRange> protected_ranges, int n, bool add_protected,
                std::vector<int32_t> & out);

    std::vector<float> scratch_;
};

// Every lane keeps what is protected and its share of the highest scores, which are its priorities. Overwrites `choice`.
Status choose_top(const LayerView & layer, std::span<const int> shares, const RunTasks & run, LayerChoice & choice);

}  // namespace pith
