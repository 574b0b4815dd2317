// generate.h - turns logits into text, token by token, until the model ends, the limit is reached, or the user stops it.
// Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/run/terminal_markdown.h"
#include "pith/session.h"
#include "pith/text.h"
#include "text/reasoning.h"

namespace pith::app {

struct GenerateOptions {
    int64_t n_predict = 512;  // negative: until the model ends
    bool ignore_eos = false;
    bool stream = true;    // write to stdout as it comes
    bool colours = false;  // with a terminal's, by the Markdown that the answer has
    const std::atomic<bool> * cancel = nullptr;
    // The answer ends with the token that completes one of these, which is said; none is empty. Special tokens count by name.
    std::vector<std::string> reverse_prompts;
    // By which thoughts are told from the answer; none: all is answer. They go to stderr as they come, unless hidden.
    ReasoningMarks reasoning;
    bool hide_reasoning = false;
    int n_logprobs = 0;  // log-probabilities of each token said, and of so many likeliest ones; 0: none
    // Gets the model's own logits [n_vocab] in front of each choice: those after the prompt, then after each token that was
    // fed. An error ends the answer.
    std::function<Status(std::span<const float> logits)> on_logits;
};

// Of a token, by the softmax of the model's own logits, before any sampler.
struct TokenLogprobs {
    float logprob = 0;
    std::vector<std::pair<int32_t, float>> top;  // the likeliest tokens, the first one most
};

struct Generated {
    std::string text;                     // the answer
    std::string reasoning;                // thought before it, where that is told apart
    std::vector<int32_t> tokens;          // all that was said, in their order
    std::vector<TokenLogprobs> logprobs;  // [tokens], where they were asked for
    int64_t n_generated = 0;
    std::string stop;    // "end", "limit", "reverse-prompt", "interrupt" or "error"
    Status failure;      // why it ends in the middle ("error")
    int32_t unfed = -1;  // the last of `tokens`, where the session has not been given it; -1: it has all
};

extern const char * const kStopError;

// One answer as it comes: which token is next, and what it adds. Whole characters only reach the screen.
class AnswerWriter {
public:
    // All three must live as long as this.
    AnswerWriter(const Tokenizer & tokenizer, Sampler & sampler, const GenerateOptions & options);

    // By the model's logits, which are those behind all that was said. Errors: the sampler's, and of on_logits.
    Result<int32_t> choose(std::span<const float> logits);
    bool ends(int32_t token) const;  // it is no part of the answer, and nothing follows
    // What choose() gave last belongs to the answer. false: it completes a reverse prompt, and nothing follows.
    bool say(int32_t token);
    Generated finish(std::string stop);  // `unfed` is the caller's

private:
    void add(ReasoningSplitter::Pieces pieces);
    void show(bool all);

    const Tokenizer & tokenizer_;
    Sampler & sampler_;
    const GenerateOptions & options_;
    std::vector<int32_t> banned_;  // with ignore_eos: all that would end the answer
    std::vector<float> logits_;
    TokenLogprobs logprobs_;  // of the token chosen last
    ReasoningSplitter splitter_;
    bool is_thinking_shown_ = false;  // thoughts are being written on stderr
    bool ends_ = false;               // nothing comes any more
    std::string said_;                // the text with special tokens' names: a reverse prompt may be one
    std::string waiting_;             // for the rest of a character
    std::string thought_;             // the same
    TerminalMarkdown markdown_;
    Generated out_;
};

// What was not written as it came: thoughts on stderr, unless hidden, the answer on stdout.
void print_whole(const Generated & answer, bool hide_reasoning);

// REQUIRES: the session holds the prompt. Whole characters only reach the screen. What was said stays where it cannot go on.
Generated generate(Session & session, const Tokenizer & tokenizer, Sampler & sampler, const GenerateOptions & options);

}  // namespace pith::app
