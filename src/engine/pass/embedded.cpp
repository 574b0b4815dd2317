// embedded.cpp - rows as ggml's get_rows() has them.
#include "engine/pass/embedded.h"

#include <algorithm>
#include <span>
#include <string>

#include "model/layer_graph.h"

namespace pith {
namespace {

void copy_rows(const ggml_tensor * table, std::span<const int32_t> rows, float * to) {
    const auto to_float = ggml_get_type_traits(table->type)->to_float;
    for (const int32_t row : rows) {
        const uint8_t * from = static_cast<const uint8_t *>(table->data) + static_cast<size_t>(row) * table->nb[1];
        if (table->type == GGML_TYPE_F32) {
            std::copy_n(reinterpret_cast<const float *>(from), table->ne[0], to);
        } else {
            to_float(from, to, table->ne[0]);
        }
        to += table->ne[0];
    }
}

}  // namespace

Status check_rows(const ModelFile & file, std::span<const int32_t> tokens) {
    const int64_t n_rows = file.weights().token_embd->ne[1];
    const auto wrong = std::ranges::find_if(tokens, [n_rows](int32_t token) { return token < 0 || token >= n_rows; });
    if (wrong == tokens.end()) { return {}; }
    return {ErrorCode::kInvalidArgument,
            "token " + std::to_string(*wrong) + " is none of the " + std::to_string(n_rows) + " that have an embedding"};
}

ggml_tensor * embedded(GraphBuild & build, const ModelFile & file, const int32_t * tokens, ggml_tensor * input) {
    const Hparams & hp = file.hparams();
    const ggml_tensor * table = file.weights().token_embd;
    const bool first_is_there = file.placement() != nullptr && file.placement()->of_layer.front() != Placement::kCpu;
    if (!first_is_there) { return build_embedding(build.ctx(), hp, file.weights(), input); }
    const auto n = static_cast<size_t>(input->ne[0]);
    ggml_tensor * rows = build.input<float>(GGML_TYPE_F32, table->ne[0], input->ne[0], [table, tokens, n](std::span<float> to) {
        copy_rows(table, {tokens, n}, to.data());
    });
    return hp.embedding_scale == 1.0F ? rows : ggml_scale(build.ctx(), rows, hp.embedding_scale);
}

}  // namespace pith
