// ragged_cache_test.cpp - lanes against plain vectors, and bytes against what the system says.
#include "cache/ragged_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "cache/page_memory.h"
#include "device/backend.h"
#include "device/resident.h"

namespace pith::ragged_cache_test {
namespace {

CacheLayout layout_of(ggml_type type, int n_layers = 2, int n_kv_heads = 3, int head_dim = 32) {
    CacheLayout layout;
    layout.shape = {n_layers, n_kv_heads, 2, head_dim};
    layout.head_dim_v = head_dim;
    layout.type_k = type;
    layout.type_v = type;
    return layout;
}

// A row's first float says which (layer, head, position) it belongs to.
float tag(int layer, int head, int position) {
    return static_cast<float>(layer * 1000003 + head * 100003 + position);
}

float * row(RaggedCache & cache, ggml_tensor * flat, int head, int index) {
    return reinterpret_cast<float *>(static_cast<uint8_t *>(flat->data) +
                                     static_cast<size_t>(cache.cell(0, 0, head, index)) * flat->nb[1]);
}

// AddressSanitizer keeps a byte of its own for every eight that were touched; on some systems these are pages of their own, and
// they stay.
size_t of_sanitizer([[maybe_unused]] size_t touched_bytes) {
#if defined(__SANITIZE_ADDRESS__)
    return touched_bytes / 8;
#else
    return 0;
#endif
}

class RaggedCacheTest : public ::testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(load_backends().ok()); }

    static void append(RaggedCache & cache, int layer, int first, int n) {
        std::vector<int32_t> positions(static_cast<size_t>(n));
        std::iota(positions.begin(), positions.end(), first);
        ASSERT_TRUE(cache.reserve(0, layer, n).ok());
        cache.append(0, layer, positions);
        for (int h = 0; h < cache.layout().shape.n_kv_heads; ++h) {
            const int length = cache.length(cache.lane(0, layer, h));
            for (int t = 0; t < n; ++t) {
                *row(cache, cache.k(layer), h, length - n + t) = tag(layer, h, first + t);
                *row(cache, cache.v(layer), h, length - n + t) = -tag(layer, h, first + t);
            }
        }
    }

    static void expect_rows_follow_positions(RaggedCache & cache) {
        for (int l = 0; l < cache.layout().shape.n_layers; ++l) {
            for (int h = 0; h < cache.layout().shape.n_kv_heads; ++h) {
                const auto positions = cache.positions(cache.lane(0, l, h));
                for (size_t i = 0; i < positions.size(); ++i) {
                    ASSERT_EQ(*row(cache, cache.k(l), h, static_cast<int>(i)), tag(l, h, positions[i]));
                    ASSERT_EQ(*row(cache, cache.v(l), h, static_cast<int>(i)), -tag(l, h, positions[i]));
                }
            }
        }
    }
};

Ragged<int32_t> random_plan(const RaggedCache & cache, int layer, std::mt19937 & random) {
    Ragged<int32_t> keep;
    for (int h = 0; h < cache.layout().shape.n_kv_heads; ++h) {
        std::vector<int32_t> kept;
        const unsigned share = random() % 100;
        for (int i = 0; i < cache.length(cache.lane(0, layer, h)); ++i) {
            if (random() % 100 < share) { kept.push_back(i); }
        }
        keep.push_row(kept);
    }
    return keep;
}

TEST_F(RaggedCacheTest, RowsFollowTheirPositionsThroughAnyMixOfAppendsAndCompactions) {
    std::mt19937 random(7);
    auto cache = RaggedCache::make(layout_of(GGML_TYPE_F32), 64);
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    RaggedCache & c = **cache;
    int position = 0;
    for (int round = 0; round < 60; ++round) {
        const int n = static_cast<int>(1 + random() % 90);
        for (int l = 0; l < 2; ++l) { append(c, l, position, n); }
        position += n;
        for (int l = 0; l < 2; ++l) {
            std::vector<std::vector<int32_t>> expected;
            const Ragged<int32_t> keep = random_plan(c, l, random);
            for (int h = 0; h < 3; ++h) {
                expected.emplace_back();
                for (const int32_t i : keep.row(h)) {
                    expected.back().push_back(c.positions(c.lane(0, l, h))[static_cast<size_t>(i)]);
                }
            }
            c.compact(0, l, keep);
            for (int h = 0; h < 3; ++h) {
                const auto now = c.positions(c.lane(0, l, h));
                ASSERT_EQ(std::vector<int32_t>(now.begin(), now.end()), expected[static_cast<size_t>(h)]);
            }
        }
        expect_rows_follow_positions(c);
        ASSERT_TRUE(c.check_invariants().ok()) << c.check_invariants().message();
    }
}

