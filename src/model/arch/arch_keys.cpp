// arch_keys.cpp - keys of several architectures. Stage: model.
#include "model/arch/arch_keys.h"

#include <array>
#include <utility>
#include <vector>

namespace pith {
namespace {

// Of recurrent layers: small enough that a state's size fits an int.
constexpr int kMaxStateHeads = 1024;
constexpr int kMaxStateDim = 1024;

// Which of the four sections a pair belongs to, as ggml_rope_multi deals them out.
int section_of(int pair, const std::array<int, 4> & sections, bool interleaved) {
    const int at = pair % (sections[0] + sections[1] + sections[2] + sections[3]);
    if (interleaved) { return at < 3 * sections[static_cast<size_t>(at % 3)] ? at % 3 : 3; }
    int end = 0;
    for (int s = 0; s < 3; ++s) {
        end += sections[static_cast<size_t>(s)];
        if (at < end) { return s; }
    }
    return 3;
}

}  // namespace

Status read_rope_sections(const KeyReader & keys, bool interleaved, bool required, Hparams & hp) {
    constexpr const char * kKey = "rope.dimension_sections";
    std::vector<double> list;
    // Ollama's files have no number for the rest.
    PITH_RETURN_IF_ERROR(keys.numbers(kKey, keys.list_size(kKey) == 3 ? 3 : 4, list, required));
    std::array<int, 4> sections{};
    int sum = 0;
    for (size_t s = 0; s < list.size(); ++s) {
        if (!(list[s] >= 0 && list[s] <= hp.n_rot)) {
            return keys.bad(kKey, "has a number that is not from 0 to the rotated dimensions");
        }
        sections[s] = static_cast<int>(list[s]);
        sum += sections[s];
    }
    if (sections[0] == 0 || sections[1] == 0) {  // no sections: the model's plain RoPE
        return required ? keys.bad(kKey, "has no pairs for time or height") : Status{};
    }
    if (sum > hp.n_rot / 2) {
        return keys.bad(kKey, "adds up to " + std::to_string(sum) + " pairs of dimensions, of which " +
                                  std::to_string(hp.n_rot / 2) + " are rotated");
    }
    hp.form.rope = RopeKind::kHalves;
    for (int pair = 0; pair < hp.n_rot / 2; ++pair) {
        if (section_of(pair, sections, interleaved) == 3) { hp.unrotated_pairs.push_back(pair); }
    }
    return {};
}

Status read_granite(const KeyReader & keys, Hparams & hp) {
    const auto read = [&](const char * key, float & out) -> Status {
        float value = 0.0F;
        PITH_RETURN_IF_ERROR(keys.real(key, 0.0F, value));
        if (value != 0.0F) { out = value; }
        return {};
    };
    float divisor = 1.0F;
    PITH_RETURN_IF_ERROR(read("embedding_scale", hp.embedding_scale));
    PITH_RETURN_IF_ERROR(read("residual_scale", hp.residual_scale));
    PITH_RETURN_IF_ERROR(read("attention.scale", hp.attention_scale));
    PITH_RETURN_IF_ERROR(read("logit_scale", divisor));
    hp.logit_scale = 1.0F / divisor;
    bool rotates = true;
    PITH_RETURN_IF_ERROR(keys.flag("rope.scaling.finetuned", rotates));
    for (LayerHparams & layer : hp.layers) { layer.rotates = rotates; }
    return {};
}

Status read_expert_weights(const KeyReader & keys, Hparams & hp) {
    hp.norm_expert_weights = false;
    PITH_RETURN_IF_ERROR(keys.flag("expert_weights_norm", hp.norm_expert_weights));
    float scale = 0.0F;
    PITH_RETURN_IF_ERROR(keys.real("expert_weights_scale", 0.0F, scale));
    if (scale != 0.0F) { hp.expert_weights_scale = scale; }
    return {};
}

namespace {

// Layers with a window may rotate by a base of their own.
Status read_window_base(const KeyReader & keys, Hparams & hp) {
    for (LayerHparams & layer : hp.layers) {
        if (layer.window > 0) { PITH_RETURN_IF_ERROR(keys.real("rope.freq_base_swa", 1e-6F, layer.rope_base)); }
    }
    return {};
}

}  // namespace

Status read_windows(const KeyReader & keys, int period, bool required, int otherwise, Hparams & hp) {
    constexpr const char * kPattern = "attention.sliding_window_pattern";
    int window = otherwise;
    PITH_RETURN_IF_ERROR(keys.integer("attention.sliding_window", 0, 1 << 30, window, required));
    if (window == 0) { return {}; }
    if (keys.is_list(kPattern)) {
        std::vector<double> list;
        PITH_RETURN_IF_ERROR(keys.numbers(kPattern, hp.layers.size(), list, true, hp.n_more_blocks()));
        for (size_t l = 0; l < list.size(); ++l) { hp.layers[l].window = list[l] != 0.0 ? window : 0; }
        return read_window_base(keys, hp);
    }
    PITH_RETURN_IF_ERROR(keys.integer(kPattern, 0, 1 << 16, period, false));
    for (size_t l = 0; l < hp.layers.size(); ++l) {
        const bool is_last = period > 0 && l % static_cast<size_t>(period) == static_cast<size_t>(period) - 1;
        hp.layers[l].window = is_last ? 0 : window;
    }
    return read_window_base(keys, hp);
}

Status read_softcaps(const KeyReader & keys, float attention_otherwise, float logits_otherwise, Hparams & hp) {
    hp.attention_softcap = attention_otherwise;
    hp.logit_softcap = logits_otherwise;
    PITH_RETURN_IF_ERROR(keys.real("attn_logit_softcapping", 0.0F, hp.attention_softcap));
    return keys.real("final_logit_softcapping", 0.0F, hp.logit_softcap);
}

Status read_short_convolutions(const KeyReader & keys, Hparams & hp) {
    hp.recurrent.n_channels = hp.n_embd;
    return keys.integer("shortconv.l_cache", 2, 64, hp.recurrent.n_conv);
}

Status read_delta_nets(const KeyReader & keys, Hparams & hp) {
    RecurrentHparams & of = hp.recurrent;
    int n_values = 0;
    int interval = 4;
    PITH_RETURN_IF_ERROR(keys.integer("ssm.conv_kernel", 2, 64, of.n_conv));
    PITH_RETURN_IF_ERROR(keys.integer("ssm.state_size", 1, kMaxStateDim, of.head_dim));
    PITH_RETURN_IF_ERROR(keys.integer("ssm.time_step_rank", 1, kMaxStateHeads, of.n_heads));
    PITH_RETURN_IF_ERROR(keys.integer("ssm.group_count", 1, kMaxStateHeads, of.n_key_heads));
    PITH_RETURN_IF_ERROR(keys.integer("ssm.inner_size", 1, kMaxStateHeads * kMaxStateDim, n_values));
    PITH_RETURN_IF_ERROR(keys.integer("full_attention_interval", 1, 1 << 16, interval, false));
    if (of.n_heads % of.n_key_heads != 0) {
        return keys.bad("ssm.time_step_rank", "is " + std::to_string(of.n_heads) +
                                                  ", no multiple of ssm.group_count, which is " +
                                                  std::to_string(of.n_key_heads));
    }
    if (n_values != of.n_heads * of.head_dim) {
        return keys.unsupported("ssm.inner_size", "is " + std::to_string(n_values) + ", and is run where it is " +
                                                      std::to_string(of.n_heads * of.head_dim) +
                                                      ", ssm.time_step_rank times ssm.state_size");
    }
    if (hp.head_dim_v != hp.head_dim) {
        return keys.unsupported("attention.value_length", "is not attention.key_length: the gate of the output has both");
    }
    of.n_channels = (2 * of.n_key_heads + of.n_heads) * of.head_dim;
    of.n_memory = of.n_heads * of.head_dim * of.head_dim;
    std::vector<double> list;
    PITH_RETURN_IF_ERROR(keys.numbers("attention.recurrent_layers", hp.layers.size(), list, false, hp.n_more_blocks()));
    for (size_t l = 0; l < hp.layers.size(); ++l) {
        const bool is_last = l % static_cast<size_t>(interval) == static_cast<size_t>(interval) - 1;
        hp.layers[l].recurrent = list.empty() ? !is_last : list[l] != 0.0;
    }
    return {};
}

Status read_mamba2(const KeyReader & keys, Hparams & hp) {
    RecurrentHparams & of = hp.recurrent;
    int n_values = 0;
    PITH_RETURN_IF_ERROR(keys.integer("ssm.conv_kernel", 2, 64, of.n_conv));
    PITH_RETURN_IF_ERROR(keys.integer("ssm.state_size", 1, kMaxStateDim, of.n_state));
    PITH_RETURN_IF_ERROR(keys.integer("ssm.time_step_rank", 1, kMaxStateHeads, of.n_heads));
    PITH_RETURN_IF_ERROR(keys.integer("ssm.group_count", 1, kMaxStateHeads, of.n_key_heads));
    PITH_RETURN_IF_ERROR(keys.integer("ssm.inner_size", 1, kMaxStateHeads * kMaxStateDim, n_values));
    for (const auto & [key, n] : {std::pair{"ssm.time_step_rank", of.n_heads}, std::pair{"ssm.group_count", of.n_key_heads}}) {
        if (n_values % n == 0) { continue; }
        return keys.bad("ssm.inner_size",
                        "is " + std::to_string(n_values) + ", no multiple of " + key + ", which is " + std::to_string(n));
    }
    if (of.n_heads % of.n_key_heads != 0) {
        return keys.bad("ssm.time_step_rank", "is " + std::to_string(of.n_heads) +
                                                  ", no multiple of ssm.group_count, which is " +
                                                  std::to_string(of.n_key_heads));
    }
    of.head_dim = n_values / of.n_heads;
    of.n_channels = n_values + 2 * of.n_key_heads * of.n_state;
    of.n_memory = n_values * of.n_state;
    return {};
}

Status read_nemotron_h(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(read_mamba2(keys, hp));
    for (size_t l = 0; l < hp.layers.size(); ++l) {
        LayerHparams & layer = hp.layers[l];
        layer.has_feed_forward = layer.n_ff > 0;
        if (!layer.has_feed_forward) { continue; }
        if (!layer.recurrent) {
            return keys.unsupported(
                "feed_forward_length",
                "gives layer " + std::to_string(l) + " a feed-forward beside its attention, of which it may have one");
        }
        layer.recurrent = false;
        layer.feed_forward_only = true;
    }
    return {};
}

Status refuse_windows(const KeyReader & keys) {
    int window = 0;
    PITH_RETURN_IF_ERROR(keys.integer("attention.sliding_window", 0, 1 << 30, window, false));
    if (window == 0) { return {}; }
    return keys.unsupported("attention.sliding_window", "is " + std::to_string(window) + ": windows are not run yet");
}

}  // namespace pith
