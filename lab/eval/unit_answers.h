// unit_answers.h - how answers are put together from what a model says, whichever way it was asked. Stage: eval.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eval/evaluate.h"

namespace pith {

// A prompt once it is compressed.
struct CompressedPrompt {
    std::vector<int> lanes;  // [layer · K + KV head] entries
    int n_kv_heads = 0;
    int64_t kv_bytes = 0;
    std::string chosen;  // what `auto` became; empty: the policy was named
};

// What `auto` became, by a ledger.
std::string chosen_policy(const Ledger & ledger);

// with_lanes: of the first turn; lanes of one length are left out.
void describe(Answer & answer, const CompressedPrompt & prompt, bool with_lanes);

// Of question q, in front of its first token: behind `prompt` and `feed`, n_prompt tokens in all. tokenizer: what was read for
// it is kept as text; null: it is not.
Answer begun_answer(const EvalUnit & unit, size_t q, const CompressedPrompt & prompt, std::span<const int32_t> feed,
                    int n_prompt, const Tokenizer * tokenizer);

Answer named(Answer answer, const PolicyCase & one);
std::vector<Answer> refusals(const EvalUnit & unit, const PolicyCase & one, const Status & why);

// As it was read: with the template's and other special tokens.
std::string text_of(const Tokenizer & tokenizer, std::span<const int32_t> tokens);

// An answer's text as it grows.
class AnswerText {
public:
    AnswerText(const Tokenizer & tokenizer, const EvalQuestion & question, Answer & answer)
        : tokenizer_(tokenizer), question_(question), answer_(answer) {}

    bool ends(int32_t token) const { return tokenizer_.is_end_of_generation(token); }
    bool say(int32_t token);  // false: nothing follows
    void finish();            // prediction and score

private:
    const Tokenizer & tokenizer_;
    const EvalQuestion & question_;
    Answer & answer_;
    std::string text_;
};

// log_likelihoods [choice]. The likeliest is the prediction; the first of equals.
void choose_likeliest(const EvalQuestion & question, const std::vector<double> & log_likelihoods, Answer & answer);

}  // namespace pith
