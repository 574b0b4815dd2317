// api_error.cpp - codes and types of errors. Stage: serve.
#include "serve/shapes/api_error.h"

#include <array>
#include <string_view>

#include "core/items.h"

namespace pith::serve {
namespace {

struct RequestName {
    Item item;
    std::string_view name;
    bool is_field = false;  // of a request; else of what the server was started with
};
constexpr auto kNames = std::to_array<RequestName>({
    {item::kBudget, "kv_budget", true},
    {item::kCausalGates, "causal gates"},
    {item::kCeiling, "budget of all caches together"},
    {item::kChatTemplate, "chat template"},
    {item::kChunk, "chunk"},
    {item::kCold, "store of what was evicted"},
    {item::kLookBack, "looking back"},
    {item::kContext, "context size"},
    {item::kDeviceLayers, "n_gpu_layers"},
    {item::kDevices, "devices"},
    {item::kDraftNgram, "draft_ngram", true},
    {item::kEvictEvery, "distance of evictions"},
    {item::kGates, "gate_file"},
    {item::kGrammar, "grammar", true},
    {item::kGrid, "grid"},
    {item::kHeads, "head importances"},
    {item::kHost, "host"},
    {item::kKvOffload, "kv_offload"},
    {item::kLora, "adapter"},
    {item::kLoraScale, "adapter's scale"},
    {item::kMmap, "mapping of files"},
    {item::kPolicy, "kv_policy", true},
    {item::kPort, "port"},
    {item::kPrefill, "prefill"},
    {item::kPrompt, "prompt", true},
    {item::kRaw, "/v1/completions"},
    {item::kRepairEvery, "tokens between looks of an answer"},
    {item::kRpcServers, "RPC servers"},
    {item::kTensorSplit, "tensor_split"},
    {item::kTolerance, "kv_tolerance", true},
    {item::kTypeK, "type of keys"},
    {item::kTypeV, "type of values"},
});
static_assert(item::has_all(kNames));

// What is none of the library's items is a field that the server reads itself.
RequestName name_of(std::string_view name) {
    const RequestName * found = item::find(kNames, name);
    return found != nullptr ? *found : RequestName{{name}, name, true};
}

std::string param_of(const Status & status) {
    const RequestName named = name_of(status.item());
    return named.is_field ? std::string(named.name) : std::string();
}

ApiError error_with(int code, const std::string & type, const Status & status) {
    ApiError error{code, type, message_of(status)};
    error.param = param_of(status);
    return error;
}

}  // namespace

std::string message_of(const Status & status) {
    return status.message([](std::string_view item) { return name_of(item).name; });
}

Json ApiError::json() const {
    Json error = {{"code", code}, {"message", message}, {"type", type}};
    if (!param.empty()) { error["param"] = param; }
    error.update(more);
    return {{"error", std::move(error)}};
}

ApiError invalid_request(const std::string & message) {
    return {400, "invalid_request_error", message};
}

ApiError not_found() {
    return {404, "not_found_error", "there is nothing at this path, or not for this method"};
}

ApiError not_authorised() {
    return {401, "authentication_error", "the API key is missing or wrong: send it as 'Authorization: Bearer KEY'"};
}

ApiError too_large(size_t most_bytes) {
    return {413, "invalid_request_error", "the body is larger than " + std::to_string(most_bytes) + " bytes"};
}

ApiError not_ready(const std::string & message) {
    return {503, "unavailable_error", message};
}

ApiError no_room(const std::string & message, int64_t retry_after_s) {
    ApiError error{429, "rate_limit_error", message};
    error.retry_after_s = retry_after_s;
    return error;
}

ApiError too_long(int64_t n_prompt, int64_t n_context) {
    ApiError error{400, kTooLong,
                   "request (" + std::to_string(n_prompt) + " tokens) exceeds the available context size (" +
                       std::to_string(n_context) + " tokens), try increasing it"};
    error.more = {{"n_prompt_tokens", n_prompt}, {"n_ctx", n_context}};
    return error;
}

ApiError error_of(const Status & status) {
    switch (status.code()) {
        case ErrorCode::kInvalidArgument:
        case ErrorCode::kBudget:
        case ErrorCode::kMissingEvidence:
            return error_with(400, "invalid_request_error", status);
        case ErrorCode::kNotFound:
            return error_with(404, "not_found_error", status);
        case ErrorCode::kUnsupported:
            return error_with(400, "not_supported_error", status);
        case ErrorCode::kOutOfMemory:
        case ErrorCode::kCancelled:
            return error_with(503, "unavailable_error", status);
        default:
            return error_with(500, "server_error", status);
    }
}

}  // namespace pith::serve
