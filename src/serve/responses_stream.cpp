// responses_stream.cpp - events, numbered. Stage: serve.
#include "serve/responses_stream.h"

#include <utility>

namespace pith::serve {

ResponsesStream::ResponsesStream(std::unique_ptr<PendingAnswers> answers, ResponsesShape shape, ResponsesOutput output,
                                 double ping_s)
    : answers_(std::move(answers)), shape_(std::move(shape)), output_(std::move(output)), ping_s_(ping_s) {}

ResponsesStream::ResponsesStream(const ApiError & error, ResponsesShape shape, ResponsesOutput output)
    : error_(error), shape_(std::move(shape)), output_(std::move(output)) {}

void ResponsesStream::send(Json event, std::string & out) {
    event["sequence_number"] = n_sent_++;
    out += named_event(event);
    since_last_ = Stopwatch();
}

void ResponsesStream::send_response(const char * type, Json response, std::string & out) {
    send({{"type", type}, {"response", std::move(response)}}, out);
}

void ResponsesStream::tell_items(std::vector<Json> events, std::string & out) {
    for (Json & event : events) { send(std::move(event), out); }
}

void ResponsesStream::fail(const ApiError & error, std::string & out) {
    send_response("response.failed", shape_.failed(error, output_.items()), out);
}

bool ResponsesStream::next(std::string & piece) {
    if (!std::exchange(begun_, true)) {
        send_response("response.created", shape_.in_progress(), piece);
        send_response("response.in_progress", shape_.in_progress(), piece);
        return true;
    }
    if (error_) {
        fail(*error_, piece);
        return false;
    }
    const auto event = answers_->next();
    std::vector<Json> events;
    const auto * said = event ? std::get_if<AnswerPiece>(&event->what) : nullptr;
    const auto * end = event ? std::get_if<AnswerEnd>(&event->what) : nullptr;
    const auto * failed = event ? std::get_if<Failed>(&event->what) : nullptr;
    if (said != nullptr) {
        output_.add(*said, events);
        tell_items(std::move(events), piece);
    } else if (end != nullptr) {
        output_.finish(end->by_length, events);
        tell_items(std::move(events), piece);
        send_response(end->by_length ? "response.incomplete" : "response.completed", shape_.ended(*end, output_.items()),
                      piece);
        return false;
    } else if (failed != nullptr) {
        fail(error_of(*failed), piece);
        return false;
    }
    // Pieces, too, may say nothing: a text tool's text is told when it is whole.
    if (piece.empty() && since_last_.seconds() > ping_s_) {
        send_response("response.in_progress", shape_.in_progress(), piece);
    }
    return true;
}

}  // namespace pith::serve
