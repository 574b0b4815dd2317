// bucket_lanes_test.cpp - lanes in a device's memory against the same lanes in pages, over the CPU's back end.
#include "cache/bucket_lanes.h"

#include <ggml-backend.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "cache/ragged_cache.h"
#include "device/backend.h"
#include "device/device_work.h"
#include "pith/log.h"

namespace pith::bucket_lanes_test {
namespace {

// The CPU's back end, whose memory ends when a test says so.
class ScarceDevice : public LaneDevice {
public:
    static std::shared_ptr<ScarceDevice> make() {
        auto backend = make_device_backend(cpu_device());
        return backend.ok() ? std::shared_ptr<ScarceDevice>(new ScarceDevice(OwnedBackend(*backend))) : nullptr;
    }
    ggml_backend_buffer_t allocate(ggml_context * tensors) override {
        size_t n_bytes = 0;
        for (ggml_tensor * one = ggml_get_first_tensor(tensors); one != nullptr; one = ggml_get_next_tensor(tensors, one)) {
            n_bytes += ggml_nbytes(one);
        }
        return is_full || n_bytes > most_at_once ? nullptr : LaneDevice::allocate(tensors);
    }
    bool is_full = false;
    size_t most_at_once = std::numeric_limits<size_t>::max();

private:
    explicit ScarceDevice(OwnedBackend backend) : LaneDevice(cpu_device(), "scarce", std::move(backend)) {}
};

using Bytes = std::vector<uint8_t>;

class BucketLanesTest : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(load_backends().ok());
        device_ = ScarceDevice::make();
        ASSERT_NE(device_, nullptr);
    }

    CacheLayout layout_of(ggml_type type, int n_layers, int n_kv_heads, int head_dim, bool on_device) const {
        CacheLayout layout;
        layout.shape = {n_layers, n_kv_heads, 2, head_dim};
        layout.head_dim_v = head_dim;
        layout.type_k = layout.type_v = type;
        if (on_device) { layout.devices.assign(static_cast<size_t>(n_layers), device_); }
        return layout;
    }
    std::unique_ptr<RaggedCache> make(bool on_device, ggml_type type = GGML_TYPE_F16, int n_layers = 2, int n_kv_heads = 3,
                                      int head_dim = 32) const {
        auto cache = RaggedCache::make(layout_of(type, n_layers, n_kv_heads, head_dim, on_device), 8);
        EXPECT_TRUE(cache.ok()) << cache.status().message();
        return cache.ok() ? std::move(*cache) : nullptr;
    }

    static Status append(RaggedCache & cache, int layer, int32_t first, int n, int sequence = 0) {
        PITH_RETURN_IF_ERROR(cache.reserve(0, layer, n));
        add(cache, layer, first, n, sequence);
        return {};
    }
    // Entries whose rows tell (sequence, layer, head, position).
    static void add(RaggedCache & cache, int layer, int32_t first, int n, int sequence) {
        std::vector<int32_t> positions(static_cast<size_t>(n));
        std::iota(positions.begin(), positions.end(), first);
        cache.append(0, layer, positions);
        for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
            const int length = cache.length(cache.lane(0, layer, h));
            for (int t = 0; t < n; ++t) {
                for (ggml_tensor * flat : {cache.k(layer), cache.v(layer)}) {
                    Bytes row(flat->nb[1]);
                    for (size_t i = 0; i < row.size(); ++i) {
                        row[i] =
                            static_cast<uint8_t>(static_cast<size_t>(sequence * 59 + layer * 31 + h * 7 + (first + t) * 13) +
                                                 i * 3 + (flat == cache.k(layer) ? 0 : 101));
                    }
                    auto * to = static_cast<uint8_t *>(flat->data) +
                                static_cast<size_t>(cache.cell(0, layer, h, length - n + t)) * flat->nb[1];
                    std::ranges::copy(row, to);
                }
            }
        }
    }

    // Positions and rows, lane by lane.
    static std::vector<Bytes> held(const RaggedCache & cache) {
        std::vector<Bytes> all;
        for (int l = 0; l < cache.layout().n_layers(); ++l) {
            const LaneRows rows = cache.layout().rows(l);
            for (int h = 0; h < cache.n_kv_heads(l); ++h) {
                const auto positions = cache.positions(cache.lane(0, l, h));
                Bytes & bytes = all.emplace_back(positions.size() * (sizeof(int32_t) + rows.bytes()));
                if (positions.empty()) { continue; }
                std::memcpy(bytes.data(), positions.data(), positions.size_bytes());
                uint8_t * k = bytes.data() + positions.size_bytes();
                cache.read(0, l, h, 0, std::ssize(positions), k, k + positions.size() * rows.bytes_k());
            }
        }
        EXPECT_TRUE(cache.health().ok()) << cache.health().message();
        EXPECT_TRUE(cache.check_invariants().ok()) << cache.check_invariants().message();
        return all;
    }

    // Some of what a layer holds, each lane another number.
    Ragged<int32_t> some_of(const RaggedCache & cache, int layer) {
        Ragged<int32_t> keep;
        for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
            std::vector<int32_t> row;
            const auto share = random_() % 100;
            for (int i = 0; i < cache.length(cache.lane(0, layer, h)); ++i) {
                if (random_() % 100 < share) { row.push_back(i); }
            }
            keep.push_row(row);
        }
        return keep;
    }

    std::shared_ptr<ScarceDevice> device_;
    std::mt19937 random_{7};
};

