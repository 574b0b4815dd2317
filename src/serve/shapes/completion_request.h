// completion_request.h - what the bodies of /v1/chat/completions and /v1/completions ask for. Stage: serve.
//
// Names and meanings are OpenAI's, and llama-server's where OpenAI has none; kv_policy, kv_budget, kv_tolerance and kv_pin are
// Pith's own (docs/serving.md). A field that would change the answer and cannot be followed is an error that names it. Errors:
// kInvalidArgument, kUnsupported (images and the like).   Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "pith/budget.h"
#include "pith/policy_choice.h"
#include "pith/position_span.h"
#include "pith/text.h"
#include "serve/shapes/json.h"
#include "serve/shapes/tools.h"

namespace pith::serve {

inline constexpr int kMostChoices = 16;
inline constexpr int kMostLogprobs = 100;

// Whether the system prompt's entries are never evicted.
enum class PinSystem {
    kWhereItFits,  // in half of the budget
    kYes,          // or the request is refused
    kNo,
};

// What both have in common.
struct CompletionOptions {
    SamplerOptions sampler;
    bool has_format = false;        // the grammar is that of a format: what the answer says has it, and calls have their own
    int64_t max_tokens = -1;        // -1: until the model ends or the context is full
    int64_t min_tokens = 0;         // before so many the model does not end
    std::vector<std::string> stop;  // texts that end an answer, and are no part of it
    int n = 1;                      // answers to each prompt
    int draft_ngram = 0;            // SessionOptions::draft_ngram
    int n_logprobs = -1;            // log-probabilities of each token, and of so many likeliest ones; -1: none
    bool ignore_eos = false;
    bool stream = false;
    bool include_usage = false;      // a last chunk with the usage
    bool timings_per_token = false;  // in every chunk
    bool return_kv_map = false;      // chunks that tell what the cache holds
    double timeout_s = 0;            // for the whole answer; 0: none
    bool return_progress = false;    // chunks that tell how far the prompt has been read
    bool cache_prompt = true;        // what was kept of an earlier prompt may serve this one
    bool may_prioritize = false;     // the server's alone: whether requests may name a priority
    int priority = 0;                // lower first
    bool tells_reasoning = true;     // thoughts apart from what is said
    bool hides_reasoning = false;    // or not at all
    std::optional<PolicyChoice> kv_policy;
    std::optional<Budget> kv_budget;
    std::optional<double> kv_tolerance;
    std::vector<PositionSpan> kv_pin;                // positions that are never evicted
    PinSystem pin_system = PinSystem::kWhereItFits;  // and the system prompt's
};

class Fields;

struct ChatRequest {
    CompletionOptions options;
    std::vector<ChatMessage> messages;
    std::vector<std::string> places;  // of each in the body: "messages[0]"
    ToolsRequest tools;
    std::string variables;              // of the template, as ChatOptions::variables
    std::string variables_unless_told;  // the same, which the server's own stand before
    std::string effort;                 // how much the model should think, where its template asks for that; "none": not at all
    bool continues = true;              // where the last message is the assistant's, the answer goes on with it
};

using TextPrompt = std::variant<std::string, std::vector<int32_t>>;

struct TextRequest {
    CompletionOptions options;
    std::vector<TextPrompt> prompts;
};

// defaults: of the server, for what a body leaves out. tokenizer: for a logit bias of a text.
Result<ChatRequest> parse_chat_request(const Json & body, const CompletionOptions & defaults, const Tokenizer & tokenizer);
Result<TextRequest> parse_text_request(const Json & body, const CompletionOptions & defaults, const Tokenizer & tokenizer);

// What the template is told beside messages and tools: chat_template_kwargs, reasoning_effort, reasoning_format.
Status read_template_fields(Fields & fields, ChatRequest & request);

// What the template is given alone: /apply-template.
Result<ChatRequest> parse_conversation(const Json & body);

}  // namespace pith::serve
