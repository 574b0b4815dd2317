// bucket_attention.cpp - queries in the order of the buckets' lanes, a flash attention each, and their results back in order.
#include "attention/bucket_attention.h"

#include <ggml-backend.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
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

// Lanes that a sequence's queries attend to under one mask: a bucket's, as KV heads, or one of it. Of several sequences where
// their lanes share these rooms: their queries are rows of one attention then, each under a row of the mask.
struct HeadLanes {
    struct Of {
        const RaggedCache * cache;
        size_t part;
    };
    std::vector<Of> sequences;
    int64_t room = 0;
    int64_t first_cell = 0;  // the others' follow at the distance of the room
    std::span<const int> lanes;

    int64_t n() const { return std::ssize(lanes); }
    const RaggedCache & cache() const { return *sequences.front().cache; }
    const ggml_tensor * memory(int layer) const { return cache().k(layer); }
};

// Of one flash attention: they follow each other at the same distance, in dimension 3.
using Group = std::vector<HeadLanes>;

int64_t distance(const HeadLanes & from, const HeadLanes & to) {
    return to.first_cell - from.first_cell;
}

bool continues(const Group & group, const HeadLanes & next, int layer) {
    const HeadLanes & last = group.back();
    if (last.memory(layer) != next.memory(layer) || last.room != next.room || last.n() != next.n() ||
        last.sequences.size() != next.sequences.size()) {
        return false;
    }
    return group.size() == 1 || distance(last, next) == distance(group[0], group[1]);
}

std::vector<Group> groups_of(std::span<const LanePart> parts, int layer) {
    std::vector<HeadLanes> all;
    std::vector<const ggml_tensor *> memories;  // in the parts' order
    for (size_t i = 0; i < parts.size(); ++i) {
        const RaggedCache & cache = *parts[i].cache;
        if (std::ranges::find(memories, cache.k(layer)) == memories.end()) { memories.push_back(cache.k(layer)); }
        for (const LaneBucket & bucket : cache.buckets(layer)) {
            const std::span<const int> lanes = bucket.lanes;
            if (shares_mask(cache, layer, bucket)) {
                all.push_back({{{&cache, i}}, bucket.room, bucket.first_cell, lanes});
                continue;
            }
            for (size_t l = 0; l < lanes.size(); ++l) {
                const int64_t first_cell = bucket.first_cell + static_cast<int64_t>(l) * bucket.room;
                all.push_back({{{&cache, i}}, bucket.room, first_cell, lanes.subspan(l, 1)});
            }
        }
    }
    std::ranges::stable_sort(all, {}, [&](const HeadLanes & one) {
        const auto memory = std::ranges::find(memories, one.memory(layer)) - memories.begin();
        return std::tuple(memory, one.room, one.n(), one.first_cell);
    });
    std::vector<HeadLanes> rooms;
    for (HeadLanes & one : all) {
        const bool in_last = !rooms.empty() && rooms.back().memory(layer) == one.memory(layer) &&
                             rooms.back().first_cell == one.first_cell && rooms.back().n() == one.n();
        if (in_last) {
            rooms.back().sequences.push_back(one.sequences.front());
        } else {
            rooms.push_back(std::move(one));
        }
    }
    std::vector<Group> groups;
    for (HeadLanes & one : rooms) {
        if (groups.empty() || !continues(groups.back(), one, layer)) { groups.emplace_back(); }
        groups.back().push_back(std::move(one));
    }
    return groups;
}

// Cells of each of a group's lanes that n queries see. A graph of one query serves while the lanes grow, a prompt's chunk is
// one of many in front of which room for all of them was made.
int64_t seen_cells(const Group & group, int layer, int64_t n) {
    const int64_t room = group.front().room;
    if (n == 1) { return room; }
    int64_t end = 0;
    for (const HeadLanes & one : group) {
        for (const int lane : one.lanes) {
            const int length = one.cache().length(one.cache().lane(0, layer, lane));
            end = std::max(end, one.cache().pieces(0, layer, lane).cell(length - 1) + 1);
        }
    }
    return std::min(room, BucketLanes::room_for(end));
}

// What is added to scores of cells that are seen, and of others.
constexpr ggml_fp16_t kSeen = 0;
ggml_fp16_t hidden() {
    return ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
}

struct LaneOf {
    const RaggedCache * cache;
    int layer;
    int kv_head;

    LanePieces pieces() const { return cache->pieces(0, layer, kv_head); }
    int64_t length() const { return cache->length(cache->lane(0, layer, kv_head)); }
};

// A line for each lane, in which its entries are seen.
void fill_seen(std::span<const LaneOf> lanes, int64_t line, std::span<ggml_fp16_t> values) {
    ggml_fp16_t * row = values.data();
    for (const LaneOf & one : lanes) {
        std::fill(row, row + line, hidden());
        show_entries(one.pieces(), one.length(), row);
        row += line;
    }
}

