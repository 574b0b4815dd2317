// api.cpp - routes, and the endpoints that need no answer of the model's. Stage: serve.
#include "serve/api.h"

#include <chrono>
#include <cstdio>

#include "core/guarded.h"
#include "core/text.h"
#include "core/utc_time.h"
#include "serve/constant_time.h"
#include "serve/page/page.h"
#include "serve/shapes/fields.h"
#include "serve/shapes/messages_response.h"
#include "serve/shapes/responses_response.h"
#include "text/utf8.h"

namespace pith::serve {
namespace {

ApiReply reply_of(const Json & value) {
    ApiReply reply;
    reply.body = dump(value);
    return reply;
}

ApiReply page(const PageFile & file) {
    ApiReply reply;
    reply.content_type = file.content_type;
    reply.body = file.body;
    reply.headers = {{"Content-Security-Policy", std::string(kPagePolicy)},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cache-Control", "no-cache"}};
    return reply;
}

constexpr size_t kPieceBytes = 512;     // of a token with its piece, in the tree and as text
constexpr size_t kTextCopies = 4;       // of a text that a reply holds: itself, in the tree, and written with what JSON escapes
constexpr size_t kTokeniserBytes = 56;  // libllama's work on a byte of a text, measured on SentencePiece's kind
constexpr std::string_view kBearer = "bearer ";  // in any case
constexpr std::string_view kMessages = "/v1/messages";
constexpr std::string_view kResponses = "/v1/responses";
constexpr std::string_view kMetrics = "/metrics";
constexpr std::string_view kModels = "/v1/models";

// In the form that clients of this path read.
Json body_of(const ApiError & error, std::string_view path) {
    if (path.starts_with(kMessages)) { return messages_error(error); }
    if (path.starts_with(kResponses) || path.starts_with("/responses")) { return responses_error(error); }
    if (path.starts_with("/api/")) { return {{"error", error.message}}; }  // Ollama's
    return error.json();
}

bool is_health(std::string_view path) {
    return path == "/health" || path == "/v1/health";
}

}  // namespace

ApiReply reply_of(const ApiError & error, std::string_view path) {
    ApiReply reply;
    reply.error = error;
    reply.status = error.code;
    reply.body = dump(body_of(error, path));
    if (error.retry_after_s > 0) { reply.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s)); }
    if (error.code == 401) { reply.headers.emplace_back("WWW-Authenticate", "Bearer"); }
    return reply;
}

std::optional<ApiError> take_room(const ApiRequest & request, size_t n_bytes, std::string_view for_what,
                                  std::string_view too_much) {
    if (request.room == nullptr || request.room->take(n_bytes)) { return {}; }
    if (request.room->could_take(n_bytes)) {
        return no_room("there is no room " + std::string(for_what) + " now: try again later", 1);
    }
    ApiError error = invalid_request(std::string(too_much));
    error.code = 413;
    return error;
}

RequestReport::~RequestReport() {
    if (!tell) { return; }
    static_cast<void>(guarded([this]() -> Result<bool> {
        tell(line());
        return true;
    }));
}

void RequestReport::add(const AnswerCosts & costs) {
    n_prompt += costs.n_prompt;
    n_cached += costs.n_cached;
    n_generated += costs.n_generated;
}

std::string RequestReport::line() const {
    constexpr size_t kMostPath = 100;  // bytes of what a stranger wrote
    std::string text = method + " " + without_controls(path.substr(0, kMostPath));
    text += " " + std::to_string(status) + ": ";
    if (n_prompt > 0) {
        text += std::to_string(n_prompt) + " tokens (" + std::to_string(n_cached) + " cached), " + std::to_string(n_generated) +
                " generated, ";
    }
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3f s", since_came.seconds());
    return text + seconds;
}

Api::Api(const Model & model, const Tokenizer & tokenizer, Generator & generator, ApiOptions options)
    : model_(model), tokenizer_(tokenizer), generator_(generator), options_(std::move(options)) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    started_ = std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

const PageFile * Api::page_file(std::string_view path) const {
    return options_.has_page ? find_page_file(path) : nullptr;
}

