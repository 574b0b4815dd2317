// bucket_observe.cpp - one product, one softmax and one sum for many lanes.
#include "evidence/bucket_observe.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "attention/bucket_attention.h"
#include "evidence/column_sums.h"

namespace pith {
namespace {

constexpr int kQueriesAtOnce = 64;
constexpr int64_t kFloatsAtOnce = int64_t{1} << 22U;  // of probabilities: a few times 16 MiB of scratch
constexpr size_t kNodesOfAPiece = 48;                 // beside one for each head of a group

int n_visible(const ObserveTask & task, int layer, int kv_head, size_t query) {
    const auto positions = task.cache->positions(task.cache->lane(task.seq, layer, kv_head));
    return static_cast<int>(std::ranges::upper_bound(positions, task.positions[query]) - positions.begin());
}

bool are_alike(const ObserveTask & a, const ObserveTask & b) {
    return a.wants == b.wants && a.positions.size() == b.positions.size();
}

}  // namespace

bool BucketObservation::serves(const ObserveTask & task, int layer) {
    const ObserveWants & wants = task.wants;
    if (!task.cache->in_buckets(layer) || task.hidden != nullptr || !task.cache->layout().sinks_of(layer).empty()) {
        return false;
    }
    if (wants.column_max || wants.entropy || wants.profile || wants.rows) { return false; }
    const auto n = static_cast<int>(task.positions.size());
    for (int h = 0; h < task.cache->n_kv_heads(layer); ++h) {
        const int newest = n_visible(task, layer, h, task.positions.size() - 1);
        if (newest < n) { return false; }
        for (int i = 0; i < n; ++i) {
            if (n_visible(task, layer, h, static_cast<size_t>(i)) != newest - (n - 1 - i)) { return false; }
        }
    }
    return true;
}

BucketObservation::BucketObservation(std::span<const ObserveTask * const> tasks, int layer) : layer_(layer) {
    std::vector<Room> all;
    for (const ObserveTask * task : tasks) {
        cache_ = task->cache;
        for (const LaneBucket & bucket : task->cache->buckets(layer)) {
            int64_t cell = bucket.first_cell;
            for (const int lane : bucket.lanes) {  // a sequence has a cache of its own: a lane is a KV head
                Lane one{.task = task, .kv_head = lane, .pieces = task->cache->pieces(task->seq, layer, lane)};
                all.push_back({{one}, task->cache->k(layer), bucket.room, cell});
                cell += bucket.room;
            }
        }
    }
    std::ranges::stable_sort(all, {}, [](const Room & one) { return std::tuple(one.memory, one.room, one.cell); });
    std::vector<Room> rooms;
    for (Room & one : all) {
        const bool in_last = !rooms.empty() && rooms.back().memory == one.memory && rooms.back().cell == one.cell &&
                             are_alike(*rooms.back().lanes.front().task, *one.lanes.front().task);
        if (in_last) {
            rooms.back().lanes.push_back(one.lanes.front());
        } else {
            rooms.push_back(std::move(one));
        }
    }
    for (size_t first = 0; first < rooms.size();) {
        size_t end = first + 1;
        while (end < rooms.size() && follows(rooms[end - 1], rooms[end])) { ++end; }
        cut(std::span(rooms).subspan(first, end - first));
        first = end;
    }
}

// Rooms side by side, whose lanes are of the same sequences where they are of several.
bool BucketObservation::follows(const Room & one, const Room & next) {
    const bool side_by_side = one.memory == next.memory && one.room == next.room && one.cell + one.room == next.cell;
    if (!side_by_side || one.lanes.size() != next.lanes.size()) { return false; }
    if (one.lanes.size() == 1) { return are_alike(*one.lanes.front().task, *next.lanes.front().task); }
    return std::ranges::equal(one.lanes, next.lanes, {}, &Lane::task, &Lane::task);
}

// Into pieces whose probabilities take little memory.
void BucketObservation::cut(std::span<const Room> rooms) {
    const Room & first_room = rooms.front();
    const ObserveTask & task = *first_room.lanes.front().task;
    const auto n_all = static_cast<int>(task.positions.size());
    const int64_t n_group = cache_->layout().lanes(layer_).n_group;
    const size_t n_sequences = first_room.lanes.size();
    // Of sums alone all queries count, of the last one it alone.
    ObserveWants only_last;
    only_last.last = task.wants.last;
    const int begin = task.wants == only_last ? n_all - 1 : 0;
    for (int first = begin; first < n_all; first += kQueriesAtOnce) {
        const int n = std::min(kQueriesAtOnce, n_all - first);
        const auto at_once = static_cast<size_t>(std::max<int64_t>(1, kFloatsAtOnce / (first_room.room * n * n_group)));
        const size_t n_keys = n_sequences == 1 ? at_once : std::clamp<size_t>(at_once / n_sequences, 1, rooms.size());
        for (size_t room = 0; room < rooms.size(); room += n_keys) {
            const std::span<const Room> some = rooms.subspan(room, std::min(n_keys, rooms.size() - room));
            const size_t sequences_at_once = std::max<size_t>(1, at_once / some.size());
            for (size_t sequence = 0; sequence < n_sequences; sequence += sequences_at_once) {
                std::vector<Lane> lanes;
                for (size_t i = sequence; i < std::min(n_sequences, sequence + sequences_at_once); ++i) {
                    for (const Room & one : some) { lanes.push_back(one.lanes[i]); }
                }
                add_piece(lanes, some.size(), some.front(), first, n);
            }
        }
    }
}

void BucketObservation::add_piece(std::span<const Lane> lanes, size_t n_keys, const Room & first, int first_query, int n) {
    Piece & piece = pieces_.emplace_back();
    piece.lanes.assign(lanes.begin(), lanes.end());
    piece.n_keys = static_cast<int64_t>(n_keys);
    piece.room = first.room;
    piece.first_cell = first.cell;
    piece.n = n;
    piece.newest = first_query + n == static_cast<int>(lanes.front().task->positions.size());
    for (Lane & one : piece.lanes) {
        one.first_query = first_query;
        one.n_visible = n_visible(*one.task, layer_, one.kv_head, static_cast<size_t>(first_query + n - 1));
        piece.mask = std::max(piece.mask, mask_of(one, n));
    }
}

BucketObservation::Mask BucketObservation::mask_of(const Lane & lane, int n) {
    const LanePieces & pieces = lane.pieces;
    if (pieces.is_one() || (pieces.rows.empty() && lane.n_visible <= pieces.n)) { return Mask::kLines; }
    return lane.n_visible - n + 1 >= pieces.n ? Mask::kTwoLines : Mask::kRows;
}

size_t BucketObservation::n_nodes() const {
    if (pieces_.empty()) { return 0; }
    return pieces_.size() * (kNodesOfAPiece + 2 * static_cast<size_t>(cache_->layout().shape.n_group));
}

// [d, n, group, lanes], the newest first, as masks have them.
ggml_tensor * BucketObservation::queries(GraphBuild & build, const Piece & piece) const {
    const LayerLanes of_layer = cache_->layout().lanes(layer_);
    const int64_t n_group = of_layer.n_group;
    const auto d = static_cast<size_t>(of_layer.head_dim);
    const size_t of_token = d * static_cast<size_t>(of_layer.n_kv_heads * n_group);
    const auto n_lanes = std::ssize(piece.lanes);
    ggml_tensor * q = build.input<float>(
        GGML_TYPE_F32, of_layer.head_dim, piece.n * n_group * n_lanes,
        [lanes = piece.lanes, n = piece.n, n_group, d, of_token](std::span<float> values) {
            float * to = values.data();
            for (const Lane & lane : lanes) {
                for (int64_t g = 0; g < n_group; ++g) {
                    for (int i = n - 1; i >= 0; --i, to += d) {
                        const auto head = static_cast<size_t>(lane.kv_head * n_group + g);
                        std::copy_n(lane.task->queries + static_cast<size_t>(lane.first_query + i) * of_token + head * d, d,
                                    to);
                    }
                }
            }
        });
    return ggml_reshape_4d(build.ctx(), q, of_layer.head_dim, piece.n, n_group, n_lanes);
}

// f16 [room, n, 1, lanes]: of lines a copy on the device makes rows, as in bucket_attention.cpp.
ggml_tensor * BucketObservation::mask(GraphBuild & build, const Piece & piece) const {
    const auto n_lanes = std::ssize(piece.lanes);
    const auto hidden = [] { return ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity()); };
    // n_rows lines for each lane, in which its first entries are seen, one less in each than in the one before.
    const auto rows = [&](int64_t n_rows) {
        return build.input<ggml_fp16_t>(
            GGML_TYPE_F16, piece.room, n_rows * n_lanes,
            [lanes = piece.lanes, room = piece.room, n_rows, hidden](std::span<ggml_fp16_t> values) {
                std::ranges::fill(values, hidden());
                ggml_fp16_t * row = values.data();
                for (const Lane & lane : lanes) {
                    for (int64_t i = 0; i < n_rows; ++i, row += room) { show_entries(lane.pieces, lane.n_visible - i, row); }
                }
            });
    };
    if (piece.mask == Mask::kRows) { return ggml_reshape_4d(build.ctx(), rows(piece.n), piece.room, piece.n, 1, n_lanes); }
    const int64_t line = piece.room + piece.n - 1;
    ggml_tensor * lines = build.input<ggml_fp16_t>(GGML_TYPE_F16, line, n_lanes,
                                                   [lanes = piece.lanes, line, hidden](std::span<ggml_fp16_t> values) {
                                                       ggml_fp16_t * row = values.data();
                                                       for (const Lane & lane : lanes) {
                                                           std::fill(row, row + lane.n_cells(), ggml_fp16_t{0});
                                                           std::fill(row + lane.n_cells(), row + line, hidden());
                                                           row += line;
                                                       }
                                                   });
    ggml_tensor * all = rows_of_lines(build.ctx(), lines, piece.room, piece.n);
    if (piece.mask == Mask::kLines) { return all; }
    return ggml_add(build.ctx(), all, ggml_reshape_4d(build.ctx(), rows(1), piece.room, 1, 1, n_lanes));
}

