// ask_together.cpp - a tree of requests for each unit: the prompt, its cases, their questions. Stage: eval.
#include "eval/ask_together.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "engine/engine_options.h"
#include "engine/parts/cache_layout.h"
#include "engine/parts/model_parts.h"
#include "engine/probe/likelihood.h"
#include "eval/unit_answers.h"
#include "plan/lane_bytes.h"

namespace pith {
namespace {

// A unit that is being asked.
struct OpenUnit {
    WantedUnit wanted;
    double prefill_s = 0;  // until an answer takes it
};

// The unit under one case.
struct OpenCase {
    std::shared_ptr<OpenUnit> unit;
    size_t index = 0;
    CompressedPrompt prompt;
    std::vector<Answer> answers;  // [question]
    size_t n_left = 0;            // questions
    int64_t direct = 0;           // the request that evicts and answers in one; 0: there are several
    double prefill_s = 0;         // of a prompt of its own
    double evict_s = 0;

    const EvalUnit & of() const { return *unit->wanted.unit; }
};

class AskTogether {
public:
    AskTogether(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options,
                const std::vector<PolicyCase> & cases, int n_parallel, const std::atomic<bool> * cancel,
                const EmitAnswers & emit, const std::function<void(int64_t n_more)> & read, SharedPrefill prefill,
                Engine engine)
        : model_(model),
          tokenizer_(tokenizer),
          options_(options),
          cases_(cases),
          n_parallel_(n_parallel),
          cancel_(cancel),
          emit_(emit),
          read_(read),
          prefill_(std::move(prefill)),
          engine_(std::move(engine)) {}

