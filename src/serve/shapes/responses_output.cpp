// responses_output.cpp - items opened, gone on with, closed. Stage: serve.
#include "serve/shapes/responses_output.h"

#include <utility>

#include "serve/shapes/completion_response.h"
#include "serve/shapes/ids.h"

namespace pith::serve {
namespace {

std::string item_id(const char * kind) {
    return kind + random_letters(32);
}

// `more` behind a type.
Json event_of(const std::string & type, Json more) {
    Json event = {{"type", "response." + type}};
    event.update(more);
    return event;
}

}  // namespace

ResponsesOutput::ResponsesOutput(const Tokenizer & tokenizer, bool with_logprobs, ToolOrigins origins)
    : tokenizer_(tokenizer), with_logprobs_(with_logprobs), origins_(std::move(origins)) {}

Json ResponsesOutput::place() const {
    return {{"item_id", items_.back()["id"]}, {"output_index", items_.size() - 1}};
}

Json ResponsesOutput::part(bool whole) const {
    if (kind_ == Kind::kThought) { return {{"type", "reasoning_text"}, {"text", whole ? text_ : ""}}; }
    return {{"type", "output_text"},
            {"text", whole ? text_ : ""},
            {"annotations", Json::array()},
            {"logprobs", whole ? logprobs_ : Json::array()}};
}

void ResponsesOutput::open(Kind kind, Json item, std::vector<Json> & events) {
    close(/*cut=*/false, events);
    kind_ = kind;
    items_.push_back(std::move(item));
    events.push_back(event_of("output_item.added", {{"output_index", items_.size() - 1}, {"item", items_.back()}}));
    if (kind != Kind::kThought && kind != Kind::kMessage) { return; }
    Json event = place();
    event["content_index"] = 0;
    event["part"] = part(/*whole=*/false);
    events.push_back(event_of("content_part.added", std::move(event)));
}

void ResponsesOutput::open_call(const ToolCallPiece & call, std::vector<Json> & events) {
    const auto found = origins_.find(call.name);
    const bool takes_text = found != origins_.end() && found->second.takes_text;
    Json item = {{"id", item_id(takes_text ? "ctc_" : "fc_")},
                 {"type", takes_text ? "custom_tool_call" : "function_call"},
                 {"status", "in_progress"},
                 {"call_id", call_id()},
                 {"name", found != origins_.end() ? found->second.name : call.name},
                 {takes_text ? "input" : "arguments", ""}};
    if (found != origins_.end() && !found->second.space.empty()) { item["namespace"] = found->second.space; }
    open(takes_text ? Kind::kTextCall : Kind::kCall, std::move(item), events);
}

void ResponsesOutput::go_on(const std::string & text, const std::vector<TokenLogprob> & logprobs, std::vector<Json> & events) {
    text_ += text;
    if (kind_ == Kind::kTextCall) { return; }  // which text the arguments hold is known when they are whole
    Json event = place();
    if (kind_ != Kind::kCall) { event["content_index"] = 0; }
    event["delta"] = text;
    if (kind_ == Kind::kMessage) {
        Json told = with_logprobs_ ? logprobs_of(logprobs, tokenizer_) : Json::array();
        for (const Json & one : told) { logprobs_.push_back(one); }
        event["logprobs"] = std::move(told);
    }
    const char * type = kind_ == Kind::kThought   ? "reasoning_text.delta"
                        : kind_ == Kind::kMessage ? "output_text.delta"
                                                  : "function_call_arguments.delta";
    events.push_back(event_of(type, std::move(event)));
}

void ResponsesOutput::end_part(std::vector<Json> & events) {
    const bool is_message = kind_ == Kind::kMessage;
    Json done = place();
    done["content_index"] = 0;
    done["text"] = text_;
    if (is_message) { done["logprobs"] = logprobs_; }
    events.push_back(event_of(is_message ? "output_text.done" : "reasoning_text.done", std::move(done)));
    Json ended = place();
    ended["content_index"] = 0;
    ended["part"] = part(/*whole=*/true);
    items_.back()["content"] = Json::array({ended["part"]});
    events.push_back(event_of("content_part.done", std::move(ended)));
}

void ResponsesOutput::end_call(bool cut, std::vector<Json> & events) {
    if (kind_ == Kind::kCall) {
        if (text_.empty()) { go_on("{}", {}, events); }
        items_.back()["arguments"] = text_;
        Json done = place();
        done["name"] = items_.back()["name"];
        done["arguments"] = text_;
        events.push_back(event_of("function_call_arguments.done", std::move(done)));
        return;
    }
    const std::string input = cut ? text_begun_in_arguments(text_) : text_in_arguments(text_);
    items_.back()["input"] = input;
    Json delta = place();
    delta["delta"] = input;
    events.push_back(event_of("custom_tool_call_input.delta", std::move(delta)));
    Json done = place();
    done["input"] = input;
    events.push_back(event_of("custom_tool_call_input.done", std::move(done)));
}

void ResponsesOutput::close(bool cut, std::vector<Json> & events) {
    if (kind_ == Kind::kNone) { return; }
    if (kind_ == Kind::kThought || kind_ == Kind::kMessage) {
        end_part(events);
    } else {
        end_call(cut, events);
    }
    items_.back()["status"] = cut ? "incomplete" : "completed";
    events.push_back(event_of("output_item.done", {{"output_index", items_.size() - 1}, {"item", items_.back()}}));
    kind_ = Kind::kNone;
    text_.clear();
    logprobs_ = Json::array();
}

void ResponsesOutput::add(const AnswerPiece & piece, std::vector<Json> & events) {
    auto call = piece.calls.begin();
    for (; call != piece.calls.end() && call->name.empty();
         ++call) {  // the rest of the call that is open: before what follows it
        if (!call->arguments.empty()) { go_on(call->arguments, {}, events); }
    }
    if (!piece.reasoning.empty()) {
        if (kind_ != Kind::kThought) {
            open(Kind::kThought,
                 {{"id", item_id("rs_")},
                  {"type", "reasoning"},
                  {"status", "in_progress"},
                  {"summary", Json::array()},
                  {"content", Json::array()},
                  {"encrypted_content", nullptr}},
                 events);
        }
        go_on(piece.reasoning, {}, events);
    }
    if (!piece.text.empty()) {
        if (kind_ != Kind::kMessage) {
            open(Kind::kMessage,
                 {{"id", item_id("msg_")},
                  {"type", "message"},
                  {"status", "in_progress"},
                  {"role", "assistant"},
                  {"content", Json::array()}},
                 events);
        }
        go_on(piece.text, piece.logprobs, events);
    }
    for (; call != piece.calls.end(); ++call) {
        if (!call->name.empty()) { open_call(*call, events); }
        if (!call->arguments.empty()) { go_on(call->arguments, {}, events); }
    }
}

void ResponsesOutput::finish(bool cut, std::vector<Json> & events) {
    close(cut, events);
}

}  // namespace pith::serve
