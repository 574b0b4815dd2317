// ask.cpp - greedy answers, likelihoods of choices, likelihood of a document. Stage: eval.
#include "eval/ask.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "bench/likelihood.h"
#include "benchmarks/metrics/multiple_choice.h"
#include "core/stopwatch.h"
#include "engine/generate_tokens.h"
#include "engine/model_parts.h"
#include "policy/auto_policy.h"
#include "policy/policy.h"

namespace pith {
namespace {

// The unit under one case: a session that stands where the compressed prompt ends.
class UnitUnderCase {
public:
    UnitUnderCase(Session & session, const Tokenizer & tokenizer, const EvalUnit & unit, const RunHooks & hooks,
                  bool keep_prompts = false)
        : session_(session), tokenizer_(tokenizer), unit_(unit), hooks_(hooks), keep_prompts_(keep_prompts) {}

    Result<std::vector<Answer>> answers() {
        const std::vector<int> lanes = lane_lengths();
        const int64_t kv_bytes = held_bytes();
        const std::string chosen = chosen_policy();
        std::shared_ptr<Session::Snapshot> base;
        const bool comes_back = unit_.questions.size() > 1 && !unit_.dialogue;
        if (comes_back) { PITH_ASSIGN_OR_RETURN(base, session_.snapshot()); }
        std::vector<Answer> out;
        std::vector<int32_t> gold;
        for (size_t i = 0; i < unit_.questions.size(); ++i) {
            const EvalQuestion & question = unit_.questions[i];
            const Stopwatch watch;
            if (i > 0) { PITH_RETURN_IF_ERROR(session_.restore(base)); }
            std::vector<int32_t> feed = gold;
            feed.insert(feed.end(), question.feed.begin(), question.feed.end());
            if (!feed.empty()) { PITH_RETURN_IF_ERROR(session_.prefill(feed, hooks_)); }
            if (unit_.dialogue) {  // what was generated leaves the cache; the true answer comes in its place
                PITH_ASSIGN_OR_RETURN(base, session_.snapshot());
                gold = question.follow_up;
            }
            Answer answer = question.key;
            answer.n_prompt = static_cast<int>(session_.n_tokens());
            set_lanes(answer, lanes, i == 0);
            answer.kv_bytes = kv_bytes;
            answer.chosen = chosen;
            if (keep_prompts_) { answer.prompt = (i == 0 || !unit_.dialogue ? text_of(unit_.compressed) : "") + text_of(feed); }
            PITH_RETURN_IF_ERROR(question.choices.empty() ? generate(question, answer) : choose(question, answer));
            answer.answer_s = watch.seconds();
            out.push_back(std::move(answer));
        }
        return out;
    }

    std::vector<int> lane_lengths() const {
        std::vector<int> lanes;
        for (int l = 0; l < session_.n_layers(); ++l) {
            for (int h = 0; h < session_.n_kv_heads(); ++h) {
                lanes.push_back(static_cast<int>(session_.lane_positions(l, h).size()));
            }
        }
        return lanes;
    }

    // By the cache alone: what other cases come back to is saved elsewhere.
    int64_t held_bytes() const {
        const Ledger & ledger = session_.ledger();
        return static_cast<int64_t>(ledger.kv_allocated_bytes - ledger.kv_saved_bytes);
    }

    // What `auto` became; empty: the policy was named.
    std::string chosen_policy() const {
        const Ledger & ledger = session_.ledger();
        return ledger.policy_reason.empty() ? "" : ledger.policy;
    }

    void set_lanes(Answer & answer, const std::vector<int> & lanes, bool with_lanes) const {
        double sum = 0;
        for (const int n : lanes) { sum += n; }
        answer.kept = lanes.empty() ? 0 : sum / static_cast<double>(lanes.size());
        answer.n_kv_heads = session_.n_kv_heads();
        const bool ragged = std::adjacent_find(lanes.begin(), lanes.end(), std::not_equal_to<>()) != lanes.end();
        if (with_lanes && ragged) { answer.lanes = lanes; }
    }

private:
    // As it was read: with the template's and other special tokens.
    std::string text_of(const std::vector<int32_t> & tokens) const {
        std::string text;
        for (const int32_t token : tokens) { text += tokenizer_.piece(token, true); }
        return text;
    }

    // Greedy; the last token need not be fed.
    Status generate(const EvalQuestion & question, Answer & answer) {
        std::string text;
        GenerateRules rules;
        rules.n_predict = std::max(0, question.n_new);
        rules.cancel = hooks_.cancel;
        rules.ends = [&](int32_t token) { return tokenizer_.is_end_of_generation(token); };
        rules.say = [&](int32_t token) {
            text += tokenizer_.piece(token);
            ++answer.n_new;
            const size_t newline = question.stop_at_newline && answer.n_new > 1 ? text.find('\n') : std::string::npos;
            if (newline == std::string::npos) { return true; }
            text.resize(newline);
            return false;
        };
        PITH_ASSIGN_OR_RETURN(const GeneratedTokens done, generate_tokens(session_, rules));
        if (done.end == GenerateEnd::kCancelled) { return {ErrorCode::kCancelled, "cancelled"}; }
        answer.prediction = std::move(text);
        answer.score = score(question, answer.prediction);
        return {};
    }

