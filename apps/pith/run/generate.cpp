// generate.cpp - what `pith run` and `pith chat` do with each token.
#include "app/run/generate.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "engine/generate_tokens.h"
#include "text/utf8.h"

namespace pith::app {
namespace {

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

const char * const kStopError = "error";

AnswerWriter::AnswerWriter(const Tokenizer & tokenizer, Sampler & sampler, const GenerateOptions & options)
    : tokenizer_(tokenizer), sampler_(sampler), options_(options), splitter_(options.reasoning) {
    if (options.ignore_eos) { banned_ = tokenizer.end_of_generation_tokens(); }
}

Result<int32_t> AnswerWriter::choose(std::span<const float> logits) {
    if (options_.on_logits) { PITH_RETURN_IF_ERROR(options_.on_logits(logits)); }
    logits_.assign(logits.begin(), logits.end());
    for (const int32_t token : banned_) { logits_[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity(); }
    PITH_ASSIGN_OR_RETURN(const int32_t token, sampler_.sample(logits_));
    if (options_.n_logprobs > 0) {
        logprobs_ = {log_probability(logits, token), top_log_probabilities(logits, options_.n_logprobs)};
    }
    return token;
}

bool AnswerWriter::ends(int32_t token) const {
    return tokenizer_.is_end_of_generation(token);  // with ignore_eos only where a grammar allows nothing else
}

bool AnswerWriter::say(int32_t token) {
    std::string piece = tokenizer_.piece(token);
    if (piece.empty() && options_.reasoning.any()) {
        const std::string name = tokenizer_.piece(token, /*special=*/true);
        if (splitter_.is_part_of_mark(name)) { piece = name; }
    }
    out_.tokens.push_back(token);
    if (options_.n_logprobs > 0) { out_.logprobs.push_back(std::move(logprobs_)); }
    ++out_.n_generated;
    add(splitter_.add(piece));
    show(/*all=*/false);
    if (options_.reverse_prompts.empty()) { return true; }
    const size_t n_before = said_.size();
    said_ += tokenizer_.piece(token, /*special=*/true);
    return !completes_one(options_.reverse_prompts, said_, n_before);
}

namespace {

// A terminal does nothing of what a thought may hold.
void print_thought(const std::string & text) {
    static const bool is_terminal = isatty(STDERR_FILENO) != 0;
    const std::string shown = is_terminal ? without_terminal_codes(text) : text;
    std::fwrite(shown.data(), 1, shown.size(), stderr);
}

}  // namespace

// Thoughts go to stderr, dim where that is a terminal; a line of its own for the answer behind them.
void AnswerWriter::add(ReasoningSplitter::Pieces pieces) {
    out_.reasoning += pieces.reasoning;
    out_.text += pieces.answer;
    waiting_ += pieces.answer;
    if (!options_.stream || options_.hide_reasoning) { return; }
    static const bool is_dim = shows_colours(STDERR_FILENO);
    thought_ += pieces.reasoning;
    const bool is_all = !pieces.answer.empty() || ends_;
    const size_t n_bytes = thought_.size() - (is_all ? 0 : incomplete_utf8_tail(thought_));
    if (n_bytes > 0) {
        if (!std::exchange(is_thinking_shown_, true) && is_dim) { std::fputs("\033[2m", stderr); }
        print_thought(thought_.substr(0, n_bytes));
        thought_.erase(0, n_bytes);
    }
    if (is_thinking_shown_ && (!pieces.answer.empty() || ends_)) {
        std::fputs(is_dim ? "\033[0m\n" : "\n", stderr);
        is_thinking_shown_ = false;
    }
}

Generated AnswerWriter::finish(std::string stop) {
    ends_ = true;
    add(splitter_.finish());
    // A character whose last bytes never came.
    for (std::string * text : {&waiting_, &out_.text}) {
        if (const size_t n = incomplete_utf8_tail(*text); n > 0) { text->replace(text->size() - n, n, "\xEF\xBF\xBD"); }
    }
    show(/*all=*/true);
    out_.stop = std::move(stop);
    return std::move(out_);
}

// Holds back the bytes of a character that is not whole yet.
void AnswerWriter::show(bool all) {
    const size_t n_bytes = all ? waiting_.size() : waiting_.size() - incomplete_utf8_tail(waiting_);
    std::string shown = waiting_.substr(0, n_bytes);
    if (options_.colours) { shown = markdown_.add(shown) + (all ? markdown_.finish() : ""); }
    if (options_.stream && !shown.empty()) {
        std::fwrite(shown.data(), 1, shown.size(), stdout);
        std::fflush(stdout);
    }
    waiting_.erase(0, n_bytes);
}

void print_whole(const Generated & answer, bool hide_reasoning) {
    if (!answer.reasoning.empty() && !hide_reasoning) { print_thought(answer.reasoning + "\n"); }
    std::fwrite(answer.text.data(), 1, answer.text.size(), stdout);
}

Generated generate(Session & session, const Tokenizer & tokenizer, Sampler & sampler, const GenerateOptions & options) {
    AnswerWriter answer(tokenizer, sampler, options);
    GenerateRules rules;
    rules.n_predict = options.n_predict;
    rules.cancel = options.cancel;
    rules.choose = [&](std::span<const float> logits) { return answer.choose(logits); };
    rules.ends = [&](int32_t token) { return answer.ends(token); };
    rules.say = [&](int32_t token) { return answer.say(token); };
    const auto done = generate_tokens(session, rules);
    Generated out = answer.finish(done.ok() ? name_of(done->end) : kStopError);
    if (done.ok()) {
        out.unfed = done->unfed;
    } else {
        out.failure = done.status();
    }
    return out;
}

}  // namespace pith::app