// [room, n, group, lanes].
ggml_tensor * BucketObservation::probabilities(GraphBuild & build, const Piece & piece) const {
    ggml_context * ctx = build.ctx();
    ggml_tensor * flat = piece.lanes.front().task->cache->k(layer_);
    const size_t row = flat->nb[1];
    const size_t lane = row * static_cast<size_t>(piece.room);
    const auto n_lanes = std::ssize(piece.lanes);
    const bool same_keys = piece.n_keys < n_lanes;  // for several sequences
    ggml_tensor * q = queries(build, piece);
    const int64_t n_group = q->ne[2];
    if (same_keys) { q = ggml_reshape_4d(ctx, q, q->ne[0], piece.n, n_group * piece.n_keys, n_lanes / piece.n_keys); }
    ggml_tensor * keys = ggml_view_4d(ctx, flat, flat->ne[0], piece.room, same_keys ? piece.n_keys : 1, same_keys ? 1 : n_lanes,
                                      row, lane, lane, row * static_cast<size_t>(piece.first_cell));
    ggml_tensor * scores = ggml_mul_mat(ctx, keys, q);
    if (same_keys) { scores = ggml_reshape_4d(ctx, scores, piece.room, piece.n, n_group, n_lanes); }
    float scale = cache_->layout().attention_scale;
    if (const float cap = cache_->layout().attention_softcap; cap != 0.0F) {
        scores = ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, scores, scale / cap)), cap);
        scale = 1.0F;
    }
    // Not in place: where a device refuses it, the CPU would write to the device's memory. (Memory is used again all the same.)
    return ggml_soft_max_ext(ctx, scores, mask(build, piece), scale, 0.0F);
}

