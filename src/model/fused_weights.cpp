// fused_weights.cpp - one tensor as several. Stage: model.
#include "model/fused_weights.h"

#include <ggml.h>

namespace pith {

std::vector<FusedWeight> fused_weights(const Hparams & hp) {
    std::vector<FusedWeight> all;
    if (hp.n_embd_per_layer > 0) {  // one matrix for all layers
        FusedWeight & one = all.emplace_back();
        one.name = "per_layer_model_proj.weight";
        for (int layer = 0; layer < hp.n_layers; ++layer) {
            one.parts.push_back({"blk." + std::to_string(layer) + "." + one.name, hp.n_embd_per_layer});
        }
    }
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        if (!hp.layer(layer).has_attention()) { continue; }  // they may have a tensor of that name that is one
        const int64_t n_q = int64_t{hp.head_dim_of(layer)} * hp.n_heads;
        const int64_t n_k = int64_t{hp.head_dim_of(layer)} * hp.n_kv_heads_of(layer);
        const int64_t n_v = int64_t{hp.head_dim_v_of(layer)} * hp.n_kv_heads_of(layer);
        const std::string blk = "blk." + std::to_string(layer) + ".";
        for (const char * end : {".weight", ".bias"}) {
            all.push_back({blk + "attn_qkv" + end,
                           {{blk + "attn_q" + end, n_q}, {blk + "attn_k" + end, n_k}, {blk + "attn_v" + end, n_v}}});
        }
        if (hp.form.gate_in_up && !hp.layer(layer).has_experts) {
            for (const char * end : {".weight", ".bias"}) {
                const int64_t n_ff = hp.layer(layer).n_ff;
                all.push_back({blk + "ffn_up" + end, {{blk + "ffn_gate" + end, n_ff}, {blk + "ffn_up" + end, n_ff}}});
            }
        }
    }
    return all;
}

Result<std::vector<GgufTensor>> split_rows(const GgufTensor & tensor, const FusedWeight & fused, const std::string & path) {
    // A bias is a column: a row of it is one number.
    const int rows = tensor.ne[1] == 1 && tensor.ne[2] == 1 ? 0 : 1;
    int64_t n_rows = 0;
    for (const FusedWeight::Part & part : fused.parts) { n_rows += part.n_rows; }
    if (tensor.ne[rows] != n_rows || tensor.ne[2] != 1 || (rows == 0 && ggml_blck_size(tensor.type) != 1)) {
        return {ErrorCode::kBadFile, "'" + path + "': tensor '" + tensor.name + "' has shape " + shape_text(tensor.ne) +
                                         ", expected " + std::to_string(n_rows) + " rows, those of '" +
                                         fused.parts.front().name + "' first"};
    }
    const size_t row_size = tensor.size / static_cast<size_t>(n_rows);
    std::vector<GgufTensor> parts;
    uint64_t offset = tensor.offset;
    for (const FusedWeight::Part & part : fused.parts) {
        GgufTensor one = tensor;
        one.name = part.name;
        one.ne[rows] = part.n_rows;
        one.offset = offset;
        one.size = row_size * static_cast<size_t>(part.n_rows);
        offset += one.size;
        parts.push_back(std::move(one));
    }
    return parts;
}

}  // namespace pith
