// generate.cpp - what `pith run` and `pith chat` do with each token.
#include "app/run/generate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "engine/generate_tokens.h"
#include "text/utf8.h"

namespace pith::app {
namespace {

// Holds back the bytes of a character that is not whole yet.
class Screen {
public:
    explicit Screen(bool visible) : visible_(visible) {}
    void add(const std::string & piece) {
        waiting_ += piece;
        write(waiting_.size() - incomplete_utf8_tail(waiting_));
    }
    void finish() { write(waiting_.size()); }

private:
    void write(size_t n_bytes) {
        if (visible_ && n_bytes > 0) {
            std::fwrite(waiting_.data(), 1, n_bytes, stdout);
            std::fflush(stdout);
        }
        waiting_.erase(0, n_bytes);
    }
    bool visible_;
    std::string waiting_;
};

std::vector<int32_t> end_tokens(const Tokenizer & tokenizer) {
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
        if (tokenizer.is_end_of_generation(token)) { tokens.push_back(token); }
    }
    return tokens;
}

// Whether what came from `n_before` on completes one of the texts.
bool completes_one(const std::vector<std::string> & texts, const std::string & said, size_t n_before) {
    return std::ranges::any_of(texts, [&](const std::string & text) {
        const size_t n_earlier = std::min(n_before, text.size() - 1);
        return said.find(text, n_before - n_earlier) != std::string::npos;
    });
}

std::string name_of(GenerateEnd end) {
    switch (end) {
        case GenerateEnd::kLimit:
            return "limit";
        case GenerateEnd::kEnded:
            return "end";
        case GenerateEnd::kSaid:
            return "reverse-prompt";
        case GenerateEnd::kCancelled:
            return "interrupt";
    }
    return {};
}

}  // namespace

Result<Generated> generate(Session & session, const Tokenizer & tokenizer, Sampler & sampler, const GenerateOptions & options) {
    Generated out;
    Screen screen(options.stream);
    const std::vector<int32_t> banned = options.ignore_eos ? end_tokens(tokenizer) : std::vector<int32_t>{};
    std::vector<float> logits;
    std::string said;  // the text with special tokens' names: a reverse prompt may be one
    GenerateRules rules;
    rules.n_predict = options.n_predict;
    rules.cancel = options.cancel;
    rules.choose = [&](std::span<const float> raw) -> Result<int32_t> {
        logits.assign(raw.begin(), raw.end());
        if (options.on_logits) { PITH_RETURN_IF_ERROR(options.on_logits(logits)); }
        for (const int32_t token : banned) { logits[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity(); }
        return sampler.sample(logits);
    };
    rules.ends = [&](int32_t token) { return !options.ignore_eos && tokenizer.is_end_of_generation(token); };
    rules.say = [&](int32_t token) {
        const std::string piece = tokenizer.piece(token);
        out.text += piece;
        out.tokens.push_back(token);
        if (options.n_logprobs > 0) {
            const auto raw = session.logits();
            out.logprobs.push_back({log_probability(raw, token), top_log_probabilities(raw, options.n_logprobs)});
        }
        ++out.n_generated;
        screen.add(piece);
        if (options.reverse_prompts.empty()) { return true; }
        const size_t n_before = said.size();
        said += tokenizer.piece(token, /*special=*/true);
        return !completes_one(options.reverse_prompts, said, n_before);
    };
    PITH_ASSIGN_OR_RETURN(const GeneratedTokens done, generate_tokens(session, rules));
    screen.finish();
    out.stop = name_of(done.end);
    out.unfed = done.unfed;
    return out;
}

}  // namespace pith::app