TEST_F(BucketLanesTest, HoldWhatPagesHoldWhateverIsDone) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
        SCOPED_TRACE(ggml_type_name(type));
        auto pages = make(false, type);
        auto buckets = make(true, type);
        std::vector<RestingLanes> saved;
        int32_t next = 0;
        for (int step = 0; step < 60; ++step) {
            SCOPED_TRACE(step);
            const auto what = random_() % 8;
            const int layer = static_cast<int>(random_() % 2);
            if (what < 4) {
                const int n = 1 + static_cast<int>(random_() % 90);
                for (RaggedCache * cache : {pages.get(), buckets.get()}) {
                    for (int l = 0; l < 2; ++l) { ASSERT_TRUE(append(*cache, l, next, n).ok()); }
                }
                next += n;
            } else if (what < 6) {
                const Ragged<int32_t> keep = some_of(*pages, layer);
                EXPECT_EQ(buckets->compact(0, layer, keep), pages->compact(0, layer, keep));
            } else if (what == 6) {
                const int32_t end = next - static_cast<int32_t>(random_() % 20);
                for (RaggedCache * cache : {pages.get(), buckets.get()}) { cache->truncate_to_positions(0, layer, end); }
            } else {
                std::vector<int> lengths;
                for (int i = 0; i < pages->n_lanes(); ++i) { lengths.push_back(pages->length(i)); }
                RestingLanes from_pages = pages->save(0, lengths).value();
                const RestingLanes from_buckets = buckets->save(0, lengths).value();
                EXPECT_EQ(from_buckets.positions, from_pages.positions);
                ASSERT_EQ(from_buckets.memory_bytes(), from_pages.memory_bytes());
                const auto rows = [](const RestingLanes & of) { return std::span(of.rows(), of.memory_bytes()); };
                EXPECT_TRUE(std::ranges::equal(rows(from_buckets), rows(from_pages)));
                if (!saved.empty()) {
                    ASSERT_TRUE(pages->load(0, saved.back()).ok());
                    ASSERT_TRUE(buckets->load(0, saved.back()).ok());
                }
                saved.push_back(std::move(from_pages));
            }
            ASSERT_EQ(held(*buckets), held(*pages));
        }
    }
}

// Ragged lanes of the shape of a model of a milliard weights. What lanes are padded by counts less the longer they are.
TEST_F(BucketLanesTest, TakeLittleMoreThanTheirEntriesAndALayerMoreAtThePeak) {
    constexpr int kHeads = 8;
    constexpr int kLayers = 2;
    for (const auto & [budget, most] : {std::pair{4096, 1.05}, std::pair{1024, 1.25}, std::pair{512, 1.5}}) {
        auto cache = make(true, GGML_TYPE_F16, kLayers, kHeads, 64);
        const int n_all = budget + budget / 2;
        for (int l = 0; l < kLayers; ++l) { ASSERT_TRUE(append(*cache, l, 0, n_all).ok()); }
        const size_t whole_layer = cache->allocated_bytes(0);
        std::vector<int32_t> all(static_cast<size_t>(n_all));
        std::iota(all.begin(), all.end(), 0);
        for (int l = 0; l < kLayers; ++l) {
            Ragged<int32_t> keep;
            for (int h = 0; h < kHeads; ++h) {  // the mean is the budget
                const int more = budget / 30 * (1 + h / 2) + 11 * l;
                keep.push_row(std::span(all).first(static_cast<size_t>(h % 2 == 0 ? budget + more : budget - more)));
            }
            cache->compact(0, l, keep);
        }
        ASSERT_EQ(cache->n_entries(), int64_t{budget} * kHeads * kLayers);
        const double share = static_cast<double>(cache->allocated_bytes()) / static_cast<double>(cache->needed_bytes());
        std::cout << "budget " << budget << ": " << share << " of what its entries take\n";
        EXPECT_LE(share, most);
        EXPECT_LE(cache->peak_bytes(), (kLayers + 1) * whole_layer);
    }
}

TEST_F(BucketLanesTest, LanesOfOneRoomLieSideBySide) {
    auto cache = make(true, GGML_TYPE_F16, 1, 4);
    ASSERT_TRUE(append(*cache, 0, 0, 700).ok());
    ASSERT_EQ(cache->buckets(0).size(), 1U);
    EXPECT_EQ(cache->buckets(0)[0].room, 768);
    std::vector<int32_t> all(700);
    std::iota(all.begin(), all.end(), 0);
    Ragged<int32_t> keep;
    for (const size_t n : {600U, 200U, 256U, 700U}) { keep.push_row(std::span(all).first(n)); }
    const uint64_t before = cache->storage_id();
    cache->compact(0, 0, keep);
    EXPECT_NE(cache->storage_id(), before);
    const auto buckets = cache->buckets(0);
    ASSERT_EQ(buckets.size(), 2U);
    EXPECT_EQ(buckets[0].room, 256);
    EXPECT_EQ(buckets[0].lanes, (std::vector<int>{1, 2}));
    EXPECT_EQ(buckets[1].room, 768);
    EXPECT_EQ(buckets[1].lanes, (std::vector<int>{0, 3}));
    EXPECT_EQ(cache->cell(0, 0, 2, 0), 256);
    EXPECT_EQ(cache->cell(0, 0, 0, 0), 512);
}