bool Api::may(const ApiRequest & request) const {
    const bool is_open_path = is_health(request.path) || page_file(request.path) != nullptr;
    const bool is_open = request.method == "GET" && is_open_path;  // a body that nobody wants is read of who has a key alone
    return options_.keys.empty() || is_open || key_of(request).has_value();
}

// Which of the keys it brings.
std::optional<size_t> Api::key_of(const ApiRequest & request) const {
    std::string_view bearer;
    const std::string_view sent = request.authorization;
    if (to_lower(sent.substr(0, kBearer.size())) == kBearer) { bearer = sent.substr(kBearer.size()); }
    std::optional<size_t> found;
    for (const std::string_view given : {std::string_view(request.api_key), bearer}) {  // of two keys the bearer's counts
        for (size_t i = 0; i < options_.keys.size(); ++i) {
            if (equal_in_constant_time(options_.keys[i], given)) { found = i; }
        }
    }
    return found;
}

// Whose the states of its prompt are.
std::string Api::owner_of(const ApiRequest & request) const {
    const auto key = key_of(request);
    return key && *key < options_.owners.size() ? options_.owners[*key] : std::string();
}

std::optional<ApiReply> Api::refuse(const ApiRequest & request) const {
    if (may(request)) { return {}; }
    report(request, not_authorised().code);
    return reply_of(not_authorised(), request.path);
}

// Balancers and Prometheus ask all the time.
void Api::report(const ApiRequest & request, int status) const {
    if (is_health(request.path) || request.path == kMetrics) { return; }
    request.report->tell = options_.tell_request;
    request.report->method = request.method;
    request.report->path = request.path;
    request.report->status = status;
}

ApiReply Api::handle(const ApiRequest & request) {
    if (auto refused = refuse(request)) { return std::move(*refused); }
    auto routed = guarded([&] { return route(request); });
    ApiReply reply = !routed.ok()    ? reply_of(error_of(routed.status()), request.path)
                     : routed->error ? reply_of(*routed->error, request.path)
                                     : std::move(*routed);
    report(request, reply.status);
    return reply;
}

Result<ApiReply> Api::route(const ApiRequest & request) {
    const std::string & path = request.path;
    if (request.method == "GET") {
        if (const PageFile * file = page_file(path)) { return page(*file); }
        if (is_health(path)) {  // balancers send nobody more here then
            return closed_ ? reply_of(not_ready(kIsClosed)) : reply_of(Json{{"status", "ok"}});
        }
        if (path == kModels || path == "/models") { return models(); }
        if (path == std::string(kModels) + "/" + options_.model_name) { return reply_of(model_entry()); }
        if (path == "/props") { return props(); }
        if (path == "/slots") { return slots(); }
        if (path == kMetrics) { return metrics(); }
    } else if (request.method == "POST") {
        if (path == "/v1/chat/completions" || path == "/chat/completions") { return chat(request); }
        if (path == "/v1/completions") { return text(request); }
        if (path == kMessages) { return messages(request); }
        if (path == "/v1/messages/count_tokens") { return count_tokens(request); }
        if (path == kResponses || path == "/responses") { return responses(request); }
        if (path == "/v1/responses/input_tokens" || path == "/responses/input_tokens") { return count_input_tokens(request); }
        if (path == "/tokenize") { return tokenize(request); }
        if (path == "/detokenize") { return detokenize(request); }
        if (path == "/apply-template") { return apply_template(request); }
        if (path == "/v1/embeddings" || path == "/embeddings") {
            return reply_of(ApiError{400, "not_supported_error", "Pith makes no embeddings"});
        }
    }
    return reply_of(not_found());
}

