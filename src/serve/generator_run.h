// generator_run.h - one job on its way through the engine: what it says, and what that cost. Stage: serve.
// Threads: the engine's alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/stopwatch.h"
#include "serve/answer_text.h"
#include "serve/generator.h"
#include "text/utf8.h"

namespace pith::serve {

inline constexpr double kMapS = 0.5;     // between two maps of a cache
inline constexpr double kMapShare = 50;  // and at least so many times what making one takes of everybody's time
// Of an answer that must fit beside its prompt, where something could be evicted instead: that is more than most answers take.
inline constexpr int kWorthKeepingAll = 2048;
inline constexpr int kDefaultSlots = 4;  // shown while fewer run

// A prompt that several answers begin with: a request that is kept, from which theirs go on.
struct Generator::Reading {
    bool is_asked_for = false;
    int64_t id = 0;          // the engine's; 0: each of them reads for itself
    SessionOptions session;  // that the engine took
};

struct Generator::Run {
    Run(Job of, int at, std::shared_ptr<Events> to, Sampler with, const Tokenizer & of_model, const std::vector<int32_t> & ends,
        Metrics & into)
        : job(std::move(of)),
          index(at),
          events(std::move(to)),
          sampler(std::move(with)),
          text(job.stop),
          parser(job.form),
          tokenizer(of_model),
          end_tokens(ends),
          metrics(into),
          grammar_waits(job.form.reasoning.begins_open && !job.sampler.grammar.empty()) {
        sampler.pause_grammar(grammar_waits);
    }

    // The engine's request, of its own tokens; or what follows a prompt that was read for it.
    Request request(const SessionOptions & options) {
        Request one;
        one.tokens = job.tokens;
        one.options = options;
        one.cache_name = job.cache_name;
        one.cache_at = job.cache_at;
        one.use_cache = job.uses_cache;
        one.repair = job.repairs;
        one.least_tokens = job.may_evict ? kWorthKeepingAll : 1;
        add_answer(one);
        return one;
    }
    Request request_after(int64_t id_of_prompt) {
        Request one;
        one.after = id_of_prompt;
        add_answer(one);
        return one;
    }
    void add_answer(Request & one) {
        one.max_tokens = job.max_tokens;
        one.priority = -job.priority;  // an engine's are higher first
        one.keep = job.max_tokens == 0;
        one.stop = end_tokens;
        one.choose = [this](std::span<const float> logits) { return choose(logits); };
        one.on_token = [this](int32_t token) { return say(token); };
    }

