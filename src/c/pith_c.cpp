// pith_c.cpp - the C interface over the C++ one: handles, errors of this thread, structs of other versions. Stage: façade.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "pith/engine.h"
#include "pith/pith.h"

struct pith_model {
    pith::Model model;
    pith::Result<pith::Tokenizer> tokenizer;  // a model without a vocabulary runs all the same
};
struct pith_session {
    pith::Session session;
};
struct pith_snapshot {
    std::shared_ptr<pith::Session::Snapshot> state;
};
struct pith_sampler {
    std::shared_ptr<const pith::Tokenizer> words;
    pith::Sampler sampler;
};

namespace {

using pith::ErrorCode;
using pith::Result;
using pith::Status;

static_assert(static_cast<int>(ErrorCode::kInternal) == PITH_INTERNAL && static_cast<int>(ErrorCode::kBudget) == PITH_BUDGET,
              "the C codes are the C++ ones");

thread_local std::string last_error;

pith_code to_code(const Status & status) {
    if (!status.ok()) { last_error = status.message(); }
    return static_cast<pith_code>(status.code());
}

// Nothing that a call throws leaves the library.
template <class Call>
pith_code guarded(Call && call) {
    try {
        return to_code(call());
    } catch (const std::bad_alloc &) {
        return to_code({ErrorCode::kOutOfMemory, "out of memory"});
    } catch (const std::exception & error) {
        return to_code({ErrorCode::kInternal, std::string("unexpected: ") + error.what()});
    } catch (...) { return to_code({ErrorCode::kInternal, "unexpected"}); }
}

Status missing(const char * what) {
    return {ErrorCode::kInvalidArgument, std::string(what) + " is NULL"};
}

// The caller's struct over our defaults: as much of it as the caller's header knew.
template <class Options>
Options with_defaults(const Options * given, void (*init)(Options *)) {
    Options all;
    init(&all);
    if (given != nullptr) {
        std::memcpy(static_cast<void *>(&all), static_cast<const void *>(given), std::min(given->size, sizeof(Options)));
        all.size = sizeof(Options);
    }
    return all;
}

// The other way: as much of ours as the caller's struct has room for.
template <class Out>
Status give(const Out & all, Out * out) {
    const size_t size = out->size;
    if (size < sizeof(size_t) || size > (size_t{1} << 16U)) {
        return {ErrorCode::kInvalidArgument, "the struct's size is " + std::to_string(size) + ": set it to sizeof(the struct)"};
    }
    std::memcpy(static_cast<void *>(out), static_cast<const void *>(&all), std::min(size, sizeof(Out)));
    out->size = size;
    return {};
}

std::string text_of(const char * text) {
    return text == nullptr ? std::string() : std::string(text);
}

// `from` into the caller's room of *n elements; *n is then how many there are.
template <class T, class From>
Status copy_out(const From & from, T * to, size_t * n) {
    const size_t room = *n;
    *n = from.size();
    if (from.size() > room) {
        return {ErrorCode::kInvalidArgument,
                "there is room for " + std::to_string(room) + ", and " + std::to_string(from.size()) + " are needed"};
    }
    std::copy(from.begin(), from.end(), to);
    return {};
}

Result<pith::SessionOptions> session_options(const pith_session_options & given) {
    pith::SessionOptions options;
    options.policy = text_of(given.policy);
    if (given.budget != nullptr) { PITH_ASSIGN_OR_RETURN(options.budget, pith::Budget::parse(given.budget)); }
    PITH_ASSIGN_OR_RETURN(options.type_k, pith::parse_kv_type(text_of(given.type_k)));
    PITH_ASSIGN_OR_RETURN(options.type_v, pith::parse_kv_type(text_of(given.type_v)));
    const std::string prefill = text_of(given.prefill);
    if (prefill == "one-shot") {
        options.prefill = pith::PrefillSchedule::kOneShot;
    } else if (prefill == "chunked") {
        options.prefill = pith::PrefillSchedule::kChunked;
    } else if (prefill != "auto") {
        return {ErrorCode::kInvalidArgument, "prefill is '" + prefill + "': use auto, one-shot or chunked"};
    }
    options.n_threads = given.n_threads;
    options.max_context = given.max_context;
    options.chunk = given.chunk;
    options.evict_every = given.evict_every;
    for (size_t i = 0; given.pinned != nullptr && i < given.n_pinned; ++i) {
        options.pinned.push_back({given.pinned[i].begin, given.pinned[i].end});
    }
    options.heads_file = text_of(given.heads_file);
    const std::string observe = text_of(given.observe);
    for (size_t begin = 0; begin < observe.size();) {
        const size_t end = std::min(observe.find(',', begin), observe.size());
        options.observe.push_back(observe.substr(begin, end - begin));
        begin = end + 1;
    }
    return options;
}

}  // namespace