Result<ApiReply> Api::tokenize(const ApiRequest & request) {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    Fields fields(body);
    std::string content;
    bool add_special = false;
    bool parse_special = true;
    bool with_pieces = false;
    for (const Status & status :
         {fields.read("content", content), fields.read("add_special", add_special), fields.read("parse_special", parse_special),
          fields.read("with_pieces", with_pieces), fields.check_spelling()}) {
        PITH_RETURN_IF_ERROR(status);
    }
    const std::string n_content = "'content' has " + std::to_string(content.size()) + " bytes: ";
    const size_t most = request.room == nullptr ? 0 : request.room->most_bytes();
    if (auto none = take_room(request, kTokeniserBytes * content.size(), "to tokenise it",
                              n_content + "at most " + std::to_string(most / kTokeniserBytes) + " can be tokenised at once")) {
        return reply_of(*none);
    }
    PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer_.encode(content, add_special, parse_special));
    if (!with_pieces) { return reply_of(Json{{"tokens", tokens}}); }
    if (auto none = take_room(request, kPieceBytes * tokens.size(), "for the pieces",
                              n_content + "its " + std::to_string(tokens.size()) +
                                  " pieces take too much memory in one reply: leave 'with_pieces' out, or send less at once")) {
        return reply_of(*none);
    }
    Json list = Json::array();
    for (const int32_t token : tokens) {
        const std::string piece = tokenizer_.piece(token, /*special=*/true);
        // A part of a character has no text: its bytes, as llama-server gives them.
        list.push_back({{"id", token}, {"piece", invalid_utf8_offset(piece) ? bytes_of(piece) : Json(piece)}});
    }
    return reply_of(Json{{"tokens", std::move(list)}});
}

Result<ApiReply> Api::detokenize(const ApiRequest & request) {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    Fields fields(body);
    std::string text;
    if (const Json * tokens = fields.find("tokens")) {
        if (!tokens->is_array()) { return wrong_field("tokens", *tokens, "a list of tokens"); }
        for (const Json & token : *tokens) {
            const bool known =
                token.is_number_integer() && token.get<int64_t>() >= 0 && token.get<int64_t>() < tokenizer_.n_vocab();
            if (!known) { return wrong_field("tokens", token, "tokens from 0 to " + std::to_string(tokenizer_.n_vocab() - 1)); }
            const std::string piece = tokenizer_.piece(token.get<int32_t>(), /*special=*/true);
            if (auto none = take_room(request, kTextCopies * piece.size(), "for their text",
                                      "the text of 'tokens' takes too much memory in one reply: send fewer at once")) {
                return reply_of(*none);
            }
            text += piece;
        }
    }
    return reply_of(Json{{"content", text}});
}

Result<ApiReply> Api::apply_template(const ApiRequest & request) {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    PITH_ASSIGN_OR_RETURN(const ChatRequest asked, parse_conversation(body));
    PITH_ASSIGN_OR_RETURN(Conversation chat, conversation_of(asked));
    PITH_ASSIGN_OR_RETURN(const std::string prompt, whole_prompt_text(chat, /*plain=*/false));
    return reply_of(Json{{"prompt", prompt}});
}

Json Api::model_entry() const {
    const ModelInfo & info = model_.info();
    const std::string & name = options_.model_name;
    const Json meta = {{"n_vocab", info.n_vocab}, {"n_ctx", options_.n_context}, {"n_ctx_train", info.n_ctx_train},
                       {"n_embd", info.n_embd},   {"n_params", info.n_params},   {"size", info.weight_bytes},
                       {"ftype", info.file_type}};
    const int64_t n_context = options_.n_context;
    return {{"id", name},
            {"type", "model"},  // Anthropic's clients read these
            {"display_name", name},
            {"created_at", iso_date(started_)},
            {"max_input_tokens", n_context},
            {"max_tokens", n_context},
            {"aliases", {name}},
            {"tags", Json::array()},
            {"object", "model"},
            {"architecture", {{"input_modalities", {"text"}}, {"output_modalities", {"text"}}}},
            {"created", started_},
            {"owned_by", "pith"},
            {"meta", meta}};
}

ApiReply Api::models() const {
    const ModelInfo & info = model_.info();
    const std::string & name = options_.model_name;
    const Json details = {{"parent_model", ""},          {"format", "gguf"},
                          {"family", info.architecture}, {"families", {info.architecture}},
                          {"parameter_size", ""},        {"quantization_level", info.file_type}};
    const Json model = {{"name", name},      {"model", name},     {"modified_at", ""},
                        {"size", ""},        {"digest", ""},      {"type", "model"},
                        {"description", ""}, {"tags", {""}},      {"capabilities", {"completion"}},
                        {"parameters", ""},  {"details", details}};
    return reply_of(Json{{"models", Json::array({model})},
                         {"object", "list"},
                         {"data", Json::array({model_entry()})},
                         {"has_more", false},  // Anthropic's clients read on in pages
                         {"first_id", name},
                         {"last_id", name}});
}

