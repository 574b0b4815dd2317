// engine.cpp - engines, from C. Stage: façade.
#include <string>
#include <utility>
#include <vector>

#include "c/handles.h"
#include "c/session_options.h"

using pith::ErrorCode;
using pith::Result;
using pith::Status;
using namespace pith::c;

static_assert(static_cast<int>(pith::RequestState::kCancelled) == PITH_REQUEST_CANCELLED &&
                  static_cast<int>(pith::RequestState::kSetAside) == PITH_REQUEST_SET_ASIDE,
              "the C states are the C++ ones");

namespace {

pith_engine_options default_engine_options() {
    const pith::EngineOptions defaults;
    pith_engine_options options{};
    options.type_k = options.type_v = "f16";
    options.max_rows = defaults.max_rows;
    options.grid = defaults.grid;
    options.cache_bytes = defaults.cache_bytes;
    options.cache_memory_bytes = defaults.cache_memory_bytes;
    options.rotate_kv = defaults.rotate_kv;
    return options;
}

pith_request default_request() {
    const pith::Request defaults;
    pith_request request{};
    request.max_tokens = defaults.max_tokens;
    request.stop_at_end = true;
    request.use_cache = defaults.use_cache;
    request.repair = defaults.repair;
    return request;
}

Result<pith::EngineOptions> engine_options(const pith_engine_options & given) {
    pith::EngineOptions options;
    PITH_ASSIGN_OR_RETURN(options.type_k, kv_type({"type_k"}, given.type_k));
    PITH_ASSIGN_OR_RETURN(options.type_v, kv_type({"type_v"}, given.type_v));
    options.rotate_kv = given.rotate_kv;
    if (given.ceiling != nullptr) { PITH_ASSIGN_OR_RETURN(options.ceiling, pith::Budget::parse(given.ceiling, {"ceiling"})); }
    options.n_threads = given.n_threads;
    options.max_rows = given.max_rows;
    options.max_sequences = given.max_sequences;
    options.grid = given.grid;
    if (given.cache_dir != nullptr) { options.cache_dir = given.cache_dir; }
    options.cache_bytes = given.cache_bytes;
    options.cache_memory_bytes = given.cache_memory_bytes;
    return options;
}

Result<std::vector<int32_t>> tokens_of(const int32_t * tokens, size_t n, const char * name) {
    if (tokens == nullptr && n > 0) { return missing(name); }
    return std::vector<int32_t>(tokens, tokens + n);
}

// What all requests of an engine share is the engine's: another value of it would be left out without a word.
Status leave_to_engine(const pith::SessionOptions & given, const pith::EngineOptions & engines) {
    const pith::SessionOptions defaults;
    const char * wrong = nullptr;
    const auto look = [&wrong](const char * name, auto value, auto by_default, auto of_engine) {
        if (value != by_default && value != of_engine) { wrong = name; }
    };
    look("type_k", given.type_k, defaults.type_k, engines.type_k);
    look("type_v", given.type_v, defaults.type_v, engines.type_v);
    look("rotate_kv", given.rotate_kv, defaults.rotate_kv, engines.rotate_kv);
    look("n_threads", given.n_threads, defaults.n_threads, engines.n_threads);
    look("n_snapshots", given.n_snapshots, defaults.n_snapshots, defaults.n_snapshots);
    if (!given.observe.empty()) {
        return {ErrorCode::kInvalidArgument,
                pith::Item{"observe"} + " is for sessions, which can become another policy: leave it out of a request"};
    }
    if (wrong == nullptr) { return {}; }
    return {ErrorCode::kInvalidArgument,
            pith::Item{wrong} +
                " of a request is not the engine's, which all of its requests share: leave it out, or make the engine so"};
}

// A callback that throws ends the request: Engine sees to that.
Result<pith::Request> request_of(const pith_engine & engine, const pith_request & given) {
    pith::Request request;
    PITH_ASSIGN_OR_RETURN(request.tokens, tokens_of(given.tokens, given.n_tokens, "tokens"));
    PITH_ASSIGN_OR_RETURN(request.questions, tokens_of(given.questions, given.n_questions, "questions"));
    PITH_ASSIGN_OR_RETURN(request.stop, tokens_of(given.stop, given.n_stop, "stop"));
    if (given.stop_at_end) { request.stop.insert(request.stop.end(), engine.end_tokens.begin(), engine.end_tokens.end()); }
    PITH_ASSIGN_OR_RETURN(request.options, session_options(given.options));
    PITH_RETURN_IF_ERROR(leave_to_engine(request.options, engine.options));
    request.n_question = given.n_question;
    request.after = given.after;
    request.keep = given.keep;
    request.max_tokens = given.max_tokens;
    request.priority = given.priority;
    if (given.cache_name != nullptr) { request.cache_name = given.cache_name; }
    request.use_cache = given.use_cache;
    request.repair = given.repair;
    PITH_ASSIGN_OR_RETURN(request.cache_at, tokens_of(given.cache_at, given.n_cache_at, "cache_at"));
    if (given.sampler != nullptr && given.choose != nullptr) {
        return {ErrorCode::kInvalidArgument, "sampler and choose: give one of them"};
    }
    if (given.sampler != nullptr) {
        request.choose = [sampler = given.sampler->parts](std::span<const float> logits) {
            return sampler->sampler.sample(logits);
        };
    } else if (given.choose != nullptr) {
        request.choose = [choose = given.choose, user = given.user](std::span<const float> logits) -> Result<int32_t> {
            return choose(logits.data(), logits.size(), user);
        };
    }
    if (given.on_token != nullptr) {
        request.on_token = [on_token = given.on_token, user = given.user](int32_t token) { return on_token(token, user); };
    }
    return request;
}

}  // namespace