// Once a layer has moved there is no way back: what threads left undone is done all the same.
TEST_F(RaggedCacheTest, LayersAreCompactedSideBySideAndAllOfThemWhateverTheThreadsDo) {
    constexpr int kLayers = 6;
    const RunTasks on_threads = [](int n, const std::function<void(int)> & task) -> Status {
        std::vector<std::thread> threads;
        threads.reserve(static_cast<size_t>(n));
        for (int i = 0; i < n; ++i) { threads.emplace_back(task, i); }
        for (std::thread & thread : threads) { thread.join(); }
        return {};
    };
    const RunTasks half = [](int n, const std::function<void(int)> & task) -> Status {
        for (int i = 0; i < n; i += 2) { task(i); }
        return {ErrorCode::kOutOfMemory, "injected"};
    };
    const RunTasks none = [](int, const std::function<void(int)> &) -> Status { throw std::bad_alloc(); };
    for (const RunTasks & run_tasks : {on_threads, half, none}) {
        std::mt19937 random(11);
        auto cache = RaggedCache::make(layout_of(GGML_TYPE_F32, kLayers), 300);
        ASSERT_TRUE(cache.ok()) << cache.status().message();
        RaggedCache & c = **cache;
        std::vector<Ragged<int32_t>> plans;
        std::vector<LayerKeep> keeps;
        for (int l = 0; l < kLayers; ++l) {
            append(c, l, 0, 280);
            plans.push_back(random_plan(c, l, random));
        }
        int64_t n_kept = 0;
        for (int l = 0; l < kLayers; ++l) {
            keeps.push_back({l, &plans[static_cast<size_t>(l)]});
            n_kept += static_cast<int64_t>(plans[static_cast<size_t>(l)].size());
        }
        EXPECT_EQ(c.compact(0, keeps, run_tasks), kLayers * 3 * 280 - n_kept);
        EXPECT_EQ(c.n_entries(), n_kept);
        for (int l = 0; l < kLayers; ++l) {
            for (int h = 0; h < 3; ++h) {
                EXPECT_TRUE(std::ranges::equal(c.positions(c.lane(0, l, h)), plans[static_cast<size_t>(l)].row(h)));
            }
        }
        expect_rows_follow_positions(c);
        EXPECT_TRUE(c.check_invariants().ok()) << c.check_invariants().message();
    }
}

TEST_F(RaggedCacheTest, BytesNeededAreExactAndAllocatedOnesAreOnlyPartlyUsedPagesMore) {
    auto cache = RaggedCache::make(layout_of(GGML_TYPE_F16), 5000);
    ASSERT_TRUE(cache.ok());
    RaggedCache & c = **cache;
    for (int l = 0; l < 2; ++l) {
        std::vector<int32_t> positions(3000);
        std::iota(positions.begin(), positions.end(), 0);
        c.append(0, l, positions);
    }
    EXPECT_EQ(c.n_entries(), 2 * 3 * 3000);
    EXPECT_EQ(c.needed_bytes(), 2U * 3U * 3000U * 2U * 32U * 2U);
    EXPECT_GE(c.allocated_bytes(), c.needed_bytes());
    EXPECT_LE(c.allocated_bytes(), c.needed_bytes() + 2 * 3 * 2 * page_size_bytes());
    Ragged<int32_t> keep;
    for (int h = 0; h < 3; ++h) { keep.push_row(std::vector<int32_t>{1, 2, 2999}); }
    EXPECT_EQ(c.compact(0, 0, keep), 3 * 2997);
    EXPECT_EQ(c.needed_bytes(), (3U * 3000U + 9U) * 2U * 32U * 2U);
    EXPECT_LE(c.allocated_bytes(), c.needed_bytes() + 2 * 3 * 2 * page_size_bytes());
}

