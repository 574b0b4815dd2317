// cpu_ahead.h - asking for rows that are needed soon. Stage: attention.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/cpu/cpu_kernels.h"
#include "hwy/base.h"
#include "hwy/cache_control.h"

namespace pith {

// Rows that are needed soon: the memory works while the block at hand is computed, all the while if every pass over that block
// asks for a part of them. The memory's own prefetchers stop at every page, and so does this one while the page's address is
// looked up: one line of every page, perhaps of one behind the lane, is asked for well before the others.
class Ahead {
public:
    Ahead() = default;
    Ahead(const uint8_t * rows, size_t stride, size_t n) : rows_(rows), stride_(stride), n_(n) {}

    // What pass i of n_passes asks for.
    Ahead part(size_t i, size_t n_passes) const {
        const size_t begin = n_ * i / n_passes;
        Ahead some(rows_ + begin * stride_, stride_, n_ * (i + 1) / n_passes - begin);
        some.n_passes_ = n_passes;
        return some;
    }

    // While a pass is at entries [entry, entry + n_entries).
    HWY_INLINE void fetch(size_t entry, size_t n_entries) const {
        const size_t row = n_passes_ == 1 ? entry : entry / n_passes_;
        const size_t end = n_passes_ == 1 ? entry + n_entries : (entry + n_entries) / n_passes_;
        if (row >= n_) { return; }
        const uint8_t * from = rows_ + row * stride_;
        const size_t size = (std::min(end, n_) - row) * stride_;
        for (size_t i = 0; i < size; i += kLine) { hwy::Prefetch(from + i); }
        const auto begin = reinterpret_cast<uintptr_t>(from) / kLine * kLine;
        for (uintptr_t page = (begin + kPage - 1) / kPage * kPage; page < begin + size; page += kPage) {
            hwy::Prefetch(reinterpret_cast<const uint8_t *>(page + kLookUp));
        }
    }

private:
    static constexpr size_t kLine = 64;
    static constexpr uintptr_t kPage = 4096;
    static constexpr uintptr_t kLookUp = 4 * kPage;  // before the others
    const uint8_t * rows_ = nullptr;
    size_t stride_ = 0;
    size_t n_ = 0;
    size_t n_passes_ = 1;
};

// The block of a lane's keys from entry `begin` on, as far as `end`.
inline Ahead keys_ahead(const AttentionTask & task, const LaneView & lane, int begin, int end) {
    return {static_cast<const uint8_t *>(lane.k) + static_cast<size_t>(begin) * task.k_stride, task.k_stride,
            static_cast<size_t>(std::clamp(end - begin, 0, kEntryBlock))};
}

}  // namespace pith
