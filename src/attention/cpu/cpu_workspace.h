// cpu_workspace.h - the attention plans of a graph's operations, what they write, and the memory they share, kept from graph to
// graph. Stage: attention.
#pragma once

#include <algorithm>
#include <deque>

#include "attention/cpu/cpu_attention.h"
#include "attention/cpu/lane_batch.h"
#include "device/graph_workspace.h"

namespace pith {

struct CpuAttentionNode {
    AttentionPlan plan;
    AttentionScratch * scratch = nullptr;
};

// Rows of a graph that go into lanes.
struct CpuWriteNode {
    LaneBatchPtr batch;
    int layer = 0;
};

class CpuWorkspace final : public GraphWorkspace {
public:
    // One for each attention operation of a graph; valid until the next graph begins.
    CpuAttentionNode & next() {
        if (n_used_ == nodes_.size()) { nodes_.emplace_back().scratch = &scratch_; }
        return nodes_[n_used_++];
    }
    CpuWriteNode & next_write() {
        if (n_writes_ == writes_.size()) { writes_.emplace_back(); }
        return writes_[n_writes_++];
    }
    void begin_graph() override { n_used_ = n_writes_ = 0; }
    // Whether the plans of the last run were carried out: there was memory for them.
    bool finished() const override {
        return std::all_of(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(n_used_),
                           [](const CpuAttentionNode & node) { return node.plan.finished(); });
    }

    size_t size_bytes() const override { return scratch_.size_bytes(); }

private:
    AttentionScratch scratch_;  // the operations of a graph run one after another
    std::deque<CpuAttentionNode> nodes_;
    size_t n_used_ = 0;
    std::deque<CpuWriteNode> writes_;
    size_t n_writes_ = 0;
};

}  // namespace pith
