// random_tensors.cpp - see random_tensors.h.
#include "model/random/random_tensors.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/arch/architecture.h"
#include "model/random/random_keys.h"
#include "model/random/random_types.h"
#include "model/random/random_vocab.h"
#include "model/weight_table.h"

namespace pith {
namespace {

constexpr float kNormSpread = 0.1F;  // norms are 1 ± this, so that a forgotten norm shows
constexpr float kBiasSpread = 0.2F;

Status invalid(const std::string & what) {
    return {ErrorCode::kInvalidArgument, "random model: " + what};
}

Status check_spec(const RandomModelSpec & spec) {
    const Architecture * arch = find_architecture(spec.arch);
    if (arch == nullptr) { return invalid("unknown architecture '" + spec.arch + "'; known are " + architecture_names()); }
    const bool experts = spec.n_experts > 0;
    struct Field {
        const char * name;
        int64_t value;
        int64_t low;
        int64_t high;
    };
    constexpr int kMax = 1 << 20;
    const Field fields[] = {
        {"n_layers", spec.n_layers, 1, 1024},
        {"n_embd", spec.n_embd, 2, kMax},
        {"n_heads", spec.n_heads, 1, 1024},
        {"n_kv_heads", spec.n_kv_heads, 1, spec.n_heads},
        {"head_dim", spec.head_dim, 2, 1024},
        {"n_ff", spec.n_ff, experts ? 0 : 1, kMax},
        {"n_vocab", spec.n_vocab, min_random_vocab(spec.byte_tokens), 1 << 22},
        {"n_ctx_train", spec.n_ctx_train, 1, 1 << 30},
        {"n_experts", spec.n_experts, arch->form.experts == Experts::kAlways ? 1 : 0, 1024},
        {"n_experts_used", spec.n_experts_used, experts ? 1 : 0, spec.n_experts},
        {"n_ff_expert", spec.n_ff_expert, experts ? 1 : 0, kMax},
        {"window", spec.window, 0, 1 << 30},
        {"n_splits", spec.n_splits, 1, 1024},
    };
    for (const Field & field : fields) {
        if (field.value < field.low || field.value > field.high) {
            return invalid(std::string(field.name) + " is " + std::to_string(field.value) + ", must be " +
                           std::to_string(field.low) + " to " + std::to_string(field.high));
        }
    }
    if (spec.n_heads % spec.n_kv_heads != 0) {
        return invalid("n_heads " + std::to_string(spec.n_heads) + " is no multiple of n_kv_heads " +
                       std::to_string(spec.n_kv_heads));
    }
    if (spec.head_dim % 2 != 0) { return invalid("head_dim " + std::to_string(spec.head_dim) + " is odd; RoPE turns pairs"); }
    if (experts && arch->form.experts == Experts::kNone) {
        return invalid("n_experts is " + std::to_string(spec.n_experts) + ", but architecture " + spec.arch +
                       " has no experts");
    }
    if (!(spec.rope_factor > 0.0F) || !(spec.rope_base > 0.0F)) {
        return invalid("rope_factor and rope_base must be positive");
    }
    return {};
}

// Llama 3.1's frequency factors: long waves are slowed by the factor, short ones kept, those between blended.
std::vector<float> llama3_factors(const RandomModelSpec & spec) {
    constexpr double kLowFreqFactor = 1.0;
    constexpr double kHighFreqFactor = 4.0;
    const double factor = spec.rope_factor > 1.0F ? spec.rope_factor : 8.0;
    const double n_ctx_orig = spec.rope_n_ctx_orig > 0 ? spec.rope_n_ctx_orig : std::max(1.0, spec.n_ctx_train / factor);
    std::vector<float> factors;
    for (int i = 0; i < spec.head_dim; i += 2) {
        const double frequency = std::pow(static_cast<double>(spec.rope_base), -static_cast<double>(i) / spec.head_dim);
        const double wave = 2.0 * std::numbers::pi / frequency;
        const double smooth = (n_ctx_orig / wave - kLowFreqFactor) / (kHighFreqFactor - kLowFreqFactor);
        factors.push_back(
            static_cast<float>(1.0 / ((1.0 - std::clamp(smooth, 0.0, 1.0)) / factor + std::clamp(smooth, 0.0, 1.0))));
    }
    return factors;
}

// What the weight table wants, but for what such a model may do without.
class TensorList {
public:
    TensorList(const RandomModelSpec & spec, const Hparams & hparams, const RandomTypes & types) : spec_(spec), types_(types) {
        Weights weights;
        for (const WantedWeight & wanted : wanted_weights(hparams, weights)) {
            if (wanted.slot == &weights.output ? !spec.tied : wanted.required) { add(wanted); }
            if (spec.llama3_freqs && wanted.slot == &weights.layers.front().rope_freqs) {
                add(wanted);
                tensors_.back().values = llama3_factors(spec);
            }
        }
    }
    std::vector<RandomTensorSpec> take() { return std::move(tensors_); }

private:
    void add(const WantedWeight & wanted) {
        const int64_t n_in = wanted.ne[0];
        RandomTensorSpec tensor;
        tensor.name = wanted.name;
        std::copy_n(wanted.ne.begin(), tensor.ne.size(), tensor.ne.begin());
        if (wanted.use == WeightUse::kVector) {
            tensor.n_dims = wanted.ne[1] > 1 ? 2 : 1;  // a bias an expert
            tensor.type = GGML_TYPE_F32;
            set_spread(tensor);
        } else {
            tensor.n_dims = wanted.use == WeightUse::kExperts ? 3 : 2;
            const bool is_router = wanted.name.ends_with("ffn_gate_inp.weight");  // it decides: no rounding
            tensor.type = is_router ? GGML_TYPE_F32 : types_.type_of(wanted);
            for (const ggml_type fallback : {GGML_TYPE_Q8_0, GGML_TYPE_F16}) {
                if (n_in % ggml_blck_size(tensor.type) != 0) { tensor.type = fallback; }
            }
            tensor.std_dev = 1.0F / std::sqrt(static_cast<float>(n_in));
            // Looked up alone, an embedding has a spread of 1; a tied one must also serve as the output matrix.
            if (wanted.use == WeightUse::kRows && !spec_.tied) { tensor.std_dev = 1.0F; }
        }
        tensors_.push_back(std::move(tensor));
    }

