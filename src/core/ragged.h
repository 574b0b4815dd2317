// ragged.h - rows of different lengths in one flat array. Stage: all (the shape of scores, evidence and plans).
// Pure C++: no ggml, no I/O.
#pragma once

#include <cassert>
#include <cstddef>
#include <span>
#include <vector>

namespace pith {

// Row r is flat()[offset(r) .. offset(r + 1)). Rows are contiguous, in order.
// Cost: O(rows + elements) memory; row() is O(1).   Threads: const-safe.
template <class T>
class Ragged {
public:
    Ragged() = default;
    explicit Ragged(std::span<const int> lengths, const T & fill = T{}) {
        offsets_.reserve(lengths.size() + 1);
        for (const int n : lengths) {
            assert(n >= 0);
            offsets_.push_back(offsets_.back() + static_cast<size_t>(n));
        }
        flat_.assign(offsets_.back(), fill);
    }

    int n_rows() const { return static_cast<int>(offsets_.size()) - 1; }
    size_t size() const { return flat_.size(); }
    size_t offset(int r) const { return offsets_[static_cast<size_t>(r)]; }
    int length(int r) const { return static_cast<int>(offset(r + 1) - offset(r)); }

    std::span<T> row(int r) { return {flat_.data() + offset(r), offset(r + 1) - offset(r)}; }
    std::span<const T> row(int r) const { return {flat_.data() + offset(r), offset(r + 1) - offset(r)}; }
    std::span<T> flat() { return flat_; }
    std::span<const T> flat() const { return flat_; }

    // Appends a row behind the last one.
    void push_row(std::span<const T> values) {
        flat_.insert(flat_.end(), values.begin(), values.end());
        offsets_.push_back(flat_.size());
    }

    bool operator==(const Ragged &) const = default;

private:
    std::vector<size_t> offsets_{0};
    std::vector<T> flat_;
};

}  // namespace pith
