// kept_queries.cpp - rows that move up.
#include "evidence/kept_queries.h"

#include <algorithm>
#include <utility>

namespace pith {

std::vector<float> KeptQueries::newest(size_t n) const {
    std::vector<float> all;
    all.reserve(n * row_size_);
    for (size_t i = size() - n; i < size(); ++i) { all.insert(all.end(), rows_[i].get(), rows_[i].get() + row_size_); }
    return all;
}

KeptQueries KeptQueries::with(std::span<const float> rows) const {
    KeptQueries other(row_size_, limit_);
    for (size_t i = 0; i < size(); ++i) { other.push(rows.data() + i * row_size_, positions_[i]); }
    return other;
}

void KeptQueries::make_room() {
    if (size() < limit_) {
        if (rows_.capacity() == rows_.size()) { rows_.reserve(2 * rows_.size() + 1); }
        if (positions_.capacity() == positions_.size()) { positions_.reserve(2 * positions_.size() + 1); }
    }
    const bool has_row = spare_.use_count() == 1 || (size() == limit_ && limit_ > 0 && rows_.front().use_count() == 1);
    if (!has_row) { spare_ = new_row(); }
}

void KeptQueries::push(const float * row, int32_t position) {
    if (limit_ == 0) { return; }
    make_room();
    if (size() == limit_) {
        Row oldest = std::move(rows_.front());
        std::move(rows_.begin() + 1, rows_.end(), rows_.begin());
        std::move(positions_.begin() + 1, positions_.end(), positions_.begin());
        rows_.back() = oldest.use_count() == 1 ? std::move(oldest) : std::move(spare_);
        positions_.back() = position;
    } else {
        rows_.push_back(std::move(spare_));
        positions_.push_back(position);
    }
    spare_.reset();
    std::copy_n(row, row_size_, rows_.back().get());
}

void KeptQueries::keep_newest(size_t n) noexcept {
    if (size() <= n) { return; }
    const auto n_gone = static_cast<std::ptrdiff_t>(size() - n);
    rows_.erase(rows_.begin(), rows_.begin() + n_gone);
    positions_.erase(positions_.begin(), positions_.begin() + n_gone);
}

size_t KeptQueries::size_bytes() const {
    size_t n = rows_.capacity() * sizeof(Row) + positions_.capacity() * sizeof(int32_t);
    const auto add = [&](const Row & row) {
        if (row) { n += row_size_ * sizeof(float) / static_cast<size_t>(row.use_count()); }
    };
    for (const Row & row : rows_) { add(row); }
    add(spare_);
    return n;
}

}  // namespace pith