TEST_F(BucketLanesTest, WhereThereIsNoMemoryGrowingChangesNothing) {
    auto cache = make(true);
    ASSERT_TRUE(append(*cache, 0, 0, 256).ok());
    const auto before = held(*cache);
    const size_t bytes = cache->allocated_bytes();
    const uint64_t storage = cache->storage_id();
    device_->is_full = true;
    const Status full = cache->reserve(0, 0, 1);
    EXPECT_EQ(full.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(full.message().find("scarce"), std::string::npos) << full.message();
    EXPECT_EQ(held(*cache), before);
    EXPECT_EQ(cache->allocated_bytes(), bytes);
    EXPECT_EQ(cache->storage_id(), storage);
    device_->is_full = false;
    EXPECT_TRUE(append(*cache, 0, 256, 1).ok());
}

// Eviction does not fail: what stays moves down where it is, and memory goes back with the next one.
TEST_F(BucketLanesTest, WhereThereIsNoMemoryEntriesAreCompactedInPlace) {
    auto pages = make(false);
    auto cache = make(true);
    for (RaggedCache * one : {pages.get(), cache.get()}) { ASSERT_TRUE(append(*one, 0, 0, 700).ok()); }
    const size_t bytes = cache->allocated_bytes();
    const Ragged<int32_t> keep = some_of(*cache, 0);
    device_->is_full = true;
    EXPECT_EQ(cache->compact(0, 0, keep), pages->compact(0, 0, keep));
    EXPECT_EQ(held(*cache), held(*pages));
    EXPECT_EQ(cache->allocated_bytes(), bytes);
    device_->is_full = false;
    Ragged<int32_t> fewer;
    for (int h = 0; h < 3; ++h) { fewer.push_row(std::vector<int32_t>{0, 1}); }
    EXPECT_EQ(cache->compact(0, 0, fewer), pages->compact(0, 0, fewer));
    EXPECT_EQ(held(*cache), held(*pages));
    EXPECT_LT(cache->allocated_bytes(), bytes);
}

TEST_F(BucketLanesTest, WhatComesBackFindsItsRoomHeld) {
    auto cache = make(true);
    ASSERT_TRUE(append(*cache, 0, 0, 700).ok());
    const auto before = held(*cache);
    const Ragged<int32_t> keep = some_of(*cache, 0);
    const LayerKeep one{0, &keep};
    auto dropped = cache->save_dropped(0, std::span(&one, 1), 700, Spill::kMemory);
    ASSERT_TRUE(dropped.ok());
    cache->hold_room();
    cache->compact(0, 0, keep);
    device_->is_full = true;  // putting back needs no memory
    cache->put_back(0, *dropped);
    EXPECT_EQ(held(*cache), before);
    cache->let_go_of_room();
    device_->is_full = false;
    const size_t bytes = cache->allocated_bytes();
    cache->compact(0, 0, keep);
    EXPECT_LE(cache->allocated_bytes(), bytes);
}

TEST_F(BucketLanesTest, WhatComesBackMayBeMoreThanThereWas) {
    auto cache = make(true);
    auto whole = make(true);
    ASSERT_TRUE(append(*cache, 0, 0, 200).ok());
    ASSERT_TRUE(append(*whole, 0, 0, 900).ok());
    const Ragged<int32_t> keep = some_of(*cache, 0);
    const LayerKeep one{0, &keep};
    auto rest = whole->save_dropped(0, std::span(&one, 1), 900, Spill::kMemory);
    ASSERT_TRUE(rest.ok());
    const auto before = held(*cache);
    device_->is_full = true;
    EXPECT_EQ(cache->hold_room(0, 0, std::vector<int64_t>(3, 900)).code(), ErrorCode::kOutOfMemory);
    EXPECT_EQ(held(*cache), before);
    device_->is_full = false;
    ASSERT_TRUE(cache->hold_room(0, 0, std::vector<int64_t>(3, 900)).ok());
    EXPECT_EQ(held(*cache), before);
    device_->is_full = true;  // from here on nothing fails
    cache->compact(0, 0, keep);
    cache->put_back(0, *rest);
    EXPECT_EQ(held(*cache), held(*whole));
    cache->let_go_of_room();
}

TEST_F(BucketLanesTest, AForkTakesNothingAndChangesNothingOfItsBase) {
    auto base = make(true);
    for (int l = 0; l < 2; ++l) { ASSERT_TRUE(append(*base, l, 0, 300).ok()); }
    ASSERT_TRUE(base->freeze(16).ok());
    const auto before = held(*base);
    const size_t bytes = base->allocated_bytes();
    device_->is_full = true;
    auto fork = base->fork();
    ASSERT_TRUE(fork.ok()) << fork.status().message();
    EXPECT_EQ(base->copy(300, 16, /*to_fork=*/false).status().code(), ErrorCode::kOutOfMemory);
    device_->is_full = false;
    EXPECT_EQ(held(**fork), before);
    EXPECT_EQ((*fork)->allocated_bytes(), 0U);
    EXPECT_EQ((*fork)->shared_bytes(), base->needed_bytes());
    EXPECT_EQ((*fork)->k(0), base->k(0));
    (*fork)->compact(0, 0, some_of(**fork, 0));
    ASSERT_TRUE(append(**fork, 0, 300, 5).ok());
    EXPECT_EQ(held(*base), before);
    EXPECT_EQ(base->allocated_bytes(), bytes);
    auto copy = base->copy(300, 16, /*to_fork=*/false);
    ASSERT_TRUE(copy.ok());
    EXPECT_EQ(held(**copy), before);
    EXPECT_EQ((*copy)->shared_bytes(), 0U);
    EXPECT_NE((*copy)->k(0), base->k(0));
}

// Sequences whose lanes come to lie together, each beside the same in pages.
class TogetherTest : public BucketLanesTest {
protected:
    static constexpr int kLayers = 2;

    struct Pair {
        std::unique_ptr<RaggedCache> pages, buckets;
        int32_t next = 0;  // position
        int sequence = 0;
    };
    Pair & begin(int n) {
        Pair & pair = pairs_.emplace_back(make(false), make(true), 0, n_sequences_++);
        lengthen(pair, n);
        return pair;
    }
    // false: there was no memory.
    bool lengthen(Pair & pair, int n) {
        for (int l = 0; l < kLayers; ++l) {
            const Status status = pair.buckets->reserve(0, l, n);
            if (!status.ok()) {
                EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory) << status.message();
                return false;
            }
        }
        put(pair, n);
        return true;
    }
    void put(Pair & pair, int n) {
        for (int l = 0; l < kLayers; ++l) {
            EXPECT_TRUE(append(*pair.pages, l, pair.next, n, pair.sequence).ok());
            add(*pair.buckets, l, pair.next, n, pair.sequence);
        }
        pair.next += n;
    }
    // A token of each; whether all layers of all lie together now.
    bool step_together() {
        const auto together = reserve_together(1);
        if (!together.ok()) {
            EXPECT_EQ(together.status().code(), ErrorCode::kOutOfMemory) << together.status().message();
            return false;
        }
        for (Pair & pair : pairs_) { put(pair, 1); }
        return *together;
    }
    Result<bool> reserve_together(int n) {
        std::vector<RaggedCache *> caches;
        for (const Pair & pair : pairs_) { caches.push_back(pair.buckets.get()); }
        return RaggedCache::reserve_together(caches, n);
    }
    auto hold_moves() {
        std::vector<RaggedCache *> caches;
        for (const Pair & pair : pairs_) { caches.push_back(pair.buckets.get()); }
        return RaggedCache::hold_moves(caches);
    }
    void evict(Pair & pair, int layer) {
        const Ragged<int32_t> keep = some_of(*pair.pages, layer);
        EXPECT_EQ(pair.buckets->compact(0, layer, keep), pair.pages->compact(0, layer, keep));
    }

    // Each holds what it should, and what all of them count is what there is.
    void expect_all_as_in_pages() {
        size_t counted = 0;
        std::set<ggml_backend_buffer_t> buffers;
        for (const Pair & pair : pairs_) { EXPECT_EQ(held(*pair.buckets), held(*pair.pages)) << "sequence " << pair.sequence; }
        for (const Pair & pair : pairs_) {  // who looks may have moved all of them
            counted += pair.buckets->allocated_bytes();
            for (int l = 0; l < kLayers; ++l) {
                if (pair.buckets->k(l) != nullptr) { buffers.insert(pair.buckets->k(l)->buffer); }
            }
        }
        size_t there = 0;
        for (ggml_backend_buffer_t buffer : buffers) { there += ggml_backend_buffer_get_size(buffer); }
        EXPECT_EQ(counted, there);
    }
    size_t allocated_by_all() const {
        size_t n = 0;
        for (const Pair & pair : pairs_) { n += pair.buckets->allocated_bytes(); }
        return n;
    }
    // What lanes' rooms come to, without gaps.
    static size_t room_bytes(const RaggedCache & cache) {
        int64_t cells = 0;
        for (int l = 0; l < kLayers; ++l) {
            for (const LaneBucket & bucket : cache.buckets(l)) { cells += bucket.room * std::ssize(bucket.lanes); }
        }
        return static_cast<size_t>(cells) * cache.layout().entry_bytes();
    }

    std::vector<Pair> pairs_;
    int n_sequences_ = 0;
};

