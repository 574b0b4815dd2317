// completion_response.cpp - answers as JSON. Stage: serve.
#include "serve/shapes/completion_response.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "serve/shapes/ids.h"

namespace pith::serve {
namespace {

double per_second(int64_t n, double seconds) {
    return seconds > 0 ? static_cast<double>(n) / seconds : 0;
}

const char * finish_reason(const AnswerEnd & end) {
    return end.by_length ? "length" : end.has_called ? "tool_calls" : "stop";
}

Json message_of(const WholeAnswer & answer) {
    Json message = {{"role", "assistant"}, {"content", answer.text}};
    if (answer.text.empty() && !answer.calls.empty()) { message["content"] = nullptr; }
    if (!answer.reasoning.empty()) { message["reasoning_content"] = answer.reasoning; }
    if (answer.calls.empty()) { return message; }
    Json & calls = message["tool_calls"] = Json::array();
    for (const WholeCall & call : answer.calls) {
        calls.push_back(
            {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}, {"id", call.id}});
    }
    return message;
}

Json delta_of(const AnswerPiece & piece) {
    Json delta = Json::object();
    if (!piece.reasoning.empty()) { delta["reasoning_content"] = piece.reasoning; }
    if (!piece.text.empty() || (piece.reasoning.empty() && piece.calls.empty())) { delta["content"] = piece.text; }
    for (size_t i = 0; i < piece.calls.size(); ++i) {
        const ToolCallPiece & call = piece.calls[i];
        // One entry a call and chunk: clients take a second one for another call.
        if (i > 0 && call.name.empty() && call.index == piece.calls[i - 1].index) {
            auto & arguments = delta["tool_calls"].back()["function"]["arguments"].get_ref<std::string &>();
            arguments += call.arguments;
            continue;
        }
        Json one = {{"index", call.index}};
        if (!call.name.empty()) {
            one["id"] = call_id();
            one["type"] = "function";
            one["function"]["name"] = call.name;
        }
        one["function"]["arguments"] = call.arguments;
        delta["tool_calls"].push_back(std::move(one));
    }
    return delta;
}

}  // namespace

void WholeAnswer::add(AnswerPiece piece) {
    text += piece.text;
    reasoning += piece.reasoning;
    if (!piece.text.empty()) { said.insert(said.end(), piece.logprobs.begin(), piece.logprobs.end()); }
    std::ranges::move(piece.logprobs, std::back_inserter(logprobs));
    for (ToolCallPiece & call : piece.calls) {
        if (!call.name.empty()) { calls.push_back({call_id(), std::move(call.name), ""}); }
        calls.back().arguments += call.arguments;
    }
}

AnswerPiece WholeAnswer::piece() const {
    AnswerPiece whole{text, said};
    whole.reasoning = reasoning;
    for (size_t i = 0; i < calls.size(); ++i) {
        whole.calls.push_back({static_cast<int>(i), calls[i].name, calls[i].arguments});
    }
    return whole;
}

CompletionShape::CompletionShape(Kind kind, std::string model, std::string version, bool with_logprobs,
                                 const Tokenizer & tokenizer)
    : kind_(kind),
      model_(std::move(model)),
      version_(std::move(version)),
      with_logprobs_(with_logprobs),
      tokenizer_(tokenizer),
      id_("chatcmpl-" + random_letters(32)),
      created_(unix_time()) {}

Json logprobs_of(const std::vector<TokenLogprob> & tokens, const Tokenizer & tokenizer) {
    const auto entry = [&tokenizer](int32_t token, float logprob) {
        const std::string text = tokenizer.piece(token, /*special=*/true);
        return Json{{"id", token}, {"token", text}, {"bytes", bytes_of(text)}, {"logprob", logprob}};
    };
    Json content = Json::array();
    for (const TokenLogprob & one : tokens) {
        Json object = entry(one.token, one.logprob);
        Json & top = object["top_logprobs"] = Json::array();
        for (const auto & [token, logprob] : one.top) { top.push_back(entry(token, logprob)); }
        content.push_back(std::move(object));
    }
    return content;
}