TEST_F(RaggedCacheTest, CompactionGivesMemoryBackToTheSystem) {
    auto cache = RaggedCache::make(layout_of(GGML_TYPE_F32, 1, 4, 128), 20000);
    ASSERT_TRUE(cache.ok());
    RaggedCache & c = **cache;
    const size_t before = resident_bytes().anonymous;
    append(c, 0, 0, 20000);  // touches the first float of every row: every page of 8 rows
    const size_t full = resident_bytes().anonymous;
    const size_t needed = c.needed_bytes();
    EXPECT_GT(full - before, needed * 9 / 10);
    Ragged<int32_t> keep;
    for (int h = 0; h < 4; ++h) { keep.push_row(std::vector<int32_t>{5, 17, 19999}); }
    c.compact(0, 0, keep);
    const size_t after = resident_bytes().anonymous;
    EXPECT_LT(after, before + (full - before) / 20 + of_sanitizer(needed));
    expect_rows_follow_positions(c);
}

TEST_F(RaggedCacheTest, GrowsWhenALaneNeedsMoreThanWasReserved) {
    auto cache = RaggedCache::make(layout_of(GGML_TYPE_F32), 8);
    ASSERT_TRUE(cache.ok());
    RaggedCache & c = **cache;
    int position = 0;
    for (const int n : {100, 3000, 7}) {
        for (int l = 0; l < 2; ++l) { append(c, l, position, n); }
        position += n;
    }
    EXPECT_GE(c.capacity(), 3107);
    expect_rows_follow_positions(c);
    EXPECT_TRUE(c.check_invariants().ok());
}

TEST_F(RaggedCacheTest, SavedLanesComeBackAfterEvictionAndTruncationCutsTheEnd) {
    std::mt19937 random(3);
    auto cache = RaggedCache::make(layout_of(GGML_TYPE_F32), 1000);
    ASSERT_TRUE(cache.ok());
    RaggedCache & c = **cache;
    for (int l = 0; l < 2; ++l) { append(c, l, 0, 400); }
    for (int l = 0; l < 2; ++l) { c.compact(0, l, random_plan(c, l, random)); }
    std::vector<int> lengths;
    std::vector<std::vector<int32_t>> positions;
    for (int i = 0; i < c.n_lanes(); ++i) {
        lengths.push_back(c.length(i));
        positions.emplace_back(c.positions(i).begin(), c.positions(i).end());
    }
    for (int l = 0; l < 2; ++l) { append(c, l, 400, 50); }
    const RestingLanes saved = c.save(0, lengths).value();
    for (int l = 0; l < 2; ++l) { c.compact(0, l, random_plan(c, l, random)); }
    ASSERT_TRUE(c.load(0, saved).ok());
    for (int i = 0; i < c.n_lanes(); ++i) {
        EXPECT_EQ(std::vector<int32_t>(c.positions(i).begin(), c.positions(i).end()), positions[static_cast<size_t>(i)]);
    }
    expect_rows_follow_positions(c);
    for (int l = 0; l < 2; ++l) { c.truncate(0, l, std::vector<int>{1, 0, 3}); }
    EXPECT_LE(c.length(0), 1);
    expect_rows_follow_positions(c);
    EXPECT_TRUE(c.check_invariants().ok());
}

