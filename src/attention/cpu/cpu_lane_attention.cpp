// cpu_lane_attention.cpp - a plan per operation, made once the tensors have memory.
#include "attention/cpu/cpu_lane_attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "attention/cpu/cpu_workspace.h"
#include "hwy/cache_control.h"

namespace pith {
namespace {

void run(ggml_tensor * /*out*/, int ith, int n_threads, void * node) {
    auto & [plan, scratch] = *static_cast<CpuAttentionNode *>(node);
    attend_part(plan, *scratch, ith, n_threads);
}

}  // namespace

std::optional<KvFormat> format_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:
            return KvFormat::kF32;
        case GGML_TYPE_F16:
            return KvFormat::kF16;
        case GGML_TYPE_BF16:
            return KvFormat::kBF16;
        case GGML_TYPE_Q8_0:
            return KvFormat::kQ8_0;
        case GGML_TYPE_Q4_0:
            return KvFormat::kQ4_0;
        default:
            return std::nullopt;
    }
}

namespace {

void start_task(const CacheLayout & layout, int layer, size_t k_stride, AttentionTask & task) {
    const LayerLanes lanes = layout.lanes(layer);
    task.k_format = *format_of(layout.type_k);
    task.head_dim = lanes.head_dim;
    task.head_dim_v = 0;
    task.n_group = lanes.n_group;
    task.scale = layout.attention_scale;
    task.softcap = layout.attention_softcap;
    task.k_stride = k_stride;
    task.v_stride = task.out_head_stride = task.out_query_stride = 0;
    task.columns.clear();
    task.lanes.clear();
    task.n_peers = lanes.n_kv_heads;
    task.hidden_lanes.clear();
    task.hides = false;
}

void add_key_lanes(const RaggedCache & cache, int seq, int layer, AttentionTask & task) {
    const ggml_tensor * k = cache.k(layer);
    const std::span<const float> sinks = cache.layout().sinks_of(layer);
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
        LaneView lane;
        if (!sinks.empty()) { lane.sinks = sinks.data() + h * task.n_group; }
        lane.k = static_cast<const uint8_t *>(k->data) + static_cast<size_t>(cache.cell(seq, layer, h, 0)) * task.k_stride;
        lane.length = cache.length(cache.lane(seq, layer, h));
        task.lanes.push_back(lane);
    }
}

// REQUIRES: the task has the part's lanes and no others.
void hide_keys(const LanePart & part, int layer, AttentionTask & task) {
    task.hidden_lanes.resize(task.lanes.size());
    for (size_t h = 0; h < task.lanes.size(); ++h) {
        const auto positions = part.cache->positions(part.cache->lane(part.seq, layer, static_cast<int>(h)));
        fill_hidden_lane(*part.hidden, static_cast<int>(h), positions, task.hidden_lanes[h]);
        if (!task.hidden_lanes[h].any()) { continue; }
        task.lanes[h].hidden = &task.hidden_lanes[h];
        task.lanes[h].query_positions = positions.data() + positions.size() - static_cast<size_t>(task.n_queries);
        task.hides = true;
    }
}

// The part's lanes, which see a window, from the first entry on that its first query sees. All of a sequence are alike there.
// first_lane: of the part. REQUIRES: with several queries the task has the part's lanes and no others.
void cut_to_window(const LanePart & part, int layer, size_t first_lane, AttentionTask & task) {
    const LayerLanes lanes = part.cache->layout().lanes(layer);
    const auto all = part.cache->positions(part.cache->lane(part.seq, layer, 0));
    const auto positions = all.first(all.size() - static_cast<size_t>(part.n_behind));
    const auto queries = positions.last(static_cast<size_t>(part.n));
    const auto first =
        static_cast<size_t>(std::ranges::lower_bound(positions, lanes.first_seen(queries.front())) - positions.begin());
    const bool hides = part.n > 1 && lanes.hidden_from(positions[first]) <= queries.back();
    if (hides) {
        task.hidden_lanes.resize(1);
        fill_window_lane(lanes, positions.subspan(first), task.hidden_lanes.front());
        task.hides = true;
    }
    for (size_t l = first_lane; l < task.lanes.size(); ++l) {
        LaneView & lane = task.lanes[l];
        lane.k = static_cast<const uint8_t *>(lane.k) + first * task.k_stride;
        lane.v = static_cast<const uint8_t *>(lane.v) + first * task.v_stride;
        lane.length -= static_cast<int>(first);
        if (!hides) { continue; }
        lane.hidden = task.hidden_lanes.data();
        lane.query_positions = queries.data();
    }
}

