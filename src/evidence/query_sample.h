// query_sample.h - queries sampled for the head profiles, as they pass. Stage: attention → evidence.
//
// The sample is the n eligible positions of smallest hash (seed, position): a function of the seed and of what has been seen,
// so that it is the same for all layers and in every schedule, however the prompt was cut into chunks. Eligible are
//   kMiddle  positions in [margin, n_seen - margin)
//   kAny     positions in [0, n_seen)
// A query is offered once, when its position becomes eligible; the caller keeps the newest `margin` queries until then, unless
// it says how much is to come.
// Copyable: copies share the sample until it changes, which behind a long text few queries make it do.
// Cost: one hash a position, two where more was to come; a copy of the query when it enters the sample.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/copy_on_write.h"
#include "policy/evidence/evidence.h"

namespace pith {

class ByteReader;
class ByteWriter;

class QuerySampler {
public:
    QuerySampler() = default;
    QuerySampler(const ProfileNeeds & needs, size_t query_size) : needs_(needs), query_size_(query_size) {}

    const ProfileNeeds & needs() const { return needs_; }
    // Positions below this have been offered.
    int32_t next() const { return next_; }
    // One past the last eligible position once n_seen tokens have been seen.
    int64_t end_of_eligible(int64_t n_seen) const;

    // Nobody takes the sample before n_seen tokens have been seen: queries that will not be in it then are not copied.
    void expect(int64_t n_seen);

    // Memory for all that the sample may hold, its own: offer() then needs none.
    void make_room();
    // query f32 [query_size]. REQUIRES: position == next().
    void offer(int32_t position, const float * query);

    // The n sampled queries of smallest hash among those kept, by ascending position.
    void take(int n, std::vector<float> & queries, std::vector<int32_t> & positions) const;

    // The queries of the sample, [of them][query_size], to be changed.
    std::span<float> queries() {
        return sample_->queries.empty() ? std::span<float>() : std::span<float>(sample_.own().queries);
    }

    // The sample as bytes, and back into one that was made for the same needs. false: they are no such sample of n_seen tokens,
    // of which the newest n_kept are at hand.
    void write(ByteWriter & to) const;
    bool read(ByteReader & from, int64_t n_seen, int64_t n_kept);

    size_t size_bytes() const { return sample_->items.capacity() * sizeof(Item) + sample_->queries.capacity() * sizeof(float); }

private:
    struct Item {
        uint64_t hash = 0;
        int32_t position = 0;
        size_t slot = 0;
        bool operator<(const Item & other) const { return hash != other.hash ? hash < other.hash : position < other.position; }
    };

    struct Sample {
        std::vector<Item> items;     // a heap, largest hash on top
        std::vector<float> queries;  // [slot][query_size]
    };

    ProfileNeeds needs_;
    size_t query_size_ = 0;
    int32_t next_ = 0;
    int64_t expected_end_ = 0;                                 // of the positions that largest_ was made for
    uint64_t largest_ = std::numeric_limits<uint64_t>::max();  // hash of the sample, as far as is known
    CopyOnWrite<Sample> sample_;
};

// A sample of one serves the other when it has at least as many queries.
inline bool same_sample(const ProfileNeeds & a, const ProfileNeeds & b) {
    return a.margin == b.margin && a.seed == b.seed && a.sample == b.sample;
}

// The order of positions under a seed.
uint64_t sample_hash(uint64_t seed, int32_t position);

}  // namespace pith