// What comes back may be more than a lane has ever held.
TEST_F(RaggedCacheTest, RoomIsHeldForMoreThanThereWas) {
    constexpr int kMore = 5000;
    auto small = RaggedCache::make(layout_of(GGML_TYPE_F32), 100);
    auto large = RaggedCache::make(layout_of(GGML_TYPE_F32), kMore);
    ASSERT_TRUE(small.ok() && large.ok());
    RaggedCache & c = **small;
    for (int l = 0; l < 2; ++l) { append(c, l, 0, 60); }
    append(**large, 1, 0, kMore);
    Ragged<int32_t> keep;
    std::vector<int32_t> first(60);
    std::iota(first.begin(), first.end(), 0);
    for (int h = 0; h < 3; ++h) { keep.push_row(first); }
    const LayerKeep one{1, &keep};
    const RestingLanes rest = (*large)->save_dropped(0, std::span(&one, 1), kMore, Spill::kMemory).value();
#if !defined(__SANITIZE_ADDRESS__)
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    const rlimit none{1 << 20, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    const Status refused = c.hold_room(0, 1, std::vector<int64_t>(3, kMore));
    setrlimit(RLIMIT_AS, &before);
    EXPECT_EQ(refused.code(), ErrorCode::kOutOfMemory) << refused.message();
    expect_rows_follow_positions(c);
#endif
    ASSERT_TRUE(c.hold_room(0, 1, std::vector<int64_t>(3, kMore)).ok());
    c.put_back(0, rest);
    EXPECT_EQ(c.length(c.lane(0, 1, 2)), kMore);
    EXPECT_EQ(c.length(c.lane(0, 0, 2)), 60);
    expect_rows_follow_positions(c);
    EXPECT_TRUE(c.check_invariants().ok());
}

TEST_F(RaggedCacheTest, LanesAreLoadedPieceByPiece) {
    auto whole = RaggedCache::make(layout_of(GGML_TYPE_F32), 400);
    auto pieces = RaggedCache::make(layout_of(GGML_TYPE_F32), 400);
    ASSERT_TRUE(whole.ok() && pieces.ok());
    int n = 0;
    for (const int next : {1, 90, 91, 400}) {
        auto piece = RaggedCache::make(layout_of(GGML_TYPE_F32), 400).value();
        for (int l = 0; l < 2; ++l) {
            append(**whole, l, n, next - n);
            append(*piece, l, n, next - n);
        }
        ASSERT_TRUE((*pieces)->load_behind(0, piece->save(0, std::vector<int>(6, next - n)).value()).ok());
        n = next;
        EXPECT_EQ((*pieces)->n_entries(), (*whole)->n_entries());
    }
    for (int i = 0; i < (*whole)->n_lanes(); ++i) {
        EXPECT_TRUE(std::ranges::equal((*pieces)->positions(i), (*whole)->positions(i)));
    }
    expect_rows_follow_positions(**pieces);
    EXPECT_TRUE((*pieces)->check_invariants().ok());
}

// AddressSanitizer has taken more addresses than any limit leaves.
#if !defined(__SANITIZE_ADDRESS__)
TEST_F(RaggedCacheTest, SavedLanesThatCannotBeReservedChangeNothing) {
    constexpr int kSaved = 1 << 14;  // 24 MiB of addresses
    auto large = RaggedCache::make(layout_of(GGML_TYPE_F32), kSaved);
    auto small = RaggedCache::make(layout_of(GGML_TYPE_F32), 100);
    ASSERT_TRUE(large.ok() && small.ok());
    for (int l = 0; l < 2; ++l) { append(**large, l, 0, kSaved); }
    for (int l = 0; l < 2; ++l) { append(**small, l, 7, 60); }
    const RestingLanes saved = (*large)->save(0, std::vector<int>(6, kSaved)).value();

    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    const rlimit none{1 << 20, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    const Status status = (*small)->load(0, saved);
    setrlimit(RLIMIT_AS, &before);
    EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory) << status.message();
    EXPECT_EQ((*small)->n_entries(), 6 * 60);
    expect_rows_follow_positions(**small);
    EXPECT_TRUE((*small)->check_invariants().ok());
    ASSERT_TRUE((*small)->load(0, saved).ok());
    EXPECT_EQ((*small)->n_entries(), 6 * kSaved);
}
#endif

TEST_F(RaggedCacheTest, AHeadSizeThatATypesBlockDoesNotDivideIsRefusedByName) {
    const auto cache = RaggedCache::make(layout_of(GGML_TYPE_Q8_0, 1, 1, 80), 16);
    ASSERT_FALSE(cache.ok());
    EXPECT_EQ(cache.status().code(), ErrorCode::kUnsupported);
    EXPECT_NE(cache.status().message().find("80"), std::string::npos);
    EXPECT_NE(cache.status().message().find("q8_0"), std::string::npos);
}

// What the system holds for the process's caches: each page once, however many mappings read it.
size_t held_bytes() {
#if defined(__GLIBC__)
    malloc_trim(0);  // what the allocator keeps of position lists that grew is no cache's
#endif
    std::ifstream file("/proc/self/smaps_rollup");
    size_t bytes = 0;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string key;
        size_t kibibytes = 0;
        if (words >> key >> kibibytes && (key == "Pss_Anon:" || key == "Pss_Shmem:")) { bytes += kibibytes << 10U; }
    }
    return bytes;
}

