// ask.cpp - greedy answers, likelihoods of choices, likelihood of a document. Stage: eval.
#include "eval/ask.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "core/stopwatch.h"
#include "core/text.h"
#include "engine/generate_tokens.h"
#include "engine/parts/model_parts.h"
#include "engine/probe/likelihood.h"
#include "engine/read_question.h"
#include "eval/kept_prefill.h"
#include "eval/unit_answers.h"
#include "policy/auto_policy.h"
#include "policy/policy.h"

namespace pith {
namespace {

// The unit under one case: a session that stands where the compressed prompt ends.
class UnitUnderCase {
public:
    UnitUnderCase(Session & session, const Tokenizer & tokenizer, const EvalUnit & unit, const RunHooks & hooks,
                  const EvalOptions & options)
        : session_(session),
          tokenizer_(tokenizer),
          unit_(unit),
          hooks_(hooks),
          keep_prompts_(options.keep_prompts),
          is_said_word_by_word_(options.session.evict_every > 0 || options.session.cold.has_value()) {}

    Result<std::vector<Answer>> answers() {
        const CompressedPrompt prompt = compressed();
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
            const bool looks = session_.ledger().cold_entries > 0;
            if (!feed.empty()) {
                PITH_RETURN_IF_ERROR(looks ? read_question(session_, feed, hooks_) : session_.prefill(feed, hooks_));
            }
            if (unit_.dialogue) {  // what was generated leaves the cache; the true answer comes in its place
                PITH_ASSIGN_OR_RETURN(base, session_.snapshot());
                gold = question.follow_up;
            }
            Answer answer = begun_answer(unit_, i, prompt, feed, static_cast<int>(session_.n_tokens()),
                                         keep_prompts_ ? &tokenizer_ : nullptr);
            PITH_RETURN_IF_ERROR(question.choices.empty() ? generate(question, answer) : choose(question, answer));
            answer.answer_s = watch.seconds();
            out.push_back(std::move(answer));
        }
        return out;
    }

    CompressedPrompt compressed() const {
        CompressedPrompt prompt;
        for (int l = 0; l < session_.n_layers(); ++l) {
            for (int h = 0; h < session_.n_kv_heads(); ++h) {
                prompt.lanes.push_back(static_cast<int>(session_.lane_positions(l, h).size()));
            }
        }
        prompt.n_kv_heads = session_.n_kv_heads();
        const Ledger & ledger = session_.ledger();
        // By the cache alone: what other cases come back to is saved elsewhere.
        prompt.kv_bytes = static_cast<int64_t>(ledger.kv_allocated_bytes - ledger.kv_saved_bytes);
        prompt.chosen = chosen_policy(ledger);
        return prompt;
    }

private:
    // Greedy; the last token need not be fed.
    Status generate(const EvalQuestion & question, Answer & answer) {
        AnswerText text(tokenizer_, question, answer);
        GenerateRules rules;
        rules.n_predict = std::max(0, question.n_new);
        rules.cancel = hooks_.cancel;
        rules.ends = [&](int32_t token) { return text.ends(token); };
        rules.say = [&](int32_t token) { return text.say(token); };
        PITH_ASSIGN_OR_RETURN(const GeneratedTokens done, generate_tokens(session_, rules));
        if (done.end == GenerateEnd::kCancelled) { return {ErrorCode::kCancelled, "cancelled"}; }
        text.finish();
        return {};
    }

    // By the sum of the log-likelihoods of each choice's tokens.
    Status choose(const EvalQuestion & question, Answer & answer) {
        PITH_ASSIGN_OR_RETURN(const std::shared_ptr<Session::Snapshot> asked, session_.snapshot());
        std::vector<double> sums;
        for (size_t c = 0; c < question.choices.size(); ++c) {
            if (c > 0) { PITH_RETURN_IF_ERROR(session_.restore(asked)); }
            PITH_ASSIGN_OR_RETURN(const double nll, is_said_word_by_word_
                                                        ? loss_as_said(question.choices[c])
                                                        : sum_of_losses(session_, question.choices[c], hooks_));
            sums.push_back(-nll);
        }
        choose_likeliest(question, sums, answer);
        return {};
    }

    // Token by token, as an answer is decoded.
    Result<double> loss_as_said(std::span<const int32_t> tokens) {
        double sum = 0;
        for (size_t i = 0; i < tokens.size(); ++i) {
            if (hooks_.cancel != nullptr && hooks_.cancel->load()) { return Status(ErrorCode::kCancelled, "cancelled"); }
            sum += negative_log_likelihood(session_.logits(), tokens[i]);
            if (i + 1 < tokens.size()) { PITH_RETURN_IF_ERROR(session_.append(tokens[i])); }
        }
        return sum;
    }

