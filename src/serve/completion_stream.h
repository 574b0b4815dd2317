// completion_stream.h - the events of a request's answers, as one reply or as a stream of chunks. Stage: serve.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/stopwatch.h"
#include "serve/api.h"

namespace pith::serve {

// The answers to one request, while they come. Whoever lets go of it gives up what has not ended.
class PendingAnswers {
public:
    // report: gets what each of them cost.
    PendingAnswers(Generator & generator, std::shared_ptr<Events> events, size_t n, std::shared_ptr<RequestReport> report)
        : generator_(generator), events_(std::move(events)), report_(std::move(report)), n_all_(n), n_open_(n) {}
    ~PendingAnswers();
    PendingAnswers(const PendingAnswers &) = delete;
    PendingAnswers & operator=(const PendingAnswers &) = delete;

    // Until all have been accepted. Else: why the first was not.
    std::optional<Failed> wait_until_accepted(const std::function<bool()> & gone);
    // The next event, after a moment at most.
    std::optional<Event> next();
    size_t n_open() const { return n_open_; }
    // All of them, whole. Else: why one was not, that the client is gone, or that there is no room for their log-probabilities.
    std::variant<std::vector<WholeAnswer>, ApiError> wait(const ApiRequest & request);

private:
    Generator & generator_;
    std::shared_ptr<Events> events_;
    std::shared_ptr<RequestReport> report_;
    std::deque<Event> early_;  // what came before all were accepted
    size_t n_all_;
    size_t n_open_;  // that have not ended
};

// Answers that have been accepted.
struct Begun {
    std::unique_ptr<PendingAnswers> answers;
    std::vector<int64_t> n_prompt;  // tokens, of each one's prompt
};

ApiError error_of(const Failed & failed);

// A server-sent event that has the name of its type.
std::string named_event(const Json & value);

struct StreamOptions {
    bool include_usage = false;
    double ping_s = 0;  // between two signs of life
};

// Server-sent events: a chunk for each piece, then "[DONE]". Comments tell proxies and clients that it goes on.
class CompletionStream : public ReplyStream {
public:
    CompletionStream(std::unique_ptr<PendingAnswers> answers, CompletionShape shape, std::vector<int64_t> n_prompt,
                     StreamOptions options);
    bool next(std::string & piece) override;

private:
    void begin(int index, std::string & out);

    std::unique_ptr<PendingAnswers> answers_;
    CompletionShape shape_;
    StreamOptions options_;
    std::vector<int64_t> n_prompt_;  // tokens, of each answer's prompt
    std::vector<bool> begun_;
    std::vector<AnswerEnd> ends_;
    Stopwatch since_last_;
};

}  // namespace pith::serve
