// gemma4.cpp - Gemma 4: windows in five layers of six, whose heads are smaller and more; values normed, experts beside a dense
// feed-forward in the 26B; E2B and E4B share keys among layers and tell each layer of its tokens. Stage: model.
#include <algorithm>
#include <cmath>

#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

constexpr float kGemma4WindowRopeBase = 10000.0F;
constexpr int kGemma4MaxHeadDim = 65536;

// What E2B and E4B have besides: the last layers read the keys of the last layer of their kind that has some, and each layer is
// told of its tokens.
Status read_effective_sizes(const KeyReader & keys, Hparams & hp) {
    constexpr const char * kShared = "attention.shared_kv_layers";
    int n_shared = 0;
    PITH_RETURN_IF_ERROR(keys.integer("embedding_length_per_layer_input", 0, 1 << 16, hp.n_embd_per_layer, false));
    PITH_RETURN_IF_ERROR(keys.integer(kShared, 0, hp.n_layers - 1, n_shared, false));
    const int n_own = hp.n_layers - n_shared;
    for (int l = n_own; l < hp.n_layers; ++l) {
        const int source = n_own - (hp.layer(l).window > 0 ? 2 : 1);
        if (source < 0 || hp.layer(source).window != hp.layer(l).window) {
            return keys.bad(kShared, "is " + std::to_string(n_shared) +
                                         ", but of the layers before these the last two are not one "
                                         "with a window and one without");
        }
        hp.layers[static_cast<size_t>(l)].kv_source = source;
    }
    return {};
}

Status read_gemma4(const KeyReader & keys, Hparams & hp) {
    constexpr const char * kPattern = "attention.sliding_window_pattern";
    hp.embedding_scale = std::sqrt(static_cast<float>(hp.n_embd));
    hp.attention_scale = 1.0F;  // queries and keys are normed
    PITH_RETURN_IF_ERROR(read_softcaps(keys, 0.0F, 0.0F, hp));
    if (!keys.is_list(kPattern)) { return keys.bad(kPattern, "is no list that says of each layer whether it has a window"); }
    PITH_RETURN_IF_ERROR(read_windows(keys, /*period=*/0, /*required=*/true, 0, hp));
    PITH_RETURN_IF_ERROR(read_effective_sizes(keys, hp));
    LayerHparams of_windows;
    of_windows.rope_base = kGemma4WindowRopeBase;
    of_windows.head_dim = hp.head_dim;
    of_windows.head_dim_v = hp.head_dim_v;
    PITH_RETURN_IF_ERROR(keys.real("rope.freq_base_swa", 1e-6F, of_windows.rope_base));
    PITH_RETURN_IF_ERROR(keys.integer("attention.key_length_swa", 1, kGemma4MaxHeadDim, of_windows.head_dim));
    PITH_RETURN_IF_ERROR(keys.integer("attention.value_length_swa", 1, kGemma4MaxHeadDim, of_windows.head_dim_v));
    if (hp.head_dim_v != hp.head_dim || of_windows.head_dim_v != of_windows.head_dim) {  // a layer's values may be its keys
        return keys.unsupported("attention.value_length", "is another than the keys' length");
    }
    of_windows.n_rot = std::min(hp.n_rot, of_windows.head_dim);
    PITH_RETURN_IF_ERROR(keys.integer("rope.dimension_count_swa", 2, of_windows.head_dim, of_windows.n_rot, false));
    if (of_windows.n_rot % 2 != 0) {
        return keys.bad("rope.dimension_count_swa", "is " + std::to_string(of_windows.n_rot) + ": RoPE turns pairs");
    }
    for (LayerHparams & layer : hp.layers) {
        if (layer.window == 0) { continue; }
        layer.head_dim = of_windows.head_dim;
        layer.head_dim_v = of_windows.head_dim_v;
        layer.n_rot = of_windows.n_rot;
        layer.rope_base = of_windows.rope_base;
        layer.rope_scales = false;
        layer.rope_factors = false;
    }
    return {};
}

}  // namespace

Architecture gemma4_architecture() {
    return {"gemma4",
            {.attn_post_norm = "post_attention_norm",
             .ffn_post_norm = "post_ffw_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .unlike_heads = true,
             .value_norm = true,
             .activation = Activation::kGelu,
             .experts = Experts::kWhereSaid,
             .experts_beside_dense = true,
             .layer_scale = true},
            read_gemma4};
}

}  // namespace pith
