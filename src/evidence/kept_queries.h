// kept_queries.h - the newest queries of a layer, for whoever asks later what they attended to. Stage: attention → evidence.
// Pure C++: no ggml, no I/O.
//
// Copyable: copies share the rows, and a row is written anew only where nobody else has it. So a call's way back, a snapshot
// and sequences that go on from one another cost the rows that have come since.
// Threads: const-safe; else one at a time; copies may be dropped on other threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace pith {

class KeptQueries {
public:
    static constexpr size_t kAll = std::numeric_limits<size_t>::max();

    KeptQueries() = default;
    // row_size: floats of one. limit: how many are kept, or kAll.
    KeptQueries(size_t row_size, size_t limit) : row_size_(row_size), limit_(limit) {}

    size_t size() const { return rows_.size(); }
    bool empty() const { return rows_.empty(); }
    std::span<const float> row(size_t i) const { return {rows_[i].get(), row_size_}; }  // oldest first
    std::span<const int32_t> positions() const { return positions_; }
    // The same positions with these rows, [size()][row_size].
    KeptQueries with(std::span<const float> rows) const;
    // The newest n, oldest first: [n][row_size].
    std::vector<float> newest(size_t n) const;

    // Behind the others; the oldest goes where there are `limit`. Allocates nothing after make_room(), nor where the limit is
    // reached and nobody shares the oldest.
    void push(const float * row, int32_t position);
    // Memory for one push().
    void make_room();
    void keep_newest(size_t n) noexcept;
    void set_limit(size_t limit) noexcept {  // what has gone under a smaller one stays gone
        limit_ = limit;
        keep_newest(limit);
    }
    size_t size_bytes() const;  // of rows that are shared its part

private:
    using Row = std::shared_ptr<float[]>;
    Row new_row() const { return std::make_shared_for_overwrite<float[]>(row_size_); }

    size_t row_size_ = 0;
    size_t limit_ = 0;
    std::vector<Row> rows_;
    std::vector<int32_t> positions_;
    Row spare_;  // for the next push(), where its use_count is 1
};

}  // namespace pith
