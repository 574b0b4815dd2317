// query_sample.cpp - bottom-k sampling of queries.
#include "evidence/query_sample.h"

#include <algorithm>

#include "core/byte_stream.h"

namespace pith {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t sample_hash(uint64_t seed, int32_t position) {
    uint64_t x = seed * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(position) + 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
}

int64_t QuerySampler::end_of_eligible(int64_t n_seen) const {
    return needs_.sample == QuerySample::kAny ? n_seen : std::max<int64_t>(0, n_seen - needs_.margin);
}

void QuerySampler::expect(int64_t n_seen) {
    const int64_t end = end_of_eligible(n_seen);
    if (end <= expected_end_) { return; }
    expected_end_ = end;
    std::vector<uint64_t> hashes;
    for (const Item & item : sample_->items) { hashes.push_back(item.hash); }
    const int32_t first = needs_.sample == QuerySample::kMiddle ? std::max(next_, needs_.margin) : next_;
    for (int32_t position = first; position < end; ++position) { hashes.push_back(sample_hash(needs_.seed, position)); }
    const auto n = static_cast<size_t>(needs_.n_queries);
    if (n == 0 || hashes.size() <= n) { return; }
    const auto last = hashes.begin() + static_cast<int64_t>(n - 1);
    std::ranges::nth_element(hashes, last);
    largest_ = *last;
}

void QuerySampler::make_room() {
    Sample & sample = sample_.own();
    sample.items.reserve(static_cast<size_t>(needs_.n_queries));
    sample.queries.reserve(static_cast<size_t>(needs_.n_queries) * query_size_);
}

void QuerySampler::offer(int32_t position, const float * query) {
    next_ = position + 1;
    if (needs_.sample == QuerySample::kMiddle && position < needs_.margin) { return; }
    Item item{sample_hash(needs_.seed, position), position, sample_->items.size()};
    if (position < expected_end_ && item.hash > largest_) { return; }
    const bool is_full = sample_->items.size() >= static_cast<size_t>(needs_.n_queries);
    if (is_full && !(item < sample_->items.front())) { return; }
    make_room();
    auto & [items, queries] = sample_.own();
    if (!is_full) {
        queries.insert(queries.end(), query, query + query_size_);
    } else {
        std::pop_heap(items.begin(), items.end());
        item.slot = items.back().slot;
        items.pop_back();
        std::copy_n(query, query_size_, queries.begin() + static_cast<int64_t>(item.slot * query_size_));
    }
    items.push_back(item);
    std::push_heap(items.begin(), items.end());
}

void QuerySampler::take(int n, std::vector<float> & queries, std::vector<int32_t> & positions) const {
    std::vector<Item> chosen = sample_->items;
    std::sort(chosen.begin(), chosen.end());
    chosen.resize(std::min(chosen.size(), static_cast<size_t>(n)));
    std::ranges::sort(chosen, {}, &Item::position);
    for (const Item & item : chosen) {
        const auto from = sample_->queries.begin() + static_cast<int64_t>(item.slot * query_size_);
        queries.insert(queries.end(), from, from + static_cast<int64_t>(query_size_));
        positions.push_back(item.position);
    }
}

void QuerySampler::write(ByteWriter & to) const {
    to.number(next_);
    to.number(expected_end_);
    to.number(largest_);
    to.number(uint64_t{sample_->items.size()});
    for (const Item & item : sample_->items) {  // as the heap has them
        to.number(item.position);
        to.number(uint64_t{item.slot});
    }
    to.array(sample_->queries);
}

bool QuerySampler::read(ByteReader & from, int64_t n_seen, int64_t n_kept) {
    next_ = from.number<int32_t>();
    expected_end_ = from.number<int64_t>();
    largest_ = from.number<uint64_t>();
    // Those that are not yet eligible come from the kept ones later.
    if (next_ < std::max<int64_t>(0, n_seen - n_kept) || next_ > n_seen || expected_end_ < 0) { return false; }
    const size_t n = from.count(sizeof(int32_t) + sizeof(uint64_t));
    if (n > static_cast<size_t>(needs_.n_queries)) { return false; }
    Sample & sample = sample_.own();
    std::vector<bool> taken(n);
    for (size_t i = 0; i < n; ++i) {
        const auto position = from.number<int32_t>();
        const auto slot = from.number<uint64_t>();
        if (position < 0 || position >= next_ || slot >= n || taken[slot]) { return false; }
        taken[slot] = true;
        sample.items.push_back({sample_hash(needs_.seed, position), position, static_cast<size_t>(slot)});
    }
    sample.queries = from.array<float>();
    return from.ok() && sample.queries.size() == n * query_size_ && std::is_heap(sample.items.begin(), sample.items.end());
}

}  // namespace pith
