// cache_layout.cpp - hyper-parameters and sinks to lanes. Stage: set-up.
#include "engine/cache_layout.h"

#include <ggml-backend.h>

#include <memory>
#include <utility>
#include <vector>

namespace pith {
namespace {

std::shared_ptr<const std::vector<std::vector<float>>> read_sinks(const ModelFile & model) {
    if (!model.hparams().form.sinks) { return nullptr; }
    auto sinks = std::make_shared<std::vector<std::vector<float>>>();
    for (const LayerWeights & layer : model.weights().layers) {
        std::vector<float> & values = sinks->emplace_back(static_cast<size_t>(layer.sinks->ne[0]));
        ggml_backend_tensor_get(layer.sinks, values.data(), 0, ggml_nbytes(layer.sinks));
    }
    return sinks;
}

}  // namespace

CacheLayout cache_layout(const ModelFile & model, KvType type_k, KvType type_v) {
    const Hparams & hp = model.hparams();
    CacheLayout layout;
    layout.shape = {hp.n_governed_layers(), hp.n_kv_heads, hp.n_group(), hp.head_dim};
    layout.head_dim_v = hp.head_dim_v;
    layout.type_k = to_ggml(type_k);
    layout.type_v = to_ggml(type_v);
    layout.attention_scale = hp.attention_scale;
    layout.attention_softcap = hp.attention_softcap;
    layout.sinks = read_sinks(model);
    if (hp.governs_all()) { return layout; }
    layout.state_bytes =
        static_cast<size_t>(hp.n_recurrent_layers()) * static_cast<size_t>(hp.recurrent.n_floats()) * sizeof(float);
    for (int l = 0; l < hp.n_layers; ++l) {
        const LayerHparams & of = hp.layer(l);
        const int n_kv_heads = hp.n_kv_heads_of(l);
        layout.layers.push_back({.n_kv_heads = of.has_keys() ? n_kv_heads : 0,
                                 .n_group = hp.n_heads / n_kv_heads,
                                 .head_dim = hp.head_dim_of(l),
                                 .head_dim_v = hp.head_dim_v_of(l),
                                 .window = of.has_keys() ? of.window : 0,
                                 .chunked = of.chunked,
                                 .source = of.kv_source});
    }
    return layout;
}

}  // namespace pith