// f16 [seen, n, 1, of the group], n being one query of each of a room's sequences, or several of one. The latter from the
// newest query to the oldest: each sees an entry less than the one before, so that all rows lie in one line of entries seen,
// then entries hidden, each row an element further on. That line is sent, and a copy on the device makes rows of it: n times
// fewer bytes. Where a start is shared, what lies between it and the lane's own end is hidden from all of them by another line.
ggml_tensor * group_mask(GraphBuild & build, const Group & group, int layer, int64_t seen, int64_t n) {
    std::vector<LaneOf> firsts;  // of lanes under one mask, the first
    bool in_one_piece = true;
    for (const HeadLanes & one : group) {
        for (const auto & [cache, part] : one.sequences) {
            firsts.push_back({cache, layer, one.lanes.front()});
            in_one_piece = in_one_piece && firsts.back().pieces().is_one();
        }
    }
    const int64_t room = group.front().room;
    const int64_t line = seen + n - 1;
    const auto n_masks = std::ssize(firsts);
    if (n == 1) {
        ggml_tensor * rows = build.input<ggml_fp16_t>(
            GGML_TYPE_F16, seen, n_masks, [firsts, seen](std::span<ggml_fp16_t> values) { fill_seen(firsts, seen, values); });
        return ggml_reshape_4d(build.ctx(), rows, seen, n_masks / std::ssize(group), 1, std::ssize(group));
    }
    if (seen < room) {  // this one may lie in a gap that the last does not fit into: all of that is growth
        const size_t of_lines = static_cast<size_t>(room * n_masks) * sizeof(ggml_fp16_t);
        build.expect_growth(of_lines * static_cast<size_t>(n + 1), of_lines);
    }
    ggml_tensor * lines = build.input<ggml_fp16_t>(GGML_TYPE_F16, line, n_masks, [firsts, line](std::span<ggml_fp16_t> values) {
        ggml_fp16_t * row = values.data();
        for (const LaneOf & one : firsts) {
            const int64_t end = one.pieces().cell(one.length() - 1) + 1;
            std::fill(row, row + end, kSeen);
            std::fill(row + end, row + line, hidden());
            row += line;
        }
    });
    ggml_tensor * rows = rows_of_lines(build.ctx(), lines, seen, n);
    if (in_one_piece) { return rows; }
    ggml_tensor * apart = build.input<ggml_fp16_t>(
        GGML_TYPE_F16, seen, n_masks, [firsts, seen](std::span<ggml_fp16_t> values) { fill_seen(firsts, seen, values); });
    return ggml_add_inplace(build.ctx(), rows, ggml_reshape_4d(build.ctx(), apart, seen, 1, 1, n_masks));
}

// A group's rows of K or V: [width, seen, heads, of the group].
ggml_tensor * group_rows(ggml_context * ctx, ggml_tensor * flat, const Group & group, int64_t seen) {
    const HeadLanes & first = group.front();
    const size_t row = flat->nb[1];
    const size_t lane = row * static_cast<size_t>(first.room);
    const auto cells = group.size() > 1 ? distance(first, group[1]) : first.room * first.n();
    return ggml_view_4d(ctx, flat, flat->ne[0], seen, first.n(), std::ssize(group), row, lane, row * static_cast<size_t>(cells),
                        row * static_cast<size_t>(first.first_cell));
}

