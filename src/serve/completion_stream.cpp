// completion_stream.cpp - events to chunks. Stage: serve.
#include "serve/completion_stream.h"

#include <utility>

namespace pith::serve {
namespace {

constexpr int kWaitMs = 200;    // for an event
constexpr double kLookS = 0.2;  // how long a vanished client goes unseen, however many events come
// Of a token and its log-probability in a reply: the tree's object and the text, each written at most twice.
constexpr size_t kLogprobBytes = 1200;

size_t bytes_of_logprobs(const std::vector<TokenLogprob> & tokens) {
    size_t n = 0;
    for (const TokenLogprob & one : tokens) { n += 1 + one.top.size(); }
    return kLogprobBytes * n;
}

std::string sent(const Json & value) {
    return "data: " + dump(value) + "\n\n";
}

}  // namespace

std::string named_event(const Json & value) {
    return "event: " + value["type"].get<std::string>() + "\ndata: " + dump(value) + "\n\n";
}

ApiError error_of(const Failed & failed) {
    if (failed.late) { return {504, "timeout_error", message_of(failed.status)}; }
    if (failed.retry_after_s > 0) { return no_room(message_of(failed.status), failed.retry_after_s); }
    return error_of(failed.status);
}

PendingAnswers::~PendingAnswers() {
    events_->abandon();
    if (n_open_ > 0) { generator_.wake(); }
}

std::optional<Event> PendingAnswers::next() {
    std::optional<Event> event;
    if (!early_.empty()) {
        event = std::move(early_.front());
        early_.pop_front();
    } else {
        event = events_->pop(kWaitMs);
    }
    if (const auto * end = event ? std::get_if<AnswerEnd>(&event->what) : nullptr) { report_->add(end->costs); }
    if (event && (std::holds_alternative<AnswerEnd>(event->what) || std::holds_alternative<Failed>(event->what))) { --n_open_; }
    return event;
}

std::optional<Failed> PendingAnswers::wait_until_accepted(const std::function<bool()> & gone) {
    for (size_t n_left = n_open_; n_left > 0;) {
        auto event = events_->pop(kWaitMs);
        if (!event) {
            if (gone()) { return Failed{{ErrorCode::kCancelled, "the client is gone"}}; }
            continue;
        }
        if (std::holds_alternative<Accepted>(event->what)) {
            --n_left;
        } else if (auto * failed = std::get_if<Failed>(&event->what)) {
            --n_open_;
            return std::move(*failed);
        } else {
            early_.push_back(std::move(*event));
        }
    }
    return {};
}

std::variant<std::vector<WholeAnswer>, ApiError> PendingAnswers::wait(const ApiRequest & request) {
    std::vector<WholeAnswer> answers(n_all_);
    Stopwatch since_look;
    while (n_open_ > 0) {
        auto event = next();
        if (since_look.seconds() >= kLookS) {
            if (request.gone()) { return not_ready("the client is gone"); }
            since_look = Stopwatch();
        }
        if (!event) { continue; }
        WholeAnswer & answer = answers[static_cast<size_t>(event->index)];
        if (auto * piece = std::get_if<AnswerPiece>(&event->what)) {
            if (auto none =
                    take_room(request, bytes_of_logprobs(piece->logprobs), "for the log-probabilities",
                              "so many log-probabilities take too much memory in one reply: ask for fewer, or for a stream")) {
                return std::move(*none);
            }
            answer.add(std::move(*piece));
        } else if (auto * end = std::get_if<AnswerEnd>(&event->what)) {
            answer.end = std::move(*end);
        } else if (const auto * failed = std::get_if<Failed>(&event->what)) {
            return error_of(*failed);
        }
    }
    return answers;
}

CompletionStream::CompletionStream(std::unique_ptr<PendingAnswers> answers, CompletionShape shape,
                                   std::vector<int64_t> n_prompt, StreamOptions options)
    : answers_(std::move(answers)),
      shape_(std::move(shape)),
      options_(options),
      n_prompt_(std::move(n_prompt)),
      begun_(n_prompt_.size()),
      ends_(n_prompt_.size()) {}

void CompletionStream::begin(int index, std::string & out) {
    if (begun_[static_cast<size_t>(index)] || !shape_.is_chat()) { return; }
    begun_[static_cast<size_t>(index)] = true;
    out += sent(shape_.first_chunk(index));
}

bool CompletionStream::next(std::string & piece) {
    const auto event = answers_->next();
    if (!event) {
        if (since_last_.seconds() > options_.ping_s) {
            piece += ": still at it\n\n";
            since_last_ = Stopwatch();
        }
        return true;
    }
    since_last_ = Stopwatch();
    const int index = event->index;
    if (const auto * said = std::get_if<AnswerPiece>(&event->what)) {
        begin(index, piece);
        Json chunk = shape_.piece_chunk(index, *said);
        if (said->costs) { chunk["timings"] = timings_of(*said->costs); }
        piece += sent(chunk);
    } else if (const auto * progress = std::get_if<Progress>(&event->what)) {
        begin(index, piece);
        const int64_t n_prompt = n_prompt_[static_cast<size_t>(index)];
        piece += sent(shape_.progress_chunk(index, n_prompt, progress->n_cached, progress->n_read, progress->seconds));
    } else if (const auto * map = std::get_if<KvMap>(&event->what)) {
        piece += sent(shape_.map_chunk(index, *map));
    } else if (const auto * end = std::get_if<AnswerEnd>(&event->what)) {
        begin(index, piece);
        ends_[static_cast<size_t>(index)] = *end;
        Json last = shape_.last_chunk(index, *end);
        const bool separate = shape_.is_chat() && options_.include_usage;
        // Of texts llama-server tells it unasked: once, of all answers.
        if (!shape_.is_chat() && !options_.include_usage && answers_->n_open() == 0) { last["usage"] = usage_of(ends_); }
        if (!separate) { last["timings"] = timings_of(end->costs); }
        piece += sent(last);
    } else if (const auto * failed = std::get_if<Failed>(&event->what)) {
        piece += sent(error_of(*failed).json());
        return false;
    }
    if (answers_->n_open() > 0) { return true; }
    if (options_.include_usage) { piece += sent(shape_.usage_chunk(ends_)); }
    piece += "data: [DONE]\n\n";
    return false;
}

}  // namespace pith::serve