    Session & session_;
    const Tokenizer & tokenizer_;
    const EvalUnit & unit_;
    const RunHooks & hooks_;
    bool keep_prompts_;
    bool is_said_word_by_word_;  // choices: where what is held depends on how they come
};

// Every token of the document from the ones before it, the cache evicted chunk by chunk.
Status measure_document(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalUnit & unit,
                        const PolicyCase & one, const RunHooks & hooks, const EmitAnswers & emit) {
    const Stopwatch watch;
    SessionOptions session_options = options.session_of(one);
    session_options.reread = unit.reread;
    session_options.prefill = PrefillSchedule::kChunked;
    const bool has_gates = model.info().has_gates;
    PITH_ASSIGN_OR_RETURN(const Policy policy, policy_of(one.policy, {.limited = true, .gates = known_gates(model)}));
    if (policy.needs_gate() && has_gates && !gate_of(model)->config().works_in_chunks()) {
        if (policy.evicts()) {
            return emit(refusals(unit, one,
                                 {ErrorCode::kInvalidArgument,
                                  "a perplexity evicts chunk by chunk, and these gates must see the whole prompt: measure "
                                  "'gated' alone, or train gates with --causal"}));
        }
        session_options.prefill = PrefillSchedule::kOneShot;
    }
    const int trained = model.info().n_ctx_train;
    if (one.budget.kind == BudgetKind::kNone && options.n_ctx == 0 && trained > 0 && std::ssize(unit.compressed) > trained) {
        return emit(refusals(
            unit, one,
            {ErrorCode::kInvalidArgument, "without a budget keys stay where they are, and the model was trained on " +
                                              with_commas(trained) + " tokens: raise --ctx-size to try it all the same"}));
    }
    PITH_ASSIGN_OR_RETURN(Session session, model.session(session_options));
    RunHooks with_logits = hooks;
    std::vector<double> sums;  // of blocks
    size_t next = 1;
    with_logits.on_logits = [&](int64_t, std::span<const float> logits) {
        if (next == unit.compressed.size()) { return; }
        if ((next - 1) % Answer::kBlock == 0) { sums.push_back(0); }
        sums.back() += negative_log_likelihood(logits, unit.compressed[next++]);
    };
    const Status ran = session.prefill(unit.compressed, with_logits);
    if (!ran.ok() && ran.code() != ErrorCode::kBudget) { return ran; }
    if (!ran.ok()) { return emit(refusals(unit, one, ran)); }
    Answer answer = named(unit.questions.front().key, one);
    describe(answer, UnitUnderCase(session, tokenizer, unit, hooks, options).compressed(), /*with_lanes=*/true);
    answer.n_prompt = static_cast<int>(unit.compressed.size());
    const size_t n_scored = unit.compressed.size() - 1;
    answer.score = std::exp(std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(n_scored));
    for (size_t i = 0; sums.size() > 1 && i < sums.size(); ++i) {
        const size_t n = std::min<size_t>(Answer::kBlock, n_scored - i * Answer::kBlock);
        answer.blocks.push_back(std::exp(sums[i] / static_cast<double>(n)));
    }
    answer.prefill_s = watch.seconds();
    return emit({answer});
}

// Of what follows the prompt: its tokens are none of the prompt's.
RunHooks behind_the_prompt(RunHooks hooks) {
    hooks.progress = nullptr;
    return hooks;
}

Status ask_apart(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalUnit & unit,
                 const PolicyCase & one, const RunHooks & hooks, const EmitAnswers & emit) {
    if (unit.perplexity) { return measure_document(model, tokenizer, options, unit, one, hooks, emit); }
    const Stopwatch watch;
    SessionOptions of_session = options.session_of(one);
    of_session.reread = unit.reread;
    PITH_ASSIGN_OR_RETURN(Session session, model.session(of_session));
    RunHooks with_question = hooks;
    with_question.n_question = unit.n_question;
    const Status ran = prefill_or_open(model, session, of_session, unit.compressed, with_question, options.prefill_cache);
    if (!ran.ok() && ran.code() != ErrorCode::kBudget) { return ran; }
    if (!ran.ok()) { return emit(refusals(unit, one, ran)); }
    const double prefill_s = watch.seconds();
    const RunHooks behind = behind_the_prompt(hooks);
    PITH_ASSIGN_OR_RETURN(std::vector<Answer> answers, UnitUnderCase(session, tokenizer, unit, behind, options).answers());
    for (Answer & answer : answers) { answer = named(std::move(answer), one); }
    answers.front().prefill_s = prefill_s;
    return emit(answers);
}

}  // namespace

Status ask_unit(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalUnit & unit,
                const std::vector<PolicyCase> & cases, const WantCase & wanted, const RunHooks & hooks,
                const EmitAnswers & emit) {
    if (unit.perplexity || !options.share || !options.one_shot()) {
        for (size_t i = 0; i < cases.size(); ++i) {
            if (wanted(i)) { PITH_RETURN_IF_ERROR(ask_apart(model, tokenizer, options, unit, cases[i], hooks, emit)); }
        }
        return {};
    }
    const RunHooks behind = behind_the_prompt(hooks);
    const Stopwatch watch;
    double last_s = 0;  // when the case before was done: since then the cache was restored and evicted
    const VisitCase visit = [&](size_t index, Session & session, const Status & ran) -> Status {
        if (!ran.ok()) { return emit(refusals(unit, cases[index], ran)); }
        const double before_s = watch.seconds() - last_s;
        PITH_ASSIGN_OR_RETURN(std::vector<Answer> answers, UnitUnderCase(session, tokenizer, unit, behind, options).answers());
        for (Answer & answer : answers) { answer = named(std::move(answer), cases[index]); }
        (last_s == 0 ? answers.front().prefill_s : answers.front().answer_s) += before_s;
        last_s = watch.seconds();
        return emit(answers);
    };
    RunHooks with_question = hooks;
    with_question.n_question = unit.n_question;
    const ReadPrompt read = [&](Session & session, const SessionOptions & of_session) {
        return prefill_or_open(model, session, of_session, unit.compressed, with_question, options.prefill_cache);
    };
    SessionOptions first = options.session_of(cases.front());
    first.reread = unit.reread;
    return for_each_case(model, first, unit.compressed, cases, with_question, visit, wanted, read);
}

}  // namespace pith
