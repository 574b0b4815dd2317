// messages_stream.h - an answer's events as Anthropic's: message_start, content blocks one after the other, message_delta,
// message_stop. Stage: serve.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/stopwatch.h"
#include "serve/completion_stream.h"
#include "serve/shapes/messages_response.h"

namespace pith::serve {

class MessagesStream : public ReplyStream {
public:
    MessagesStream(std::unique_ptr<PendingAnswers> answers, MessagesShape shape, int64_t n_prompt, double ping_s);
    bool next(std::string & piece) override;

private:
    enum class Block { kNone, kThinking, kText, kTool };

    void open(Block kind, Json block, std::string & out);
    void close(std::string & out);
    void add(const AnswerPiece & said, std::string & out);
    void add_delta(Json delta, std::string & out) const;
    void ping(std::string & out);  // where nothing was said for so long

    std::unique_ptr<PendingAnswers> answers_;
    MessagesShape shape_;
    int64_t n_prompt_;
    double ping_s_;  // between two signs of life
    bool begun_ = false;
    Block block_ = Block::kNone;
    int n_blocks_ = 0;
    Stopwatch since_last_;
};

}  // namespace pith::serve