// The lanes of a part, with its rows of q and out.
void add_part(const LanePart & part, int layer, const ggml_tensor * q, const ggml_tensor * out, bool sums,
              AttentionTask & task) {
    const RaggedCache & cache = *part.cache;
    const ggml_tensor * v = cache.v(layer);
    const size_t first_lane = task.lanes.size();
    add_key_lanes(cache, part.seq, layer, task);
    for (size_t l = first_lane; l < task.lanes.size(); ++l) { task.lanes[l].length -= part.n_behind; }
    const auto row = static_cast<size_t>(part.first_row);
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
        const size_t head = static_cast<size_t>(h) * static_cast<size_t>(task.n_group);
        LaneView & lane = task.lanes[first_lane + static_cast<size_t>(h)];
        lane.v = static_cast<const uint8_t *>(v->data) + static_cast<size_t>(cache.cell(part.seq, layer, h, 0)) * task.v_stride;
        lane.q = static_cast<const float *>(q->data) + row * task.q_query_stride + head * task.q_head_stride;
        lane.out = static_cast<float *>(out->data) + row * task.out_query_stride + head * task.out_head_stride;
    }
    if (!cache.layout().governs(layer)) { return cut_to_window(part, layer, first_lane, task); }
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
        const RaggedCache::SharedRows shared = cache.shared_rows(part.seq, layer, h);
        LaneView & lane = task.lanes[first_lane + static_cast<size_t>(h)];
        lane.base = shared.base_lane;
        lane.n_shared = shared.n;
        if (part.n_together == 1) { continue; }
        const RaggedCache::SharedRows own = cache.own_rows(part.seq, layer, h);
        lane.base = own.base_lane;
        lane.n_shared = own.n - part.n_together;
    }
    if (sums && part.sums) {
        for (int head = 0; head < cache.layout().shape.n_heads(); ++head) {
            const ColumnSum sum = part.sums(layer, head);
            task.columns.sum.push_back(sum.to);
            task.columns.sum_before.push_back({sum.before, sum.n_before});
        }
    }
    if (part.hidden != nullptr) { hide_keys(part, layer, task); }
}

// Parts of one operation: all have as many rows.
void fill_task(std::span<const LanePart> parts, int layer, const ggml_tensor * q, const ggml_tensor * out, bool sums,
               AttentionTask & task) {
    const CacheLayout & layout = parts.front().cache->layout();
    const LaneRows rows = layout.rows(layer);
    start_task(layout, layer, rows.bytes_k(), task);
    task.v_format = *format_of(layout.type_v);
    task.head_dim_v = rows.head_dim_v;
    task.n_queries = parts.front().n;
    task.v_stride = rows.bytes_v();
    task.q_head_stride = q->nb[1] / sizeof(float);
    task.q_query_stride = q->nb[2] / sizeof(float);
    task.out_head_stride = static_cast<size_t>(task.head_dim_v);
    task.out_query_stride = out->nb[1] / sizeof(float);
    for (const LanePart & part : parts) { add_part(part, layer, q, out, sums, task); }
}

// Neighbouring parts [begin, end) that can be asked together about a layer.
size_t end_of_group(const std::vector<LanePart> & parts, size_t begin, int layer) {
    const auto is_plain = [layer](const LanePart & part) {
        return part.hidden == nullptr && (part.n == 1 || (!part.sums && part.cache->layout().governs(layer)));
    };
    size_t end = begin + 1;
    while (end < parts.size() && is_plain(parts[begin]) && is_plain(parts[end]) && parts[end].n == parts[begin].n &&
           !parts[end].sums == !parts[begin].sums) {
        ++end;
    }
    return end;
}

// A part's rows of one lane.
struct WrittenLane {
    const LanePart & part;
    int layer;
    int h;

    const ggml_tensor * k() const { return part.cache->k(layer); }
    const ggml_tensor * v() const { return part.cache->v(layer); }
    // Where the first of them goes in K or V.
    uint8_t * place_in(const ggml_tensor * cells) const {
        const int length = part.cache->length(part.cache->lane(part.seq, layer, h)) - part.n_behind;
        return static_cast<uint8_t *>(cells->data) +
               static_cast<size_t>(part.cache->cell(part.seq, layer, h, length - part.n)) * cells->nb[1];
    }
    // Row t·K + h of the part's goes to the cell of its token t.
    void copy(const ggml_tensor * rows, const ggml_tensor * cells) const {
        const size_t row = cells->nb[1];
        const auto n_kv = static_cast<size_t>(part.cache->n_kv_heads(layer));
        const auto first = static_cast<size_t>(part.first_row) * n_kv + static_cast<size_t>(h);
        const auto * from = static_cast<const uint8_t *>(rows->data) + first * row;
        uint8_t * to = place_in(cells);
        for (int t = 0; t < part.n; ++t, from += n_kv * row, to += row) { std::memcpy(to, from, row); }
    }
};

