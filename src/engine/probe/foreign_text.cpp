// foreign_text.cpp - measures the beginning of a prompt, and says what it means. Stage: probe.
#include "engine/probe/foreign_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/probe/likelihood.h"

namespace pith {
namespace {

constexpr size_t kShareOfPrompt = 16;  // perplexity_of_beginning() reads one in so many tokens
constexpr size_t kMostOfPrompt = 128;
constexpr size_t kLeastOfPrompt = 32;

}  // namespace

bool is_foreign(double perplexity, int n_vocab) {
    return !(perplexity <= std::sqrt(static_cast<double>(n_vocab)));
}

std::string foreign_text_message(const std::string & what, double perplexity, int n_vocab) {
    char numbers[160];
    std::snprintf(numbers, sizeof numbers,
                  "perplexity %.4g with the full cache, where a guess among its %d tokens has %d and %.0f is the limit",
                  perplexity, n_vocab, n_vocab, std::sqrt(static_cast<double>(n_vocab)));
    return what + " is foreign to this model (" + numbers + "): differences between policies mean little on it";
}

Result<double> perplexity_of_beginning(const Model & model, std::span<const int32_t> tokens, int n_threads,
                                       const std::atomic<bool> * cancel) {
    const size_t n = std::min(tokens.size() / kShareOfPrompt, kMostOfPrompt);
    if (n < kLeastOfPrompt) { return 0.0; }
    SessionOptions options;
    options.policy = "full";
    options.n_threads = n_threads;
    options.max_context = static_cast<int>(n);
    PITH_ASSIGN_OR_RETURN(Session session, model.session(options));
    RunHooks hooks;
    hooks.cancel = cancel;
    PITH_RETURN_IF_ERROR(session.prefill(tokens.first(1), hooks));
    PITH_ASSIGN_OR_RETURN(const double loss, sum_of_losses(session, tokens.subspan(1, n - 1), hooks));
    return std::exp(loss / static_cast<double>(n - 1));
}

}  // namespace pith