// The sanitizer's own memory would be counted with the cache's.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSystemTells = false;
#else
constexpr bool kSystemTells = true;
#endif

TEST_F(RaggedCacheTest, ForksReadTheBaseAndCopyWhatTheyWrite) {
    constexpr int kLayers = 2;
    constexpr int kBase = 20000;
    auto base = RaggedCache::make(layout_of(GGML_TYPE_F32), kBase + 8);
    ASSERT_TRUE(base.ok());
    for (int l = 0; l < kLayers; ++l) { append(**base, l, 0, kBase); }
    ASSERT_TRUE((*base)->freeze(1000).ok());
    expect_rows_follow_positions(**base);

    const size_t of_positions = size_t{8} * kLayers * 3 * (kBase + 100) * sizeof(int32_t);  // each fork has its own
    const size_t before = held_bytes() + of_positions;
    std::vector<std::unique_ptr<RaggedCache>> forks;
    for (int i = 0; i < 8; ++i) {
        auto fork = (*base)->fork();
        ASSERT_TRUE(fork.ok()) << fork.status().message();
        EXPECT_EQ((*fork)->allocated_bytes(), 0U);
        EXPECT_EQ((*fork)->shared_bytes(), (*base)->allocated_bytes());
        forks.push_back(std::move(*fork));
        expect_rows_follow_positions(*forks.back());
    }
    // A fork says which rows are still the base's, and these are: at least n of each lane.
    const uint64_t first_lane = forks.front()->shared_rows(0, 0, 0).base_lane;
    const auto expect_shared = [&](const RaggedCache & fork, int n) {
        const auto in_a_page = static_cast<int>(page_size_bytes() / (32 * sizeof(float)));
        for (int l = 0; l < kLayers; ++l) {
            for (int h = 0; h < 3; ++h) {
                const RaggedCache::SharedRows shared = fork.shared_rows(0, l, h);
                EXPECT_EQ(shared.base_lane, first_lane + static_cast<uint64_t>(3 * l + h));
                ASSERT_GE(shared.n, n - in_a_page);
                ASSERT_LE(shared.n, kBase);
                const auto rows_of = [&](const RaggedCache & cache) {
                    std::vector<uint8_t> rows(size_t{2} * static_cast<size_t>(shared.n) * 32 * sizeof(float));
                    cache.read(0, l, h, 0, shared.n, rows.data(), rows.data() + rows.size() / 2);
                    return rows;
                };
                EXPECT_TRUE(rows_of(fork) == rows_of(**base)) << "layer " << l << " head " << h;
            }
        }
    };
    for (const auto & fork : forks) { expect_shared(*fork, kBase); }
    EXPECT_EQ((*base)->shared_rows(0, 0, 0).base_lane, 0U);
    const size_t of_base = (*base)->allocated_bytes();
    if (kSystemTells) { EXPECT_LT(held_bytes(), before + of_base / 10) << "reading copied something"; }

    // Each goes its own way: tokens behind, evictions in the middle, cuts.
    for (int i = 0; i < 8; ++i) {
        RaggedCache & fork = *forks[static_cast<size_t>(i)];
        for (int l = 0; l < kLayers; ++l) { append(fork, l, kBase + i, 3 + i); }
        ASSERT_TRUE(fork.check_invariants().ok()) << fork.check_invariants().message();
        EXPECT_LE(fork.allocated_bytes(), size_t{2} * kLayers * 3 * 2 * page_size_bytes());  // a page or two of each lane
        expect_shared(fork, kBase);
    }
    if (kSystemTells) { EXPECT_LT(held_bytes(), before + of_base / 10); }
    std::mt19937 random(7);
    for (int i = 0; i < 8; i += 2) {
        RaggedCache & fork = *forks[static_cast<size_t>(i)];
        const int n_still = 5000 * (i / 2);  // entries that stay where they are
        for (int l = 0; l < kLayers; ++l) {
            Ragged<int32_t> keep;
            for (int h = 0; h < 3; ++h) {
                std::vector<int32_t> kept;
                for (int j = 0; j < fork.length(fork.lane(0, l, h)); ++j) {
                    if (j < n_still || random() % 3 == 0) { kept.push_back(j); }
                }
                keep.push_row(kept);
            }
            fork.compact(0, l, keep);
        }
        ASSERT_TRUE(fork.check_invariants().ok()) << fork.check_invariants().message();
        const int64_t n_shared = int64_t{n_still} * 2 * 32 * 4 * 3 * kLayers;
        EXPECT_GE(static_cast<int64_t>(fork.shared_bytes()), n_shared - 24 * static_cast<int64_t>(page_size_bytes()));
        if (n_still > 0) { expect_shared(fork, n_still); }
        expect_rows_follow_positions(fork);
    }
    for (RaggedCache * one : {forks[1].get(), forks[0].get(), base->get()}) { expect_rows_follow_positions(*one); }
    size_t own = 0;
    for (const auto & fork : forks) { own += fork->allocated_bytes(); }
    const size_t held = held_bytes() - before;
    if (kSystemTells) {
        EXPECT_LT(held, own + own / 20 + (size_t{1} << 20U)) << "the ledger's bytes are the system's";
        EXPECT_GT(held + held / 20 + (size_t{1} << 20U), own);
    }

    base->reset();  // forks live on
    expect_rows_follow_positions(*forks[3]);
    ASSERT_TRUE(forks[3]->reserve(0, 0, 100000).ok());  // growing makes all its own
    EXPECT_EQ(forks[3]->shared_bytes(), 0U);
    EXPECT_EQ(forks[3]->shared_rows(0, 0, 0).n, 0);
    ASSERT_TRUE(forks[3]->check_invariants().ok()) << forks[3]->check_invariants().message();
    expect_rows_follow_positions(*forks[3]);
}

