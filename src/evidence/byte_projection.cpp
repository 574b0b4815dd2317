// byte_projection.cpp - the output projection in bytes.
#include "evidence/byte_projection.h"

#include <algorithm>
#include <utility>

#include "device/cpu_threads.h"
#include "model/output_factors.h"

namespace pith {

Result<ByteProjection> ByteProjection::make(GraphRunner & runner, std::span<const float> projection, int n_heads,
                                            int head_dim_v) {
    const auto dv = static_cast<size_t>(head_dim_v);
    const size_t width = dv * static_cast<size_t>(n_heads);
    const size_t n_embd = projection.size() / width;
    ByteProjection made;
    made.n_rows_ = static_cast<int>((n_embd + kByteRows - 1) / kByteRows * kByteRows);
    made.dim_ = head_dim_v;
    const auto n_rows = static_cast<size_t>(made.n_rows_);
    // Zeros, as are scales: rows behind D add nothing. One more line, which tiles of the last row may read.
    made.lines_.resize((n_rows * width + sizeof(Line) - 1) / sizeof(Line) + 1);
    static_assert(sizeof(Line) >= kByteTile);
    made.scales_.resize(n_rows * static_cast<size_t>(n_heads));
    made.starts_.resize(made.scales_.size());
    auto * bytes = reinterpret_cast<int8_t *>(made.lines_.data());
    // Some rows of all heads at a time: they lie side by side.
    constexpr size_t kTogether = kByteRows;
    PITH_RETURN_IF_ERROR(run_tasks(runner, static_cast<int>((n_embd + kTogether - 1) / kTogether), [&](int i) {
        const size_t first = static_cast<size_t>(i) * kTogether;
        const auto n = static_cast<int>(std::min(kTogether, n_embd - first));
        for (size_t g = 0; g < static_cast<size_t>(n_heads); ++g) {
            const size_t row = g * n_rows + first;
            round_to_bytes(projection.data() + first * width + g * dv, width, n, head_dim_v, bytes + row * dv,
                           made.scales_.data() + row, made.starts_.data() + row);
        }
    }));
    return made;
}

ByteRows ByteProjection::head(int g) const {
    const size_t first = static_cast<size_t>(g) * static_cast<size_t>(n_rows_);
    const auto * bytes = reinterpret_cast<const int8_t *>(lines_.data());
    return {bytes + first * static_cast<size_t>(dim_), scales_.data() + first, starts_.data() + first, n_rows_, dim_};
}

Result<std::shared_ptr<const ByteProjection>> ByteProjections::layer(GraphRunner & runner, int index, int n_heads,
                                                                     int head_dim_v) {
    Slot & slot = slots_[static_cast<size_t>(index)];
    if (slot.is_kept) { return slot.kept; }
    PITH_ASSIGN_OR_RETURN(const std::vector<float> rows, effective_projection(*file_, index));
    PITH_ASSIGN_OR_RETURN(ByteProjection made, ByteProjection::make(runner, rows, n_heads, head_dim_v));
    auto projection = std::make_shared<const ByteProjection>(std::move(made));
    if (slot.asked_before.exchange(true) && !slot.taken.exchange(true)) {
        slot.kept = projection;
        size_bytes_ += projection->size_bytes();
        slot.is_kept = true;
    }
    return projection;
}

}  // namespace pith
