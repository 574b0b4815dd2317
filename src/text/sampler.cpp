// sampler.cpp - picks the next token by libllama's samplers, without a llama_context. Stage: text.
// The order, the defaults and the use of the seed are those of llama.cpp's tools, so that the same flags say the same text.
// Threads: one at a time. Cost: O(n_vocab) a token.
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/guarded.h"
#include "core/items.h"
#include "core/likeliest_token.h"
#include "core/log_sum_exp.h"
#include "pith/text.h"
#include "text/grammar_matcher.h"
#include "text/llama_log.h"
#include "text/tokenizer_impl.h"

namespace pith {
namespace {

constexpr int kAll = 1 << 17;         // tokens that a look-back of -1 remembers
constexpr int kMirostatTokens = 100;  // mirostat 1 estimates its slope from so many

struct FreeSampler {
    void operator()(llama_sampler * sampler) const { llama_sampler_free(sampler); }
};
using SamplerPtr = std::unique_ptr<llama_sampler, FreeSampler>;

int look_back(int n) {
    return n < 0 ? kAll : n;
}

// At temperature 0 the likeliest token is left whatever these do, unless one of them may take it out.
bool is_greedy(const SamplerOptions & o) {
    return o.temperature <= 0 && o.mirostat == 0 && o.typical_p >= 1 && o.xtc_probability <= 0;
}

bool penalises(const SamplerOptions & o) {
    return o.repeat_last_n != 0 && (o.repeat_penalty != 1.0F || o.presence_penalty != 0.0F || o.frequency_penalty != 0.0F);
}

bool dries(const SamplerOptions & o) {
    return o.dry_multiplier != 0.0F && o.dry_last_n != 0;
}

// The chain is the greedy sampler and nothing before it.
bool takes_likeliest(const SamplerOptions & o) {
    return is_greedy(o) && o.logit_bias.empty() && !penalises(o) && !dries(o);
}

SamplerPtr make_chain(const SamplerOptions & o, const llama_vocab * vocab, int32_t n_vocab) {
    SamplerPtr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
    const auto add = [&chain](llama_sampler * part) { llama_sampler_chain_add(chain.get(), part); };
    if (!o.logit_bias.empty()) {
        std::vector<llama_logit_bias> bias;
        for (const auto & [token, value] : o.logit_bias) { bias.push_back({token, value}); }
        add(llama_sampler_init_logit_bias(n_vocab, static_cast<int32_t>(bias.size()), bias.data()));
    }
    if (o.mirostat != 0) {
        add(llama_sampler_init_temp(o.temperature));
        add(o.mirostat == 1 ? llama_sampler_init_mirostat(n_vocab, o.seed, o.mirostat_tau, o.mirostat_eta, kMirostatTokens)
                            : llama_sampler_init_mirostat_v2(o.seed, o.mirostat_tau, o.mirostat_eta));
        return chain;
    }
    if (penalises(o)) {
        add(llama_sampler_init_penalties(n_vocab, look_back(o.repeat_last_n), o.repeat_penalty, o.frequency_penalty,
                                         o.presence_penalty));
    }
    if (dries(o)) {
        std::vector<const char *> breakers;
        for (const std::string & text : o.dry_breakers) { breakers.push_back(text.c_str()); }
        add(llama_sampler_init_dry(vocab, o.dry_multiplier, o.dry_base, o.dry_allowed_length, look_back(o.dry_last_n),
                                   breakers.data(), breakers.size()));
    }
    if (is_greedy(o)) {
        add(llama_sampler_init_greedy());
        return chain;
    }
    if (o.top_n_sigma >= 0) { add(llama_sampler_init_top_n_sigma(o.top_n_sigma)); }
    add(llama_sampler_init_top_k(o.top_k));
    if (o.typical_p < 1) { add(llama_sampler_init_typical(o.typical_p, 0)); }
    add(llama_sampler_init_top_p(o.top_p, 0));
    add(llama_sampler_init_min_p(o.min_p, 0));
    if (o.xtc_probability > 0) { add(llama_sampler_init_xtc(o.xtc_probability, o.xtc_threshold, 0, o.seed)); }
    add(llama_sampler_init_temp_ext(o.temperature, o.dynatemp_range, o.dynatemp_exponent));
    add(llama_sampler_init_dist(o.seed));
    return chain;
}

// What the model's file says must never be said: Gemma 4's marks of images and sound.
void suppress_tokens(const llama_vocab * vocab, SamplerOptions & options) {
    int32_t n = 0;
    const llama_token * tokens = llama_vocab_get_suppress_tokens(vocab, &n);
    for (int32_t i = 0; i < n; ++i) {
        const bool known = tokens[i] >= 0 && tokens[i] < llama_vocab_n_tokens(vocab);
        if (known) { options.logit_bias.emplace_back(tokens[i], -std::numeric_limits<float>::infinity()); }
    }
}

std::string number(float value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) { text.pop_back(); }
    return text;
}

Status check_range(Item field, float value, float low, float high) {
    if (std::isfinite(value) && value >= low && value <= high) { return {}; }
    return {ErrorCode::kInvalidArgument, field + (" is " + number(value) + ": give " + number(low) + " to " + number(high))};
}

Status check(const SamplerOptions & o, const Tokenizer * tokenizer) {
    PITH_RETURN_IF_ERROR(check_range(item::kTemperature, o.temperature, 0.0F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kDynatempRange, o.dynatemp_range, 0.0F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kDynatempExponent, o.dynatemp_exponent, 0.0F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kTopP, o.top_p, 0.0F, 1.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kMinP, o.min_p, 0.0F, 1.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kTypicalP, o.typical_p, 0.0F, 1.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kTopNSigma, o.top_n_sigma, -1.0F, 1000.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kXtcProbability, o.xtc_probability, 0.0F, 1.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kXtcThreshold, o.xtc_threshold, 0.0F, 1.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kRepeatPenalty, o.repeat_penalty, 0.01F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kPresencePenalty, o.presence_penalty, -100.0F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kFrequencyPenalty, o.frequency_penalty, -100.0F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kRepeatLastN, static_cast<float>(o.repeat_last_n), -1.0F, kAll));
    PITH_RETURN_IF_ERROR(check_range(item::kDryMultiplier, o.dry_multiplier, 0.0F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kDryBase, o.dry_base, 1.0F, 100.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kDryAllowedLength, static_cast<float>(o.dry_allowed_length), 0.0F, kAll));
    PITH_RETURN_IF_ERROR(check_range(item::kDryLastN, static_cast<float>(o.dry_last_n), -1.0F, kAll));
    PITH_RETURN_IF_ERROR(check_range(item::kMirostat, static_cast<float>(o.mirostat), 0.0F, 2.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kMirostatTau, o.mirostat_tau, 0.0F, 1000.0F));
    PITH_RETURN_IF_ERROR(check_range(item::kMirostatEta, o.mirostat_eta, 0.0F, 1000.0F));
    for (const auto & [token, value] : o.logit_bias) {
        const bool known = token >= 0 && (tokenizer == nullptr || token < tokenizer->n_vocab());
        const bool sums = std::isfinite(value) || value == -std::numeric_limits<float>::infinity();
        if (known && sums) { continue; }
        return {ErrorCode::kInvalidArgument, "the logit bias of token " + std::to_string(token) + " is " + number(value) +
                                                 ": give a token of the vocabulary and a number"};
    }
    const char * needs_words = o.dry_multiplier != 0.0F ? "DRY" : !o.grammar.empty() ? "a grammar" : nullptr;
    if (needs_words != nullptr && tokenizer == nullptr) {
        return {ErrorCode::kInvalidArgument, std::string(needs_words) + " needs the model's tokeniser"};
    }
    return {};
}

// The token whose text that is, where there is one.
std::optional<int32_t> one_token(const Tokenizer & tokenizer, std::string_view text) {
    const auto tokens = tokenizer.encode(text, /*add_special=*/false, /*parse_special=*/true);
    return tokens.ok() && tokens->size() == 1 ? std::optional(tokens->front()) : std::nullopt;
}

}  // namespace