// Lanes of many sequences lie far apart, and each copy would wait for the memory it goes to: it is asked for some lanes before.
void write_rows(ggml_tensor * out, int ith, int n_threads, void * userdata) {
    constexpr size_t kLanesAhead = 8;
    const auto & node = *static_cast<CpuWriteNode *>(userdata);
    const std::vector<LanePart> & parts = node.batch->parts;
    const auto n_kv = static_cast<size_t>(parts.front().cache->n_kv_heads(node.layer));
    const auto lane = [&](size_t i) { return WrittenLane{parts[i / n_kv], node.layer, static_cast<int>(i % n_kv)}; };
    const auto step = static_cast<size_t>(n_threads);
    const size_t n = parts.size() * n_kv;
    for (auto i = static_cast<size_t>(ith); i < n; i += step) {
        if (i + kLanesAhead * step < n) {
            const WrittenLane later = lane(i + kLanesAhead * step);
            hwy::Prefetch(later.place_in(later.k()));
            hwy::Prefetch(later.place_in(later.v()));
        }
        const WrittenLane now = lane(i);
        now.copy(out->src[0], now.k());
        now.copy(out->src[1], now.v());
    }
}

// x f32 [d, K, n] as rows of `type`, by ggml's own conversion: what ggml_set_rows() would write.
ggml_tensor * rows_of_type(ggml_context * ctx, ggml_tensor * x, ggml_type type) {
    ggml_tensor * rows = ggml_reshape_2d(ctx, ggml_is_contiguous(x) ? x : ggml_cont(ctx, x), x->ne[0], x->ne[1] * x->ne[2]);
    return type == GGML_TYPE_F32 ? rows : ggml_cast(ctx, rows, type);
}

}  // namespace

void fill_key_lanes(const RaggedCache & cache, int seq, int layer, AttentionTask & task) {
    start_task(cache.layout(), layer, cache.k(layer)->nb[1], task);
    add_key_lanes(cache, seq, layer, task);
}

void fill_attention_task(const RaggedCache & cache, int seq, int layer, const ggml_tensor * q, const ggml_tensor * out,
                         const HiddenKeys * hidden, AttentionTask & task) {
    const LanePart part{&cache, seq, 0, static_cast<int>(q->ne[2]), {}, hidden};
    fill_task(std::span(&part, 1), layer, q, out, /*sums=*/true, task);
}

bool can_attend_on_cpu(const CacheLayout & layout) {
    const auto k = format_of(layout.type_k);
    const auto v = format_of(layout.type_v);
    if (!cpu_attention_pays() || !k || !v) { return false; }
    if (layout.governs_all()) { return can_attend(*k, *v, layout.shape.head_dim, layout.head_dim_v); }
    return std::ranges::all_of(layout.layers,
                               [&](const LayerLanes & lanes) { return can_attend(*k, *v, lanes.head_dim, lanes.head_dim_v); });
}

WrittenRows build_cpu_write(GraphBuild & build, const LaneBatchPtr & batch, int layer, ggml_tensor * k, ggml_tensor * v) {
    const CacheLayout & layout = batch->parts.front().cache->layout();
    CpuWriteNode & node = build.workspace<CpuWorkspace>().next_write();
    node = {batch, layer};
    std::array<ggml_tensor *, 2> rows = {rows_of_type(build.ctx(), k, layout.type_k),
                                         rows_of_type(build.ctx(), v, layout.type_v)};
    ggml_tensor * written = ggml_custom_4d(build.ctx(), GGML_TYPE_F32, 1, 1, 1, 1, rows.data(), static_cast<int>(rows.size()),
                                           write_rows, GGML_N_TASKS_MAX, &node);
    ggml_set_name(written, name_of(GraphPart::kAttention));
    return {written, written};
}

ggml_tensor * build_cpu_attention(GraphBuild & build, const LaneBatchPtr & batch, int layer, ggml_tensor * q,
                                  const WrittenRows & written) {
    const LayerLanes lanes = batch->parts.front().cache->layout().lanes(layer);
    ggml_tensor * out = nullptr;
    for (size_t begin = 0; begin < batch->parts.size();) {
        const size_t end = end_of_group(batch->parts, begin, layer);
        CpuAttentionNode & node = build.workspace<CpuWorkspace>().next();
        std::array<ggml_tensor *, 3> sources = {q, written.k, written.v};
        const int n_sources = written.k == nullptr ? 1 : static_cast<int>(sources.size());
        // Each writes its own rows of what the first made.
        ggml_tensor * made =
            out == nullptr
                ? ggml_custom_4d(build.ctx(), GGML_TYPE_F32, static_cast<int64_t>(lanes.head_dim_v) * lanes.n_heads(), q->ne[2],
                                 1, 1, sources.data(), n_sources, run, GGML_N_TASKS_MAX, &node)
                : ggml_custom_inplace(build.ctx(), out, sources.data(), n_sources, run, GGML_N_TASKS_MAX, &node);
        ggml_set_name(made, name_of(GraphPart::kAttention));
        // The queries as the operation will read them: a copy, where they come from a device.
        ggml_tensor * const * asked = &made->src[out == nullptr ? 0 : 1];
        build.before_run([&build, batch, begin, end, &node, layer, asked, made, sums = written.k != nullptr] {
            node.plan.cancel = build.cancel();
            fill_task(std::span(batch->parts).subspan(begin, end - begin), layer, *asked, made, sums, node.plan.task);
            node.plan.make();
            node.scratch->reserve(node.plan);
        });
        out = made;
        begin = end;
    }
    return out;
}

}  // namespace pith