TEST_F(TogetherTest, LanesOfOneRoomLieSideBySideWhoeverTheirSequenceIs) {
    for (const int n : {200, 300, 210, 220}) { begin(n); }
    EXPECT_TRUE(step_together());
    for (int l = 0; l < kLayers; ++l) {
        std::vector<int64_t> first_cells;
        for (const Pair & pair : pairs_) {
            EXPECT_EQ(pair.buckets->k(l), pairs_[0].buckets->k(l));
            EXPECT_EQ(pair.buckets->v(l), pairs_[0].buckets->v(l));
            ASSERT_EQ(pair.buckets->buckets(l).size(), 1U);
            first_cells.push_back(pair.buckets->buckets(l)[0].first_cell);
        }
        EXPECT_EQ(first_cells, (std::vector<int64_t>{0, 9 * 256, 3 * 256, 6 * 256}));
    }
    expect_all_as_in_pages();
    const uint64_t n_moves = pairs_[0].buckets->n_moves();
    EXPECT_TRUE(step_together());
    EXPECT_EQ(pairs_[0].buckets->n_moves(), n_moves);
    EXPECT_TRUE(lengthen(pairs_[2], 300));  // and all move
    EXPECT_GT(pairs_[0].buckets->n_moves(), n_moves);
    expect_all_as_in_pages();
}

