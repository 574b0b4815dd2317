// read_first.cpp - requests that ask for no token.
#include "app/serve/read_first.h"

#include "common/base/read_text.h"
#include "serve/shapes/json.h"

namespace pith::app {

Status read_first(serve::Api & api, const std::vector<std::string> & files, std::vector<std::string> keys) {
    if (keys.empty()) { keys.emplace_back(); }
    for (const std::string & file : files) {
        PITH_ASSIGN_OR_RETURN(const std::string text, read_text(file));
        auto read = serve::parse_body(text);
        if (!read.ok()) { return {ErrorCode::kInvalidArgument, "--read-first '" + file + "': " + read.status().message()}; }
        serve::Json & body = read->json();
        for (const char * name : {"max_completion_tokens", "n", "stream", "stream_options"}) { body.erase(name); }
        body["max_tokens"] = 0;
        for (const std::string & key : keys) {
            serve::ApiRequest request;
            request.method = "POST";
            request.path = "/v1/chat/completions";
            request.body = serve::dump(body);
            request.api_key = key;
            const serve::ApiReply reply = api.handle(request);
            if (!reply.error) { continue; }
            request.report->tell = nullptr;  // the error's line says it
            return {ErrorCode::kInvalidArgument, "--read-first '" + file + "': " + reply.error->message};
        }
    }
    return {};
}

}  // namespace pith::app
