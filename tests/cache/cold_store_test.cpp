// cold_store_test.cpp - what evictions took, over many of them and ways back, beside what was written down of each.
#include "cache/cold_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/ragged.h"

namespace pith::cold_store_test {
namespace {

constexpr int kDim = 32;

CacheLayout one_lane() {
    CacheLayout layout;
    layout.shape = {1, 1, 1, kDim};
    layout.head_dim_v = kDim;
    layout.type_k = layout.type_v = GGML_TYPE_F32;
    return layout;
}

// Row i of the lane gets the key of its position.
void append(RaggedCache & cache, int32_t position) {
    ASSERT_TRUE(cache.reserve(0, 0, 1).ok());
    cache.append(0, 0, std::vector<int32_t>{position});
    auto * keys = static_cast<float *>(cache.k(0)->data) + cache.cell(0, 0, 0, cache.length(0) - 1) * kDim;
    std::fill_n(keys, kDim, static_cast<float>(position));
}

TEST(ColdStore, TellsItsEntriesInTheOrderOfTheTextHoweverTheyCameAndWent) {
    std::mt19937 random(5);
    for (int round = 0; round < 20; ++round) {
        auto cache = RaggedCache::make(one_lane(), 400);
        ASSERT_TRUE(cache.ok());
        ColdStore store(std::make_shared<CacheLayout>(one_lane()), uint64_t{1} << 20U);
        std::map<int32_t, int> evicted;  // position: by which eviction, once and for all
        std::vector<int32_t> back;
        int32_t next = 0;
        const int n_evictions = 1 + static_cast<int>(random() % 7);  // an odd number of runs is merged, too
        for (int e = 0; e < n_evictions; ++e) {
            for (int i = 0; i < 40; ++i) { append(**cache, next++); }
            Ragged<int32_t> keep;
            std::vector<int32_t> kept;
            for (int32_t i = 0; i < (*cache)->length(0); ++i) {
                if (random() % 3 == 0) { kept.push_back(i); }
            }
            keep.push_row(kept);
            for (int32_t i = 0; i < (*cache)->length(0); ++i) {
                if (std::ranges::binary_search(kept, i)) { continue; }
                evicted.try_emplace((*cache)->positions(0)[static_cast<size_t>(i)], e);
            }
            const LayerKeep plan{0, &keep};
            ASSERT_TRUE(store.add_dropped(**cache, std::span(&plan, 1)).ok());
            std::vector<int32_t> stay;
            for (const int32_t i : kept) { stay.push_back((*cache)->positions(0)[static_cast<size_t>(i)]); }
            (*cache)->clear(0);
            for (const int32_t position : stay) { append(**cache, position); }
            std::erase_if(back, [&](int32_t position) { return !std::ranges::binary_search(stay, position); });
            // Some come back, in place of nothing: the lane is made anew, in order.
            std::vector<int32_t> returns;
            for (const auto & [position, eviction] : evicted) {
                if (!std::ranges::binary_search(stay, position) && random() % 8 == 0) { returns.push_back(position); }
            }
            store.give_back(0, returns);
            back.insert(back.end(), returns.begin(), returns.end());
            stay.insert(stay.end(), returns.begin(), returns.end());
            std::ranges::sort(stay);
            (*cache)->clear(0);
            for (const int32_t position : stay) { append(**cache, position); }

            std::vector<ColdStore::Entry> entries;
            ASSERT_TRUE(store.entries_of(0, entries).ok());
            std::vector<std::pair<int32_t, int32_t>> found;
            std::vector<std::pair<int32_t, int32_t>> expected;
            for (const ColdStore::Entry & entry : entries) { found.emplace_back(entry.position, entry.segment); }
            for (const auto & [position, eviction] : evicted) {
                if (std::ranges::find(back, position) == back.end()) { expected.emplace_back(position, eviction); }
            }
            EXPECT_EQ(found, expected) << "round " << round << ", eviction " << e;
            EXPECT_EQ(store.n_entries(), std::ssize(expected));
            std::vector<uint8_t> rows(entries.size() * kDim * sizeof(float));
            ASSERT_TRUE(store.read_rows(0, {0, 0, true}, entries, one_lane(), rows.data()).ok());
            for (size_t i = 0; i < entries.size(); ++i) {
                EXPECT_EQ(reinterpret_cast<const float *>(rows.data())[i * kDim], static_cast<float>(entries[i].position));
            }
        }
    }
}

}  // namespace
}  // namespace pith::cold_store_test
