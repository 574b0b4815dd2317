// sampler.cpp - picks the next token by libllama's samplers, without a llama_context. Stage: text.
// Order as in llama.cpp's tools: penalties, top-k, top-p, min-p, temperature, draw.
// Threads: one at a time. Cost: O(n_vocab) a token.
#include <llama.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "pith/text.h"
#include "text/llama_log.h"

namespace pith {
namespace {

struct FreeSampler {
    void operator()(llama_sampler * sampler) const { llama_sampler_free(sampler); }
};
using SamplerPtr = std::unique_ptr<llama_sampler, FreeSampler>;

SamplerPtr make_chain(const SamplerOptions & options, int32_t n_vocab) {
    SamplerPtr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
    const auto add = [&chain](llama_sampler * part) { llama_sampler_chain_add(chain.get(), part); };
    if (options.repeat_penalty != 1.0F && options.repeat_last_n > 0) {
        add(llama_sampler_init_penalties(n_vocab, options.repeat_last_n, options.repeat_penalty, 0.0F, 0.0F));
    }
    if (options.temperature <= 0) {
        add(llama_sampler_init_greedy());
        return chain;
    }
    add(llama_sampler_init_top_k(options.top_k));
    add(llama_sampler_init_top_p(options.top_p, 1));
    add(llama_sampler_init_min_p(options.min_p, 1));
    add(llama_sampler_init_temp(options.temperature));
    add(llama_sampler_init_dist(options.seed));
    return chain;
}

Status check_range(const char * name, float value, float low, float high) {
    if (std::isfinite(value) && value >= low && value <= high) { return {}; }
    return {ErrorCode::kInvalidArgument, std::string(name) + " is " + std::to_string(value) + ": give " + std::to_string(low) +
                                             " to " + std::to_string(high)};
}

}  // namespace

struct Sampler::Impl {
    SamplerOptions options;
    SamplerPtr chain;  // made with the first logits: the penalties need to know how many there are
    std::vector<llama_token_data> candidates;
};

Result<Sampler> Sampler::make(const SamplerOptions & options) {
    PITH_RETURN_IF_ERROR(check_range("temperature", options.temperature, 0.0F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range("top-p", options.top_p, 0.0F, 1.0F));
    PITH_RETURN_IF_ERROR(check_range("min-p", options.min_p, 0.0F, 1.0F));
    PITH_RETURN_IF_ERROR(check_range("repeat penalty", options.repeat_penalty, 0.01F, 100.0F));
    route_llama_log();
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    return Sampler(std::move(impl));
}

int32_t Sampler::sample(std::span<const float> logits) {
    if (logits.empty()) { return -1; }
    if (!impl_->chain) { impl_->chain = make_chain(impl_->options, static_cast<int32_t>(logits.size())); }
    auto & candidates = impl_->candidates;
    candidates.resize(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) { candidates[i] = {static_cast<llama_token>(i), logits[i], 0.0F}; }
    llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(impl_->chain.get(), &array);
    const llama_token token = array.data[array.selected >= 0 ? array.selected : 0].id;
    llama_sampler_accept(impl_->chain.get(), token);
    return token;
}

void Sampler::reset() {
    if (impl_->chain) { llama_sampler_reset(impl_->chain.get()); }
}

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::Sampler(Sampler &&) noexcept = default;
Sampler & Sampler::operator=(Sampler &&) noexcept = default;
Sampler::~Sampler() = default;

}  // namespace pith