// Of texts what OpenAI tells, a list a field, beside the list of llama-server.
Json CompletionShape::logprobs(const std::vector<TokenLogprob> & tokens) const {
    Json all = {{"content", logprobs_of(tokens, tokenizer_)}};
    if (is_chat()) { return all; }
    for (const char * list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) { all[list] = Json::array(); }
    for (const TokenLogprob & one : tokens) {
        all["tokens"].push_back(tokenizer_.piece(one.token, /*special=*/true));
        all["token_logprobs"].push_back(one.logprob);
        Json top = Json::object();  // of tokens with the same text the likelier one, which comes first
        for (const auto & [token, logprob] : one.top) { top.emplace(tokenizer_.piece(token, /*special=*/true), logprob); }
        all["top_logprobs"].push_back(std::move(top));
        all["text_offset"].push_back(one.offset);
    }
    return all;
}

Json CompletionShape::frame(Json choices, const char * object) const {
    Json json;
    json["choices"] = std::move(choices);
    json["created"] = created_;
    json["id"] = id_;
    json["model"] = model_;
    json["system_fingerprint"] = version_;
    json["object"] = object;
    return json;
}

Json CompletionShape::whole(const std::vector<WholeAnswer> & answers) const {
    Json choices = Json::array();
    std::vector<AnswerEnd> ends;
    for (size_t i = 0; i < answers.size(); ++i) {
        const WholeAnswer & answer = answers[i];
        Json choice;
        if (is_chat()) {
            choice["finish_reason"] = finish_reason(answer.end);
            choice["index"] = i;
            choice["message"] = message_of(answer);
            if (with_logprobs_) { choice["logprobs"] = logprobs(answer.logprobs); }
        } else {
            choice["text"] = answer.text;
            choice["index"] = i;
            choice["logprobs"] = with_logprobs_ ? logprobs(answer.logprobs) : Json();
            choice["finish_reason"] = finish_reason(answer.end);
        }
        choices.push_back(std::move(choice));
        ends.push_back(answer.end);
    }
    Json json = frame(std::move(choices), is_chat() ? "chat.completion" : "text_completion");
    json["usage"] = usage_of(ends);
    if (!ends.empty()) { json["timings"] = timings_of(ends.front().costs); }
    return json;
}

Json CompletionShape::first_chunk(int index) const {
    return frame(
        Json::array({{{"finish_reason", nullptr}, {"index", index}, {"delta", {{"role", "assistant"}, {"content", nullptr}}}}}),
        chunk_name());
}

Json CompletionShape::piece_chunk(int index, const AnswerPiece & piece) const {
    Json choice;
    if (is_chat()) {
        choice["finish_reason"] = nullptr;
        choice["index"] = index;
        choice["delta"] = delta_of(piece);
        if (with_logprobs_) { choice["logprobs"] = logprobs(piece.logprobs); }
    } else {
        choice["text"] = piece.text;
        choice["index"] = index;
        choice["logprobs"] = with_logprobs_ ? logprobs(piece.logprobs) : Json();
        choice["finish_reason"] = nullptr;
    }
    return frame(Json::array({std::move(choice)}), chunk_name());
}

Json CompletionShape::last_chunk(int index, const AnswerEnd & end) const {
    Json choice;
    if (is_chat()) {
        choice["finish_reason"] = finish_reason(end);
        choice["index"] = index;
        choice["delta"] = Json::object();
    } else {
        choice["text"] = "";
        choice["index"] = index;
        choice["logprobs"] = nullptr;
        choice["finish_reason"] = finish_reason(end);
    }
    return frame(Json::array({std::move(choice)}), chunk_name());
}

Json CompletionShape::usage_chunk(const std::vector<AnswerEnd> & ends) const {
    Json json = frame(Json::array(), chunk_name());
    json["usage"] = usage_of(ends);
    if (!ends.empty()) { json["timings"] = timings_of(ends.front().costs); }
    return json;
}

