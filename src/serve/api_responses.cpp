// api_responses.cpp - OpenAI's responses, on the same prompts and jobs as chat completions. Stage: serve.
#include "core/text.h"
#include "pith/log.h"
#include "serve/api.h"
#include "serve/responses_stream.h"
#include "serve/shapes/responses_request.h"

namespace pith::serve {

// Agents offer such tools with every request: each kind is told once.
void Api::tell_left_out(const std::set<std::string> & types) {
    constexpr size_t kMostTold = 64;
    const std::lock_guard lock(told_mutex_);
    for (const std::string & type : types) {
        if (told_tools_.size() >= kMostTold || !told_tools_.insert(type).second) { continue; }
        log_line(LogLevel::kWarning,
                 "tools of type " + pith::quoted(type) + " are left out: only their own server can run them");
    }
}

Result<ApiReply> Api::responses(const ApiRequest & request) {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    PITH_ASSIGN_OR_RETURN(ResponsesRequest asked, parse_responses_request(body, options_.defaults, tokenizer_));
    tell_left_out(asked.tools_of_others);
    CompletionOptions & options = asked.chat.options;
    options.return_progress = options.stream;
    PITH_ASSIGN_OR_RETURN(Prompt prompt, chat_prompt(asked.chat));
    ResponsesShape shape(options_.model_name, std::move(asked.told));
    ResponsesOutput output(tokenizer_, options.n_logprobs >= 0, asked.chat.tools.origins);
    auto begun = begin(request, {std::move(prompt)}, options);
    if (const auto * error = std::get_if<ApiError>(&begun)) {
        // An agent that reads this in its stream shortens the conversation; as HTTP's error it would give up.
        if (!options.stream || error->type != kTooLong) { return reply_of(*error); }
        return stream_reply(std::make_shared<ResponsesStream>(*error, std::move(shape), std::move(output)));
    }
    auto & pending = std::get<Begun>(begun).answers;
    if (options.stream) {
        return stream_reply(
            std::make_shared<ResponsesStream>(std::move(pending), std::move(shape), std::move(output), options_.ping_s));
    }
    auto answers = pending->wait(request);
    if (const auto * error = std::get_if<ApiError>(&answers)) { return reply_of(*error); }
    const WholeAnswer & answer = std::get<std::vector<WholeAnswer>>(answers).front();
    std::vector<Json> events;
    output.add(answer.piece(), events);
    output.finish(answer.end.by_length, events);
    ApiReply reply;
    reply.body = dump(shape.ended(answer.end, output.items()));
    return reply;
}

Result<ApiReply> Api::count_input_tokens(const ApiRequest & request) const {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    PITH_ASSIGN_OR_RETURN(ResponsesRequest asked, parse_responses_request(body, options_.defaults, tokenizer_));
    PITH_ASSIGN_OR_RETURN(const Prompt prompt, chat_prompt(asked.chat));
    ApiReply reply;
    reply.body = dump({{"object", "response.input_tokens"}, {"input_tokens", prompt.n_tokens()}});
    return reply;
}

}  // namespace pith::serve
