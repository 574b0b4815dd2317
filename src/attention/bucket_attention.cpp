// bucket_attention.cpp - queries in the order of the buckets' lanes, a flash attention each, and their results back in order.
#include "attention/bucket_attention.h"

#include <ggml-backend.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/bucket_lanes.h"

namespace pith {
namespace {

// Rows of x [w, n_rows], in another order: row i is row order[i].
ggml_tensor * reordered(GraphBuild & build, ggml_tensor * x, std::vector<int32_t> order) {
    const auto n = static_cast<int64_t>(order.size());
    ggml_tensor * indices = build.input<int32_t>(
        GGML_TYPE_I32, n, 1, [order = std::move(order)](std::span<int32_t> to) { std::ranges::copy(order, to.begin()); });
    return ggml_get_rows(build.ctx(), x, indices);
}

// Cells of each of a bucket's lanes that n queries see. A graph of one query serves while the lanes grow, a prompt's chunk is
// one of many in front of which room for all of them was made.
int64_t seen_cells(const RaggedCache & cache, int layer, const LaneBucket & bucket, int64_t n) {
    if (n == 1) { return bucket.room; }
    int longest = 0;
    for (const int lane : bucket.lanes) { longest = std::max(longest, cache.length(cache.lane(0, layer, lane))); }
    return std::min(bucket.room, BucketLanes::room_for(longest));
}

// f16 [seen, n, 1, lanes]; [seen, n] of one lane for all where they share it. From the newest query to the oldest: each sees
// an entry less than the one before, so that all rows lie in one line of entries seen, then entries hidden, each row an
// element further on. That line is sent, and a copy on the device makes rows of it: n times fewer bytes.
ggml_tensor * bucket_mask(GraphBuild & build, const RaggedCache & cache, int layer, const LaneBucket & bucket, int64_t seen,
                          int64_t n, bool shared) {
    const auto length = [&cache, layer](int lane) { return cache.length(cache.lane(0, layer, lane)); };
    const std::vector<int> lanes(bucket.lanes.begin(), shared ? bucket.lanes.begin() + 1 : bucket.lanes.end());
    const int64_t line = seen + n - 1;
    const auto n_lanes = static_cast<int64_t>(lanes.size());
    if (seen < bucket.room) {  // this one may lie in a gap that the last does not fit into: all of that is growth
        const size_t of_lines = static_cast<size_t>(bucket.room * n_lanes) * sizeof(ggml_fp16_t);
        build.expect_growth(of_lines * static_cast<size_t>(n + 1), of_lines);
    }
    ggml_tensor * lines =
        build.input<ggml_fp16_t>(GGML_TYPE_F16, line, n_lanes, [length, lanes, line](std::span<ggml_fp16_t> values) {
            const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
            ggml_fp16_t * row = values.data();
            for (const int lane : lanes) {
                std::fill(row, row + length(lane), ggml_fp16_t{0});
                std::fill(row + length(lane), row + line, hidden);
                row += line;
            }
        });
    if (n == 1) { return ggml_reshape_4d(build.ctx(), lines, seen, 1, 1, n_lanes); }
    lines = ggml_cont(build.ctx(), lines);  // there: what overlaps cannot cross
    const size_t bytes = lines->nb[1];
    ggml_tensor * rows = ggml_view_4d(build.ctx(), lines, seen, 1, 1, n_lanes, lines->nb[0], bytes, bytes, 0);
    rows->ne[1] = n;  // ggml_view_4d() refuses rows that overlap; operations read them as they do any others
    return ggml_cont(build.ctx(), rows);
}

// A bucket's lanes, as KV heads of one sequence or as sequences of one KV head: [width, seen, lanes] or [width, seen, 1,
// lanes].
ggml_tensor * bucket_rows(ggml_context * ctx, ggml_tensor * flat, const LaneBucket & bucket, int64_t seen, bool shared) {
    const size_t row = flat->nb[1];
    const size_t lane = row * static_cast<size_t>(bucket.room);
    const size_t first = row * static_cast<size_t>(bucket.first_cell);
    const auto n_lanes = static_cast<int64_t>(bucket.lanes.size());
    if (shared) { return ggml_view_3d(ctx, flat, flat->ne[0], seen, n_lanes, row, lane, first); }
    return ggml_view_4d(ctx, flat, flat->ne[0], seen, 1, n_lanes, row, lane, lane, first);
}

// Where a bucket's queries are among all of them, row t·K + h being those of token t and lane h: token by token where lanes
// share a mask, or else lane by lane; the newest first, as masks have them.
void add_rows(const LaneBucket & bucket, bool shared, int64_t n, int64_t n_kv, std::vector<int32_t> & rows) {
    const auto row = [n_kv](int64_t t, int lane) { return static_cast<int32_t>(t * n_kv + lane); };
    for (int64_t t = n - 1; shared && t >= 0; --t) {
        for (const int lane : bucket.lanes) { rows.push_back(row(t, lane)); }
    }
    if (shared) { return; }
    for (const int lane : bucket.lanes) {
        for (int64_t t = n - 1; t >= 0; --t) { rows.push_back(row(t, lane)); }
    }
}

// Row i of the inverse says where row i of all went.
std::vector<int32_t> inverse_of(const std::vector<int32_t> & rows) {
    std::vector<int32_t> inverse(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) { inverse[static_cast<size_t>(rows[i])] = static_cast<int32_t>(i); }
    return inverse;
}

}  // namespace

bool shares_mask(const RaggedCache & cache, int layer, const LaneBucket & bucket) {
    const auto length = [&](int lane) { return cache.length(cache.lane(0, layer, lane)); };
    return std::ranges::all_of(bucket.lanes, [&](int lane) { return length(lane) == length(bucket.lanes.front()); });
}

size_t bucket_attention_nodes(int n_kv_heads) {
    return 16 + 16 * static_cast<size_t>(n_kv_heads);  // every lane a bucket
}

ggml_tensor * attend_in_buckets(GraphBuild & build, const RaggedCache & cache, int layer, ggml_tensor * q) {
    ggml_context * ctx = build.ctx();
    const LayerLanes lanes = cache.layout().lanes(layer);
    const int64_t n = q->ne[2];
    const int64_t n_kv = lanes.n_kv_heads;
    const int64_t width = q->ne[0] * lanes.n_group;  // of a lane's queries
    const auto d = static_cast<size_t>(q->ne[0]) * sizeof(float);
    ggml_tensor * flat = ggml_reshape_2d(ctx, ggml_is_contiguous(q) ? q : ggml_cont(ctx, q), width, n_kv * n);

    std::vector<int32_t> rows;
    for (const LaneBucket & bucket : cache.buckets(layer)) {
        add_rows(bucket, shares_mask(cache, layer, bucket), n, n_kv, rows);
    }
    const bool as_they_are = std::ranges::is_sorted(rows);
    if (!as_they_are) { flat = reordered(build, flat, rows); }
    ggml_tensor * out = nullptr;  // [dv·group, rows]
    size_t at = 0;
    for (const LaneBucket & bucket : cache.buckets(layer)) {
        const auto n_lanes = static_cast<int64_t>(bucket.lanes.size());
        const bool shared = shares_mask(cache, layer, bucket);
        const int64_t seen = seen_cells(cache, layer, bucket, n);
        const size_t lane = flat->nb[1];
        ggml_tensor * queries =
            shared ? ggml_view_3d(ctx, flat, q->ne[0], lanes.n_group * n_lanes, n, d, lane * static_cast<size_t>(n_lanes), at)
                   : ggml_view_4d(ctx, flat, q->ne[0], lanes.n_group, n, n_lanes, d, lane, lane * static_cast<size_t>(n), at);
        queries = ggml_permute(ctx, queries, 0, 2, 1, 3);  // [d, n, group·lanes] or [d, n, group, lanes]
        ggml_tensor * some =
            ggml_flash_attn_ext(ctx, queries, bucket_rows(ctx, cache.k(layer), bucket, seen, shared),
                                bucket_rows(ctx, cache.v(layer), bucket, seen, shared),
                                bucket_mask(build, cache, layer, bucket, seen, n, shared), cache.layout().attention_scale, 0.0F,
                                cache.layout().attention_softcap);  // [dv, group·lanes, n] or [dv, group, n, lanes]
        some = ggml_reshape_2d(ctx, some, some->ne[0] * lanes.n_group, n * n_lanes);
        out = out == nullptr ? some : ggml_concat(ctx, out, some, 1);
        at += lane * static_cast<size_t>(n * n_lanes);
    }
    const int64_t dv = out->ne[0] / lanes.n_group;
    if (!as_they_are) { out = reordered(build, out, inverse_of(rows)); }
    return ggml_reshape_3d(ctx, out, dv, n_kv * lanes.n_group, n);
}

Status can_attend_in_buckets(const LaneDevice & device, const CacheLayout & layout, int layer) {
    const LayerLanes lanes = layout.lanes(layer);
    const LaneRows rows = layout.rows(layer);
    if (layout.window(layer) > 0) { return {ErrorCode::kUnsupported, "they see a window"}; }
    if (!layout.sinks_of(layer).empty()) { return {ErrorCode::kUnsupported, "their attention has sinks"}; }
    PITH_RETURN_IF_ERROR(BucketLanes::check(rows));

    // The operations as they will be asked for, of a token and of several, whether or not there is memory for them.
    constexpr int64_t kRoom = BucketLanes::kStep;
    constexpr size_t kTensors = 64;
    const std::unique_ptr<ggml_context, void (*)(ggml_context *)> context(
        ggml_init({kTensors * ggml_tensor_overhead(), nullptr, true}), ggml_free);
    if (!context) { return {ErrorCode::kOutOfMemory, "no memory to describe operations in"}; }
    ggml_context * ctx = context.get();
    const auto tensor = [ctx](ggml_type type, std::array<int64_t, 4> n) {
        return ggml_new_tensor_4d(ctx, type, n[0], n[1], n[2], n[3]);
    };
    const int64_t n_kv = lanes.n_kv_heads;
    const auto refuses = [&](const ggml_tensor * op) { return !ggml_backend_dev_supports_op(device.handle(), op); };
    const auto without = [](const std::string & what) {
        return Status(ErrorCode::kUnsupported, "its back end has no " + what);
    };
    for (const bool keys : {true, false}) {
        const ggml_type type = keys ? rows.type_k : rows.type_v;
        const int64_t d = keys ? rows.head_dim_k : rows.head_dim_v;
        ggml_tensor * flat = tensor(type, {d, kRoom * n_kv, 1, 1});
        const std::string of_type = std::string(" of ") + ggml_type_name(type) + (keys ? " keys" : " values");
        if (refuses(ggml_set_rows(ctx, flat, tensor(GGML_TYPE_F32, {d, n_kv, 1, 1}), tensor(GGML_TYPE_I64, {n_kv, 1, 1, 1})))) {
            return without("set_rows" + of_type);
        }
        const auto words = static_cast<int64_t>((keys ? rows.bytes_k() : rows.bytes_v()) / sizeof(int32_t));
        if (refuses(ggml_get_rows(ctx, tensor(GGML_TYPE_I32, {words, kRoom, 1, 1}), tensor(GGML_TYPE_I32, {n_kv, 1, 1, 1})))) {
            return without("get_rows of bytes");
        }
    }
    if (refuses(ggml_cont(ctx, tensor(GGML_TYPE_F16, {kRoom, 1, 1, 1})))) { return without("copies of masks"); }
    for (const int64_t n : {int64_t{1}, int64_t{32}}) {
        for (const bool shared : {true, false}) {
            const int64_t heads = shared ? n_kv : 1;  // and lanes in dimension 3
            const int64_t n_lanes = n_kv / heads;
            ggml_tensor * queries =
                ggml_permute(ctx, tensor(GGML_TYPE_F32, {rows.head_dim_k, lanes.n_group * heads, n, n_lanes}), 0, 2, 1, 3);
            const ggml_tensor * attention = ggml_flash_attn_ext(
                ctx, queries, tensor(rows.type_k, {rows.head_dim_k, kRoom, heads, n_lanes}),
                tensor(rows.type_v, {rows.head_dim_v, kRoom, heads, n_lanes}), tensor(GGML_TYPE_F16, {kRoom, n, 1, n_lanes}),
                layout.attention_scale, 0.0F, layout.attention_softcap);
            if (refuses(attention)) {
                return without("flash attention over " + std::string(ggml_type_name(rows.type_k)) + " keys and " +
                               ggml_type_name(rows.type_v) + " values of heads of " + std::to_string(rows.head_dim_k));
            }
        }
    }
    return {};
}

}  // namespace pith
