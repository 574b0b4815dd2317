// cpu_lane_attention.cpp - a plan per operation, made once the tensors have memory.
#include "attention/cpu/cpu_lane_attention.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "attention/cpu/cpu_workspace.h"

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

void fill_key_lanes(const RaggedCache & cache, int seq, int layer, AttentionTask & task) {
    const CacheLayout & layout = cache.layout();
    const ggml_tensor * k = cache.k(layer);
    task.k_format = *format_of(layout.type_k);
    task.head_dim = layout.shape.head_dim;
    task.head_dim_v = 0;
    task.n_group = layout.shape.n_group;
    task.scale = 1.0F / std::sqrt(static_cast<float>(task.head_dim));
    task.k_stride = k->nb[1];
    task.v_stride = task.out_head_stride = task.out_query_stride = 0;
    task.columns.clear();
    task.lanes.clear();
    task.hides = false;
    for (int h = 0; h < layout.shape.n_kv_heads; ++h) {
        LaneView lane;
        lane.k = static_cast<const uint8_t *>(k->data) + static_cast<size_t>(cache.cell(seq, h, 0)) * task.k_stride;
        lane.length = cache.length(cache.lane(seq, layer, h));
        task.lanes.push_back(lane);
    }
}

namespace {

void hide_keys(const RaggedCache & cache, int seq, int layer, const HiddenKeys & keys, AttentionTask & task) {
    task.hidden_lanes.resize(task.lanes.size());
    for (size_t h = 0; h < task.lanes.size(); ++h) {
        const auto positions = cache.positions(cache.lane(seq, layer, static_cast<int>(h)));
        fill_hidden_lane(keys, static_cast<int>(h), positions, task.hidden_lanes[h]);
        if (!task.hidden_lanes[h].any()) { continue; }
        task.lanes[h].hidden = &task.hidden_lanes[h];
        task.lanes[h].query_positions = positions.data() + positions.size() - static_cast<size_t>(task.n_queries);
        task.hides = true;
    }
}

}  // namespace

void fill_attention_task(const RaggedCache & cache, int seq, int layer, const ggml_tensor * q, const ggml_tensor * out,
                         const HiddenKeys * hidden, AttentionTask & task) {
    const CacheLayout & layout = cache.layout();
    const ggml_tensor * v = cache.v(layer);
    fill_key_lanes(cache, seq, layer, task);
    task.v_format = *format_of(layout.type_v);
    task.head_dim_v = layout.head_dim_v;
    task.n_queries = static_cast<int>(q->ne[2]);
    task.v_stride = v->nb[1];
    task.q_head_stride = q->nb[1] / sizeof(float);
    task.q_query_stride = q->nb[2] / sizeof(float);
    task.out_head_stride = static_cast<size_t>(task.head_dim_v);
    task.out_query_stride = out->nb[1] / sizeof(float);
    for (int h = 0; h < layout.shape.n_kv_heads; ++h) {
        const size_t head = static_cast<size_t>(h) * static_cast<size_t>(task.n_group);
        LaneView & lane = task.lanes[static_cast<size_t>(h)];
        lane.v = static_cast<const uint8_t *>(v->data) + static_cast<size_t>(cache.cell(seq, h, 0)) * task.v_stride;
        lane.q = static_cast<const float *>(q->data) + head * task.q_head_stride;
        lane.out = static_cast<float *>(out->data) + head * task.out_head_stride;
    }
    if (hidden != nullptr) { hide_keys(cache, seq, layer, *hidden, task); }
}

bool can_attend_on_cpu(const CacheLayout & layout) {
    const auto k = format_of(layout.type_k);
    const auto v = format_of(layout.type_v);
    return cpu_attention_pays() && k && v && can_attend(*k, *v, layout.shape.head_dim, layout.head_dim_v);
}

ggml_tensor * build_cpu_attention(GraphBuild & build, const RaggedCache & cache, int seq, int layer, ggml_tensor * q,
                                  ggml_tensor * written_k, ggml_tensor * written_v, ColumnSums sums,
                                  const HiddenKeys * hidden) {
    const CacheLayout & layout = cache.layout();
    CpuAttentionNode & node = build.workspace<CpuWorkspace>().next();
    std::array<ggml_tensor *, 3> sources = {q, written_k, written_v};
    ggml_tensor * out =
        ggml_custom_4d(build.ctx(), GGML_TYPE_F32, static_cast<int64_t>(layout.head_dim_v) * layout.shape.n_heads(), q->ne[2],
                       1, 1, sources.data(), static_cast<int>(sources.size()), run, GGML_N_TASKS_MAX, &node);
    ggml_set_name(out, name_of(GraphPart::kAttention));
    build.before_run([&cache, &node, seq, layer, q, out, hidden, sums = std::move(sums)] {
        fill_attention_task(cache, seq, layer, q, out, hidden, node.plan.task);
        const int n_heads = sums ? cache.layout().shape.n_heads() : 0;
        for (int head = 0; head < n_heads; ++head) { node.plan.task.columns.sum.push_back(sums(head)); }
        node.plan.make();
        node.scratch->reserve(node.plan);
    });
    return out;
}

}  // namespace pith