    Result<int32_t> choose(std::span<const float> logits) {
        std::span<const float> from = logits;
        if (job.ignore_eos || grammar_waits || n_generated < job.min_tokens) {  // behind a thought the answer must come yet
            changed.assign(logits.begin(), logits.end());
            for (const int32_t token : end_tokens) {
                changed[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
            }
            from = changed;
        }
        PITH_ASSIGN_OR_RETURN(const int32_t token, sampler.sample(from));
        if (job.n_logprobs >= 0) {
            next = {
                token, log_probability(logits, token), n_characters,
                job.n_logprobs > 0 ? top_log_probabilities(logits, job.n_logprobs) : std::vector<std::pair<int32_t, float>>()};
            const std::string piece = tokenizer.piece(token);
            n_characters += std::ranges::count_if(piece, std::not_fn(is_inside_character));
        }
        const double now = since_submitted.seconds();
        if (n_generated++ == 0) {
            first_s = now;
            if (job.tells_progress) { events->push({index, Progress{n_cached(), std::ssize(job.tokens), now - started_s}}); }
        } else {
            metrics.between_tokens.add(now - last_s);
        }
        last_s = now;
        // With ignore_eos only where a grammar allows nothing else.
        if (std::ranges::find(end_tokens, token) != end_tokens.end()) { ended = true; }
        return token;
    }

    // false: a stop text has come.
    bool say(int32_t token) {
        if (job.n_logprobs >= 0) { held.push_back(std::move(next)); }
        std::string piece = tokenizer.piece(token);
        if (piece.empty()) {
            std::string name = tokenizer.piece(token, /*special=*/true);
            if (parser.wants(name)) { piece = std::move(name); }
        }
        const bool closes = token == job.form.close_token;
        if (closes || job.form.mark_tokens.contains(token)) { parser.note_token(n_bytes); }
        n_bytes += piece.size();
        const bool was_thinking = parser.is_thinking();
        tell(parser.add(text.add(piece)));
        n_thought += was_thinking || parser.is_thinking() ? 1 : 0;
        if (grammar_waits && (closes || !parser.is_thinking())) {
            grammar_waits = false;
            sampler.pause_grammar(false);
        }
        return !is_over() && !is_late();
    }

    bool is_late() const { return job.deadline_s > 0 && since_submitted.seconds() > job.deadline_s; }

    // By a stop text, or a call behind which nothing may come.
    bool is_over() const { return text.stopped() || parser.is_over(); }

    void tell(AnswerPiece said) {
        if (said.says_nothing()) { return; }  // what is held back goes with the text that comes
        said.logprobs = std::exchange(held, {});
        if (job.tells_timings) { said.costs = std::make_shared<const AnswerCosts>(costs()); }
        events->push({index, std::move(said)});
    }

    // Of its prompt, what it had not to read.
    int64_t n_cached() const {
        if (!goes_on) { return engine != nullptr ? engine->n_cached(id) : 0; }
        return is_first ? prompt.n_cached : std::ssize(job.tokens);
    }

    AnswerCosts costs() const {
        AnswerCosts costs;
        costs.n_prompt = std::ssize(job.tokens);
        costs.n_cached = n_cached();
        costs.n_generated = n_generated;
        costs.n_thought = n_thought;
        costs.queue_s = started_s;
        costs.prompt_s = first_s - started_s;
        costs.predict_s = last_s - first_s;
        return costs;
    }

    // What its cache cost with what was read for it: bytes that several share are the first one's.
    AnswerCosts costs_with(Ledger ledger) const {
        AnswerCosts all = costs();
        all.ledger = std::move(ledger);
        if (!goes_on) { return all; }
        all.ledger.evicted_entries += prompt.n_evicted;
        if (is_first) {
            all.ledger.kv_allocated_bytes += prompt.bytes;
        } else {
            all.n_evicted_before = prompt.n_evicted;
        }
        return all;
    }

    Job job;
    int index = 0;
    std::shared_ptr<Events> events;
    Sampler sampler;
    AnswerText text;
    AnswerParser parser;
    const Tokenizer & tokenizer;
    const std::vector<int32_t> & end_tokens;
    Metrics & metrics;
    bool grammar_waits;                // for the end of the thought that the answer begins with
    size_t n_bytes = 0;                // of all that was said
    const Engine * engine = nullptr;   // set, once it is submitted
    std::shared_ptr<Reading> reading;  // while its prompt is read for others, too
    bool is_first = true;              // of those
    bool goes_on = false;              // from what was read
    struct ReadForAll {
        int64_t n_cached = 0;
        int64_t n_evicted = 0;
        size_t bytes = 0;
    };
    ReadForAll prompt;       // of that
    int64_t id = 0;          // the engine's: its own, or the reading's
    SessionOptions session;  // that the engine took
    bool done = false;
    bool started = false;
    bool ended = false;  // by the model
    int64_t n_generated = 0;
    int64_t n_thought = 0;
    int64_t n_told = 0;  // of the prompt, to who asked for progress
    size_t slot = std::numeric_limits<size_t>::max();
    Stopwatch since_submitted;
    double map_s = -kMapS;         // when the newest map was told
    double map_cost_s = 0;         // what making it took
    bool is_mapped = false;        // behind its prompt
    bool late = false;             // cancelled at its deadline
    bool cut = false;              // since the server ends
    std::optional<Status> broken;  // why the engine makes no step any more
    double started_s = 0;
    double first_s = 0;
    double last_s = 0;
    TokenLogprob next;
    int64_t n_characters = 0;        // of the tokens whose log-probabilities are told
    std::vector<TokenLogprob> held;  // of tokens whose text is held back
    std::vector<float> changed;
};

}  // namespace pith::serve
