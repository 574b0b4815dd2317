// api_messages.cpp - Anthropic's messages, on the same prompts and jobs as chat completions. Stage: serve.
#include "serve/api.h"
#include "serve/messages_stream.h"
#include "serve/shapes/messages_request.h"

namespace pith::serve {

Result<ApiReply> Api::messages(const ApiRequest & request) {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    if (const auto error = refused_thread(body)) { return reply_of(*error); }
    PITH_ASSIGN_OR_RETURN(ChatRequest asked, parse_messages_request(body, options_.defaults, tokenizer_));
    PITH_ASSIGN_OR_RETURN(Prompt prompt, chat_prompt(asked));
    const auto n_prompt = prompt.n_tokens();
    auto begun = begin(request, {std::move(prompt)}, asked.options);
    if (const auto * error = std::get_if<ApiError>(&begun)) { return reply_of(*error); }
    auto & pending = std::get<Begun>(begun).answers;
    MessagesShape shape(options_.model_name);
    if (asked.options.stream) {
        return stream_reply(std::make_shared<MessagesStream>(std::move(pending), std::move(shape), n_prompt, options_.ping_s));
    }
    auto answers = pending->wait(request);
    if (const auto * error = std::get_if<ApiError>(&answers)) { return reply_of(*error); }
    ApiReply reply;
    reply.body = dump(shape.whole(std::get<std::vector<WholeAnswer>>(answers).front()));
    return reply;
}

Result<ApiReply> Api::count_tokens(const ApiRequest & request) const {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    if (const auto error = refused_thread(body)) { return reply_of(*error); }
    PITH_ASSIGN_OR_RETURN(ChatRequest asked, parse_count_request(body, tokenizer_));
    PITH_ASSIGN_OR_RETURN(const Prompt prompt, chat_prompt(asked));
    ApiReply reply;
    reply.body = dump({{"input_tokens", prompt.n_tokens()}});
    return reply;
}

}  // namespace pith::serve