Json CompletionShape::progress_chunk(int index, int64_t n_total, int64_t n_cached, int64_t n_read, double seconds) const {
    Json json = piece_chunk(index, {});
    json["prompt_progress"] = {
        {"total", n_total}, {"cache", n_cached}, {"processed", n_read}, {"time_ms", static_cast<int64_t>(1000 * seconds)}};
    return json;
}

Json CompletionShape::map_chunk(int index, const KvMap & map) const {
    Json json = frame(Json::array(), chunk_name());
    json["kv_map"] = map.json();
    json["kv_map"]["index"] = index;
    return json;
}

namespace {

// Where what is evicted is kept.
void add_missed(const Ledger & ledger, Json & to) {
    if (ledger.kv_missed < 0) { return; }
    to["kv_missed"] = ledger.kv_missed;
    to["kv_returned_entries"] = ledger.returned_entries;
}

}  // namespace

// A prompt that has several answers counts once, as OpenAI counts it. Answers to one prompt stand together.
Json usage_of(const std::vector<AnswerEnd> & ends) {
    int64_t n_prompt = 0;
    int64_t n_generated = 0;
    int64_t n_cached = 0;
    int64_t n_kept = 0;
    int64_t n_evicted = 0;
    size_t bytes = 0;
    size_t full_bytes = 0;
    int newest_prompt = -1;
    for (const AnswerEnd & end : ends) {
        const AnswerCosts & costs = end.costs;
        if (std::exchange(newest_prompt, end.prompt) != end.prompt) {
            n_prompt += costs.n_prompt;
            n_cached += costs.n_cached;
        }
        n_generated += costs.n_generated;
        n_kept += costs.ledger.kept_entries;
        n_evicted += costs.ledger.evicted_entries;
        bytes += costs.ledger.kv_allocated_bytes;
        full_bytes += costs.ledger.kv_full_bytes;
    }
    Json usage = {{"completion_tokens", n_generated},
                  {"prompt_tokens", n_prompt},
                  {"total_tokens", n_prompt + n_generated},
                  {"prompt_tokens_details", {{"cached_tokens", n_cached}}},
                  {"kv_kept_entries", n_kept},
                  {"kv_evicted_entries", n_evicted},
                  {"kv_bytes", bytes},
                  {"kv_full_bytes", full_bytes}};
    if (!ends.empty()) { add_missed(ends.front().costs.ledger, usage); }
    return usage;
}

void add_kv_usage(const AnswerEnd & end, Json & usage) {
    const Json all = usage_of({end});
    for (const auto & [key, value] : all.items()) {
        if (key.starts_with("kv_")) { usage[key] = value; }
    }
}

Json timings_of(const AnswerCosts & costs) {
    const int64_t n_read = costs.n_prompt - costs.n_cached;
    const int64_t n_timed = std::max<int64_t>(0, costs.n_generated - 1);  // the first one's time is the prompt's
    const auto per_token_ms = [](double seconds, int64_t n) { return n > 0 ? 1000 * seconds / static_cast<double>(n) : 0; };
    Json timings = {{"cache_n", costs.n_cached},
                    {"prompt_n", n_read},
                    {"prompt_ms", 1000 * costs.prompt_s},
                    {"prompt_per_token_ms", per_token_ms(costs.prompt_s, n_read)},
                    {"prompt_per_second", per_second(n_read, costs.prompt_s)},
                    {"predicted_n", costs.n_generated},
                    {"predicted_ms", 1000 * costs.predict_s},
                    {"predicted_per_token_ms", per_token_ms(costs.predict_s, n_timed)},
                    {"predicted_per_second", per_second(n_timed, costs.predict_s)},
                    {"queue_ms", 1000 * costs.queue_s},
                    {"kv_policy", costs.ledger.policy},
                    {"kv_budget_entries", costs.ledger.budget_entries},
                    {"kv_most_entries", costs.ledger.most_entries}};
    if (costs.ledger.n_drafted > 0) {  // as llama-server tells it
        timings["draft_n"] = costs.ledger.n_drafted;
        timings["draft_n_accepted"] = costs.ledger.n_draft_accepted;
    }
    add_missed(costs.ledger, timings);
    return timings;
}

}  // namespace pith::serve