    // The likeliest choice by the sum of its tokens' log-likelihoods; the first of equals.
    Status choose(const EvalQuestion & question, Answer & answer) {
        const std::vector<std::string> & texts = question.sample->turns[question.turn].choices;
        PITH_ASSIGN_OR_RETURN(const std::shared_ptr<Session::Snapshot> asked, session_.snapshot());
        std::vector<double> sums;
        for (size_t c = 0; c < question.choices.size(); ++c) {
            if (c > 0) { PITH_RETURN_IF_ERROR(session_.restore(asked)); }
            PITH_ASSIGN_OR_RETURN(const double nll, sum_of_losses(session_, question.choices[c], hooks_));
            sums.push_back(-nll);
            answer.n_new += static_cast<int>(question.choices[c].size());
        }
        answer.prediction = texts[benchmarks::likeliest_choice(sums)];
        answer.score = score(question, answer.prediction);
        answer.score_per_character = score(question, texts[benchmarks::likeliest_choice_per_character(sums, texts)]);
        return {};
    }

    static double score(const EvalQuestion & question, const std::string & prediction) {
        return question.task->score(*question.sample, question.sample->turns[question.turn], prediction);
    }

    Session & session_;
    const Tokenizer & tokenizer_;
    const EvalUnit & unit_;
    const RunHooks & hooks_;
    bool keep_prompts_;
};

Answer named(Answer answer, const PolicyCase & one) {
    answer.policy = one.policy;
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

// Every token of the document from the ones before it, the cache evicted chunk by chunk.
Status measure_document(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalUnit & unit,
                        const PolicyCase & one, const RunHooks & hooks, const EmitAnswers & emit) {
    const Stopwatch watch;
    SessionOptions session_options = options.session_of(one);
    session_options.prefill = PrefillSchedule::kChunked;
    const bool has_gates = model.info().has_gates;
    PITH_ASSIGN_OR_RETURN(const Policy policy, policy_of(one.policy, {.limited = true, .has_gates = has_gates}));
    if (policy.needs_gate() && has_gates && !gate_of(model)->config().works_in_chunks()) {
        if (policy.evicts()) {
            return emit(refusals(unit, one,
                                 {ErrorCode::kInvalidArgument,
                                  "a perplexity evicts chunk by chunk, and these gates must see the whole prompt: measure "
                                  "'gated' alone, or train gates with --causal"}));
        }
        session_options.prefill = PrefillSchedule::kOneShot;
    }
    PITH_ASSIGN_OR_RETURN(Session session, model.session(session_options));
    RunHooks with_logits = hooks;
    double sum = 0;
    size_t next = 1;
    with_logits.on_logits = [&](int64_t, std::span<const float> logits) {
        if (next < unit.compressed.size()) { sum += negative_log_likelihood(logits, unit.compressed[next++]); }
    };
    const Status ran = session.prefill(unit.compressed, with_logits);
    if (!ran.ok() && ran.code() != ErrorCode::kBudget) { return ran; }
    if (!ran.ok()) { return emit(refusals(unit, one, ran)); }
    Answer answer = named(unit.questions.front().key, one);
    const UnitUnderCase state(session, tokenizer, unit, hooks);
    state.set_lanes(answer, state.lane_lengths(), true);
    answer.kv_bytes = state.held_bytes();
    answer.chosen = state.chosen_policy();
    answer.n_prompt = static_cast<int>(unit.compressed.size());
    answer.score = std::exp(sum / static_cast<double>(unit.compressed.size() - 1));
    answer.prefill_s = watch.seconds();
    return emit({answer});
}

Status ask_apart(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalUnit & unit,
                 const PolicyCase & one, const RunHooks & hooks, const EmitAnswers & emit) {
    if (unit.perplexity) { return measure_document(model, tokenizer, options, unit, one, hooks, emit); }
    const Stopwatch watch;
    PITH_ASSIGN_OR_RETURN(Session session, model.session(options.session_of(one)));
    RunHooks with_question = hooks;
    with_question.n_question = unit.n_question;
    const Status ran = session.prefill(unit.compressed, with_question);
    if (!ran.ok() && ran.code() != ErrorCode::kBudget) { return ran; }
    if (!ran.ok()) { return emit(refusals(unit, one, ran)); }
    const double prefill_s = watch.seconds();
    PITH_ASSIGN_OR_RETURN(std::vector<Answer> answers,
                          UnitUnderCase(session, tokenizer, unit, hooks, options.keep_prompts).answers());
    for (Answer & answer : answers) { answer = named(std::move(answer), one); }
    answers.front().prefill_s = prefill_s;
    return emit(answers);
}

}  // namespace

Status ask_unit(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalUnit & unit,
                const std::vector<PolicyCase> & cases, const WantCase & wanted, const std::atomic<bool> * cancel,
                const EmitAnswers & emit) {
    RunHooks hooks;
    hooks.cancel = cancel;
    if (unit.perplexity || !options.share || !options.one_shot()) {
        for (size_t i = 0; i < cases.size(); ++i) {
            if (wanted(i)) { PITH_RETURN_IF_ERROR(ask_apart(model, tokenizer, options, unit, cases[i], hooks, emit)); }
        }
        return {};
    }
    const Stopwatch watch;
    double last_s = 0;  // when the case before was done: since then the cache was restored and evicted
    const VisitCase visit = [&](size_t index, Session & session, const Status & ran) -> Status {
        if (!ran.ok()) { return emit(refusals(unit, cases[index], ran)); }
        const double before_s = watch.seconds() - last_s;
        PITH_ASSIGN_OR_RETURN(std::vector<Answer> answers,
                              UnitUnderCase(session, tokenizer, unit, hooks, options.keep_prompts).answers());
        for (Answer & answer : answers) { answer = named(std::move(answer), cases[index]); }
        (last_s == 0 ? answers.front().prefill_s : answers.front().answer_s) += before_s;
        last_s = watch.seconds();
        return emit(answers);
    };
    RunHooks with_question = hooks;
    with_question.n_question = unit.n_question;
    return for_each_case(model, options.session_of(cases.front()), unit.compressed, cases, with_question, visit, wanted);
}

}  // namespace pith