const char * pith_version(void) {
    return PITH_VERSION;
}

const char * pith_error(void) {
    return last_error.c_str();
}

const char * pith_code_name(pith_code code) {
    return pith::to_string(static_cast<ErrorCode>(code)).data();  // of a literal: ends with a zero
}

void pith_set_log(pith_log_fn log, void * user) {
    if (log == nullptr) {
        pith::set_log_sink({});
        return;
    }
    pith::set_log_sink([log, user](pith::LogLevel level, std::string_view line) {
        log(static_cast<int>(level), line.data(), line.size(), user);
    });
}

void pith_model_options_init(struct pith_model_options * options) {
    *options = {sizeof(*options), true, true, nullptr, 1.0F, nullptr, nullptr, nullptr};
}

void pith_session_options_init(struct pith_session_options * options) {
    const pith::SessionOptions defaults;
    *options = {};
    options->size = sizeof(*options);
    options->policy = "full";
    options->type_k = options->type_v = "f16";
    options->prefill = "auto";
    options->chunk = defaults.chunk;
    options->evict_every = defaults.evict_every;
}

void pith_run_options_init(struct pith_run_options * options) {
    *options = {};
    options->size = sizeof(*options);
}

void pith_sampler_options_init(struct pith_sampler_options * options) {
    const pith::SamplerOptions d;
    *options = {sizeof(*options),
                d.temperature,
                d.top_k,
                d.top_p,
                d.min_p,
                d.typical_p,
                d.top_n_sigma,
                d.xtc_probability,
                d.xtc_threshold,
                d.repeat_penalty,
                d.presence_penalty,
                d.frequency_penalty,
                d.repeat_last_n,
                d.dry_multiplier,
                d.dry_base,
                d.dry_allowed_length,
                d.dry_last_n,
                d.mirostat,
                d.mirostat_tau,
                d.mirostat_eta,
                nullptr,
                nullptr,
                d.seed};
}

pith_code pith_model_load(const char * path, const struct pith_model_options * options, pith_model ** model) {
    return guarded([&]() -> Status {
        if (path == nullptr || model == nullptr) { return missing(path == nullptr ? "path" : "model"); }
        *model = nullptr;
        const pith_model_options given = with_defaults(options, pith_model_options_init);
        pith::ModelOptions wanted;
        wanted.use_mmap = given.use_mmap;
        wanted.repack = given.repack;
        wanted.lora_file = text_of(given.lora_file);
        wanted.lora_scale = given.lora_scale;
        wanted.gate_file = text_of(given.gate_file);
        if (given.progress != nullptr) {
            wanted.progress = [given](double fraction) { return given.progress(fraction, given.user); };
        }
        PITH_ASSIGN_OR_RETURN(pith::Model loaded, pith::Model::load(path, wanted));
        *model = new pith_model{std::move(loaded), pith::Tokenizer::load(path)};
        return {};
    });
}

void pith_model_free(pith_model * model) {
    delete model;
}

