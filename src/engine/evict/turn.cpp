// turn.cpp - every lane's rows of K anew, tile by tile, and the queries that evidence keeps.
#include "engine/evict/turn.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "core/log_once.h"
#include "core/text.h"
#include "engine/settle/session_plan.h"
#include "evidence/lane_tiles.h"
#include "model/layer_graph.h"

namespace pith {
namespace {

constexpr int64_t kLeastRoom = 64;   // a turn must win this part of the trained length
constexpr size_t kTurnNodes = 24;    // of a tile
constexpr size_t kSwappedRows = 64;  // at a time

// Rows [first, first + n) of a lane, each so many places further on, to `to`.
Status turn_tile(LiveSession & session, int layer, int kv_head, int first, std::span<const int32_t> by, uint8_t * to) {
    const RaggedCache & cache = *session.seq.cache;
    const ModelFile & file = *session.file;
    const auto n = static_cast<int>(by.size());
    const int64_t d = cache.layout().lanes(layer).head_dim;
    GraphRunner & runner = session.forward->observer();
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(kTurnNodes + kMadeNodes));
    ggml_context * ctx = build->ctx();
    ggml_tensor * keys = entries_as_made(*build, cache, cache.k(layer), 0, layer, kv_head, first, n);
    ggml_tensor * places = build->input(GGML_TYPE_I32, n, 1, by.data());
    keys = build_turn(ctx, file.hparams(), file.weights(), layer, ggml_reshape_3d(ctx, keys, d, 1, n), places, /*keys=*/true);
    keys = LaneRotation(*build, cache.layout()).keys_into_lane(layer, kv_head, ggml_reshape_2d(ctx, keys, d, n));
    if (keys->type != cache.k(layer)->type) { keys = ggml_cast(ctx, keys, cache.k(layer)->type); }
    build->output(keys, reinterpret_cast<float *>(to));  // bytes as they lie
    return runner.run();
}

// All lanes' keys, in places that end before `end`; nothing: there is no room to put them aside.
Result<std::optional<TurnedKeys>> turned_keys(LiveSession & session, int32_t end) {
    const Sequence & seq = session.seq;
    const RaggedCache & cache = *seq.cache;
    TurnedKeys keys;
    keys.shift = static_cast<int32_t>(seq.n_tokens) - end;
    keys.lengths = seq.lane_lengths();
    size_t bytes = 0;
    size_t of_row = 0;
    for (int layer = 0; layer < session.n_layers(); ++layer) {
        const LaneRows rows = cache.layout().rows(layer);
        for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
            const int n = cache.length(cache.lane(0, layer, h));
            bytes += static_cast<size_t>(n) * rows.bytes_k();
            auto & places = keys.standing.emplace_back(static_cast<size_t>(n));
            std::iota(places.begin(), places.end(), end - n);
        }
        if (cache.n_kv_heads(layer) > 0) { of_row = std::max(of_row, rows.bytes_k()); }
    }
    // In a file: lanes stay within their budget meanwhile. In memory only where there is no room on disk, and no ceiling
    // either.
    auto aside = SpillMemory::make(bytes, Spill::kFile);
    if (!aside.ok() && seq.aside() == Spill::kMemory) { aside = SpillMemory::make(bytes, Spill::kMemory); }
    if (!aside.ok()) { return std::optional<TurnedKeys>(); }
    keys.rows = std::move(*aside);
    keys.scratch.resize(kSwappedRows * of_row);
    uint8_t * to = keys.rows.data();
    for (int layer = 0; layer < session.n_layers(); ++layer) {
        const LaneRows rows = cache.layout().rows(layer);
        const int tile = cache.n_kv_heads(layer) > 0 ? tile_length(rows.head_dim_k) : 1;
        for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
            const int lane = cache.lane(0, layer, h);
            const std::vector<int32_t> before = cache.standing(lane);
            const std::vector<int32_t> & after = keys.standing[static_cast<size_t>(lane)];
            std::vector<int32_t> by(before.size());
            std::ranges::transform(after, before, by.begin(), std::minus<>());
            for (int first = 0; first < std::ssize(by); first += tile) {
                const int n = std::min(tile, static_cast<int>(by.size()) - first);
                const auto of_tile_by =
                    std::span<const int32_t>(by).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
                const bool stands = std::ranges::all_of(of_tile_by, [](int32_t one) { return one == 0; });
                if (stands || !session.file->hparams().layer(layer).rotates) {
                    cache.read(0, layer, h, first, n, to, nullptr);
                } else {
                    PITH_RETURN_IF_ERROR(turn_tile(session, layer, h, first, of_tile_by, to));
                }
                to += static_cast<size_t>(n) * rows.bytes_k();
            }
        }
    }
    PITH_RETURN_IF_ERROR(cache.health());
    return std::optional<TurnedKeys>(std::move(keys));
}

