// random_types.cpp - see random_types.h. Mixtures: what llama.cpp's quantisation gives to files of that name.
#include "model/random/random_types.h"

#include <strings.h>

#include <cstdlib>

#include "model/weight_store.h"

namespace pith {
namespace {

bool is_named(const std::string & name, const char * other) {
    return strcasecmp(name.c_str(), other) == 0;
}

// "blk.7.ffn_down.weight" is of layer 7; -1: of none.
int layer_of(const std::string & name) {
    return name.starts_with("blk.") ? std::atoi(name.c_str() + 4) : -1;
}

// The first and the last eighth of all layers, and each third between them.
bool gets_more_bits(int layer, int n_layers) {
    const int eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

bool has(const std::string & name, const char * part) {
    return name.find(part) != std::string::npos;
}

}  // namespace

Result<RandomTypes> RandomTypes::of(const RandomModelSpec & spec) {
    RandomTypes types;
    types.n_layers_ = spec.n_layers;
    types.tied_ = spec.tied;
    const std::string & name = spec.weight_type;
    if (is_named(name, "q4_K_M")) {
        types.mixture_ = Mixture::kQ4_K_M;
        types.type_ = GGML_TYPE_Q4_K;
        return types;
    }
    if (is_named(name, "mxfp4_moe")) {
        types.mixture_ = Mixture::kMXFP4_MoE;
        types.type_ = GGML_TYPE_Q8_0;
        return types;
    }
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        const char * type_name = ggml_type_name(type);
        if (is_weight_type(type) && type_name != nullptr && is_named(name, type_name)) {
            types.type_ = type;
            return types;
        }
    }
    return {ErrorCode::kInvalidArgument, "random model: unknown weight type '" + name +
                                             "'; use one of ggml's, such as f32, f16, bf16, q8_0, q4_0, q4_K, or a mixture: "
                                             "q4_K_M, mxfp4_moe"};
}

ggml_type RandomTypes::type_of(const WantedWeight & weight) const {
    const std::string & name = weight.name;
    switch (mixture_) {
        case Mixture::kNone:
            break;
        case Mixture::kQ4_K_M: {
            const bool is_head = name == "output.weight" || (tied_ && name == "token_embd.weight");
            const bool is_wide = has(name, ".attn_v.") || has(name, ".ffn_down.") || has(name, ".ffn_down_exps.");
            return is_head || (is_wide && gets_more_bits(layer_of(name), n_layers_)) ? GGML_TYPE_Q6_K : type_;
        }
        case Mixture::kMXFP4_MoE:
            return weight.use == WeightUse::kExperts ? GGML_TYPE_MXFP4 : type_;
    }
    return type_;
}

}  // namespace pith