// What resident_bytes().peak tells begins anew. false: the system does not do that.
bool forget_peak() {
    std::ofstream clear("/proc/self/clear_refs");
    clear << "5" << std::flush;
    return clear.good();
}

TEST_F(RaggedCacheTest, LanesThatMoveAreNeverHeldTwice) {
    constexpr int kLayers = 2;
    constexpr int kEntries = 40000;
    constexpr size_t kUnlike = size_t{4} << 20U;  // what the system may count late, of 60 MiB, half of which is a layer
    auto cache = RaggedCache::make(layout_of(GGML_TYPE_F32), kEntries + 8);
    ASSERT_TRUE(cache.ok());
    for (int l = 0; l < kLayers; ++l) { append(**cache, l, 0, kEntries); }
    const size_t bytes = (*cache)->allocated_bytes();
    bool tells = kSystemTells && forget_peak();
    size_t before = resident_bytes().now;
    ASSERT_TRUE((*cache)->freeze(1000).ok());
    EXPECT_EQ((*cache)->allocated_bytes(), bytes);
    EXPECT_EQ((*cache)->peak_bytes(), bytes) << "the peak counts what both hold";
    if (tells) { EXPECT_LT(resident_bytes().peak, before + kUnlike); }
    expect_rows_follow_positions(**cache);

    // A fork that has written somewhere has all of it afterwards, and at no time more.
    auto fork = (*cache)->fork();
    ASSERT_TRUE(fork.ok());
    for (int l = 0; l < kLayers; ++l) { append(**fork, l, kEntries, 70); }
    const size_t own = (*fork)->allocated_bytes();
    tells = kSystemTells && forget_peak();
    before = resident_bytes().now;
    ASSERT_TRUE((*fork)->reserve(0, 0, 5000).ok());
    EXPECT_EQ((*fork)->shared_bytes(), 0U);
    EXPECT_EQ((*fork)->peak_bytes(), (*fork)->allocated_bytes());
    if (tells) { EXPECT_LT(resident_bytes().peak, before + (*fork)->allocated_bytes() - own + kUnlike); }
    ASSERT_TRUE((*fork)->check_invariants().ok()) << (*fork)->check_invariants().message();
    expect_rows_follow_positions(**fork);
    expect_rows_follow_positions(**cache);

    // Behind an eviction that left lanes of unlike lengths.
    Ragged<int32_t> keep;
    for (int h = 0; h < 3; ++h) {
        std::vector<int32_t> kept;
        for (int j = h; j < 100 + 9000 * h; j += 2) { kept.push_back(j); }
        keep.push_row(kept);
    }
    (*fork)->compact(0, 1, keep);
    ASSERT_TRUE((*fork)->freeze(10).ok());
    ASSERT_TRUE((*fork)->check_invariants().ok()) << (*fork)->check_invariants().message();
    expect_rows_follow_positions(**fork);
}