TEST_F(TogetherTest, TheyHoldWhatPagesHoldWhateverIsDoneAndFails) {
    for (const int n : {200, 250, 300}) { begin(n); }
    int n_together = 0;
    int n_failed = 0;
    for (int step = 0; step < 600; ++step) {
        SCOPED_TRACE(step);
        const auto which = random_() % pairs_.size();
        Pair & one = pairs_[which];
        device_->is_full = random_() % 4 == 0;
        device_->most_at_once = random_() % 3 == 0 ? room_bytes(*one.buckets) : std::numeric_limits<size_t>::max();
        auto held = random_() % 2 == 0 ? hold_moves() : decltype(hold_moves())();
        switch (random_() % 9) {
            case 0:
            case 1:
            case 2:
                n_together += step_together() ? 1 : 0;
                break;
            case 3:
                n_failed += lengthen(one, 1 + static_cast<int>(random_() % 300)) ? 0 : 1;
                break;
            case 4:
            case 5:
                evict(one, static_cast<int>(random_() % kLayers));
                break;
            case 6: {  // goes, and another comes; or becomes a base, and its fork goes on
                if (random_() % 2 == 0) {
                    ASSERT_TRUE(one.buckets->freeze(8).ok());
                    auto fork = one.buckets->fork();
                    one.buckets->thaw();
                    if (fork.ok()) { one.buckets = std::move(*fork); }
                    break;
                }
                pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(which));
                device_->is_full = false;
                device_->most_at_once = std::numeric_limits<size_t>::max();
                begin(1 + static_cast<int>(random_() % 600));
                break;
            }
            case 7:  // several at once
                for (Pair & pair : pairs_) {
                    for (int l = 0; l < kLayers && random_() % 3 != 0; ++l) { evict(pair, l); }
                }
                break;
            default: {
                const int32_t end = one.next - static_cast<int32_t>(random_() % 20);
                for (RaggedCache * cache : {one.pages.get(), one.buckets.get()}) {
                    for (int l = 0; l < kLayers; ++l) { cache->truncate_to_positions(0, l, end); }
                }
            }
        }
        if (random_() % 4 != 0) { held.clear(); }  // or who looks finds what waited done
        expect_all_as_in_pages();
        if (HasFailure()) { return; }
    }
    std::cout << n_together << " steps together, " << n_failed << " that found no memory\n";
    EXPECT_GT(n_together, 20);
    EXPECT_GT(n_failed, 5);
}

// With room for the tokens that come next.
TEST_F(TogetherTest, WhatIsEvictedAndGoesAtOnceMovesOnce) {
    for (int i = 0; i < 4; ++i) { begin(700); }
    ASSERT_TRUE(step_together());
    const uint64_t n_moves = pairs_[0].buckets->n_moves();
    auto held = hold_moves();
    for (Pair & pair : pairs_) {
        for (int l = 0; l < kLayers; ++l) { evict(pair, l); }
    }
    pairs_.pop_back();
    const size_t bytes = pairs_[0].buckets->allocated_bytes();
    for (const Pair & pair : pairs_) { EXPECT_EQ(pair.buckets->n_moves(), n_moves); }
    held.clear();
    for (const Pair & pair : pairs_) { EXPECT_EQ(pair.buckets->n_moves(), n_moves + kLayers); }
    EXPECT_LT(pairs_[0].buckets->allocated_bytes(), bytes);
    expect_all_as_in_pages();
    for (int i = 0; i < BucketLanes::kAhead; ++i) { EXPECT_TRUE(step_together()); }
    for (const Pair & pair : pairs_) { EXPECT_EQ(pair.buckets->n_moves(), n_moves + kLayers); }
    expect_all_as_in_pages();
}

TEST_F(TogetherTest, WhoLooksWhileMovesAreHeldBackSeesThemDone) {
    for (int i = 0; i < 3; ++i) { begin(700); }
    ASSERT_TRUE(step_together());
    auto held = hold_moves();
    evict(pairs_[0], 0);
    evict(pairs_[1], 0);
    expect_all_as_in_pages();
    const uint64_t n_moves = pairs_[0].buckets->n_moves();
    evict(pairs_[0], 0);  // where they lie now, it waits, too
    EXPECT_EQ(pairs_[0].buckets->n_moves(), n_moves);
    lengthen(pairs_[0], 10);
    expect_all_as_in_pages();
    held.clear();
    expect_all_as_in_pages();
}

TEST_F(TogetherTest, WhatWaitedIsCompactedInPlaceWhereThereIsNoMemory) {
    for (int i = 0; i < 3; ++i) { begin(700); }
    ASSERT_TRUE(step_together());
    auto held = hold_moves();
    for (Pair & pair : pairs_) {
        for (int l = 0; l < kLayers; ++l) { evict(pair, l); }
    }
    device_->is_full = true;
    held.clear();
    expect_all_as_in_pages();
    device_->is_full = false;
    evict(pairs_[0], 0);  // and now it goes back
    expect_all_as_in_pages();
}

TEST_F(TogetherTest, WhatRestsAndStaysForLackOfMemoryIsSaidOnce) {
    for (int i = 0; i < 3; ++i) { begin(200); }
    ASSERT_TRUE(step_together());
    std::vector<std::string> lines;
    set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    device_->is_full = true;
    for (int i = 0; i < 2; ++i) { ASSERT_TRUE(pairs_[static_cast<size_t>(i)].buckets->freeze(0).ok()); }
    set_log_sink({});
    for (int i = 0; i < 2; ++i) { pairs_[static_cast<size_t>(i)].buckets->thaw(); }
    device_->is_full = false;
    EXPECT_EQ(pairs_[0].buckets->k(0), pairs_[2].buckets->k(0));
    expect_all_as_in_pages();
    if (lines.empty()) { GTEST_SKIP() << "another test of this process had it said"; }
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_NE(lines[0].find("no memory on scarce"), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find(" bytes of a layer"), std::string::npos) << lines[0];
}

