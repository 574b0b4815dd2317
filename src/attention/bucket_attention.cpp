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

// f16 [room, n, 1, lanes], or of one lane for all where they are as long.
ggml_tensor * bucket_mask(GraphBuild & build, const RaggedCache & cache, int layer, const LaneBucket & bucket, int64_t n) {
    const auto length = [&cache, layer](int lane) { return cache.length(cache.lane(0, layer, lane)); };
    const bool alike =
        n > 1 && std::ranges::all_of(bucket.lanes, [&](int lane) { return length(lane) == length(bucket.lanes[0]); });
    const std::vector<int> lanes(bucket.lanes.begin(), alike ? bucket.lanes.begin() + 1 : bucket.lanes.end());
    const int64_t room = bucket.room;
    const auto n_lanes = static_cast<int64_t>(lanes.size());
    ggml_tensor * mask =
        build.input<ggml_fp16_t>(GGML_TYPE_F16, room, n * n_lanes, [length, lanes, room, n](std::span<ggml_fp16_t> values) {
            const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
            ggml_fp16_t * row = values.data();
            for (const int lane : lanes) {
                for (int64_t t = 0; t < n; ++t, row += room) {
                    const int64_t visible = length(lane) - n + t + 1;
                    std::fill(row, row + visible, ggml_fp16_t{0});
                    std::fill(row + visible, row + room, hidden);
                }
            }
        });
    return ggml_reshape_4d(build.ctx(), mask, room, n, 1, n_lanes);
}

// A bucket's lanes: [width, room, 1, lanes].
ggml_tensor * bucket_rows(ggml_context * ctx, ggml_tensor * flat, const LaneBucket & bucket) {
    const size_t row = flat->nb[1];
    const size_t lane = row * static_cast<size_t>(bucket.room);
    return ggml_view_4d(ctx, flat, flat->ne[0], bucket.room, 1, static_cast<int64_t>(bucket.lanes.size()), row, lane, lane,
                        row * static_cast<size_t>(bucket.first_cell));
}

}  // namespace

size_t bucket_attention_nodes(int n_kv_heads) {
    return 16 + 16 * static_cast<size_t>(n_kv_heads);  // every lane a bucket
}

ggml_tensor * attend_in_buckets(GraphBuild & build, const RaggedCache & cache, int layer, ggml_tensor * q) {
    ggml_context * ctx = build.ctx();
    const LayerLanes lanes = cache.layout().lanes(layer);
    const int64_t n = q->ne[2];
    const int64_t n_kv = lanes.n_kv_heads;
    const int64_t width = q->ne[0] * lanes.n_group;  // of a lane's queries
    ggml_tensor * flat = ggml_reshape_2d(ctx, ggml_is_contiguous(q) ? q : ggml_cont(ctx, q), width, n_kv * n);  // row t·K + h

    std::vector<int> order;  // of the lanes, bucket by bucket
    for (const LaneBucket & bucket : cache.buckets(layer)) {
        order.insert(order.end(), bucket.lanes.begin(), bucket.lanes.end());
    }
    const bool as_they_are = n == 1 && std::ranges::is_sorted(order);
    if (!as_they_are) {
        std::vector<int32_t> rows;  // row i·n + t is the token t of the i-th lane
        for (const int lane : order) {
            for (int64_t t = 0; t < n; ++t) { rows.push_back(static_cast<int32_t>(t * n_kv + lane)); }
        }
        flat = reordered(build, flat, std::move(rows));
    }
    ggml_tensor * out = nullptr;  // [dv·group, n, lanes]
    int64_t first = 0;
    for (const LaneBucket & bucket : cache.buckets(layer)) {
        const auto n_lanes = static_cast<int64_t>(bucket.lanes.size());
        const auto at = static_cast<size_t>(first * n);
        ggml_tensor * queries =
            ggml_view_4d(ctx, flat, q->ne[0], lanes.n_group, n, n_lanes, static_cast<size_t>(q->ne[0]) * sizeof(float),
                         flat->nb[1], flat->nb[1] * static_cast<size_t>(n), flat->nb[1] * at);
        queries = ggml_permute(ctx, queries, 0, 2, 1, 3);  // [d, n, group, lanes]
        ggml_tensor * some = ggml_flash_attn_ext(
            ctx, queries, bucket_rows(ctx, cache.k(layer), bucket), bucket_rows(ctx, cache.v(layer), bucket),
            bucket_mask(build, cache, layer, bucket, n), cache.layout().attention_scale, 0.0F,
            cache.layout().attention_softcap);  // [dv, group, n, lanes]
        some = ggml_reshape_3d(ctx, some, some->ne[0] * lanes.n_group, n, n_lanes);
        out = out == nullptr ? some : ggml_concat(ctx, out, some, 2);
        first += n_lanes;
    }
    const int64_t dv = out->ne[0] / lanes.n_group;
    out = ggml_reshape_2d(ctx, out, out->ne[0], n * n_kv);
    if (!as_they_are) {
        std::vector<int32_t> rows(static_cast<size_t>(n * n_kv));  // back to row t·K + h
        for (size_t i = 0; i < order.size(); ++i) {
            for (int64_t t = 0; t < n; ++t) {
                rows[static_cast<size_t>(t * n_kv + order[i])] = static_cast<int32_t>(static_cast<int64_t>(i) * n + t);
            }
        }
        out = reordered(build, out, std::move(rows));
    }
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
    for (const int64_t n : {int64_t{1}, int64_t{32}}) {
        ggml_tensor * queries = ggml_permute(ctx, tensor(GGML_TYPE_F32, {rows.head_dim_k, lanes.n_group, n, n_kv}), 0, 2, 1, 3);
        const ggml_tensor * attention = ggml_flash_attn_ext(
            ctx, queries, tensor(rows.type_k, {rows.head_dim_k, kRoom, 1, n_kv}),
            tensor(rows.type_v, {rows.head_dim_v, kRoom, 1, n_kv}), tensor(GGML_TYPE_F16, {kRoom, n, 1, n_kv}),
            layout.attention_scale, 0.0F, layout.attention_softcap);
        if (refuses(attention)) {
            return without("flash attention over " + std::string(ggml_type_name(rows.type_k)) + " keys and " +
                           ggml_type_name(rows.type_v) + " values of heads of " + std::to_string(rows.head_dim_k));
        }
    }
    return {};
}

}  // namespace pith