void pith_engine_options_init(struct pith_engine_options * options, size_t size) {
    init(options, size, default_engine_options());
}

void pith_request_init(struct pith_request * request, size_t size) {
    init(request, size, default_request());
}

pith_code pith_engine_new(const pith_model * model, const struct pith_engine_options * options, pith_engine ** engine) {
    return guarded([&]() -> Status {
        if (model == nullptr || engine == nullptr) { return missing(model == nullptr ? "model" : "engine"); }
        *engine = nullptr;
        PITH_ASSIGN_OR_RETURN(const pith_engine_options given, with_defaults(options, default_engine_options()));
        PITH_ASSIGN_OR_RETURN(const pith::EngineOptions wanted, engine_options(given));
        PITH_ASSIGN_OR_RETURN(pith::Engine made, model->model.engine(wanted));
        const pith::ModelInfo & info = model->model.info();
        std::vector<int32_t> ends;
        if (model->tokenizer.ok()) { ends = (*model->tokenizer)->end_of_generation_tokens(); }
        *engine = new pith_engine{std::move(made), wanted, std::move(ends), info.n_layers, info.n_kv_heads};
        return {};
    });
}

pith_code pith_engine_free(pith_engine * engine) {
    return free_handle(engine);
}

pith_code pith_engine_submit(pith_engine * engine, const struct pith_request * request, int64_t * id) {
    return from_hooks_too(engine, [&]() -> Status {
        if (engine == nullptr || request == nullptr || id == nullptr) { return missing("engine, request or id"); }
        PITH_ASSIGN_OR_RETURN(const pith_request given, with_defaults(request, default_request()));
        PITH_ASSIGN_OR_RETURN(pith::Request wanted, request_of(*engine, given));
        PITH_ASSIGN_OR_RETURN(*id, engine->engine.submit(std::move(wanted)));
        return {};
    });
}

pith_code pith_engine_cancel(pith_engine * engine, int64_t id) {
    return from_hooks_too(engine,
                          [&]() -> Status { return engine == nullptr ? missing("engine") : engine->engine.cancel(id); });
}

pith_code pith_engine_forget(pith_engine * engine, int64_t id) {
    return from_hooks_too(engine,
                          [&]() -> Status { return engine == nullptr ? missing("engine") : engine->engine.forget(id); });
}

pith_code pith_engine_step(pith_engine * engine, bool * more) {
    return alone(engine, [&]() -> Status {
        if (engine == nullptr || more == nullptr) { return missing(engine == nullptr ? "engine" : "more"); }
        PITH_ASSIGN_OR_RETURN(*more, engine->engine.step(CancelFlag::Call(engine->cancel).get()));
        return {};
    });
}

