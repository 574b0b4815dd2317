// cpu_observe.cpp - what is asked of given queries, as a task of the attention kernel.
#include "evidence/cpu_observe.h"

#include <algorithm>
#include <span>

#include "attention/cpu/cpu_lane_attention.h"
#include "attention/cpu/cpu_workspace.h"
#include "device/cpu_threads.h"

namespace pith {
namespace {

std::vector<float *> rows_of(Ragged<float> & rows, bool wanted) {
    std::vector<float *> pointers;
    for (int r = 0; wanted && r < rows.n_rows(); ++r) { pointers.push_back(rows.row(r).data()); }
    return pointers;
}

void ask_for(const ObserveWants & wants, Observed & out, ColumnTask & columns) {
    columns.clear();
    columns.sum = rows_of(out.column_sum, wants.column_sum);
    columns.squares = rows_of(out.head_sq, wants.head_sq);
    columns.largest = rows_of(out.column_max, wants.column_max);
    columns.group_squares = rows_of(out.group_sq, wants.group_sq);
    columns.last = rows_of(out.last, wants.last);
    columns.rows = rows_of(out.rows, wants.rows);
    columns.profile = rows_of(out.profile, wants.profile.has_value());
    columns.distance = wants.profile.value_or(HeadDistance::kCosine);
    for (double & entropy : out.entropy) { columns.entropy.push_back(&entropy); }
}

void plan_observation(const RaggedCache & cache, int seq, int layer, const float * queries,
                      std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out,
                      AttentionPlan & plan) {
    ObserveWants only_last;
    only_last.last = wants.last;
    if (wants == only_last) {  // the other queries need not be looked at
        queries +=
            static_cast<size_t>(cache.layout().shape.n_heads() * cache.layout().shape.head_dim) * (query_positions.size() - 1);
        query_positions = query_positions.last(1);
    }
    const CacheShape & shape = cache.layout().shape;
    AttentionTask & task = plan.task;
    fill_key_lanes(cache, seq, layer, task);
    task.n_queries = static_cast<int>(query_positions.size());
    task.q_head_stride = static_cast<size_t>(shape.head_dim);
    task.q_query_stride = task.q_head_stride * static_cast<size_t>(shape.n_heads());
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        LaneView & lane = task.lanes[static_cast<size_t>(h)];
        lane.positions = cache.positions(cache.lane(seq, layer, h)).data();
        lane.query_positions = query_positions.data();
        lane.q = queries + static_cast<size_t>(h * shape.n_group) * task.q_head_stride;
    }
    ask_for(wants, out, task.columns);
    for (const LaneView & lane : task.lanes) {
        const std::span positions(lane.positions, static_cast<size_t>(lane.length));
        const auto past = std::ranges::lower_bound(positions, query_positions.front()) - positions.begin();
        task.columns.past.push_back(static_cast<int>(past));
    }
    plan.make();
}

}  // namespace

bool can_observe_on_cpu(const CacheLayout & layout) {
    const auto k = format_of(layout.type_k);
    return k && can_attend(*k, *k, layout.shape.head_dim, 0);
}

Status observe_on_cpu(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                      std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out) {
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(8));
    CpuAttentionNode & node = build->workspace<CpuWorkspace>().next();
    node.plan.cancel = build->cancel();
    plan_observation(cache, seq, layer, queries, query_positions, wants, out, node.plan);
    node.scratch->reserve(node.plan);
    return run_on_threads(runner, *build, [&](int ith) { attend_part(node.plan, *node.scratch, ith); });
}

Status observe_on_this_thread(ObserveSpace & space, const RaggedCache & cache, int seq, int layer, const float * queries,
                              std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out,
                              const std::atomic<bool> * cancel) {
    space.plan.cancel = cancel;
    plan_observation(cache, seq, layer, queries, query_positions, wants, out, space.plan);
    space.scratch.reserve(space.plan);
    attend_part(space.plan, space.scratch, 0, 1);
    if (space.plan.finished()) { return {}; }
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) { return {ErrorCode::kCancelled, "cancelled"}; }
    return {ErrorCode::kOutOfMemory, "no memory for what the heads of a layer are asked"};
}

}  // namespace pith