struct Sampler::Impl {
    // Sampler's calls, which may throw std::bad_alloc.
    static Result<Sampler> make_sampler(const SamplerOptions & options, const Tokenizer * tokenizer);
    Result<int32_t> sample(std::span<const float> logits);

    SamplerOptions options;
    const llama_vocab * vocab = nullptr;
    SamplerPtr chain;                       // made with the first logits, where nobody said how many there are
    std::optional<GrammarMatcher> grammar;  // nothing: any text
    bool grammar_paused = false;
    std::vector<bool> allowed;        // by the grammar, of each token
    std::vector<int32_t> end_tokens;  // of the vocabulary
    std::vector<int32_t> accepted;    // before there was a chain
    std::vector<llama_token_data> candidates;

    void make(int32_t n_vocab) {
        chain = make_chain(options, vocab, n_vocab);
        for (const int32_t token : accepted) { llama_sampler_accept(chain.get(), token); }
        accepted.clear();
    }
    llama_token pick(std::span<const float> logits, bool by_grammar) {
        if (!by_grammar && takes_likeliest(options)) { return likeliest_token(logits); }
        candidates.resize(logits.size());
        for (size_t i = 0; i < logits.size(); ++i) {
            const bool out = by_grammar && !(i < allowed.size() && allowed[i]);
            const float logit = out ? -std::numeric_limits<float>::infinity() : logits[i];
            candidates[i] = {static_cast<llama_token>(i), logit, 0.0F};
        }
        llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
        llama_sampler_apply(chain.get(), &array);
        return array.data[array.selected >= 0 ? array.selected : 0].id;
    }
    bool is_allowed(llama_token token) const {
        return token >= 0 && static_cast<size_t>(token) < allowed.size() && allowed[static_cast<size_t>(token)];
    }
    // Where the caller keeps the model from ending, and nothing else may come: all has been said. -1: it has not.
    llama_token end_token_allowed() const {
        const auto found = std::ranges::find_if(end_tokens, [this](int32_t token) { return is_allowed(token); });
        return found != end_tokens.end() ? *found : -1;
    }
    Result<llama_token> pick_by_grammar(std::span<const float> logits) {
        // Asking the grammar about all tokens costs much more than about one, which it mostly allows.
        llama_token token = pick(logits, false);
        PITH_ASSIGN_OR_RETURN(const bool good, grammar->allows(token));
        if (!good) {
            PITH_RETURN_IF_ERROR(grammar->allowed(allowed));
            token = pick(logits, true);
            if (!is_allowed(token)) { token = end_token_allowed(); }
            if (!is_allowed(token)) {
                return {ErrorCode::kUnsupported,
                        "no token goes on with the grammar: the vocabulary cannot spell what it asks for"};
            }
        }
        PITH_RETURN_IF_ERROR(grammar->accept(token));
        return token;
    }
};