    // Of what is no matrix of weights: norms, biases, and what recurrent layers decay by, which must be negative.
    static void set_spread(RandomTensorSpec & tensor) {
        const auto is = [&](const char * end) { return tensor.name.ends_with(end); };
        const bool is_bias = is(".bias") || is("attn_sinks.weight");
        const bool is_product = is("conv1d.weight") || is("shortconv.conv.weight") || is("ffn_gate_inp_shexp.weight");
        tensor.mean = is_bias || is_product ? 0.0F : is("ssm_a") ? -1.0F : 1.0F;
        tensor.std_dev = is_bias ? kBiasSpread : is_product ? 1.0F / std::sqrt(static_cast<float>(tensor.ne[0])) : kNormSpread;
    }

    const RandomModelSpec & spec_;
    const RandomTypes & types_;
    std::vector<RandomTensorSpec> tensors_;
};

}  // namespace

Result<std::vector<RandomTensorSpec>> list_random_tensors(const RandomModelSpec & spec) {
    PITH_RETURN_IF_ERROR(check_spec(spec));
    PITH_ASSIGN_OR_RETURN(const RandomTypes types, RandomTypes::of(spec));
    PITH_ASSIGN_OR_RETURN(const Hparams hparams, random_hparams(spec));
    std::vector<RandomTensorSpec> tensors = TensorList(spec, hparams, types).take();
    if (static_cast<size_t>(spec.n_splits) > tensors.size()) {
        return invalid("n_splits is " + std::to_string(spec.n_splits) + ", more than the " + std::to_string(tensors.size()) +
                       " tensors");
    }
    return tensors;
}

}  // namespace pith