pith_code pith_model_get_info(const pith_model * model, struct pith_model_info * info) {
    return guarded([&]() -> Status {
        if (model == nullptr || info == nullptr) { return missing(model == nullptr ? "model" : "info"); }
        const pith::ModelInfo & m = model->model.info();
        const pith_model_info all{sizeof(pith_model_info),
                                  m.architecture.c_str(),
                                  m.name.c_str(),
                                  m.weight_type.c_str(),
                                  m.n_params,
                                  m.weight_bytes,
                                  m.n_layers,
                                  m.n_heads,
                                  m.n_kv_heads,
                                  m.head_dim,
                                  m.n_embd,
                                  m.n_vocab,
                                  m.n_ctx_train};
        return give(all, info);
    });
}

pith_code pith_tokenize(const pith_model * model, const char * text, size_t n_bytes, bool add_special, bool parse_special,
                        int32_t * tokens, size_t * n_tokens) {
    return guarded([&]() -> Status {
        if (model == nullptr || n_tokens == nullptr) { return missing(model == nullptr ? "model" : "n_tokens"); }
        if (text == nullptr && n_bytes > 0) { return missing("text"); }
        PITH_RETURN_IF_ERROR(model->tokenizer.status());
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> all,
                              model->tokenizer->encode({text == nullptr ? "" : text, n_bytes}, add_special, parse_special));
        return copy_out(all, tokens, n_tokens);
    });
}

pith_code pith_token_text(const pith_model * model, int32_t token, bool special, char * text, size_t * n_bytes) {
    return guarded([&]() -> Status {
        if (model == nullptr || n_bytes == nullptr) { return missing(model == nullptr ? "model" : "n_bytes"); }
        PITH_RETURN_IF_ERROR(model->tokenizer.status());
        return copy_out(model->tokenizer->piece(token, special), text, n_bytes);
    });
}

bool pith_is_end_of_generation(const pith_model * model, int32_t token) {
    return model != nullptr && model->tokenizer.ok() && model->tokenizer->is_end_of_generation(token);
}

pith_code pith_chat_text(const pith_model * model, const char * const * roles, const char * const * contents, size_t n_messages,
                         bool add_assistant, char * text, size_t * n_bytes) {
    return guarded([&]() -> Status {
        if (model == nullptr || n_bytes == nullptr) { return missing(model == nullptr ? "model" : "n_bytes"); }
        if (n_messages > 0 && (roles == nullptr || contents == nullptr)) { return missing("roles or contents"); }
        PITH_RETURN_IF_ERROR(model->tokenizer.status());
        std::vector<pith::ChatMessage> messages;
        for (size_t i = 0; i < n_messages; ++i) { messages.push_back({text_of(roles[i]), text_of(contents[i])}); }
        PITH_ASSIGN_OR_RETURN(const std::string all, model->tokenizer->apply_chat_template(messages, add_assistant));
        return copy_out(all, text, n_bytes);
    });
}

pith_code pith_session_new(const pith_model * model, const struct pith_session_options * options, pith_session ** session) {
    return guarded([&]() -> Status {
        if (model == nullptr || session == nullptr) { return missing(model == nullptr ? "model" : "session"); }
        *session = nullptr;
        PITH_ASSIGN_OR_RETURN(const pith::SessionOptions wanted,
                              session_options(with_defaults(options, pith_session_options_init)));
        PITH_ASSIGN_OR_RETURN(pith::Session made, model->model.session(wanted));
        *session = new pith_session{std::move(made)};
        return {};
    });
}

void pith_session_free(pith_session * session) {
    delete session;
}

pith_code pith_prefill(pith_session * session, const int32_t * tokens, size_t n_tokens, const struct pith_run_options * run) {
    return guarded([&]() -> Status {
        if (session == nullptr || (tokens == nullptr && n_tokens > 0)) {
            return missing(session == nullptr ? "session" : "tokens");
        }
        const pith_run_options given = with_defaults(run, pith_run_options_init);
        std::atomic<bool> cancel = false;
        pith::RunHooks hooks;
        hooks.cancel = &cancel;
        hooks.n_question = given.n_question;
        hooks.is_answer = given.is_answer;
        if (given.progress != nullptr) {
            hooks.progress = [&](int64_t n_done, int64_t n_total) {
                if (!given.progress(n_done, n_total, given.user)) { cancel = true; }
            };
        }
        return session->session.prefill({tokens, n_tokens}, hooks);
    });
}

