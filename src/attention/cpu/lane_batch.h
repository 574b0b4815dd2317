// lane_batch.h - which rows of a batch are whose: each part belongs to one sequence, whose lanes its queries attend to. Stage:
// attention.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "attention/cpu/hidden_keys.h"
#include "cache/ragged_cache.h"

namespace pith {

// Where the queries' probabilities are summed, per query head: `to` [lane length] = what lies at `before` [n_before], and 0
// behind it, and the sums. Both may be the same place.
struct ColumnSum {
    const float * before = nullptr;
    size_t n_before = 0;
    float * to = nullptr;
};
// Asked for once before every run.
using ColumnSums = std::function<ColumnSum(int layer, int head)>;

// Consecutive rows whose keys are the newest entries of one sequence's lanes, but for those of rows behind them.
struct LanePart {
    const RaggedCache * cache = nullptr;
    int seq = 0;  // of the cache
    int first_row = 0;
    int n = 0;                            // rows
    ColumnSums sums;                      // empty: nobody sums
    const HiddenKeys * hidden = nullptr;  // keys of the layer at hand that a gate said no to
    const void * owner = nullptr;         // of the sums: tells parts apart
    int n_behind = 0;                     // entries at the lanes' ends that are not the part's, nor seen by it
    int n_together = 1;                   // parts of these lanes, neighbours, of a row each
};

// A graph that runs again may serve other sequences: only the numbers of rows, and who sums, must stay.
struct LaneBatch {
    std::vector<LanePart> parts;  // in the order of their rows
};
using LaneBatchPtr = std::shared_ptr<const LaneBatch>;

inline LaneBatchPtr single_part(const RaggedCache & cache, int seq, int n, ColumnSums sums = {},
                                const HiddenKeys * hidden = nullptr) {
    LaneBatch batch;
    batch.parts.push_back({&cache, seq, 0, n, std::move(sums), hidden});
    return std::make_shared<const LaneBatch>(std::move(batch));
}

}  // namespace pith
