// cold_scores.cpp - a scratch lane, and the observation that every policy's evidence comes from.
#include "engine/evict/cold_scores.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "core/hadamard.h"
#include "device/cpu_threads.h"
#include "evidence/lane_tiles.h"
#include "evidence/observe.h"

namespace pith {
namespace {

constexpr int kFilledTogether = 4;                        // lanes, where they are not scored side by side
constexpr size_t kMostScratchBytes = size_t{256} << 20U;  // of all threads, one of them at least
constexpr size_t kBesideKey = 300;                        // bytes of an entry: the kernel's weights, sums, positions, order
constexpr int kValues = 32;                               // a row of values, which there are none of, as each type takes it

// One KV head of a layer. alone: of what its query heads pay only the sum is asked, so they are one head's, so many a token,
// which one thread takes as one matrix. Not where each has a sink of its own.
CacheLayout scratch_layout(const CacheLayout & of, int layer, int kv_head, bool alone) {
    const LayerLanes lanes = of.lanes(layer);
    CacheLayout one;
    one.shape = {1, 1, alone ? 1 : lanes.n_group, lanes.head_dim};
    one.head_dim_v = kValues;
    one.type_k = of.type_k;
    one.type_v = of.type_v;
    one.attention_scale = of.attention_scale;
    one.attention_softcap = of.attention_softcap;
    if (const auto sinks = of.sinks_of(layer); !sinks.empty()) {
        const auto n = static_cast<size_t>(lanes.n_group);
        const auto of_lane = sinks.subspan(static_cast<size_t>(kv_head) * n, n);
        one.sinks = std::make_shared<std::vector<std::vector<float>>>(1, std::vector<float>(of_lane.begin(), of_lane.end()));
        one.shape.n_group = lanes.n_group;
    }
    return one;
}

// Whether its memory serves for that lane, too.
bool serves(const RaggedCache * cache, const CacheLayout & layout, int n) {
    return cache != nullptr && cache->layout().shape == layout.shape && cache->capacity() >= n && !cache->layout().sinks &&
           !layout.sinks;
}

}  // namespace

Status ColdScorer::merge(int layer, int kv_head, LaneOfBoth & both, std::vector<ColdStore::Entry> & entries) const {
    const Sequence & seq = session_.seq;
    const int lane = seq.cache->lane(0, layer, kv_head);
    PITH_RETURN_IF_ERROR(seq.cold.entries_of(lane, entries));
    const auto all = seq.cache->positions(lane);
    both = {};
    both.positions.reserve(all.size() + entries.size());
    both.is_cold.reserve(all.size() + entries.size());
    auto cold = entries.begin();
    for (auto kept = all.begin(); kept != all.end() || cold != entries.end();) {
        const bool is_cold = kept == all.end() || (cold != entries.end() && cold->position < *kept);
        both.positions.push_back(is_cold ? (cold++)->position : *kept++);
        both.is_cold.push_back(is_cold ? 1 : 0);
    }
    return {};
}

std::vector<float> ColdScorer::queries_of_lane(const AskedQueries & queries, int kv_head) const {
    const CacheLayout & layout = session_.layout;
    const auto width = static_cast<size_t>(layout.shape.head_dim) * static_cast<size_t>(layout.shape.n_group);
    const size_t of_query = width * static_cast<size_t>(layout.shape.n_kv_heads);
    std::vector<float> rows;
    for (size_t i = 0; i < queries.positions.size(); ++i) {
        const auto first =
            queries.rows.begin() + static_cast<std::ptrdiff_t>(i * of_query + static_cast<size_t>(kv_head) * width);
        rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(width));
    }
    if (layout.rotates_k() != session_.seq.cold.layout().rotates_k()) {  // it is its own way back
        rotate_hadamard(rows, hadamard_block(layout.shape.head_dim));
    }
    return rows;
}