pith_code pith_engine_run(pith_engine * engine, bool (*go_on)(void * user), void * user) {
    return alone(engine, [&]() -> Status {
        if (engine == nullptr) { return missing("engine"); }
        const CancelFlag::Call call(engine->cancel);
        for (bool more = true; more;) {
            if (go_on != nullptr && !go_on(user)) { return {ErrorCode::kCancelled, "cancelled between two steps"}; }
            if (call.get()->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
            PITH_ASSIGN_OR_RETURN(more, engine->engine.step(call.get()));
        }
        return {};
    });
}

pith_request_state pith_engine_state(const pith_engine * engine, int64_t id) {
    return value_of(engine, PITH_REQUEST_FAILED, [&] { return static_cast<pith_request_state>(engine->engine.state(id)); });
}

pith_code pith_engine_status(const pith_engine * engine, int64_t id) {
    return from_hooks_too(engine,
                          [&]() -> Status { return engine == nullptr ? missing("engine") : engine->engine.status(id); });
}

const int32_t * pith_engine_answer(const pith_engine * engine, int64_t id, size_t * n) {
    const auto answer = value_of(engine, std::span<const int32_t>(), [&] { return engine->engine.answer(id); });
    if (n != nullptr) { *n = answer.size(); }
    return answer.data();
}

pith_code pith_engine_lane_positions(const pith_engine * engine, int64_t id, int32_t layer, int32_t kv_head,
                                     const int32_t ** positions, size_t * n) {
    return from_hooks_too(engine, [&]() -> Status {
        if (engine == nullptr || positions == nullptr || n == nullptr) { return missing("engine, positions or n"); }
        PITH_RETURN_IF_ERROR(check_lane(layer, kv_head, engine->n_layers, engine->n_kv_heads));
        const auto lane = engine->engine.lane_positions(id, layer, kv_head);
        *positions = lane.data();
        *n = lane.size();
        return {};
    });
}

pith_code pith_engine_request_ledger(pith_engine * engine, int64_t id, struct pith_ledger * ledger) {
    return from_hooks_too(engine, [&]() -> Status {
        if (engine == nullptr || ledger == nullptr) { return missing(engine == nullptr ? "engine" : "ledger"); }
        PITH_ASSIGN_OR_RETURN(engine->ledger, engine->engine.ledger(id));
        return give(ledger_of(engine->ledger), ledger);
    });
}

int64_t pith_engine_n_cached(const pith_engine * engine, int64_t id) {
    return value_of(engine, int64_t{0}, [&] { return engine->engine.n_cached(id); });
}

int64_t pith_engine_n_read(const pith_engine * engine, int64_t id) {
    return value_of(engine, int64_t{0}, [&] { return engine->engine.n_read(id); });
}

bool pith_engine_questions_seen(const pith_engine * engine, int64_t id) {
    return value_of(engine, false, [&] { return engine->engine.questions_seen(id); });
}

pith_code pith_engine_get_ledger(const pith_engine * engine, struct pith_engine_ledger * ledger) {
    return from_hooks_too(engine, [&]() -> Status {
        if (engine == nullptr || ledger == nullptr) { return missing(engine == nullptr ? "engine" : "ledger"); }
        const pith::EngineLedger l = engine->engine.ledger();
        pith_engine_ledger all{};
        all.n_waiting = l.n_waiting;
        all.n_running = l.n_running;
        all.n_set_aside = l.n_set_aside;
        all.n_steps = l.n_steps;
        all.n_prompt = l.n_prompt;
        all.n_generated = l.n_generated;
        all.ceiling_bytes = l.ceiling_bytes;
        all.kv_reserved_bytes = l.kv_reserved_bytes;
        all.kv_allocated_bytes = l.kv_allocated_bytes;
        all.kv_kept_bytes = l.kv_kept_bytes;
        all.kv_peak_bytes = l.kv_peak_bytes;
        all.activation_peak_bytes = l.activation_peak_bytes;
        all.step_s = l.step_s;
        all.pass_s = l.pass_s;
        all.evict_s = l.evict_s;
        all.schedule_s = l.schedule_s;
        all.prefill_s = l.prefill_s;
        all.decode_s = l.decode_s;
        all.evidence_s = l.evidence_s;
        all.longest_unit_s = l.longest_unit_s;
        all.n_cache_sought = l.n_cache_sought;
        all.n_cache_found = l.n_cache_found;
        all.n_cache_kept = l.n_cache_kept;
        all.kv_idle_bytes = l.kv_idle_bytes;
        return give(all, ledger);
    });
}