ApiReply Api::props() const {
    const SamplerOptions & s = options_.defaults.sampler;
    const Json params = {{"seed", s.seed},
                         {"temperature", s.temperature},
                         {"dynatemp_range", s.dynatemp_range},
                         {"dynatemp_exponent", s.dynatemp_exponent},
                         {"top_k", s.top_k},
                         {"top_p", s.top_p},
                         {"min_p", s.min_p},
                         {"top_n_sigma", s.top_n_sigma},
                         {"xtc_probability", s.xtc_probability},
                         {"xtc_threshold", s.xtc_threshold},
                         {"typical_p", s.typical_p},
                         {"repeat_last_n", s.repeat_last_n},
                         {"repeat_penalty", s.repeat_penalty},
                         {"presence_penalty", s.presence_penalty},
                         {"frequency_penalty", s.frequency_penalty},
                         {"dry_multiplier", s.dry_multiplier},
                         {"dry_base", s.dry_base},
                         {"dry_allowed_length", s.dry_allowed_length},
                         {"dry_penalty_last_n", s.dry_last_n},
                         {"mirostat", s.mirostat},
                         {"mirostat_tau", s.mirostat_tau},
                         {"mirostat_eta", s.mirostat_eta},
                         {"max_tokens", options_.defaults.max_tokens},
                         {"n_predict", options_.defaults.max_tokens},
                         {"ignore_eos", false},
                         {"stream", false},
                         {"n_probs", 0},
                         {"timings_per_token", false},
                         {"kv_policy", options_.session.policy.name()},
                         {"kv_budget", options_.session.budget.to_string()}};
    const GeneratorState state = generator_.state();
    const auto special = [this](int32_t token) { return token < 0 ? std::string() : tokenizer_.piece(token, true); };
    return reply_of(Json{{"default_generation_settings", {{"params", params}, {"n_ctx", options_.n_context}}},
                         {"total_slots", state.slots.size()},
                         {"model_alias", options_.model_name},
                         {"model_ftype", model_.info().file_type},
                         {"model_path", model_.info().path},
                         {"modalities", {{"vision", false}, {"video", false}, {"audio", false}}},
                         {"endpoint_slots", options_.tells_slots},
                         {"endpoint_props", false},
                         {"endpoint_metrics", true},
                         {"chat_template", tokenizer_.chat_template()},
                         {"bos_token", special(tokenizer_.bos())},
                         {"eos_token", special(tokenizer_.eos())},
                         {"build_info", options_.version},
                         {"kv_ceiling_bytes", state.engine.ceiling_bytes}});
}

ApiReply Api::metrics() const {
    const GeneratorState state = generator_.state();
    ApiReply reply;
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    reply.body = prometheus_text(state.metrics, {state.engine, state.n_running, state.n_waiting, state.n_tokens});
    return reply;
}

ApiReply Api::slots() const {
    if (!options_.tells_slots) {
        return reply_of(ApiError{400, "not_supported_error", "this server does not tell its slots: it was started so"});
    }
    Json list = Json::array();
    const GeneratorState state = generator_.state();
    for (size_t i = 0; i < state.slots.size(); ++i) {
        const SlotState & slot = state.slots[i];
        Json entry = {{"id", i}, {"n_ctx", options_.n_context}, {"speculative", false}, {"is_processing", slot.busy}};
        if (slot.busy) {
            entry["id_task"] = slot.task;
            entry["n_prompt_tokens"] = slot.n_prompt;
            entry["is_reading"] = slot.reading;
            entry["next_token"] = {{"n_decoded", slot.n_generated}};
        }
        list.push_back(std::move(entry));
    }
    return reply_of(list);
}

}  // namespace pith::serve
