// cache_bench.cpp - compaction of one layer's lanes: every other entry kept (the worst case: no run of neighbours moves
// together), or a random quarter. Bytes/s counts kept K and V rows. Beside it, a plain memcpy of as many bytes.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "cache/ragged_cache.h"
#include "device/backend.h"

namespace pith {
namespace {

CacheLayout layout_1b() {
    CacheLayout layout;
    layout.shape = {1, 8, 4, 64};
    layout.head_dim_v = 64;
    return layout;
}

Ragged<int32_t> make_plan(int n_entries, bool alternate) {
    std::mt19937 random(1);
    Ragged<int32_t> keep;
    for (int h = 0; h < 8; ++h) {
        std::vector<int32_t> kept;
        for (int i = 0; i < n_entries; ++i) {
            if (alternate ? i % 2 == 1 : random() % 4 == 0) { kept.push_back(i); }
        }
        keep.push_row(kept);
    }
    return keep;
}

void compact(benchmark::State & state, bool alternate) {
    const auto n = static_cast<int>(state.range(0));
    const Ragged<int32_t> keep = make_plan(n, alternate);
    auto cache = RaggedCache::make(layout_1b(), n);
    if (!load_backends().ok() || !cache.ok()) {
        state.SkipWithError("no cache");
        return;
    }
    std::vector<int32_t> positions(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), 0);
    for (auto _ : state) {
        state.PauseTiming();
        (*cache)->clear(0);
        (*cache)->append(0, 0, positions);
        std::memset((*cache)->k(0)->data, 1, ggml_nbytes((*cache)->k(0)));
        std::memset((*cache)->v(0)->data, 1, ggml_nbytes((*cache)->v(0)));
        state.ResumeTiming();
        (*cache)->compact(0, 0, keep);
    }
    if ((*cache)->n_entries() != static_cast<int64_t>(keep.size())) { state.SkipWithError("the plan was not applied"); }
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(keep.size() * layout_1b().entry_bytes()));
}

void plain_memcpy(benchmark::State & state) {
    const auto size = static_cast<size_t>(state.range(0)) * 8 / 2 * layout_1b().entry_bytes();
    std::vector<char> from(size, 1);
    std::vector<char> to(size);
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), size);
        benchmark::DoNotOptimize(to.data());
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(size));
}

BENCHMARK_CAPTURE(compact, every_other_entry, true)->Arg(1536)->Arg(16384)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(compact, random_quarter, false)->Arg(1536)->Arg(16384)->Unit(benchmark::kMicrosecond);
BENCHMARK(plain_memcpy)->Arg(1536)->Arg(16384)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pith

BENCHMARK_MAIN();