TEST_F(RaggedCacheTest, TheLayersOfACacheThatOthersForkLieInOneFile) {
    const size_t before = PageFile::n_open();
    {
        auto cache = RaggedCache::make(layout_of(GGML_TYPE_F16, 7), 100);
        ASSERT_TRUE(cache.ok());
        for (int l = 0; l < 7; ++l) { ASSERT_TRUE((*cache)->reserve(0, l, 50).ok()); }
        EXPECT_EQ(PageFile::n_open(), before);
        ASSERT_TRUE((*cache)->freeze(100).ok());
        EXPECT_EQ(PageFile::n_open(), before + 1);
        ASSERT_TRUE((*cache)->freeze(200).ok());
        EXPECT_EQ(PageFile::n_open(), before + 1);
        const auto own = (*cache)->copy(50, 10, /*to_fork=*/false);
        ASSERT_TRUE(own.ok());
        EXPECT_FALSE((*own)->frozen());
        EXPECT_EQ(PageFile::n_open(), before + 1);
    }
    EXPECT_EQ(PageFile::n_open(), before);
}

// Whether a process that is forked can read this byte.
bool can_fork_read(const uint8_t * byte) {
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*byte == 7 ? 0 : 1);
    }
    int state = 0;
    waitpid(child, &state, 0);
    return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

TEST(PageMemory, IsKeptFromForksWhereSomebodyWantsThat) {
    auto shared = PageMemory::reserve(page_size_bytes());
    PageMemory::keep_from_forks();
    auto kept = PageMemory::reserve(page_size_bytes());
    PageMemory::keep_from_forks(false);
    ASSERT_TRUE(shared.ok() && kept.ok());
    *shared->data() = 7;
    *kept->data() = 7;
    EXPECT_TRUE(can_fork_read(shared->data()));
    EXPECT_FALSE(can_fork_read(kept->data()));
    EXPECT_EQ(*kept->data(), 7);
}

// With so few files that none is left: what freeze() says.
std::string said_without_files(RaggedCache & cache) {
    const rlimit few{30, 30};
    setrlimit(RLIMIT_NOFILE, &few);
    std::vector<std::shared_ptr<PageFile>> all;
    for (auto one = PageFile::make(); one.ok(); one = PageFile::make()) { all.push_back(*one); }
    return cache.freeze(10).message();
}

TEST_F(RaggedCacheTest, WithoutAFileForItTheLimitIsNamed) {
    auto cache = RaggedCache::make(layout_of(GGML_TYPE_F16), 100);
    ASSERT_TRUE(cache.ok());
    append(**cache, 0, 0, 10);
    const auto say = [&] {
        std::fputs(said_without_files(**cache).c_str(), stderr);
        std::_Exit(0);
    };
    EXPECT_EXIT(say(), ::testing::ExitedWithCode(0), "ulimit -n is 30\\): raise that, or keep fewer requests");
}

}  // namespace
}  // namespace pith::ragged_cache_test
