// lane_attention.cpp - the portable path.
#include "attention/lane_attention.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "attention/bucket_attention.h"

namespace pith {

std::vector<LaneRun> equal_length_runs(const RaggedCache & cache, int seq, int layer) {
    std::vector<LaneRun> runs;
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
        const int length = cache.length(cache.lane(seq, layer, h));
        if (runs.empty() || runs.back().length != length) { runs.push_back({h, h, length}); }
        runs.back().end = h + 1;
    }
    return runs;
}

ggml_tensor * view_lanes(ggml_context * ctx, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                         const LaneRun & run) {
    const size_t row = flat->nb[1];
    return ggml_view_3d(ctx, flat, flat->ne[0], run.length, run.end - run.begin, row,
                        row * static_cast<size_t>(cache.capacity()),
                        row * static_cast<size_t>(cache.cell(seq, layer, run.begin, run.first)));
}

ggml_tensor * view_tokens(ggml_context * ctx, ggml_tensor * x, int first, int n) {
    if (n == x->ne[2]) { return x; }
    return ggml_view_3d(ctx, x, x->ne[0], x->ne[1], n, x->nb[1], x->nb[2], static_cast<size_t>(first) * x->nb[2]);
}

namespace {

// Lanes whose masks differ cannot share a call.
std::vector<LaneRun> single_lanes(const RaggedCache & cache, int seq, int layer) {
    std::vector<LaneRun> runs;
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) { runs.push_back({h, h + 1, cache.length(cache.lane(seq, layer, h))}); }
    return runs;
}

// All lanes of a layer with a window, from the first entry on that the newest n queries see; they are alike.
LaneRun window_run(const RaggedCache & cache, int seq, int layer, int64_t n) {
    const auto positions = cache.positions(cache.lane(seq, layer, 0));
    const int32_t first_query = positions[positions.size() - static_cast<size_t>(n)];
    const auto seen = std::ranges::lower_bound(positions, cache.layout().lanes(layer).first_seen(first_query));
    const auto first = static_cast<int>(seen - positions.begin());
    return {0, cache.n_kv_heads(layer), static_cast<int>(positions.size()) - first, first};
}

std::vector<LaneRun> runs_of(const RaggedCache & cache, const LanePart & part, int layer, int64_t n) {
    if (!cache.layout().governs(layer)) { return {window_run(cache, part.seq, layer, n)}; }
    return part.hidden == nullptr ? equal_length_runs(cache, part.seq, layer) : single_lanes(cache, part.seq, layer);
}

// Writes k and v [d, K, P·n], of each part n tokens, into the last n cells of every lane. Row (p·n + t)·K + h of the source
// goes to entry length - n + t of lane h of part p. REQUIRES: the parts' lanes lie in the same tensors.
WrittenRows write_cells(GraphBuild & build, std::span<const LanePart> parts, int layer, ggml_tensor * k, ggml_tensor * v) {
    struct Lanes {
        const RaggedCache * cache;
        int seq;
    };
    std::vector<Lanes> of_parts;
    for (const LanePart & part : parts) { of_parts.push_back({part.cache, part.seq}); }
    const int64_t n_kv = k->ne[1];
    const int64_t n = k->ne[2] / std::ssize(parts);
    const int64_t n_rows = n_kv * k->ne[2];
    ggml_tensor * rows = build.input<int64_t>(GGML_TYPE_I64, n_rows, 1, [of_parts, layer, n_kv, n](std::span<int64_t> cells) {
        auto to = cells.begin();
        for (const auto & [cache, seq] : of_parts) {
            for (int64_t t = 0; t < n; ++t) {
                for (int head = 0; head < n_kv; ++head) {
                    *to++ = cache->cell(seq, layer, head, cache->length(cache->lane(seq, layer, head)) - n + t);
                }
            }
        }
    });
    const auto write = [&](ggml_tensor * flat, ggml_tensor * values) {
        ggml_tensor * source = ggml_reshape_2d(build.ctx(), ggml_cont(build.ctx(), values), values->ne[0], n_rows);
        ggml_tensor * written = ggml_set_rows(build.ctx(), flat, source, rows);
        ggml_build_forward_expand(build.graph(), written);
        return written;
    };
    const RaggedCache & cache = *parts.front().cache;
    return {write(cache.k(layer), k), write(cache.v(layer), v)};
}

// A token of each part: neighbours whose lanes lie in the same tensors together.
void write_tokens(GraphBuild & build, std::span<const LanePart> parts, int layer, ggml_tensor * k, ggml_tensor * v) {
    for (size_t first = 0; first < parts.size();) {
        size_t n = 1;
        while (first + n < parts.size() && parts[first + n].cache->k(layer) == parts[first].cache->k(layer)) { ++n; }
        const auto of_some = [&](ggml_tensor * x) {
            return view_tokens(build.ctx(), x, static_cast<int>(first), static_cast<int>(n));
        };
        write_cells(build, parts.subspan(first, n), layer, of_some(k), of_some(v));
        first += n;
    }
}

// Causal mask f16 [length, n]: the n queries are the newest entries. positions [length] are used where entries are hidden.
ggml_tensor * causal_mask(GraphBuild & build, int length, int64_t n, const HiddenLane & lane = {},
                          std::span<const int32_t> positions = {}) {
    return build.input<ggml_fp16_t>(GGML_TYPE_F16, length, n, [length, n, lane, positions](std::span<ggml_fp16_t> mask) {
        const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
        for (int64_t t = 0; t < n; ++t) {
            ggml_fp16_t * row = mask.data() + t * length;
            const int64_t visible = length - n + t + 1;
            std::fill(row, row + visible, ggml_fp16_t{0});
            std::fill(row + visible, row + length, hidden);
            for (int j = lane.any() ? lane.first : length; j < visible; ++j) {
                if (lane.hides(j, positions[static_cast<size_t>(visible - 1)])) { row[j] = hidden; }
            }
        }
    });
}

