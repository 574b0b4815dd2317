// gate_attention.cpp - a gate's heads as lanes of the attention kernel.
#include "attention/gate_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/cpu/cpu_attention.h"
#include "attention/cpu/cpu_workspace.h"
#include "gate/gate_graph.h"

namespace pith {
namespace {

void run(ggml_tensor * /*out*/, int ith, int /*n_threads*/, void * node) {
    auto & [plan, scratch] = *static_cast<CpuAttentionNode *>(node);
    attend_part(plan, *scratch, ith);
}

void fill_task(const GateConfig & config, const ggml_tensor * q, const GateKeys & keys, const ggml_tensor * out,
               std::vector<int32_t> & together, AttentionTask & task) {
    const auto d = static_cast<size_t>(config.head_dim);
    const size_t width = d * static_cast<size_t>(config.n_heads);
    task.k_format = task.v_format = KvFormat::kF32;
    task.head_dim = task.head_dim_v = config.head_dim;
    task.n_group = 1;
    task.n_queries = static_cast<int>(q->ne[2]);
    task.scale = 1.0F / std::sqrt(static_cast<float>(d));
    task.k_stride = task.v_stride = width * sizeof(float);
    task.q_query_stride = task.out_query_stride = width;
    task.q_head_stride = task.out_head_stride = d;
    task.columns.clear();
    task.hides = false;
    // Not causal: all tokens stand at one place, so that each sees all.
    together.assign(config.causal ? 0 : static_cast<size_t>(std::max(keys.n, task.n_queries)), 0);
    task.lanes.clear();
    for (size_t h = 0; h < static_cast<size_t>(config.n_heads); ++h) {
        LaneView lane;
        lane.k = keys.k + h * d;
        lane.v = keys.v + h * d;
        lane.length = keys.n;
        lane.q = static_cast<const float *>(q->data) + h * d;
        lane.out = static_cast<float *>(out->data) + h * d;
        if (!config.causal) { lane.positions = lane.query_positions = together.data(); }
        task.lanes.push_back(lane);
    }
}

// [n keys, m queries]: the queries are the newest m.
template <class T>
ggml_tensor * causal_mask(GraphBuild & build, ggml_type type, int n, int64_t m, T zero, T hidden) {
    return build.input<T>(type, n, m, [n, m, zero, hidden](std::span<T> mask) {
        for (int64_t t = 0; t < m; ++t) {
            T * row = mask.data() + t * n;
            std::fill(row, row + (n - m + t + 1), zero);
            std::fill(row + (n - m + t + 1), row + n, hidden);
        }
    });
}

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

ggml_tensor * as_input(GraphBuild & build, const GateConfig & config, const float * rows, int n) {
    ggml_tensor * x = build.input(GGML_TYPE_F32, int64_t{config.head_dim} * config.n_heads, n, rows);
    return ggml_reshape_3d(build.ctx(), x, config.head_dim, config.n_heads, n);
}

}  // namespace

ggml_tensor * build_gate_attention(GraphBuild & build, const GateConfig & config, ggml_tensor * q, const GateKeys & keys) {
    if (!build.custom_operations() || !cpu_attention_pays() ||
        !can_attend(KvFormat::kF32, KvFormat::kF32, config.head_dim, config.head_dim)) {
        ggml_tensor * mask = nullptr;
        if (config.causal) {
            mask = causal_mask<ggml_fp16_t>(build, GGML_TYPE_F16, keys.n, q->ne[2], 0, ggml_fp32_to_fp16(kMinusInfinity));
        }
        return flash_gate_attention(build.ctx(), q, as_input(build, config, keys.k, keys.n),
                                    as_input(build, config, keys.v, keys.n), mask);
    }
    CpuAttentionNode & node = build.workspace<CpuWorkspace>().next();
    std::array<ggml_tensor *, 1> sources = {q};
    ggml_tensor * out = ggml_custom_4d(build.ctx(), GGML_TYPE_F32, q->ne[0] * q->ne[1], q->ne[2], 1, 1, sources.data(), 1, run,
                                       GGML_N_TASKS_MAX, &node);
    auto together = std::make_shared<std::vector<int32_t>>();
    build.before_run([&build, &node, config, q, keys, out, together] {
        node.plan.cancel = build.cancel();
        fill_task(config, q, keys, out, *together, node.plan.task);
        node.plan.make();
        node.scratch->reserve(node.plan);
    });
    return out;
}

ggml_tensor * build_gate_probabilities(GraphBuild & build, const GateConfig & config, ggml_tensor * q, const GateKeys & keys) {
    ggml_context * ctx = build.ctx();
    const auto by_head = [&](ggml_tensor * x) { return ggml_cont(ctx, ggml_permute(ctx, x, 0, 2, 1, 3)); };  // [d, n, h]
    ggml_tensor * scores = ggml_mul_mat(ctx, by_head(as_input(build, config, keys.k, keys.n)), by_head(q));
    ggml_tensor * mask =
        config.causal ? causal_mask<float>(build, GGML_TYPE_F32, keys.n, q->ne[2], 0.0F, kMinusInfinity) : nullptr;
    return ggml_soft_max_ext(ctx, scores, mask, 1.0F / std::sqrt(static_cast<float>(config.head_dim)), 0.0F);
}

}  // namespace pith