pith_code pith_append(pith_session * session, int32_t token) {
    return guarded([&]() -> Status { return session == nullptr ? missing("session") : session->session.append(token); });
}

pith_code pith_decode(pith_session * session, int32_t * token) {
    return guarded([&]() -> Status {
        if (session == nullptr || token == nullptr) { return missing(session == nullptr ? "session" : "token"); }
        PITH_ASSIGN_OR_RETURN(*token, session->session.decode());
        return {};
    });
}

const float * pith_logits(const pith_session * session, size_t * n) {
    const auto logits = session == nullptr ? std::span<const float>() : session->session.logits();
    if (n != nullptr) { *n = logits.size(); }
    return logits.data();
}

int64_t pith_n_tokens(const pith_session * session) {
    return session == nullptr ? 0 : session->session.n_tokens();
}

pith_code pith_evict(pith_session * session, const char * policy, const char * budget) {
    return guarded([&]() -> Status {
        if (session == nullptr || policy == nullptr) { return missing(session == nullptr ? "session" : "policy"); }
        pith::Budget wanted;
        if (budget != nullptr) { PITH_ASSIGN_OR_RETURN(wanted, pith::Budget::parse(budget)); }
        return session->session.evict(policy, wanted);
    });
}

pith_code pith_lane_positions(const pith_session * session, int32_t layer, int32_t kv_head, const int32_t ** positions,
                              size_t * n) {
    return guarded([&]() -> Status {
        if (session == nullptr || positions == nullptr || n == nullptr) { return missing("session, positions or n"); }
        const pith::Session & s = session->session;
        if (layer < 0 || layer >= s.n_layers() || kv_head < 0 || kv_head >= s.n_kv_heads()) {
            return {ErrorCode::kInvalidArgument, "layer " + std::to_string(layer) + ", KV head " + std::to_string(kv_head) +
                                                     ": there are " + std::to_string(s.n_layers()) + " layers of " +
                                                     std::to_string(s.n_kv_heads()) + " KV heads"};
        }
        const auto lane = s.lane_positions(layer, kv_head);
        *positions = lane.data();
        *n = lane.size();
        return {};
    });
}

pith_code pith_session_snapshot(pith_session * session, pith_snapshot ** snapshot) {
    return guarded([&]() -> Status {
        if (session == nullptr || snapshot == nullptr) { return missing(session == nullptr ? "session" : "snapshot"); }
        *snapshot = nullptr;
        PITH_ASSIGN_OR_RETURN(auto state, session->session.snapshot());
        *snapshot = new pith_snapshot{std::move(state)};
        return {};
    });
}

pith_code pith_session_restore(pith_session * session, pith_snapshot * snapshot) {
    return guarded([&]() -> Status {
        if (session == nullptr || snapshot == nullptr) { return missing(session == nullptr ? "session" : "snapshot"); }
        return session->session.restore(snapshot->state);
    });
}

void pith_snapshot_free(pith_snapshot * snapshot) {
    delete snapshot;
}

pith_code pith_get_ledger(const pith_session * session, struct pith_ledger * ledger) {
    return guarded([&]() -> Status {
        if (session == nullptr || ledger == nullptr) { return missing(session == nullptr ? "session" : "ledger"); }
        const pith::Ledger & l = session->session.ledger();
        pith_ledger all{};
        all.budget_entries = l.budget_entries;
        all.n_prompt = l.n_prompt;
        all.n_generated = l.n_generated;
        all.n_evictions = l.n_evictions;
        all.evicted_entries = l.evicted_entries;
        all.kept_entries = l.kept_entries;
        all.peak_lane_entries = l.peak_lane_entries;
        all.kv_needed_bytes = l.kv_needed_bytes;
        all.kv_allocated_bytes = l.kv_allocated_bytes;
        all.kv_saved_bytes = l.kv_saved_bytes;
        all.kv_peak_bytes = l.kv_peak_bytes;
        all.evidence_peak_bytes = l.evidence_peak_bytes;
        all.activation_peak_bytes = l.activation_peak_bytes;
        all.rss_peak_bytes = l.rss_peak_bytes;
        all.rss_anonymous_bytes = l.rss_anonymous_bytes;
        all.gate_seen_entries = l.gate_seen_entries;
        all.gate_kept_entries = l.gate_kept_entries;
        all.gate_peak_bytes = l.gate_peak_bytes;
        all.prefill_s = l.prefill_s;
        all.decode_s = l.decode_s;
        all.evidence_s = l.evidence_s;
        all.plan_s = l.plan_s;
        all.compact_s = l.compact_s;
        all.gate_s = l.gate_s;
        return give(all, ledger);
    });
}

