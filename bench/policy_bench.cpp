// policy_bench.cpp - one whole eviction (score, allocate, select) for every policy named below, over the lanes of a 1 B model:
// 16 layers of 8 KV heads with 4 query heads each. Time is for all lanes; entries/s counts entries looked at. Each on one and
// on two of ggml's threads, which is how a session deals out lanes.
//
//   policy_bench --benchmark_filter=snapkv
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>

#include "device/backend.h"
#include "device/cpu_threads.h"
#include "policy/eviction.h"

namespace pith {
namespace {

constexpr CacheShape kShape{16, 8, 4, 64};
constexpr int kBudget = 1024;

LayerEvidence random_layer(int layer, int n_entries, std::mt19937 & random) {
    LayerEvidence evidence;
    evidence.layer = layer;
    evidence.n_kv_heads = kShape.n_kv_heads;
    evidence.n_group = kShape.n_group;
    evidence.n_seen = n_entries;
    evidence.n_window = 32;
    std::vector<int32_t> positions(static_cast<size_t>(n_entries));
    std::iota(positions.begin(), positions.end(), 0);
    for (int h = 0; h < kShape.n_kv_heads; ++h) { evidence.positions.push_row(positions); }
    const auto fill = [&](Ragged<float> & rows, int n_rows) {
        rows = Ragged<float>(std::vector<int>(static_cast<size_t>(n_rows), n_entries));
        for (float & value : rows.flat()) { value = static_cast<float>(random()) * 0x1p-32F; }
    };
    fill(evidence.window_mean, kShape.n_heads());
    fill(evidence.last_query, kShape.n_heads());
    fill(evidence.running_sum, kShape.n_heads());
    fill(evidence.window_sq, kShape.n_kv_heads);
    fill(evidence.output_l1, kShape.n_heads());
    fill(evidence.key_norm, kShape.n_kv_heads);
    return evidence;
}

int64_t n_kept(const std::vector<LayerPlan> & plans) {
    int64_t n = 0;
    for (const LayerPlan & plan : plans) { n += static_cast<int64_t>(plan.keep.size()); }
    return n;
}

void run(benchmark::State & state, const char * name) {
    const auto n_entries = static_cast<int>(state.range(0));
    const auto policy = Policy::parse(name);
    const auto made = make_cpu_backend(static_cast<int>(state.range(1)));
    if (!made.ok()) {
        state.SkipWithError("no threads");
        return;
    }
    const OwnedBackend backend(*made);
    GraphRunner runner(backend.get());
    EvictionTarget target{kShape, kBudget, {}};
    if (state.range(1) > 1) { target.run_tasks = std::bind_front(run_tasks, std::ref(runner)); }
    std::mt19937 random(1);
    std::vector<LayerEvidence> layers;
    for (int l = 0; l < kShape.n_layers; ++l) { layers.push_back(random_layer(l, n_entries, random)); }
    for (auto _ : state) {
        EvictionPass pass(*policy, target, false, 0);
        const bool ok = pass.add_layers(layers).ok();
        const auto plans = pass.finish();
        if (!ok || !plans.ok() || n_kept(*plans) != int64_t{kBudget} * kShape.n_lanes()) {
            state.SkipWithError("the plan does not keep the budget");
            return;
        }
        benchmark::DoNotOptimize(plans);
    }
    state.SetItemsProcessed(state.iterations() * int64_t{n_entries} * kShape.n_lanes());
}

}  // namespace
}  // namespace pith

int main(int argc, char ** argv) {
    if (!pith::load_backends().ok()) { return EXIT_FAILURE; }
    for (const char * name : {"random", "streaming", "knorm", "h2o", "tova", "snapkv", "pyramidkv", "adakv", "criticalkv"}) {
        benchmark::RegisterBenchmark(name, [name](benchmark::State & state) { pith::run(state, name); })
            ->ArgsProduct({{1536, 16384}, {1, 2}})
            ->ArgNames({"entries", "threads"})
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