    Status run(const std::function<std::optional<WantedUnit>()> & next) {
        for (bool more = true; more || !open_.empty();) {
            if (cancel_ != nullptr && cancel_->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
            while (more && n_open_ < n_parallel_) {
                std::optional<WantedUnit> unit = next();
                more = unit.has_value();
                if (more) { PITH_RETURN_IF_ERROR(begin(std::move(*unit))); }
            }
            PITH_RETURN_IF_ERROR(step());
        }
        return {};
    }

private:
    // What follows when a request has ended, or was refused (id 0).
    using Then = std::function<Status(int64_t id, const Status & ended)>;
    struct OpenRequest {
        Then then;
        double * seconds;  // that it took part in
        bool keep = false;
        int64_t n_to_read = 0;  // of a prompt that is read from its beginning
        int64_t n_told = 0;     // of these, that were told of

        bool reads() const { return n_to_read > 0; }
    };

    // ---- requests ----

    // seconds must live until `then` is called. submitted: the request's number.
    Status submit(Request request, double & seconds, Then then, int64_t * submitted = nullptr) {
        OpenRequest open{std::move(then), &seconds, request.keep, request.after == 0 ? std::ssize(request.tokens) : 0};
        const auto id = engine_.submit(std::move(request));
        if (!id.ok()) {
            tell_of_reading(open, open.n_to_read);
            return open.then(0, id.status());
        }
        open_.emplace(*id, std::move(open));
        if (submitted != nullptr) { *submitted = *id; }
        return {};
    }

    Status step() {
        const EngineLedger before = engine_.ledger();
        PITH_RETURN_IF_ERROR(engine_.step().status());
        const EngineLedger after = engine_.ledger();
        share_time(after.step_s - before.step_s, after.units_s - before.units_s);
        std::vector<int64_t> ended;
        for (auto & [id, request] : open_) {
            const bool has_ended = engine_.state(id) >= RequestState::kDone;
            if (has_ended) { ended.push_back(id); }
            if (request.reads()) { tell_of_reading(request, has_ended ? request.n_to_read : engine_.n_read(id)); }
        }
        for (const int64_t id : ended) {
            const OpenRequest request = std::move(open_.extract(id).mapped());
            const bool kept = request.keep && engine_.state(id) == RequestState::kDone;
            PITH_RETURN_IF_ERROR(request.then(id, engine_.status(id)));  // who kept something forgets it
            if (!kept) { PITH_RETURN_IF_ERROR(engine_.forget(id)); }
        }
        return {};
    }

    // A step's seconds, in equal shares: units of prompts to those that are read so, the rest to the others.
    void share_time(double step_s, double units_s) {
        std::vector<double *> reading;
        std::vector<double *> others;
        for (const auto & [id, request] : open_) {
            if (engine_.state(id) == RequestState::kWaiting) { continue; }
            (request.reads() && options_.one_shot() ? reading : others).push_back(request.seconds);
        }
        if (reading.empty() || others.empty()) {
            others.insert(others.end(), reading.begin(), reading.end());
            reading.clear();
            units_s = 0;
        }
        for (double * seconds : reading) { *seconds += units_s / static_cast<double>(reading.size()); }
        for (double * seconds : others) { *seconds += (step_s - units_s) / static_cast<double>(others.size()); }
    }

    // What was refused has no more to read, either.
    void tell_of_reading(OpenRequest & request, int64_t n_read) {
        if (n_read <= request.n_told) { return; }  // less where it begins anew
        read_(n_read - std::exchange(request.n_told, n_read));
    }

    // ---- from the prompt to its cases ----

    Status begin(WantedUnit wanted) {
        auto unit = std::make_shared<OpenUnit>(OpenUnit{std::move(wanted)});
        const std::vector<bool> & cases = unit->wanted.cases;
        const auto n_questions = static_cast<int>(unit->wanted.unit->questions.size());
        n_open_ += static_cast<int>(std::ranges::count(cases, true)) * n_questions;
        const bool shares = options_.share && options_.one_shot();
        bool any_shared = false;
        for (size_t i = 0; i < cases.size(); ++i) {
            if (!cases[i]) { continue; }
            if (shares && prefill_.serves[i]) {
                any_shared = true;
            } else {
                PITH_RETURN_IF_ERROR(read_apart(unit, i));
            }
        }
        return any_shared ? read_for_all(unit) : Status();
    }

    Request prompt_of(const OpenUnit & unit, SessionOptions with) const {
        Request request;
        request.tokens = unit.wanted.unit->compressed;
        request.n_question = unit.wanted.unit->n_question;
        request.options = std::move(with);
        request.options.reread = unit.wanted.unit->reread;
        request.keep = true;
        request.max_tokens = 0;
        request.repair = false;  // each question looks for itself
        return request;
    }

    Status read_for_all(const std::shared_ptr<OpenUnit> & unit) {
        return submit(
            prompt_of(*unit, prefill_.full), unit->prefill_s, [this, unit](int64_t id, const Status & read) -> Status {
                const std::vector<bool> & wanted = unit->wanted.cases;
                for (size_t i = 0; i < wanted.size(); ++i) {
                    if (!wanted[i] || !prefill_.serves[i]) { continue; }
                    const auto one = open_case(unit, i);
                    if (!read.ok()) {
                        PITH_RETURN_IF_ERROR(go_on(one, 0, read));
                        continue;
                    }
                    if (is_plain(one->of())) {
                        PITH_RETURN_IF_ERROR(answer_directly(one, id));
                        continue;
                    }
                    Request request;
                    request.after = id;
                    request.evict = Eviction{cases_[i].policy, cases_[i].budget};
                    request.keep = true;
                    request.max_tokens = 0;
                    PITH_RETURN_IF_ERROR(
                        submit(std::move(request), one->evict_s,
                               [this, one](int64_t kept, const Status & evicted) { return go_on(one, kept, evicted); }));
                }
                return read.ok() ? engine_.forget(id) : Status();
            });
    }

    Status read_apart(const std::shared_ptr<OpenUnit> & unit, size_t index) {
        const auto one = open_case(unit, index);
        const auto prefill_s = std::make_shared<double>(0);
        return submit(prompt_of(*unit, options_.session_of(cases_[index])), *prefill_s,
                      [this, one, prefill_s](int64_t id, const Status & read) {
                          one->prefill_s = *prefill_s;
                          return go_on(one, id, read);
                      });
    }

    std::shared_ptr<OpenCase> open_case(const std::shared_ptr<OpenUnit> & unit, size_t index) const {
        auto one = std::make_shared<OpenCase>();
        one->unit = unit;
        one->index = index;
        one->answers.resize(one->of().questions.size());
        one->n_left = one->answers.size();
        return one;
    }

    // The prompt is compressed, or cannot be.
    Status go_on(const std::shared_ptr<OpenCase> & one, int64_t id, const Status & compressed) {
        if (compressed.code() == ErrorCode::kBudget) {
            return end_case(*one, refusals(one->of(), cases_[one->index], compressed));
        }
        if (compressed.code() == ErrorCode::kOutOfMemory) { return ask_by_itself(*one); }
        PITH_RETURN_IF_ERROR(compressed);
        PITH_ASSIGN_OR_RETURN(const Ledger ledger, engine_.ledger(id));
        look_at_lanes(one->prompt, id, 0);
        one->prompt.chosen = chosen_policy(ledger);
        const auto n_compressed = static_cast<int>(one->of().compressed.size());
        if (one->of().dialogue) {
            PITH_RETURN_IF_ERROR(ask_turns(one, 0, id, n_compressed));
        } else {
            for (size_t q = 0; q < one->answers.size(); ++q) {
                const std::vector<int32_t> & feed = one->of().questions[q].feed;
                begin_answer(*one, q, feed, n_compressed + static_cast<int>(feed.size()));
                PITH_RETURN_IF_ERROR(ask(one, q, id, feed));
            }
        }
        return engine_.forget(id);
    }

    // n_behind: entries of each lane that came since it was compressed.
    void look_at_lanes(CompressedPrompt & prompt, int64_t id, size_t n_behind) const {
        const CacheLayout layout = cache_layout(file_of(model_), options_.session.type_k, options_.session.type_v);
        prompt.n_kv_heads = layout.shape.n_kv_heads;
        for (int l = 0; l < layout.n_layers(); ++l) {
            const auto n_new = layout.governs(l) ? static_cast<int>(n_behind) : 0;
            for (int h = 0; h < layout.lanes(l).n_kv_heads; ++h) {
                prompt.lanes.push_back(static_cast<int>(engine_.lane_positions(id, l, h).size()) - n_new);
            }
        }
        prompt.kv_bytes = static_cast<int64_t>(page_bytes(layout, prompt.lanes));
    }

    // One question, and nothing is evicted behind the prompt: one request does it all, and copies less than one for each.
    bool is_plain(const EvalUnit & unit) const {
        return unit.questions.size() == 1 && unit.questions[0].choices.empty() && unit.questions[0].n_new > 0 &&
               options_.session.evict_every == 0;
    }

    Status answer_directly(const std::shared_ptr<OpenCase> & one, int64_t base) {
        const EvalQuestion & question = one->of().questions[0];
        begin_answer(*one, 0, question.feed, static_cast<int>(one->of().compressed.size() + question.feed.size()));
        const auto text = std::make_shared<AnswerText>(tokenizer_, question, one->answers[0]);
        Request request;
        request.after = base;
        request.evict = Eviction{cases_[one->index].policy, cases_[one->index].budget};
        request.tokens = question.feed;
        request.max_tokens = question.n_new;
        request.on_token = [this, text, n_fed = question.feed.size(), &prompt = one->prompt, &id = one->direct](int32_t token) {
            if (prompt.lanes.empty()) { look_at_lanes(prompt, id, n_fed); }
            return !text->ends(token) && text->say(token);
        };
        const Then then = [this, one, text](int64_t id, const Status & ended) -> Status {
            if (!ended.ok()) { return go_on(one, id, ended); }
            PITH_ASSIGN_OR_RETURN(const Ledger ledger, engine_.ledger(id));
            one->prompt.chosen = chosen_policy(ledger);
            describe(one->answers[0], one->prompt, /*with_lanes=*/true);
            text->finish();
            return end_question(one);
        };
        return submit(std::move(request), one->answers[0].answer_s, then, &one->direct);
    }

    Status ask_by_itself(const OpenCase & one) {
        RunHooks hooks;
        hooks.cancel = cancel_;
        return ask_unit(
            model_, tokenizer_, options_, one.of(), cases_, [&](size_t c) { return c == one.index; }, hooks,
            [&](const std::vector<Answer> & answers) { return end_case(one, answers); });
    }

    // ---- questions ----

    // feed: what is read before it, behind the prompt or the turn before; n_prompt tokens are then in front of the answer.
    void begin_answer(OpenCase & one, size_t q, const std::vector<int32_t> & feed, int n_prompt) const {
        one.answers[q] = begun_answer(one.of(), q, one.prompt, feed, n_prompt, options_.keep_prompts ? &tokenizer_ : nullptr);
    }

    // Question q behind a kept request: `feed`, then the answer.
    Status ask(const std::shared_ptr<OpenCase> & one, size_t q, int64_t after, const std::vector<int32_t> & feed) {
        return one->of().questions[q].choices.empty() ? generate(one, q, after, feed) : choose(one, q, after, feed);
    }

    // Greedy.
    Status generate(const std::shared_ptr<OpenCase> & one, size_t q, int64_t after, const std::vector<int32_t> & feed) {
        const EvalQuestion & question = one->of().questions[q];
        const auto text = std::make_shared<AnswerText>(tokenizer_, question, one->answers[q]);
        const auto finish = [this, one, text] {
            text->finish();
            return end_question(one);
        };
        if (question.n_new < 1) { return finish(); }
        Request request;
        request.after = after;
        request.tokens = feed;
        request.max_tokens = question.n_new;
        request.on_token = [text](int32_t token) { return !text->ends(token) && text->say(token); };
        return submit(std::move(request), one->answers[q].answer_s, [finish](int64_t, const Status & ended) -> Status {
            PITH_RETURN_IF_ERROR(ended);
            return finish();
        });
    }

    // Each choice is decoded as if it had been chosen, and its likelihood summed on the way.
    struct Likelihoods {
        std::vector<double> sums;
        size_t n_left = 0;
    };

    Status choose(const std::shared_ptr<OpenCase> & one, size_t q, int64_t after, const std::vector<int32_t> & feed) {
        return with_fed(one, q, after, feed, [this, one, q](int64_t fed) -> Status {
            const EvalQuestion & question = one->of().questions[q];
            const auto found = std::make_shared<Likelihoods>();
            found->sums.resize(question.choices.size());
            found->n_left = question.choices.size();
            for (size_t c = 0; c < question.choices.size(); ++c) {
                Request request;
                request.after = fed;
                request.max_tokens = static_cast<int>(question.choices[c].size());
                request.choose = [&tokens = question.choices[c], found, c,
                                  n = size_t{0}](std::span<const float> logits) mutable {
                    const int32_t token = tokens[n++];
                    found->sums[c] -= negative_log_likelihood(logits, token);
                    return token;
                };
                const Then then = [this, one, q, found](int64_t, const Status & ended) -> Status {
                    PITH_RETURN_IF_ERROR(ended);
                    if (--found->n_left > 0) { return {}; }
                    choose_likeliest(one->of().questions[q], found->sums, one->answers[q]);
                    return end_question(one);
                };
                PITH_RETURN_IF_ERROR(submit(std::move(request), one->answers[q].answer_s, then));
            }
            return {};
        });
    }

    // Calls `then` with a kept request that holds what `after` holds and `feed` behind it, which may go afterwards.
    Status with_fed(const std::shared_ptr<OpenCase> & one, size_t q, int64_t after, const std::vector<int32_t> & feed,
                    std::function<Status(int64_t fed)> then) {
        if (feed.empty()) { return then(after); }
        Request request;
        request.after = after;
        request.tokens = feed;
        request.keep = true;
        request.max_tokens = 0;
        return submit(std::move(request), one->answers[q].answer_s,
                      [this, then = std::move(then)](int64_t fed, const Status & ended) -> Status {
                          PITH_RETURN_IF_ERROR(ended);
                          PITH_RETURN_IF_ERROR(then(fed));
                          return engine_.forget(fed);
                      });
    }

    // Turns of a dialogue from q on, behind a kept request of n_before tokens. What was generated is left out; the true answer
    // comes in its place.
    Status ask_turns(const std::shared_ptr<OpenCase> & one, size_t q, int64_t after, int n_before) {
        if (q == one->answers.size()) { return {}; }
        std::vector<int32_t> feed = q == 0 ? std::vector<int32_t>() : one->of().questions[q - 1].follow_up;
        const std::vector<int32_t> & own = one->of().questions[q].feed;
        feed.insert(feed.end(), own.begin(), own.end());
        const int n_prompt = n_before + static_cast<int>(feed.size());
        begin_answer(*one, q, feed, n_prompt);
        return with_fed(one, q, after, feed, [this, one, q, n_prompt](int64_t fed) -> Status {
            PITH_RETURN_IF_ERROR(ask(one, q, fed, {}));
            return ask_turns(one, q + 1, fed, n_prompt);
        });
    }

    // ---- answers ----

    Status end_question(const std::shared_ptr<OpenCase> & one) {
        if (--one->n_left > 0) { return {}; }
        for (Answer & answer : one->answers) { answer = named(std::move(answer), cases_[one->index]); }
        Answer & first = one->answers.front();
        first.answer_s += one->evict_s;
        first.prefill_s = one->prefill_s + std::exchange(one->unit->prefill_s, 0);
        return end_case(*one, one->answers);
    }

    Status end_case(const OpenCase & one, const std::vector<Answer> & answers) {
        n_open_ -= static_cast<int>(one.of().questions.size());
        return emit_(answers);
    }

    const Model & model_;
    const Tokenizer & tokenizer_;
    const EvalOptions & options_;
    const std::vector<PolicyCase> & cases_;
    int n_parallel_;
    const std::atomic<bool> * cancel_;
    const EmitAnswers & emit_;
    const std::function<void(int64_t n_more)> & read_;
    SharedPrefill prefill_;
    Engine engine_;
    std::map<int64_t, OpenRequest> open_;
    int n_open_ = 0;  // answers of the units that have begun
};

}  // namespace

bool can_ask_together(const EvalOptions & options, const std::vector<PolicyCase> & cases) {
    return !options.tasks.empty() &&
           std::ranges::none_of(cases, [](const PolicyCase & one) { return one.budget.kind == BudgetKind::kAuto; });
}

Status ask_together(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options,
                    const std::vector<PolicyCase> & cases, int n_parallel,
                    const std::function<std::optional<WantedUnit>()> & next, const std::atomic<bool> * cancel,
                    const EmitAnswers & emit, const std::function<void(int64_t n_more)> & read) {
    EngineOptions of_engine = engine_options(options.session);
    of_engine.grid = 0;  // as sessions
    of_engine.max_sequences = n_parallel;
    PITH_ASSIGN_OR_RETURN(Engine engine, model.engine(of_engine));
    PITH_ASSIGN_OR_RETURN(SharedPrefill prefill, share_prefill(model, options.session_of(cases.front()), cases));
    return AskTogether(model, tokenizer, options, cases, n_parallel, cancel, emit, read, std::move(prefill), std::move(engine))
        .run(next);
}

}  // namespace pith