// Where a group's queries are among all of them, row (p·n + t)·K + h being those of part p, token t and lane h; the newest
// first, as masks have them.
void add_rows(const Group & group, int64_t n, int64_t n_kv, std::vector<int32_t> & rows) {
    for (const HeadLanes & one : group) {
        for (const auto & [cache, part] : one.sequences) {
            for (int64_t t = n - 1; t >= 0; --t) {
                const int64_t token = static_cast<int64_t>(part) * n + t;
                for (const int lane : one.lanes) { rows.push_back(static_cast<int32_t>(token * n_kv + lane)); }
            }
        }
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
    const int first = bucket.lanes.front();
    const LanePieces pieces = cache.pieces(0, layer, first);
    return std::ranges::all_of(bucket.lanes, [&](int lane) {
        return lane == first || (length(lane) == length(first) && cache.pieces(0, layer, lane) == pieces);
    });
}

void show_entries(const LanePieces & pieces, int64_t n, ggml_fp16_t * row) {
    const int64_t n_start = std::min(n, pieces.n);
    if (pieces.rows.empty()) {
        std::fill(row, row + n_start, kSeen);
    } else {
        for (const int32_t cell : pieces.rows.first(static_cast<size_t>(n_start))) { row[cell] = kSeen; }
    }
    std::fill(row + pieces.end, row + pieces.end + (n - n_start), kSeen);
}

ggml_tensor * rows_of_lines(ggml_context * ctx, ggml_tensor * lines, int64_t seen, int64_t n) {
    const int64_t n_masks = lines->ne[1];
    if (n == 1) { return ggml_reshape_4d(ctx, lines, seen, 1, 1, n_masks); }
    lines = ggml_cont(ctx, lines);  // there: what overlaps cannot cross
    const size_t bytes = lines->nb[1];
    ggml_tensor * rows = ggml_view_4d(ctx, lines, seen, 1, 1, n_masks, lines->nb[0], bytes, bytes, 0);
    rows->ne[1] = n;  // ggml_view_4d() refuses rows that overlap; operations read them as they do any others
    return ggml_cont(ctx, rows);
}

size_t bucket_attention_nodes(int n_kv_heads) {
    return 16 + 16 * static_cast<size_t>(n_kv_heads);  // every lane a bucket
}

ggml_tensor * attend_in_buckets(GraphBuild & build, std::span<const LanePart> parts, int layer, ggml_tensor * q) {
    ggml_context * ctx = build.ctx();
    const CacheLayout & layout = parts.front().cache->layout();
    const LayerLanes lanes = layout.lanes(layer);
    const int64_t n_all = q->ne[2];
    const int64_t n = n_all / std::ssize(parts);
    const int64_t n_kv = lanes.n_kv_heads;
    const int64_t width = q->ne[0] * lanes.n_group;  // of a lane's queries
    const auto d = static_cast<size_t>(q->ne[0]) * sizeof(float);
    ggml_tensor * flat = ggml_reshape_2d(ctx, ggml_is_contiguous(q) ? q : ggml_cont(ctx, q), width, n_kv * n_all);

    const std::vector<Group> groups = groups_of(parts, layer);
    std::vector<int32_t> rows;
    for (const Group & group : groups) { add_rows(group, n, n_kv, rows); }
    const bool as_they_are = std::ranges::is_sorted(rows);
    if (!as_they_are) { flat = reordered(build, flat, rows); }
    ggml_tensor * out = nullptr;  // [dv·group, rows]
    size_t at = 0;
    for (const Group & group : groups) {
        const int64_t heads = group.front().n();
        const int64_t n_rows = n * std::ssize(group.front().sequences);  // of queries that attend to the same rooms
        const auto n_rooms = std::ssize(group);
        const size_t token = flat->nb[1] * static_cast<size_t>(heads);
        ggml_tensor * queries = ggml_view_4d(ctx, flat, q->ne[0], lanes.n_group * heads, n_rows, n_rooms, d, token,
                                             token * static_cast<size_t>(n_rows), at);
        queries = ggml_permute(ctx, queries, 0, 2, 1, 3);  // [d, n, group·heads, rooms]
        const int64_t seen = seen_cells(group, layer, n);
        const RaggedCache & cache = group.front().cache();
        ggml_tensor * some = ggml_flash_attn_ext(ctx, queries, group_rows(ctx, cache.k(layer), group, seen),
                                                 group_rows(ctx, cache.v(layer), group, seen),
                                                 group_mask(build, group, layer, seen, n), layout.attention_scale, 0.0F,
                                                 layout.attention_softcap);  // [dv, group·heads, n, rooms]
        some = ggml_reshape_2d(ctx, some, some->ne[0] * lanes.n_group, n_rows * heads * n_rooms);
        out = out == nullptr ? some : ggml_concat(ctx, out, some, 1);
        at += token * static_cast<size_t>(n_rows * n_rooms);
    }
    const int64_t dv = out->ne[0] / lanes.n_group;
    if (!as_they_are) { out = reordered(build, out, inverse_of(rows)); }
    return ggml_reshape_3d(ctx, out, dv, n_kv * lanes.n_group, n_all);
}

Status can_attend_in_buckets(const LaneDevice & device, const CacheLayout & layout, int layer) {
    const LayerLanes lanes = layout.lanes(layer);
    const LaneRows rows = layout.rows(layer);
    if (layout.window(layer) > 0) { return {ErrorCode::kUnsupported, "they see a window"}; }
    if (!layout.sinks_of(layer).empty()) { return {ErrorCode::kUnsupported, "their attention has sinks"}; }
    PITH_RETURN_IF_ERROR(BucketLanes::check(rows));

    // The operations as they will be asked for, of a token and of several, whether or not there is memory for them.
    constexpr int64_t kRoom = BucketLanes::kStep;
    constexpr size_t kTensors = 72;
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
        if (refuses(ggml_get_rows(ctx, flat, tensor(GGML_TYPE_I32, {n_kv, 1, 1, 1})))) { return without("get_rows" + of_type); }
    }
    ggml_tensor * mask = tensor(GGML_TYPE_F16, {kRoom, 1, 1, 1});
    if (refuses(ggml_cont(ctx, mask))) { return without("copies of masks"); }
    if (refuses(ggml_add(ctx, tensor(GGML_TYPE_F16, {kRoom, 32, 1, 1}), mask))) { return without("sums of masks"); }
    for (const int64_t n : {int64_t{1}, int64_t{32}}) {
        // KV heads, and in dimension 3 lanes, or sequences.
        for (const auto & [heads, n_lanes] :
             {std::pair{n_kv, int64_t{1}}, std::pair{int64_t{1}, n_kv}, std::pair{n_kv, int64_t{2}}}) {
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
