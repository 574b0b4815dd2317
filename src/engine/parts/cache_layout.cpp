// cache_layout.cpp - hyper-parameters and sinks to lanes. Stage: set-up.
#include "engine/parts/cache_layout.h"

#include <ggml-backend.h>

#include <cmath>
#include <complex>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device_work.h"

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

// The mean of cos(p·frequency) + i·sin(p·frequency) over the positions p < n.
std::complex<double> mean_turn(double frequency, int n) {
    const std::complex<double> step = 1.0 - std::polar(1.0, frequency);
    return step == 0.0 ? 1.0 : (1.0 - std::polar(1.0, n * frequency)) / (step * static_cast<double>(n));
}

// Cache files depend on it (docs/cache-format.md). Qwen2.5's large biases are those of pairs that take 500,000 positions for a
// turn.
constexpr int kMeanOver = 4096;

// The mean over the first positions of the keys' bias behind RoPE. Of slow pairs most of the bias is left, of fast ones
// nothing. Where scores meet something else than each other (a sink, a cap), keys must stay whole; behind a norm the bias is no
// longer what keys have in common. It may be any vector: scaled frequencies only make it a worse one.
using KeyOffsets = std::shared_ptr<const std::vector<std::vector<float>>>;
Result<KeyOffsets> read_key_offsets(const ModelFile & model) {
    const Hparams & hp = model.hparams();
    if (hp.form.sinks || hp.attention_softcap != 0.0F || hp.form.qk_norm != QkNorm::kNone) { return KeyOffsets(); }
    auto offsets = std::make_shared<std::vector<std::vector<float>>>();
    for (int l = 0; l < hp.n_layers; ++l) {
        std::vector<float> & all = offsets->emplace_back();
        const ggml_tensor * bias = model.weights().layers[static_cast<size_t>(l)].bk;
        if (bias == nullptr) { continue; }
        all.resize(static_cast<size_t>(bias->ne[0]));
        PITH_RETURN_IF_ERROR(read_tensor(bias, all.data(), 0, ggml_nbytes(bias)));
        if (!hp.layer(l).rotates) { continue; }
        const int half = hp.n_rot_of(l) / 2;
        const double base = double{hp.layer(l).rope_base != 0.0F ? hp.layer(l).rope_base : hp.rope_base};
        for (int i = 0; i < half; ++i) {
            const std::complex<double> turn = mean_turn(std::pow(base, -double(i) / half), kMeanOver);
            const bool halves = hp.form.rope == RopeKind::kHalves;
            for (size_t first = 0; first < all.size(); first += static_cast<size_t>(hp.head_dim_of(l))) {
                float & a = all[first + static_cast<size_t>(halves ? i : 2 * i)];
                float & b = all[first + static_cast<size_t>(halves ? i + half : 2 * i + 1)];
                const std::complex<double> turned = std::complex<double>(a, b) * turn;
                a = static_cast<float>(turned.real());
                b = static_cast<float>(turned.imag());
            }
        }
    }
    return KeyOffsets(std::move(offsets));
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

Status rotate_quantised(const ModelFile & model, CacheLayout & layout) {
    layout.rotates_quantised = true;
    if (layout.rotates_k()) { PITH_ASSIGN_OR_RETURN(layout.key_offsets, read_key_offsets(model)); }
    return {};
}

Result<ColdStore> empty_cold_store(const ModelFile & model, const SessionOptions & options) {
    auto layout = std::make_shared<CacheLayout>(cache_layout(model, *options.cold, *options.cold));
    if (options.rotate_kv) { PITH_RETURN_IF_ERROR(rotate_quantised(model, *layout)); }
    for (int l = 0; l < layout->n_layers(); ++l) {
        const int block = static_cast<int>(ggml_blck_size(layout->type_k));
        for (const int d : {layout->lanes(l).head_dim, layout->lanes(l).head_dim_v}) {
            if (!layout->governs(l) || d % block == 0) { continue; }
            return {ErrorCode::kUnsupported, "cold " + std::string(to_string(*options.cold)) + ": its blocks of " +
                                                 std::to_string(block) + " do not divide the model's head size " +
                                                 std::to_string(d) + "; use f16"};
        }
    }
    return ColdStore(std::move(layout), options.cold_bytes);
}

}  // namespace pith
