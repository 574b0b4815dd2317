// unit_answers.cpp - predictions, scores, and what was held meanwhile.
#include "eval/unit_answers.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "benchmarks/metrics/multiple_choice.h"

namespace pith {
namespace {

double score(const EvalQuestion & question, const std::string & prediction) {
    return question.task->score(*question.sample, question.sample->turns[question.turn], prediction);
}

}  // namespace

std::string chosen_policy(const Ledger & ledger) {
    return ledger.policy_reason.empty() ? "" : ledger.policy;
}

void describe(Answer & answer, const CompressedPrompt & prompt, bool with_lanes) {
    const std::vector<int> & lanes = prompt.lanes;
    double sum = 0;
    for (const int n : lanes) { sum += n; }
    answer.kept = lanes.empty() ? 0 : sum / static_cast<double>(lanes.size());
    answer.n_kv_heads = prompt.n_kv_heads;
    const bool ragged = std::ranges::adjacent_find(lanes, std::not_equal_to<>()) != lanes.end();
    if (with_lanes && ragged) { answer.lanes = lanes; }
    answer.kv_bytes = prompt.kv_bytes;
    answer.chosen = prompt.chosen;
}

Answer begun_answer(const EvalUnit & unit, size_t q, const CompressedPrompt & prompt, std::span<const int32_t> feed,
                    int n_prompt, const Tokenizer * tokenizer) {
    Answer answer = unit.questions[q].key;
    answer.n_prompt = n_prompt;
    describe(answer, prompt, q == 0);
    if (tokenizer != nullptr) {
        const bool whole = q == 0 || !unit.dialogue;
        answer.prompt = (whole ? text_of(*tokenizer, unit.compressed) : "") + text_of(*tokenizer, feed);
    }
    return answer;
}

Answer named(Answer answer, const PolicyCase & one) {
    answer.policy = one.policy.name();
    answer.budget = one.budget.kind == BudgetKind::kNone ? "" : one.budget.to_string();
    return answer;
}

std::vector<Answer> refusals(const EvalUnit & unit, const PolicyCase & one, const Status & why) {
    std::vector<Answer> out;
    for (const EvalQuestion & question : unit.questions) {
        Answer answer = named(question.key, one);
        answer.refused = why.message();
        out.push_back(std::move(answer));
    }
    return out;
}

std::string text_of(const Tokenizer & tokenizer, std::span<const int32_t> tokens) {
    std::string text;
    for (const int32_t token : tokens) { text += tokenizer.piece(token, true); }
    return text;
}

bool AnswerText::say(int32_t token) {
    text_ += tokenizer_.piece(token);
    ++answer_.n_new;
    const size_t newline = question_.stop_at_newline && answer_.n_new > 1 ? text_.find('\n') : std::string::npos;
    if (newline == std::string::npos) { return true; }
    text_.resize(newline);
    return false;
}

void AnswerText::finish() {
    answer_.prediction = std::move(text_);
    answer_.score = score(question_, answer_.prediction);
}

void choose_likeliest(const EvalQuestion & question, const std::vector<double> & log_likelihoods, Answer & answer) {
    const std::vector<std::string> & texts = question.sample->turns[question.turn].choices;
    for (const auto & choice : question.choices) { answer.n_new += static_cast<int>(choice.size()); }
    answer.prediction = texts[benchmarks::likeliest_choice(log_likelihoods)];
    answer.score = score(question, answer.prediction);
    answer.score_per_character = score(question, texts[benchmarks::likeliest_choice_per_character(log_likelihoods, texts)]);
}

}  // namespace pith