TEST_F(TogetherTest, WhereThereIsNoMemoryForAllEachStaysWhereItIs) {
    for (const int n : {200, 250, 300}) { begin(n); }
    std::vector<uint64_t> storages;
    for (const Pair & pair : pairs_) { storages.push_back(pair.buckets->storage_id()); }
    device_->is_full = true;
    const auto together = reserve_together(1);
    ASSERT_TRUE(together.ok()) << together.status().message();
    EXPECT_FALSE(*together);
    EXPECT_EQ(reserve_together(300).status().code(), ErrorCode::kOutOfMemory);
    for (size_t i = 0; i < pairs_.size(); ++i) { EXPECT_EQ(pairs_[i].buckets->storage_id(), storages[i]); }
    expect_all_as_in_pages();
}

// A gap stays in its place until there is memory again, and somebody counts it.
TEST_F(TogetherTest, WhoFindsNoMemoryForAllGrowsAlone) {
    for (int i = 0; i < 3; ++i) { begin(200); }
    ASSERT_TRUE(step_together());
    device_->most_at_once = 2 * room_bytes(*pairs_[1].buckets) / kLayers;
    ASSERT_TRUE(lengthen(pairs_[1], 100));  // the others would fit, but not all
    expect_all_as_in_pages();
    EXPECT_NE(pairs_[1].buckets->k(0), pairs_[0].buckets->k(0));
    EXPECT_EQ(pairs_[2].buckets->k(0), pairs_[0].buckets->k(0));
    for (const Pair & pair : pairs_) { EXPECT_EQ(pair.buckets->allocated_bytes(), room_bytes(*pair.buckets)); }

    device_->is_full = true;
    const size_t both = 2 * room_bytes(*pairs_[0].buckets);
    pairs_.pop_back();
    EXPECT_EQ(pairs_[0].buckets->allocated_bytes(), both);
    expect_all_as_in_pages();
    device_->is_full = false;
    device_->most_at_once = std::numeric_limits<size_t>::max();
    begin(100);
    EXPECT_TRUE(step_together());
    for (const Pair & pair : pairs_) { EXPECT_EQ(pair.buckets->allocated_bytes(), room_bytes(*pair.buckets)); }
    expect_all_as_in_pages();
}

TEST_F(TogetherTest, ThePeakOfEachIsALayerMore) {
    for (int i = 0; i < 3; ++i) { begin(700); }
    ASSERT_TRUE(step_together());
    const size_t whole = room_bytes(*pairs_[0].buckets);
    for (Pair & pair : pairs_) {
        for (int l = 0; l < kLayers; ++l) { evict(pair, l); }
    }
    for (const Pair & pair : pairs_) {
        EXPECT_GT(pair.buckets->peak_bytes(), whole);
        EXPECT_LE(pair.buckets->peak_bytes(), whole / kLayers * (kLayers + 1));
    }
    expect_all_as_in_pages();
}

// Sequences that go on from one another's entries, each beside one with pages of its own.
class ForksTest : public TogetherTest {
protected:
    // REQUIRES: base is frozen. The list may move.
    void fork(size_t base) {
        Pair & of = pairs_[base];
        auto pages = of.pages->copy(1 << 20, 4096, /*to_fork=*/false);
        auto buckets = of.buckets->fork();
        ASSERT_TRUE(pages.ok());
        if (!buckets.ok()) {  // of what does not lie in one piece it is a copy
            EXPECT_EQ(buckets.status().code(), ErrorCode::kOutOfMemory) << buckets.status().message();
            return;
        }
        Pair made{std::move(*pages), std::move(*buckets), of.next, n_sequences_++};
        pairs_.push_back(std::move(made));
    }
    void begin_forks(int n_base, int n) {
        begin(n_base);
        ASSERT_TRUE(pairs_[0].buckets->freeze(16).ok());
        for (int i = 0; i < n; ++i) { fork(0); }
    }
    std::vector<RaggedCache *> growing() const {
        std::vector<RaggedCache *> caches;
        for (const Pair & pair : pairs_) {
            if (!pair.buckets->frozen()) { caches.push_back(pair.buckets.get()); }
        }
        return caches;
    }
    // A token of each that is not frozen. false: there was no memory for it.
    bool grow(int n = 1) {
        const auto together = RaggedCache::reserve_together(growing(), n);
        if (!together.ok()) {
            EXPECT_EQ(together.status().code(), ErrorCode::kOutOfMemory) << together.status().message();
            return false;
        }
        for (Pair & pair : pairs_) {
            if (!pair.buckets->frozen()) { put(pair, n); }
        }
        return true;
    }
    static bool shares(const Pair & one, const Pair & other) {
        const auto first_cell = [](const Pair & pair) { return pair.buckets->buckets(0).front().first_cell; };
        return one.buckets->k(0) == other.buckets->k(0) && first_cell(one) == first_cell(other);
    }
    static bool hides_entries(const Pair & pair) {
        for (int l = 0; l < kLayers; ++l) {
            for (int h = 0; h < pair.buckets->n_kv_heads(l); ++h) {
                if (!pair.buckets->pieces(0, l, h).rows.empty()) { return true; }
            }
        }
        return false;
    }
    void cut(Pair & pair) {
        const int32_t end = pair.next - static_cast<int32_t>(random_() % (random_() % 4 == 0 ? 300 : 20));
        if (end < 1) { return; }
        for (RaggedCache * cache : {pair.pages.get(), pair.buckets.get()}) {
            for (int l = 0; l < kLayers; ++l) { cache->truncate_to_positions(0, l, end); }
        }
        pair.next = end;
    }
    // As a call that fails does: what was dropped comes back.
    void evict_and_take_back(Pair & pair, int layer) {
        const Ragged<int32_t> keep = some_of(*pair.pages, layer);
        const LayerKeep one{layer, &keep};
        const auto before = held(*pair.buckets);
        const Status whole = pair.buckets->make_whole(std::span(&one, 1));
        EXPECT_EQ(held(*pair.buckets), before);
        if (!whole.ok()) {
            EXPECT_EQ(whole.code(), ErrorCode::kOutOfMemory);
            return;
        }
        auto dropped = pair.buckets->save_dropped(0, std::span(&one, 1), pair.next, Spill::kMemory);
        ASSERT_TRUE(dropped.ok());
        pair.buckets->hold_room();
        pair.buckets->compact(0, layer, keep);
        pair.buckets->put_back(0, *dropped);
        pair.buckets->let_go_of_room();
        EXPECT_EQ(held(*pair.buckets), before);
    }
};

