// layer_view.h - one layer as refiners leave it and allocators and selectors see it. Stage: refine → allocate → select.
// Pure C++: no ggml, no I/O.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>

#include "core/ragged.h"
#include "policy/evidence/evidence.h"
#include "policy/evidence/layer_profile.h"

namespace pith {

// Indices [begin, end) into a lane.
struct IndexRange {
    int begin = 0;
    int end = 0;
    bool operator==(const IndexRange &) const = default;
};

// positions, scores: [K]. protected_ranges: [K], ascending, disjoint and not touching, within the lane: no policy may evict
// what they cover. Entries outside are the candidates; their number is the lane's net length.
struct LayerView {
    int layer = 0;
    const Ragged<int32_t> & positions;
    const Ragged<float> & scores;
    const Ragged<IndexRange> & protected_ranges;
    const LayerEvidence * evidence = nullptr;     // kept only for parts whose wants_evidence() says so
    const Ragged<float> * base_scores = nullptr;  // [K] before the refiner; kept only for selectors that want evidence
    const Ragged<float> * head_scores = nullptr;  // [H] before refiner and group; the same, and only where the scorer has them
    const LayerProfile * profile = nullptr;       // where the policy asked for head profiles
    int n_recent = 0;                             // the newest entries of each lane that are protected as its recent window
    int64_t window_begin = std::numeric_limits<int64_t>::max();  // from this position on queries were observed
    const std::atomic<bool> * cancel = nullptr;                  // once set, nobody wants what comes of it

    bool cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
    int n_lanes() const { return positions.n_rows(); }
    int net_length(int kv_head) const {
        int n = positions.length(kv_head);
        for (const IndexRange & range : protected_ranges.row(kv_head)) { n -= range.end - range.begin; }
        return n;
    }
};

// Calls visit(begin, end) for every run of candidates between the protected ranges, ascending.
template <class Visit>
void for_each_candidate_run(int length, std::span<const IndexRange> protected_ranges, Visit visit) {
    int begin = 0;
    for (const IndexRange & range : protected_ranges) {
        if (begin < range.begin) { visit(begin, range.begin); }
        begin = range.end;
    }
    if (begin < length) { visit(begin, length); }
}

}  // namespace pith
