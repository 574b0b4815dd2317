// cold_scores.cpp - a scratch lane, and the observation that every policy's evidence comes from.
#include "engine/evict/cold_scores.h"

#include <algorithm>
#include <utility>

#include "core/hadamard.h"
#include "device/cpu_threads.h"
#include "evidence/observe.h"

namespace pith {
namespace {

// One KV head of a layer, keys as the cold store turns them over and hardly rounded.
CacheLayout scratch_layout(const CacheLayout & of, int layer, int kv_head) {
    const LayerLanes lanes = of.lanes(layer);
    CacheLayout one;
    one.shape = {1, 1, lanes.n_group, lanes.head_dim};
    one.head_dim_v = lanes.head_dim_v;
    const bool exact = of.type_k == GGML_TYPE_F32 || of.type_k == GGML_TYPE_BF16;
    one.type_k = one.type_v = exact ? GGML_TYPE_F32 : GGML_TYPE_F16;
    one.attention_scale = of.attention_scale;
    one.attention_softcap = of.attention_softcap;
    if (const auto sinks = of.sinks_of(layer); !sinks.empty()) {
        const auto n = static_cast<size_t>(lanes.n_group);
        const auto of_lane = sinks.subspan(static_cast<size_t>(kv_head) * n, n);
        one.sinks = std::make_shared<std::vector<std::vector<float>>>(1, std::vector<float>(of_lane.begin(), of_lane.end()));
    }
    return one;
}

}  // namespace

Status ColdScorer::merge(int layer, int kv_head, LaneOfBoth & both, std::vector<ColdStore::Entry> & entries) const {
    const Sequence & seq = session_.seq;
    const int lane = seq.cache->lane(0, layer, kv_head);
    PITH_RETURN_IF_ERROR(seq.cold.entries_of(lane, entries));
    const auto all = seq.cache->positions(lane);
    both = {};
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

// Keys of both, in the cold store's frame: from all of a lane's a constant may be missing, which no softmax sees.
Status ColdScorer::fill(const AskedQueries & queries, int kv_head, Scratch & scratch) const {
    LaneOfBoth & both = scratch.both;
    std::vector<ColdStore::Entry> entries;
    PITH_RETURN_IF_ERROR(merge(queries.layer, kv_head, both, entries));
    const auto n_all = static_cast<int>(both.positions.size());
    PITH_ASSIGN_OR_RETURN(scratch.cache, RaggedCache::make(scratch_layout(session_.layout, queries.layer, kv_head), n_all));
    RaggedCache & lane_of_both = *scratch.cache;
    PITH_RETURN_IF_ERROR(lane_of_both.reserve(0, 0, n_all));
    lane_of_both.append(0, 0, both.positions);
    const Sequence & seq = session_.seq;
    const RaggedCache & cache = *seq.cache;
    const RowsOf of{queries.layer, kv_head, /*keys=*/true};
    const int lane = cache.lane(0, queries.layer, kv_head);
    const auto d = static_cast<size_t>(row_length(cache.layout(), of));
    const size_t of_row = lane_of_both.layout().rows(0).bytes_k();
    uint8_t * keys =
        static_cast<uint8_t *>(lane_of_both.k(0)->data) + static_cast<size_t>(lane_of_both.cell(0, 0, 0, 0)) * of_row;
    const auto put = [&](size_t rank, std::span<const float> row) {
        round_rows(lane_of_both.layout().type_k, row, static_cast<int64_t>(d), keys + rank * of_row);
    };

    constexpr int kTile = 256;
    std::vector<uint8_t> tile(kTile * row_bytes(cache.layout(), of));
    std::vector<float> made(kTile * d);
    size_t rank = 0;
    const int n_kept = cache.length(lane);
    for (int first = 0; first < n_kept; first += kTile) {
        const int n = std::min(kTile, n_kept - first);
        cache.read(0, queries.layer, kv_head, first, n, tile.data(), nullptr);
        const auto rows = std::span(made).first(static_cast<size_t>(n) * d);
        rows_as_made(cache.layout(), of, tile.data(), rows);
        turn_over(seq.cold.layout(), of, rows);
        for (size_t i = 0; i < static_cast<size_t>(n); ++i, ++rank) {
            while (both.is_cold[rank] != 0) { ++rank; }
            put(rank, rows.subspan(i * d, d));
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
    return seq.cold.for_each_run(lane, of, [&](int segment, int first, std::span<const float> rows) {
        const auto s = static_cast<size_t>(segment);
        for (size_t i = 0; i < rows.size() / d; ++i) {
            const size_t row = static_cast<size_t>(first) + i;
            if (s >= ranks.size() || row >= ranks[s].size() || ranks[s][row] < 0) { continue; }
            put(static_cast<size_t>(ranks[s][row]), rows.subspan(i * d, d));
        }
    });
}

Status ColdScorer::score(const AskedQueries & queries, const Visit & visit) const {
    constexpr int kMost = 4;
    const RunTasks tasks =
        session_.seq.cache->any_in_buckets() ? RunTasks(run_in_turn) : tasks_on(session_.forward->observer());
    const int n_heads = session_.layout.lanes(queries.layer).n_kv_heads;
    for (int first = 0; first < n_heads; first += kMost) {
        std::vector<Scratch> lanes(static_cast<size_t>(std::min(kMost, n_heads - first)));
        std::vector<Status> filled(lanes.size());
        PITH_RETURN_IF_ERROR(tasks(static_cast<int>(lanes.size()), [&](int i) {
            filled[static_cast<size_t>(i)] = fill(queries, first + i, lanes[static_cast<size_t>(i)]);
        }));
        for (size_t i = 0; i < lanes.size(); ++i) {
            PITH_RETURN_IF_ERROR(filled[i]);
            const int kv_head = first + static_cast<int>(i);
            PITH_ASSIGN_OR_RETURN(const PaidToBoth paid, observe(queries, kv_head, lanes[i]));
            visit(kv_head, std::move(lanes[i].both), paid);
            lanes[i].cache.reset();
        }
    }
    return {};
}

Result<PaidToBoth> ColdScorer::observe(const AskedQueries & queries, int kv_head, Scratch & scratch) const {
    LaneOfBoth & both = scratch.both;
    Observed seen;
    const std::vector<float> rows = queries_of_lane(queries, kv_head);
    PITH_RETURN_IF_ERROR(observe_queries(session_.forward->observer(), *scratch.cache, 0, 0, rows.data(), queries.positions,
                                         {.column_sum = true}, seen));
    PaidToBoth paid;
    both.paid.assign(both.cut_at(queries.end_of_context), 0.0F);
    for (int g = 0; g < scratch.cache->layout().shape.n_group; ++g) {
        const auto sum = seen.column_sum.row(g);
        for (size_t i = 0; i < both.paid.size(); ++i) {
            both.paid[i] += sum[i];
            (both.is_cold[i] != 0 ? paid.cold : paid.kept) += double{sum[i]};
        }
    }
    return paid;
}

}  // namespace pith