TEST_F(ForksTest, SixteenOfAPromptTakeLittleMoreThanOne) {
    constexpr int kForks = 16;
    begin(900);
    const size_t of_one = pairs_[0].buckets->allocated_bytes();
    pairs_.clear();
    begin_forks(900, kForks);
    EXPECT_EQ(allocated_by_all(), of_one) << "a fork takes nothing";
    for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(grow());
        EXPECT_LE(static_cast<double>(allocated_by_all()) / static_cast<double>(of_one), 2.01);
    }
    for (size_t i = 1; i <= kForks; ++i) { EXPECT_TRUE(shares(pairs_[i], pairs_[0])); }
    EXPECT_EQ(pairs_[2].buckets->needed_bytes(), pairs_[1].buckets->needed_bytes());
    for (size_t i = 1; i <= kForks; ++i) {  // what they share is its base's
        EXPECT_GT(pairs_[i].buckets->shared_bytes(), 10 * pairs_[i].buckets->allocated_bytes());
        EXPECT_GT(pairs_[0].buckets->allocated_bytes(), 10 * pairs_[i].buckets->allocated_bytes());
    }
    const uint64_t n_moves = pairs_[1].buckets->n_moves();
    expect_all_as_in_pages();
    EXPECT_EQ(pairs_[1].buckets->n_moves(), n_moves);
}

TEST_F(ForksTest, WhoGoesOnOnceItsForksHaveLeftHasTheRoomThatItAskedFor) {
    begin_forks(600, 1);
    pairs_.pop_back();
    pairs_[0].buckets->thaw();
    for (RaggedCache * one : {pairs_[0].pages.get(), pairs_[0].buckets.get()}) {
        for (int l = 0; l < kLayers; ++l) { one->truncate_to_positions(0, l, 512); }  // whole steps of rooms
    }
    pairs_[0].next = 512;
    begin(10);
    ASSERT_TRUE(step_together());
    expect_all_as_in_pages();
}

TEST_F(ForksTest, WithoutMemoryNobodyWritesWhereOthersBegin) {
    begin_forks(600, 2);
    device_->is_full = true;
    for (int i = 0; i < 2; ++i) { EXPECT_EQ(pairs_[0].buckets->make_whole().code(), ErrorCode::kOutOfMemory); }
    device_->is_full = false;
    EXPECT_TRUE(pairs_[0].buckets->make_whole().ok());
    EXPECT_FALSE(shares(pairs_[0], pairs_[1]));
    expect_all_as_in_pages();
}

// Each of many would see all of what the others add: their masks would be larger than a prompt of a few tokens.
TEST_F(ForksTest, ManyOfAShortPromptAreCopies) {
    for (const auto & [n_forks, share] : {std::pair{16, true}, std::pair{240, false}}) {
        begin_forks(20, n_forks);
        ASSERT_TRUE(grow());
        EXPECT_EQ(shares(pairs_[1], pairs_[2]), share) << n_forks;
        expect_all_as_in_pages();
        const auto held = hold_moves();
        pairs_.clear();
    }
}

TEST_F(ForksTest, WhoEvictsFromTheStartLeavesItAndTheLastOneIsAnOrdinaryLane) {
    begin_forks(600, 3);
    ASSERT_TRUE(grow(5));
    evict(pairs_[1], 0);
    expect_all_as_in_pages();
    EXPECT_FALSE(shares(pairs_[1], pairs_[2]));
    EXPECT_TRUE(shares(pairs_[2], pairs_[3]));
    // What goes of its own end does not take it away.
    Ragged<int32_t> keep;
    for (int h = 0; h < 3; ++h) {
        std::vector<int32_t> row(602);
        std::iota(row.begin(), row.end(), 0);
        row.push_back(604);
        keep.push_row(row);
    }
    for (RaggedCache * one : {pairs_[2].pages.get(), pairs_[2].buckets.get()}) { one->compact(0, 0, keep); }
    EXPECT_TRUE(shares(pairs_[2], pairs_[3]));
    expect_all_as_in_pages();
    pairs_.erase(pairs_.begin(), pairs_.begin() + 3);
    EXPECT_TRUE(pairs_[0].buckets->pieces(0, 0, 0).is_one());
    EXPECT_EQ(pairs_[0].buckets->shared_bytes(), 0U);
    expect_all_as_in_pages();
}

