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
    struct Placed {
        Lane lane;
        const ggml_tensor * memory;
        int64_t room;
        int64_t cell;
    };
    std::vector<Placed> all;
    for (const ObserveTask * task : tasks) {
        cache_ = task->cache;
        for (const LaneBucket & bucket : task->cache->buckets(layer)) {
            for (const int lane : bucket.lanes) {  // a sequence has a cache of its own: a lane is a KV head
                all.push_back({{task, lane}, task->cache->k(layer), bucket.room, task->cache->cell(task->seq, layer, lane, 0)});
            }
        }
    }
    std::ranges::sort(all, {}, [](const Placed & one) { return std::tuple(one.memory, one.room, one.cell); });
    const auto follows = [](const Placed & one, const Placed & next) {
        return one.memory == next.memory && one.room == next.room && one.cell + one.room == next.cell &&
               are_alike(*one.lane.task, *next.lane.task);
    };
    for (size_t first = 0; first < all.size();) {
        std::vector<Lane> lanes = {all[first].lane};
        size_t end = first + 1;
        for (; end < all.size() && follows(all[end - 1], all[end]); ++end) { lanes.push_back(all[end].lane); }
        cut(lanes, all[first].room, all[first].cell);
        first = end;
    }
}

// Into pieces whose probabilities take little memory.
void BucketObservation::cut(std::span<const Lane> lanes, int64_t room, int64_t first_cell) {
    const ObserveTask & task = *lanes.front().task;
    const auto n_all = static_cast<int>(task.positions.size());
    const int64_t n_group = cache_->layout().lanes(layer_).n_group;
    // Of sums alone all queries count, of the last one it alone.
    ObserveWants only_last;
    only_last.last = task.wants.last;
    const int begin = task.wants == only_last ? n_all - 1 : 0;
    for (int first = begin; first < n_all; first += kQueriesAtOnce) {
        const int n = std::min(kQueriesAtOnce, n_all - first);
        const auto at_once = static_cast<size_t>(std::max<int64_t>(1, kFloatsAtOnce / (room * n * n_group)));
        for (size_t lane = 0; lane < lanes.size(); lane += at_once) {
            Piece & piece = pieces_.emplace_back();
            const auto some = lanes.subspan(lane, std::min(at_once, lanes.size() - lane));
            piece.lanes.assign(some.begin(), some.end());
            piece.room = room;
            piece.first_cell = first_cell + static_cast<int64_t>(lane) * room;
            piece.n = n;
            piece.newest = first + n == n_all;
            for (Lane & one : piece.lanes) {
                one.first_query = first;
                one.n_visible = n_visible(*one.task, layer_, one.kv_head, static_cast<size_t>(first + n - 1));
            }
        }
    }
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

// f16 [room, n, 1, lanes]: lines of which a copy on the device makes rows, as in bucket_attention.cpp.
ggml_tensor * BucketObservation::mask(GraphBuild & build, const Piece & piece) const {
    const int64_t line = piece.room + piece.n - 1;
    const auto n_lanes = std::ssize(piece.lanes);
    ggml_tensor * lines =
        build.input<ggml_fp16_t>(GGML_TYPE_F16, line, n_lanes, [lanes = piece.lanes, line](std::span<ggml_fp16_t> values) {
            const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
            ggml_fp16_t * row = values.data();
            for (const Lane & lane : lanes) {
                std::fill(row, row + lane.n_visible, ggml_fp16_t{0});
                std::fill(row + lane.n_visible, row + line, hidden);
                row += line;
            }
        });
    return rows_of_lines(build.ctx(), lines, piece.room, piece.n);
}

ggml_tensor * BucketObservation::probabilities(GraphBuild & build, const Piece & piece) const {
    ggml_context * ctx = build.ctx();
    ggml_tensor * flat = piece.lanes.front().task->cache->k(layer_);
    const size_t row = flat->nb[1];
    const size_t lane = row * static_cast<size_t>(piece.room);
    ggml_tensor * keys = ggml_view_4d(ctx, flat, flat->ne[0], piece.room, 1, std::ssize(piece.lanes), row, lane, lane,
                                      row * static_cast<size_t>(piece.first_cell));
    ggml_tensor * scores = ggml_mul_mat(ctx, keys, queries(build, piece));  // [room, n, group, lanes]
    float scale = cache_->layout().attention_scale;
    if (const float cap = cache_->layout().attention_softcap; cap != 0.0F) {
        scores = ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, scores, scale / cap)), cap);
        scale = 1.0F;
    }
    return ggml_soft_max_ext_inplace(ctx, scores, mask(build, piece), scale, 0.0F);
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
                for (size_t j = 0; j < static_cast<size_t>(lane.n_visible); ++j) { to[j] += from[row * room + j]; }
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