pith_code pith_sampler_new(const pith_model * model, const struct pith_sampler_options * options, pith_sampler ** sampler) {
    return guarded([&]() -> Status {
        if (model == nullptr || sampler == nullptr) { return missing(model == nullptr ? "model" : "sampler"); }
        *sampler = nullptr;
        const pith_sampler_options g = with_defaults(options, pith_sampler_options_init);
        pith::SamplerOptions wanted;
        wanted.temperature = g.temperature;
        wanted.top_k = g.top_k;
        wanted.top_p = g.top_p;
        wanted.min_p = g.min_p;
        wanted.typical_p = g.typical_p;
        wanted.top_n_sigma = g.top_n_sigma;
        wanted.xtc_probability = g.xtc_probability;
        wanted.xtc_threshold = g.xtc_threshold;
        wanted.repeat_penalty = g.repeat_penalty;
        wanted.presence_penalty = g.presence_penalty;
        wanted.frequency_penalty = g.frequency_penalty;
        wanted.repeat_last_n = g.repeat_last_n;
        wanted.dry_multiplier = g.dry_multiplier;
        wanted.dry_base = g.dry_base;
        wanted.dry_allowed_length = g.dry_allowed_length;
        wanted.dry_last_n = g.dry_last_n;
        wanted.mirostat = g.mirostat;
        wanted.mirostat_tau = g.mirostat_tau;
        wanted.mirostat_eta = g.mirostat_eta;
        wanted.grammar = text_of(g.grammar);
        wanted.seed = g.seed;
        if (g.json_schema != nullptr) {
            if (g.grammar != nullptr) { return {ErrorCode::kInvalidArgument, "grammar and json_schema: give one of them"}; }
            PITH_ASSIGN_OR_RETURN(wanted.grammar, pith::grammar_of_json_schema(g.json_schema));
        }
        // A tokeniser of its own, so that the model may go before the sampler does.
        std::shared_ptr<const pith::Tokenizer> words;
        if (model->tokenizer.ok()) {
            PITH_ASSIGN_OR_RETURN(pith::Tokenizer own, pith::Tokenizer::load(model->model.info().path));
            words = std::make_shared<const pith::Tokenizer>(std::move(own));
        }
        PITH_ASSIGN_OR_RETURN(pith::Sampler made, pith::Sampler::make(wanted, words.get()));
        *sampler = new pith_sampler{std::move(words), std::move(made)};
        return {};
    });
}

void pith_sampler_free(pith_sampler * sampler) {
    delete sampler;
}

pith_code pith_sample(pith_sampler * sampler, const pith_session * session, int32_t * token) {
    return guarded([&]() -> Status {
        if (sampler == nullptr || session == nullptr || token == nullptr) { return missing("sampler, session or token"); }
        const auto logits = session->session.logits();
        if (logits.empty()) { return {ErrorCode::kInvalidArgument, "the session has no logits: prefill it first"}; }
        PITH_ASSIGN_OR_RETURN(*token, sampler->sampler.sample(logits));
        return {};
    });
}

pith_code pith_sampler_accept(pith_sampler * sampler, int32_t token) {
    return guarded([&]() -> Status {
        if (sampler == nullptr) { return missing("sampler"); }
        sampler->sampler.accept(token);
        return {};
    });
}

void pith_sampler_reset(pith_sampler * sampler) {
    if (sampler != nullptr) { sampler->sampler.reset(); }
}