// The evidence, whose queries stand `by` places further on: as the newest of them do.
Result<EvidenceState> turned_evidence(LiveSession & session, int32_t by) {
    const ModelFile & file = *session.file;
    const Hparams & hp = file.hparams();
    GraphRunner & runner = session.forward->observer();
    return session.seq.evidence.with_queries([&](int layer, std::span<float> queries, int n) -> Status {
        if (!hp.layer(layer).rotates) { return {}; }
        const auto width = queries.size() / static_cast<size_t>(n);
        const int tile = tile_length(static_cast<int64_t>(width));
        const std::vector<int32_t> places(static_cast<size_t>(tile), by);
        for (int first = 0; first < n; first += tile) {
            const int m = std::min(tile, n - first);
            float * rows = queries.data() + static_cast<size_t>(first) * width;
            PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(kTurnNodes + kMadeNodes));
            ggml_context * ctx = build->ctx();
            ggml_tensor * x = build->input(GGML_TYPE_F32, static_cast<int64_t>(width), m, static_cast<const float *>(rows));
            x = ggml_reshape_3d(ctx, x, session.shape().head_dim, session.shape().n_heads(), m);
            x = LaneRotation(*build, session.layout).queries_turned_over(layer, x);
            x = build_turn(ctx, hp, file.weights(), layer, x, build->input(GGML_TYPE_I32, m, 1, places.data()), /*keys=*/false);
            x = LaneRotation(*build, session.layout).queries_turned_over(layer, x);
            build->output(x, rows);
            PITH_RETURN_IF_ERROR(runner.run());
        }
        return {};
    });
}

// What the longest lane may hold for a turn to win anything.
int64_t longest_to_turn(const LiveSession & session) {
    const int64_t trained = session.file->hparams().n_ctx_train;
    return trained - std::max<int64_t>(1, trained / kLeastRoom);
}

}  // namespace

std::optional<int64_t> room_before_turn(const LiveSession & session) {
    const Sequence & seq = session.seq;
    if (!seq.evicts() || !can_turn(session)) { return std::nullopt; }
    return session.file->hparams().n_ctx_train - (seq.n_tokens - (seq.cache ? seq.cache->shift() : 0));
}

int64_t most_of_lane(const LiveSession & session) {
    const auto room = room_before_turn(session);
    const RunPlan & plan = *session.seq.plan;
    const int64_t until_next = plan.longest_period();
    if (!room || *room > until_next) { return 0; }
    return std::max<int64_t>(0, longest_to_turn(session) - until_next);
}

Status turn_if_due(LiveSession & session, bool is_last) {
    const auto room = room_before_turn(session);
    if (!room || *room > 0) { return {}; }
    RaggedCache & cache = *session.seq.cache;
    const int32_t end = cache.longest();
    if (end > longest_to_turn(session)) { return {}; }
    const CancelScope not_now(*session.forward, nullptr);  // what was evicted just before may have no way back
    PITH_ASSIGN_OR_RETURN(std::optional<TurnedKeys> keys, turned_keys(session, end));
    if (!keys) {
        log_once(LogLevel::kWarning,
                 "there is no room for a temporary file, so kept keys stay past the length that the model "
                 "was trained on: answers may be poor");
        return {};
    }
    PITH_ASSIGN_OR_RETURN(EvidenceState evidence, turned_evidence(session, cache.shift() - keys->shift));
    log_once(LogLevel::kWarning,
             "a text has passed the " + with_commas(session.file->hparams().n_ctx_train) +
                 " tokens that the model was trained on: what is kept of it stands side by side from here on "
                 "(context shift; said once)");
    PITH_RETURN_IF_ERROR(session.seq.turn(std::move(*keys), std::move(evidence), is_last));
    ++session.ledger.n_context_shifts;
    return {};
}

}  // namespace pith
