// responses_stream.h - an answer's events as /v1/responses has them: response.created, items one after the other, and in the
// end response.completed, response.incomplete or response.failed. Stage: serve.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/stopwatch.h"
#include "serve/completion_stream.h"
#include "serve/shapes/responses_output.h"
#include "serve/shapes/responses_response.h"

namespace pith::serve {

class ResponsesStream : public ReplyStream {
public:
    // ping_s: after so long without an event, another one says that it goes on: clients give up a silent stream, and do not
    // count comments.
    ResponsesStream(std::unique_ptr<PendingAnswers> answers, ResponsesShape shape, ResponsesOutput output, double ping_s);
    // Of a request that cannot be answered: agents read some errors in a stream only.
    ResponsesStream(const ApiError & error, ResponsesShape shape, ResponsesOutput output);
    bool next(std::string & piece) override;

private:
    void send(Json event, std::string & out);
    void send_response(const char * type, Json response, std::string & out);
    void tell_items(std::vector<Json> events, std::string & out);
    void fail(const ApiError & error, std::string & out);

    std::unique_ptr<PendingAnswers> answers_;
    std::optional<ApiError> error_;
    ResponsesShape shape_;
    ResponsesOutput output_;
    double ping_s_ = 0;
    bool begun_ = false;
    int64_t n_sent_ = 0;
    Stopwatch since_last_;
};

}  // namespace pith::serve
