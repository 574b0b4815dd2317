// graph_profile.cpp - cutting by kind, timing piece by piece.
#include "device/graph_profile.h"

#include <cstring>

#include "core/stopwatch.h"

namespace pith {
namespace {

struct Range {
    GraphPart part = GraphPart::kRest;
    int begin = 0;
    int end = 0;
};

// Only other views of memory: nothing is computed.
bool is_view(const ggml_tensor * node) {
    return node->op == GGML_OP_NONE || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_VIEW || node->op == GGML_OP_PERMUTE ||
           node->op == GGML_OP_TRANSPOSE;
}

std::vector<Range> ranges_of(ggml_cgraph * graph) {
    std::vector<Range> ranges;
    const int n_nodes = ggml_graph_n_nodes(graph);
    for (int i = 0; i < n_nodes; ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        const bool follows = !ranges.empty() && (is_view(node) || part_of(node) == ranges.back().part);
        if (!follows) { ranges.push_back({part_of(node), i, i}); }
        ranges.back().end = i + 1;
    }
    return ranges;
}

}  // namespace

const char * name_of(GraphPart part) {
    switch (part) {
        case GraphPart::kWeights:
            return "weights";
        case GraphPart::kAttention:
            return "attention";
        case GraphPart::kEvidence:
            return "evidence";
        case GraphPart::kRest:
            return "rest";
    }
    return "";
}

GraphPart part_of(const ggml_tensor * node) {
    switch (node->op) {
        case GGML_OP_MUL_MAT:
        case GGML_OP_MUL_MAT_ID:
            return GraphPart::kWeights;
        case GGML_OP_GET_ROWS: {  // of the embeddings; others pick rows of activations
            const ggml_tensor * from = node->src[0];
            const bool is_weight = from->op == GGML_OP_NONE && (from->flags & GGML_TENSOR_FLAG_INPUT) == 0;
            return is_weight ? GraphPart::kWeights : GraphPart::kRest;
        }
        case GGML_OP_SET_ROWS:
        case GGML_OP_CPY:  // K and V expanded for ggml's tiles
        case GGML_OP_CONCAT:
        case GGML_OP_FLASH_ATTN_EXT:
            return GraphPart::kAttention;
        case GGML_OP_CUSTOM:
            for (const GraphPart part : {GraphPart::kWeights, GraphPart::kAttention, GraphPart::kEvidence}) {
                if (std::strcmp(node->name, name_of(part)) == 0) { return part; }
            }
            return GraphPart::kRest;
        default:
            return GraphPart::kRest;
    }
}

double & GraphProfile::of(GraphPart part) {
    switch (part) {
        case GraphPart::kWeights:
            return weights_s;
        case GraphPart::kAttention:
            return attention_s;
        case GraphPart::kEvidence:
            return evidence_s;
        case GraphPart::kRest:
            break;
    }
    return rest_s;
}

GraphPieces::~GraphPieces() {
    clear();
}

void GraphPieces::clear() {
    if (ctx_ != nullptr) { ggml_free(ctx_); }
    ctx_ = nullptr;
    pieces_.clear();
}

bool GraphPieces::cut(ggml_cgraph * graph) {
    const std::vector<Range> ranges = ranges_of(graph);
    size_t size = 0;
    for (const Range & range : ranges) {
        size += ggml_graph_overhead_custom(static_cast<size_t>(range.end - range.begin), false);
    }
    ctx_ = ggml_init({size, nullptr, true});
    if (ctx_ == nullptr) { return false; }
    for (const Range & range : ranges) {
        ggml_cgraph * piece = ggml_new_graph_custom(ctx_, static_cast<size_t>(range.end - range.begin), false);
        for (int i = range.begin; i < range.end; ++i) { ggml_graph_add_node(piece, ggml_graph_node(graph, i)); }
        pieces_.push_back({range.part, piece});
    }
    return true;
}

ggml_status GraphPieces::run(ggml_backend_t backend, GraphProfile & profile) const {
    for (const Piece & piece : pieces_) {
        const Stopwatch watch;
        const ggml_status status = ggml_backend_graph_compute(backend, piece.graph);
        if (status != GGML_STATUS_SUCCESS) { return status; }
        profile.of(piece.part) += watch.seconds();
    }
    return GGML_STATUS_SUCCESS;
}

}  // namespace pith