void BucketObservation::add(GraphBuild & build) {
    if (pieces_.empty()) { return; }
    ggml_context * ctx = build.ctx();
    const int64_t n_group = cache_->layout().lanes(layer_).n_group;
    for (Piece & piece : pieces_) {
        const ObserveWants & wants = piece.lanes.front().task->wants;
        ggml_tensor * p = probabilities(build, piece);
        const auto n_lanes = std::ssize(piece.lanes);
        const auto size = static_cast<size_t>(piece.room * n_lanes);
        const auto read = [&](ggml_tensor * tensor, size_t n, std::vector<float> & to) {
            to.resize(n);
            build.output(tensor, to.data());
        };
        const auto of_all = size * static_cast<size_t>(n_group);
        if (wants.column_sum) { read(sum_over_queries(ctx, p), of_all, piece.sums); }
        if (wants.head_sq) { read(sum_over_queries(ctx, ggml_mul(ctx, p, p)), of_all, piece.head_squares); }
        if (wants.group_sq) {
            ggml_tensor * mean = nullptr;
            for (int64_t g = 0; g < n_group; ++g) {
                ggml_tensor * one = ggml_view_4d(ctx, p, piece.room, piece.n, 1, n_lanes, p->nb[1], p->nb[2], p->nb[3],
                                                 p->nb[2] * static_cast<size_t>(g));
                mean = mean == nullptr ? one : ggml_add(ctx, mean, one);
            }
            mean = ggml_scale(ctx, mean, 1.0F / static_cast<float>(n_group));
            read(sum_over_queries(ctx, ggml_mul(ctx, mean, mean)), size, piece.squares);
        }
        if (wants.last && piece.newest) {  // the first row
            ggml_tensor * rows = ggml_view_4d(ctx, p, piece.room, 1, n_group, n_lanes, p->nb[1], p->nb[2], p->nb[3], 0);
            read(ggml_cont(ctx, rows), of_all, piece.last_row);
        }
    }
}

void BucketObservation::accumulate() {
    if (pieces_.empty()) { return; }
    const auto n_group = static_cast<size_t>(cache_->layout().lanes(layer_).n_group);
    for (const Piece & piece : pieces_) {
        const auto room = static_cast<size_t>(piece.room);
        for (size_t i = 0; i < piece.lanes.size(); ++i) {
            const Lane & lane = piece.lanes[i];
            Observed & out = *lane.task->out;
            const auto add = [&](const std::vector<float> & from, size_t row, std::span<float> to) {
                for (size_t j = 0; j < static_cast<size_t>(lane.n_visible); ++j) {
                    to[j] += from[row * room + static_cast<size_t>(lane.pieces.cell(static_cast<int64_t>(j)))];
                }
            };
            for (size_t g = 0; g < n_group; ++g) {
                const int head = lane.kv_head * static_cast<int>(n_group) + static_cast<int>(g);
                const size_t row = i * n_group + g;
                if (!piece.sums.empty()) { add(piece.sums, row, out.column_sum.row(head)); }
                if (!piece.head_squares.empty()) { add(piece.head_squares, row, out.head_sq.row(head)); }
                if (!piece.last_row.empty()) { add(piece.last_row, row, out.last.row(head)); }
            }
            if (!piece.squares.empty()) { add(piece.squares, i, out.group_sq.row(lane.kv_head)); }
        }
    }
}

}  // namespace pith
