// lfm2.cpp - LFM 2: short convolutions in most layers, attention in the others; the norm behind the last layer goes by the
// embedding's name. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

namespace {

// The widths that Ollama's files say, which are known by the name of the last norm, are not always those of their matrices.
Status read_lfm2(const KeyReader & keys, Hparams & hp) {
    const bool is_ollamas = keys.tensor_size("output_norm.weight", 0) > 0 && keys.tensor_size("token_embd_norm.weight", 0) == 0;
    const int64_t n_rows = is_ollamas ? keys.tensor_size("blk.0.ffn_gate.weight", 1) : 0;
    if (n_rows > 0 && n_rows <= (1 << 24)) {
        hp.n_ff = static_cast<int>(n_rows);
        for (LayerHparams & layer : hp.layers) { layer.n_ff = hp.n_ff; }
    }
    return read_short_convolutions(keys, hp);
}

}  // namespace

Architecture lfm2_architecture() {
    return {"lfm2",
            {.output_norm = "token_embd_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .recurrent = Recurrent::kShortConv},
            read_lfm2};
}

}  // namespace pith
