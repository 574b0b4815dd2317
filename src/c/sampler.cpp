// sampler.cpp - samplers, from C. Stage: façade.
#include <memory>
#include <string>
#include <utility>

#include "c/handles.h"

using pith::ErrorCode;
using pith::Status;
using namespace pith::c;

namespace {

pith_sampler_options default_sampler_options() {
    const pith::SamplerOptions d;
    return {0,
            d.temperature,
            d.top_k,
            d.top_p,
            d.min_p,
            d.typical_p,
            d.top_n_sigma,
            d.xtc_probability,
            d.xtc_threshold,
            d.repeat_penalty,
            d.presence_penalty,
            d.frequency_penalty,
            d.repeat_last_n,
            d.dry_multiplier,
            d.dry_base,
            d.dry_allowed_length,
            d.dry_last_n,
            d.mirostat,
            d.mirostat_tau,
            d.mirostat_eta,
            nullptr,
            nullptr,
            d.seed};
}

}  // namespace

void pith_sampler_options_init(struct pith_sampler_options * options, size_t size) {
    init(options, size, default_sampler_options());
}

pith_code pith_sampler_new(const pith_model * model, const struct pith_sampler_options * options, pith_sampler ** sampler) {
    return guarded([&]() -> Status {
        if (model == nullptr || sampler == nullptr) { return missing(model == nullptr ? "model" : "sampler"); }
        *sampler = nullptr;
        PITH_ASSIGN_OR_RETURN(const pith_sampler_options g, with_defaults(options, default_sampler_options()));
        pith::SamplerOptions wanted;
        wanted.temperature = g.temperature;
        wanted.top_k = g.top_k;
        wanted.top_p = g.top_p;
        wanted.min_p = g.min_p;
        wanted.typical_p = g.typical_p;
        wanted.top_n_sigma = g.top_n_sigma;
        wanted.xtc_probability = g.xtc_probability;
        wanted.xtc_threshold = g.xtc_threshold;
        wanted.repeat_penalty = g.repeat_penalty;
        wanted.presence_penalty = g.presence_penalty;
        wanted.frequency_penalty = g.frequency_penalty;
        wanted.repeat_last_n = g.repeat_last_n;
        wanted.dry_multiplier = g.dry_multiplier;
        wanted.dry_base = g.dry_base;
        wanted.dry_allowed_length = g.dry_allowed_length;
        wanted.dry_last_n = g.dry_last_n;
        wanted.mirostat = g.mirostat;
        wanted.mirostat_tau = g.mirostat_tau;
        wanted.mirostat_eta = g.mirostat_eta;
        wanted.grammar = text_of(g.grammar);
        wanted.seed = g.seed;
        if (g.json_schema != nullptr) {
            if (g.grammar != nullptr) { return {ErrorCode::kInvalidArgument, "grammar and json_schema: give one of them"}; }
            PITH_ASSIGN_OR_RETURN(wanted.grammar, pith::grammar_of_json_schema(g.json_schema));
        }
        std::shared_ptr<const pith::Tokenizer> words;  // alive when the model is gone
        if (model->tokenizer.ok()) { words = *model->tokenizer; }
        PITH_ASSIGN_OR_RETURN(pith::Sampler made, pith::Sampler::make(wanted, words.get()));
        *sampler =
            new pith_sampler{std::make_shared<pith_sampler::Parts>(pith_sampler::Parts{std::move(words), std::move(made)})};
        return {};
    });
}

void pith_sampler_free(pith_sampler * sampler) {
    delete sampler;
}

pith_code pith_sample(pith_sampler * sampler, const pith_session * session, int32_t * token) {
    return from_hooks_too(session, [&]() -> Status {
        if (sampler == nullptr || session == nullptr || token == nullptr) { return missing("sampler, session or token"); }
        const auto logits = session->session.logits();
        if (logits.empty()) { return {ErrorCode::kInvalidArgument, "the session has no logits: prefill it first"}; }
        PITH_ASSIGN_OR_RETURN(*token, sampler->parts->sampler.sample(logits));
        return {};
    });
}

pith_code pith_sampler_accept(pith_sampler * sampler, int32_t token) {
    return guarded([&]() -> Status {
        if (sampler == nullptr) { return missing("sampler"); }
        sampler->parts->sampler.accept(token);
        return {};
    });
}

void pith_sampler_reset(pith_sampler * sampler) {
    static_cast<void>(guarded([&]() -> Status {  // its code: pith_last_code()
        if (sampler != nullptr) { sampler->parts->sampler.reset(); }
        return {};
    }));
}