ggml_tensor * expand_for_tiles(ggml_context * ctx, ggml_tensor * lanes) {
    const bool tiled = lanes->type == GGML_TYPE_F16 || lanes->type == GGML_TYPE_F32;
    return tiled ? lanes : ggml_cast(ctx, lanes, GGML_TYPE_F32);
}

}  // namespace

std::string attention_kernels(bool custom_operations, const CacheLayout & layout) {
    const std::string here =
        custom_operations && can_attend_on_cpu(layout) ? std::string("pith ") + cpu_attention_target() : "ggml";
    if (!layout.any_on_device()) { return here; }
    for (int l = 0; l < layout.n_layers(); ++l) {
        if (layout.has_lanes(l) && layout.device(l) == nullptr) { return "ggml on devices, " + here + " here"; }
    }
    return "ggml on devices";
}

bool sums_columns(bool custom_operations, const RaggedCache & cache, int layer) {
    return custom_operations && !cache.in_buckets(layer) && can_attend_on_cpu(cache.layout());
}

namespace {

// One part's rows by ggml's attention: q [d, H, n]  →  [dv, H, n].
ggml_tensor * attend_portably(GraphBuild & build, const LanePart & part, int layer, ggml_tensor * q) {
    ggml_context * ctx = build.ctx();
    const RaggedCache & cache = *part.cache;
    const int n_group = cache.layout().lanes(layer).n_group;
    const int window = cache.layout().window(layer);
    const std::span<const float> sinks = cache.layout().sinks_of(layer);
    const int64_t n = q->ne[2];
    const float scale = cache.layout().attention_scale;
    const float softcap = cache.layout().attention_softcap;
    ggml_tensor * queries = ggml_permute(ctx, q, 0, 2, 1, 3);  // [d, n, H]
    ggml_tensor * out = nullptr;
    for (const LaneRun & run : runs_of(cache, part, layer, n)) {
        ggml_tensor * keys = view_lanes(ctx, cache, cache.k(layer), part.seq, layer, run);
        ggml_tensor * values = view_lanes(ctx, cache, cache.v(layer), part.seq, layer, run);
        ggml_tensor * mask = nullptr;
        if (n > 1) {
            keys = expand_for_tiles(ctx, keys);
            values = expand_for_tiles(ctx, values);
            HiddenLane lane;
            const auto positions =
                cache.positions(cache.lane(part.seq, layer, run.begin)).subspan(static_cast<size_t>(run.first));
            if (window > 0) {
                fill_window_lane(cache.layout().lanes(layer), positions, lane);
            } else if (part.hidden != nullptr) {
                fill_hidden_lane(*part.hidden, run.begin, positions, lane);
            }
            mask = causal_mask(build, run.length, n, lane, positions);
        }
        const int n_heads = (run.end - run.begin) * n_group;
        ggml_tensor * some = ggml_view_3d(ctx, queries, queries->ne[0], n, n_heads, queries->nb[1], queries->nb[2],
                                          queries->nb[2] * static_cast<size_t>(run.begin * n_group));
        some = ggml_flash_attn_ext(ctx, some, keys, values, mask, scale, 0.0F, softcap);  // [dv, heads of the run, n]
        if (!sinks.empty()) {
            ggml_flash_attn_ext_add_sinks(some, build.input(GGML_TYPE_F32, n_heads, 1, sinks.data() + run.begin * n_group));
        }
        out = out == nullptr ? some : ggml_concat(ctx, out, some, 1);
    }
    return out;
}

}  // namespace

ggml_tensor * build_lane_attention(GraphBuild & build, const LaneBatchPtr & batch, int layer, ggml_tensor * q, ggml_tensor * k,
                                   ggml_tensor * v) {
    const std::vector<LanePart> & parts = batch->parts;
    const LanePart & first = parts.front();
    const bool writes = k != nullptr;  // or else it reads what an earlier layer wrote
    if (!writes) { layer = first.cache->layout().source(layer); }
    if (sums_columns(build.custom_operations(), *first.cache, layer)) {
        if (!writes) { return build_cpu_attention(build, batch, layer, q, {}); }
        const WrittenRows written =
            parts.size() == 1 ? write_cells(build, parts, layer, k, v) : build_cpu_write(build, batch, layer, k, v);
        return build_cpu_attention(build, batch, layer, q, written);
    }
    ggml_context * ctx = build.ctx();
    const bool tokens = std::ranges::all_of(parts, [](const LanePart & part) { return part.n == 1; });
    if (first.cache->in_buckets(layer) && tokens) {
        if (writes) { write_tokens(build, parts, layer, k, v); }
        ggml_tensor * out = attend_in_buckets(build, parts, layer, q);
        return ggml_reshape_2d(ctx, out, out->ne[0] * out->ne[1], q->ne[2]);
    }
    ggml_tensor * out = nullptr;
    for (const LanePart & part : parts) {
        const auto of_part = [&](ggml_tensor * x) { return view_tokens(ctx, x, part.first_row, part.n); };
        if (writes) { write_cells(build, std::span(&part, 1), layer, of_part(k), of_part(v)); }
        ggml_tensor * rows = part.cache->in_buckets(layer) ? attend_in_buckets(build, std::span(&part, 1), layer, of_part(q))
                                                           : attend_portably(build, part, layer, of_part(q));
        out = out == nullptr ? rows : ggml_concat(ctx, out, rows, 2);
    }
    return ggml_reshape_2d(ctx, out, out->ne[0] * out->ne[1], q->ne[2]);
}

}  // namespace pith