// Keys of both, as the cold store holds them: from all of a lane's a constant may be missing, which no softmax sees.
Status ColdScorer::fill(int layer, int kv_head, bool alone, Scratch & scratch) const {
    LaneOfBoth & both = scratch.both;
    std::vector<ColdStore::Entry> entries;
    PITH_RETURN_IF_ERROR(merge(layer, kv_head, both, entries));
    const Sequence & seq = session_.seq;
    const RaggedCache & cache = *seq.cache;
    const auto n_all = static_cast<int>(both.positions.size());
    const CacheLayout layout = scratch_layout(seq.cold.layout(), layer, kv_head, alone);
    if (serves(scratch.cache.get(), layout, n_all)) {
        scratch.cache->hide_last(0, 0, scratch.cache->length(0));
    } else {
        scratch.cache.reset();
        PITH_ASSIGN_OR_RETURN(scratch.cache, RaggedCache::make(layout, n_all));
    }
    RaggedCache & lane_of_both = *scratch.cache;
    PITH_RETURN_IF_ERROR(lane_of_both.reserve(0, 0, n_all));
    lane_of_both.append(0, 0, both.positions);
    const RowsOf of{layer, kv_head, /*keys=*/true};
    const int lane = cache.lane(0, layer, kv_head);
    const size_t of_row = row_bytes(seq.cold.layout(), of);
    uint8_t * keys =
        static_cast<uint8_t *>(lane_of_both.k(0)->data) + static_cast<size_t>(lane_of_both.cell(0, 0, 0, 0)) * of_row;
    const auto put = [&](size_t rank, std::span<const uint8_t> rows, size_t i) {
        std::memcpy(keys + rank * of_row, rows.data() + i * of_row, of_row);
    };

    constexpr int kTile = 256;
    std::vector<uint8_t> tile(kTile * row_bytes(cache.layout(), of));
    std::vector<uint8_t> as_cold(kTile * of_row);
    size_t rank = 0;
    const int n_kept = cache.length(lane);
    for (int first = 0; first < n_kept; first += kTile) {
        const int n = std::min(kTile, n_kept - first);
        cache.read(0, layer, kv_head, first, n, tile.data(), nullptr);
        convert_rows(cache.layout(), seq.cold.layout(), of, n, tile.data(), as_cold.data());
        for (size_t i = 0; i < static_cast<size_t>(n); ++i, ++rank) {
            while (both.is_cold[rank] != 0) { ++rank; }
            put(rank, as_cold, i);
        }
    }
    PITH_RETURN_IF_ERROR(cache.health());

    std::vector<std::vector<int32_t>> ranks;  // [segment][row], -1: it is back in the lane
    rank = 0;
    for (const ColdStore::Entry & entry : entries) {
        while (both.is_cold[rank] == 0) { ++rank; }
        const auto segment = static_cast<size_t>(entry.segment);
        const auto row = static_cast<size_t>(entry.row);
        if (segment >= ranks.size()) { ranks.resize(segment + 1); }
        if (row >= ranks[segment].size()) { ranks[segment].resize(row + 1, -1); }
        ranks[segment][row] = static_cast<int32_t>(rank++);
    }
    return seq.cold.for_each_run(lane, of, [&](int segment, int first, std::span<const uint8_t> rows) {
        const auto s = static_cast<size_t>(segment);
        for (size_t i = 0; i < rows.size() / of_row; ++i) {
            const size_t row = static_cast<size_t>(first) + i;
            if (s >= ranks.size() || row >= ranks[s].size() || ranks[s][row] < 0) { continue; }
            put(static_cast<size_t>(ranks[s][row]), rows, i);
        }
    });
}

Status ColdScorer::score(std::span<const int> layers, const QueriesOf & queries_of, const Visit & visit) const {
    std::vector<Lane> lanes;
    bool alone = session_.forward->observer().custom_operations() && !session_.seq.cache->any_in_buckets();
    for (const int layer : layers) {
        alone = alone && can_observe_on_cpu(scratch_layout(session_.seq.cold.layout(), layer, 0, /*alone=*/true));
        for (int h = 0; h < session_.layout.lanes(layer).n_kv_heads; ++h) { lanes.push_back({layer, h, false, {}}); }
    }
    alone = alone && lanes.size() >= std::max(1U, std::thread::hardware_concurrency());
    return alone ? score_side_by_side(lanes, queries_of, visit) : score_together(lanes, queries_of, visit);
}