Result<Sampler> Sampler::make(const SamplerOptions & options, const Tokenizer * tokenizer) {
    return guarded([&] { return Impl::make_sampler(options, tokenizer); });
}

Result<Sampler> Sampler::Impl::make_sampler(const SamplerOptions & options, const Tokenizer * tokenizer) {
    PITH_RETURN_IF_ERROR(check(options, tokenizer));
    route_llama_log();
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    if (tokenizer != nullptr) {
        impl->vocab = tokenizer->impl_->vocab;
        suppress_tokens(impl->vocab, impl->options);
    }
    try {
        if (!options.grammar.empty()) {
            PITH_ASSIGN_OR_RETURN(Grammar grammar, read_grammar(options.grammar, [&](std::string_view text) {
                                      return one_token(*tokenizer, text);
                                  }));
            impl->end_tokens = tokenizer->end_of_generation_tokens();
            PITH_ASSIGN_OR_RETURN(impl->grammar, GrammarMatcher::make(std::move(grammar), tokenizer->impl_->texts(*tokenizer)));
        }
        if (tokenizer != nullptr) { impl->make(tokenizer->n_vocab()); }
    } catch (const std::bad_alloc &) { throw; } catch (const std::exception & error) {
        return {ErrorCode::kInvalidArgument, std::string("libllama failed to make the sampler: ") + error.what()};
    }
    return Sampler(std::move(impl));
}

Result<int32_t> Sampler::sample(std::span<const float> logits) {
    if (logits.empty()) { return -1; }
    return guarded([&] { return impl_->sample(logits); });
}

Result<int32_t> Sampler::Impl::sample(std::span<const float> logits) {
    Impl & self = *this;
    try {
        if (!self.chain) { self.make(static_cast<int32_t>(logits.size())); }
        llama_token token = 0;
        if (self.grammar && !self.grammar_paused) {
            PITH_ASSIGN_OR_RETURN(token, self.pick_by_grammar(logits));
        } else {
            token = self.pick(logits, false);
        }
        llama_sampler_accept(self.chain.get(), token);
        return token;
    } catch (const std::bad_alloc &) { throw; } catch (const std::exception & error) {
        return {ErrorCode::kUnsupported, std::string("libllama failed to pick a token: ") + error.what()};
    }
}

void Sampler::pause_grammar(bool paused) {
    impl_->grammar_paused = paused;
}

void Sampler::begin_answer() {
    if (impl_->grammar) { (void)impl_->grammar->reset(); }  // it could begin once, so it can again
}

void Sampler::accept(int32_t token) {
    if (impl_->chain) {
        llama_sampler_accept(impl_->chain.get(), token);
    } else {
        impl_->accepted.push_back(token);
    }
}

void Sampler::reset() {
    impl_->accepted.clear();
    if (impl_->chain) { llama_sampler_reset(impl_->chain.get()); }
    begin_answer();
}

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::Sampler(Sampler &&) noexcept = default;
Sampler & Sampler::operator=(Sampler &&) noexcept = default;
Sampler::~Sampler() = default;

std::vector<std::pair<int32_t, float>> top_log_probabilities(std::span<const float> logits, int n) {
    std::vector<std::pair<int32_t, float>> all;
    if (logits.empty() || n <= 0) { return all; }
    const double total = log_sum_exp(logits);
    for (size_t i = 0; i < logits.size(); ++i) {
        all.emplace_back(static_cast<int32_t>(i), static_cast<float>(logits[i] - total));
    }
    const auto last = all.begin() + std::min<int64_t>(n, std::ssize(all));
    std::partial_sort(all.begin(), last, all.end(), [](const auto & a, const auto & b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    all.erase(last, all.end());
    return all;
}

float log_probability(std::span<const float> logits, int32_t token) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size()) { return -std::numeric_limits<float>::infinity(); }
    return static_cast<float>(logits[static_cast<size_t>(token)] - log_sum_exp(logits));
}

}  // namespace pith
