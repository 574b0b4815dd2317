// messages_stream.cpp - blocks opened, gone on with, closed. Stage: serve.
#include "serve/messages_stream.h"

#include <utility>

#include "serve/shapes/ids.h"

namespace pith::serve {

MessagesStream::MessagesStream(std::unique_ptr<PendingAnswers> answers, MessagesShape shape, int64_t n_prompt, double ping_s)
    : answers_(std::move(answers)), shape_(std::move(shape)), n_prompt_(n_prompt), ping_s_(ping_s) {}

void MessagesStream::close(std::string & out) {
    if (block_ == Block::kNone) { return; }
    out += named_event({{"type", "content_block_stop"}, {"index", n_blocks_ - 1}});
    block_ = Block::kNone;
}

void MessagesStream::open(Block kind, Json block, std::string & out) {
    if (block_ == kind && kind != Block::kTool) { return; }
    close(out);
    block_ = kind;
    out += named_event({{"type", "content_block_start"}, {"index", n_blocks_++}, {"content_block", std::move(block)}});
}

void MessagesStream::add_delta(Json delta, std::string & out) const {
    out += named_event({{"type", "content_block_delta"}, {"index", n_blocks_ - 1}, {"delta", std::move(delta)}});
}

void MessagesStream::add(const AnswerPiece & said, std::string & out) {
    auto call = said.calls.begin();
    for (; call != said.calls.end() && call->name.empty();
         ++call) {  // the rest of the call that is open: before what follows it
        if (!call->arguments.empty()) { add_delta({{"type", "input_json_delta"}, {"partial_json", call->arguments}}, out); }
    }
    if (!said.reasoning.empty()) {
        open(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
        add_delta({{"type", "thinking_delta"}, {"thinking", said.reasoning}}, out);
    }
    if (!said.text.empty()) {
        open(Block::kText, {{"type", "text"}, {"text", ""}}, out);
        add_delta({{"type", "text_delta"}, {"text", said.text}}, out);
    }
    for (; call != said.calls.end(); ++call) {
        if (!call->name.empty()) {
            open(Block::kTool, {{"type", "tool_use"}, {"id", call_id()}, {"name", call->name}, {"input", Json::object()}}, out);
        }
        if (!call->arguments.empty()) { add_delta({{"type", "input_json_delta"}, {"partial_json", call->arguments}}, out); }
    }
}

void MessagesStream::ping(std::string & out) {
    if (since_last_.seconds() <= ping_s_) { return; }
    out += named_event({{"type", "ping"}});
    since_last_ = Stopwatch();
}

bool MessagesStream::next(std::string & piece) {
    if (!std::exchange(begun_, true)) {
        piece += named_event(shape_.message_start(n_prompt_));
        return true;
    }
    const auto event = answers_->next();
    if (!event) {
        ping(piece);
        return true;
    }
    if (const auto * said = std::get_if<AnswerPiece>(&event->what)) {
        add(*said, piece);
    } else if (const auto * end = std::get_if<AnswerEnd>(&event->what)) {
        if (n_blocks_ == 0) { open(Block::kText, {{"type", "text"}, {"text", ""}}, piece); }
        close(piece);
        piece += named_event(MessagesShape::message_delta(*end));
        piece += named_event({{"type", "message_stop"}});
        return false;
    } else if (const auto * failed = std::get_if<Failed>(&event->what)) {
        piece += named_event(messages_error(error_of(*failed)));
        return false;
    }
    if (!piece.empty()) {
        since_last_ = Stopwatch();
    } else {  // of how far the prompt is nothing is said here
        ping(piece);
    }
    return true;
}

}  // namespace pith::serve