// A lane on a thread.
Status ColdScorer::score_side_by_side(std::span<Lane> lanes, const QueriesOf & queries_of, const Visit & visit) const {
    GraphRunner & runner = session_.forward->observer();
    const ColdStore & cold = session_.seq.cold;
    const size_t of_entry = kBesideKey + cold.layout().rows(lanes.front().layer).bytes_k();
    const size_t n_most = kMostScratchBytes / (of_entry * static_cast<size_t>(session_.seq.n_tokens));
    std::atomic<size_t> next{0};
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(8));
    PITH_RETURN_IF_ERROR(run_on_threads(runner, *build, [&](int ith) {
        if (ith > 0 && static_cast<size_t>(ith) >= n_most) { return; }
        Scratch scratch;
        for (size_t i = next++; i < lanes.size() && !runner.is_cancelled(); i = next++) {
            Lane & lane = lanes[i];
            lane.status = fill(lane.layer, lane.kv_head, /*alone=*/true, scratch);
            if (lane.status.ok()) {
                lane.status = observe(queries_of(lane.layer), lane.kv_head, /*alone=*/true, scratch, visit);
            }
            lane.is_scored = true;
        }
    }));
    for (const Lane & lane : lanes) {
        PITH_RETURN_IF_ERROR(lane.status);
        if (!lane.is_scored) { return {ErrorCode::kCancelled, "cancelled"}; }
    }
    return {};
}

// All threads, or a device, on a lane: where there are fewer lanes than threads, too.
Status ColdScorer::score_together(std::span<Lane> lanes, const QueriesOf & queries_of, const Visit & visit) const {
    const RunTasks tasks =
        session_.seq.cache->any_in_buckets() ? RunTasks(run_in_turn) : tasks_on(session_.forward->observer());
    std::array<Scratch, kFilledTogether> scratch;
    for (size_t first = 0; first < lanes.size(); first += kFilledTogether) {
        const auto some = lanes.subspan(first, std::min<size_t>(kFilledTogether, lanes.size() - first));
        PITH_RETURN_IF_ERROR(tasks(static_cast<int>(some.size()), [&](int i) {
            Lane & lane = some[static_cast<size_t>(i)];
            lane.status = fill(lane.layer, lane.kv_head, /*alone=*/false, scratch[static_cast<size_t>(i)]);
        }));
        for (size_t i = 0; i < some.size(); ++i) {
            PITH_RETURN_IF_ERROR(some[i].status);
            PITH_RETURN_IF_ERROR(observe(queries_of(some[i].layer), some[i].kv_head, /*alone=*/false, scratch[i], visit));
        }
    }
    return {};
}

Status ColdScorer::observe(const AskedQueries & queries, int kv_head, bool alone, Scratch & scratch,
                           const Visit & visit) const {
    LaneOfBoth & both = scratch.both;
    const RaggedCache & lane = *scratch.cache;
    const int n_group = lane.layout().shape.n_group;
    const std::vector<float> rows = queries_of_lane(queries, kv_head);
    const int n_rows = session_.layout.lanes(queries.layer).n_group / n_group;  // a token
    std::vector<int32_t> positions;
    for (const int32_t position : queries.positions) {
        positions.insert(positions.end(), static_cast<size_t>(n_rows), position);
    }
    constexpr ObserveWants kWants{.column_sum = true};
    Observed seen;
    GraphRunner & runner = session_.forward->observer();
    if (alone) {
        seen.column_sum = Ragged<float>(lane_lengths(lane, 0, 0, n_group));
        PITH_RETURN_IF_ERROR(
            observe_on_this_thread(scratch.space, lane, 0, 0, rows.data(), positions, kWants, seen, runner.cancel()));
    } else {
        PITH_RETURN_IF_ERROR(observe_queries(runner, lane, 0, 0, rows.data(), positions, kWants, seen));
    }
    PaidToBoth paid;
    both.paid.assign(both.cut_at(queries.end_of_context), 0.0F);
    for (int g = 0; g < n_group; ++g) {
        const auto sum = seen.column_sum.row(g);
        for (size_t i = 0; i < both.paid.size(); ++i) {
            both.paid[i] += sum[i];
            (both.is_cold[i] != 0 ? paid.cold : paid.kept) += double{sum[i]};
        }
    }
    visit(queries.layer, kv_head, std::move(both), paid);
    return {};
}

}  // namespace pith
