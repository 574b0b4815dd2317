// responses_output.h - an answer as the items that /v1/responses tells, and the events by which a stream tells of them.
// Stage: serve.
//
// One item is open at a time: a thought, a message, a call. Events come without their sequence_number.   Threads: one at a
// time.
#pragma once

#include <string>
#include <vector>

#include "pith/text.h"
#include "serve/shapes/answer.h"
#include "serve/shapes/json.h"
#include "serve/shapes/tools.h"

namespace pith::serve {

class ResponsesOutput {
public:
    // tokenizer: for the texts of log-probabilities; must live as long as this.
    ResponsesOutput(const Tokenizer & tokenizer, bool with_logprobs, ToolOrigins origins);

    // What the piece opens, goes on with and ends is appended to `events`.
    void add(const AnswerPiece & piece, std::vector<Json> & events);
    // cut: the last item is not whole.
    void finish(bool cut, std::vector<Json> & events);
    const Json & items() const { return items_; }

private:
    enum class Kind { kNone, kThought, kMessage, kCall, kTextCall };

    Json place() const;  // item_id, output_index
    Json part(bool whole) const;
    void open(Kind kind, Json item, std::vector<Json> & events);
    void open_call(const ToolCallPiece & call, std::vector<Json> & events);
    void go_on(const std::string & text, const std::vector<TokenLogprob> & logprobs, std::vector<Json> & events);
    void end_part(std::vector<Json> & events);
    void end_call(bool cut, std::vector<Json> & events);
    void close(bool cut, std::vector<Json> & events);

    const Tokenizer & tokenizer_;
    bool with_logprobs_;
    ToolOrigins origins_;
    Json items_ = Json::array();
    Kind kind_ = Kind::kNone;  // of the open one, which is the last
    std::string text_;         // of it
    Json logprobs_ = Json::array();
};

}  // namespace pith::serve