// What a mask can hide needs no memory.
TEST_F(ForksTest, WhereThereIsNoMemoryWhatIsEvictedIsHidden) {
    for (const bool together : {false, true}) {
        pairs_.clear();
        begin_forks(600, 4);
        ASSERT_TRUE(grow(5));
        auto held_back = together ? hold_moves() : decltype(hold_moves())();
        device_->is_full = true;
        for (size_t i = 1; i < 4; ++i) { evict(pairs_[i], 0); }
        held_back.clear();
        EXPECT_TRUE(shares(pairs_[1], pairs_[4]));
        EXPECT_TRUE(hides_entries(pairs_[1]));
        expect_all_as_in_pages();
        for (size_t i = 1; i < 4; ++i) { evict(pairs_[i], 0); }  // of what is seen some are hidden, too
        EXPECT_TRUE(hides_entries(pairs_[1]));
        expect_all_as_in_pages();
        for (Pair & pair : pairs_) {
            if (pair.buckets->frozen()) { continue; }
            for (RaggedCache * one : {pair.pages.get(), pair.buckets.get()}) { one->truncate_to_positions(0, 0, 400); }
        }
        expect_all_as_in_pages();
        device_->is_full = false;
        for (Pair & pair : pairs_) {
            for (RaggedCache * one : {pair.pages.get(), pair.buckets.get()}) {
                if (!pair.buckets->frozen()) { one->truncate_to_positions(0, 1, 400); }
            }
            pair.next = pair.buckets->frozen() ? pair.next : 400;
        }
        ASSERT_TRUE(grow(100));
        EXPECT_FALSE(hides_entries(pairs_[1]));
        expect_all_as_in_pages();
    }
}

TEST_F(ForksTest, TheyHoldWhatCopiesHoldWhateverIsDoneAndFails) {
    int n_shared = 0;
    int n_hidden = 0;
    int n_failed = 0;
    begin(500);
    for (int step = 0; step < 1500; ++step) {
        SCOPED_TRACE(step);
        const auto which = random_() % pairs_.size();
        device_->is_full = random_() % 4 == 0;
        device_->most_at_once = random_() % 4 == 0 ? room_bytes(*pairs_[which].buckets) : std::numeric_limits<size_t>::max();
        auto held = random_() % 2 == 0 ? hold_moves() : decltype(hold_moves())();
        Pair & one = pairs_[which];
        const bool frozen = one.buckets->frozen();
        const int layer = static_cast<int>(random_() % kLayers);
        switch (random_() % 12) {
            case 0:
            case 1:
            case 2:
                n_failed += grow(1 + static_cast<int>(random_() % 3)) ? 0 : 1;
                break;
            case 3:
                if (!frozen) { n_failed += lengthen(one, 1 + static_cast<int>(random_() % 100)) ? 0 : 1; }
                break;
            case 4:
                if (!frozen) { evict(one, layer); }
                if (!frozen && random_() % 2 == 0) { cut(one); }  // what waits, too
                break;
            case 5:  // several at once
                for (Pair & pair : pairs_) {
                    if (!pair.buckets->frozen() && random_() % 2 == 0) { evict(pair, layer); }
                }
                break;
            case 6:
                if (!frozen) { cut(one); }
                break;
            case 7:
                if (!frozen) { evict_and_take_back(one, layer); }
                break;
            case 8: {  // as a snapshot does
                if (frozen) { break; }
                std::vector<int> lengths;
                for (int i = 0; i < one.pages->n_lanes(); ++i) { lengths.push_back(one.pages->length(i)); }
                const RestingLanes saved = one.pages->save(0, lengths).value();
                n_failed += one.buckets->load(0, saved).ok() ? 0 : 1;
                break;
            }
            case 9:
            case 10:
                if (pairs_.size() > 7) {
                    pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(which));
                    break;
                }
                if (!frozen && !one.buckets->freeze(16).ok()) { break; }
                for (int n = 1 + static_cast<int>(random_() % 3); n > 0; --n) { fork(which); }
                break;
            default:
                if (pairs_.size() < 3) { break; }
                pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(which));
        }
        if (growing().empty()) {
            device_->is_full = false;
            device_->most_at_once = std::numeric_limits<size_t>::max();
            begin(1 + static_cast<int>(random_() % 600));
        }
        if (random_() % 4 != 0) { held.clear(); }  // or who looks finds what waited done
        expect_all_as_in_pages();
        for (const Pair & pair : pairs_) {
            n_shared += pair.buckets->shared_bytes() > 0 ? 1 : 0;
            n_hidden += hides_entries(pair) ? 1 : 0;
        }
        if (HasFailure()) { return; }
    }
    std::cout << n_shared << " times a sequence shared a start, " << n_hidden << " times some of it was hidden, " << n_failed
              << " calls found no memory\n";
    EXPECT_GT(n_shared, 500);
    EXPECT_GT(n_hidden, 20);
    EXPECT_GT(n_failed, 20);
}

TEST_F(BucketLanesTest, RowsThatAreNotWholeWordsAreRefused) {
    LaneRows rows{.n_lanes = 2, .head_dim_k = 32, .head_dim_v = 32, .type_k = GGML_TYPE_Q8_0, .type_v = GGML_TYPE_Q8_0};
    EXPECT_EQ(BucketLanes::check(rows).code(), ErrorCode::kUnsupported);  // 34 bytes
    rows.head_dim_k = rows.head_dim_v = 64;
    EXPECT_TRUE(BucketLanes::check(rows).ok());
}

}  // namespace
}  // namespace pith::bucket_lanes_test
