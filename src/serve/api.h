// api.h - every endpoint, without HTTP: a request in, a reply out. Stage: serve.
//
// Completions are the generator's; all else is answered at once.   Threads: any; one call may wait for an answer's end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/stopwatch.h"
#include "pith/model.h"
#include "pith/session.h"
#include "pith/text.h"
#include "serve/body_room.h"
#include "serve/generator.h"
#include "serve/shapes/api_error.h"
#include "serve/shapes/completion_request.h"
#include "serve/shapes/completion_response.h"

namespace pith::serve {

struct ApiOptions {
    std::string model_name;  // what /v1/models calls it
    std::string version;     // "pith-0.1.0"
    int n_context = 0;       // tokens of prompt and answer together
    CompletionOptions defaults;
    ChatOptions chat;               // variables and reasoning of requests that do not say
    SessionOptions session;         // policy, budget, schedule of requests that do not say
    std::vector<std::string> keys;  // one of them must come with each request; none: everybody may
    // Whose states are those of who brings a key, by which they are told apart. Fewer: all share theirs.
    std::vector<std::string> owners;
    bool caches = false;  // states stay, in memory or in a folder
    bool repairs = true;  // where what is evicted is kept, a prompt's end takes back what it looks for (Request::repair)
    bool tells_slots = true;
    bool has_page = true;
    std::function<void(std::string_view line)>
        tell_request;    // one for each request, when its reply is whole; null: nobody asks
    double ping_s = 10;  // between two signs of life of a stream
};

// What is told of one request, when whoever works on it has let go of it.
struct RequestReport {
    std::function<void(std::string_view line)> tell;  // null: nothing
    std::string method;
    std::string path;
    int status = 0;
    int64_t n_prompt = 0;
    int64_t n_cached = 0;
    int64_t n_generated = 0;
    Stopwatch since_came;

    RequestReport() = default;
    RequestReport(const RequestReport &) = delete;
    RequestReport & operator=(const RequestReport &) = delete;
    ~RequestReport();
    void add(const AnswerCosts & costs);
    // "POST /v1/messages 200: 1200 tokens (1024 cached), 56 generated, 3.21 s"
    std::string line() const;
};

struct ApiRequest {
    std::string method;
    std::string path;  // without what stands behind '?'
    std::string body;
    std::string authorization;  // headers
    std::string api_key;
    std::function<bool()> gone = [] { return false; };  // nobody waits for the reply any more
    BodyRoom::Share * room = nullptr;                   // for what is made of the body
    std::shared_ptr<RequestReport> report = std::make_shared<RequestReport>();
};

// Room for what a request's reply takes, until it is answered. Else why there is none: others have it now ("there is no room
// `for_what` now"), or, `too_much`, there never is.
std::optional<ApiError> take_room(const ApiRequest & request, size_t n_bytes, std::string_view for_what,
                                  std::string_view too_much);

// The body of a reply that comes piece by piece.
class ReplyStream {
public:
    virtual ~ReplyStream() = default;  // what still runs for it is cancelled
    // Waits a moment for the next piece, which may be empty. false: this was the last one.
    virtual bool next(std::string & piece) = 0;
};

struct ApiReply {
    int status = 200;
    std::string content_type = "application/json; charset=utf-8";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
    std::shared_ptr<ReplyStream> stream;  // null: the body is all
    std::optional<ApiError> error;        // what the body tells
};

struct Begun;     // completion_stream.h
struct PageFile;  // page/page.h

inline constexpr const char * kIsClosed = "the server is about to end";

class Api {
public:
    // All three must live as long as this.
    Api(const Model & model, const Tokenizer & tokenizer, Generator & generator, ApiOptions options);

    ApiReply handle(const ApiRequest & request);
    // What handle() would reply whatever the body says: no key. Nothing: the body is worth reading.
    std::optional<ApiReply> refuse(const ApiRequest & request) const;
    // From now on new completions are refused: the server is about to end.
    void close() { closed_ = true; }

private:
    // An error is one of error_of(Status)'s.
    Result<ApiReply> route(const ApiRequest & request);
    Result<ApiReply> chat(const ApiRequest & request);
    Result<ApiReply> text(const ApiRequest & request);
    Result<ApiReply> messages(const ApiRequest & request);
    Result<ApiReply> count_tokens(const ApiRequest & request) const;
    Result<ApiReply> responses(const ApiRequest & request);
    Result<ApiReply> count_input_tokens(const ApiRequest & request) const;
    void tell_left_out(const std::set<std::string> & types);
    Result<ApiReply> tokenize(const ApiRequest & request);
    Result<ApiReply> detokenize(const ApiRequest & request);
    Result<ApiReply> apply_template(const ApiRequest & request);
    Json model_entry() const;  // in OpenAI's list
    ApiReply models() const;
    ApiReply props() const;
    ApiReply slots() const;
    ApiReply metrics() const;
    bool may(const ApiRequest & request) const;
    const PageFile * page_file(std::string_view path) const;
    void report(const ApiRequest & request, int status) const;
    std::optional<size_t> key_of(const ApiRequest & request) const;
    std::string owner_of(const ApiRequest & request) const;

    struct Prompt {
        std::vector<int32_t> tokens;
        int64_t n_over = 0;         // above 0: it has about so many tokens, more than the context, and none is here
        int n_system = 0;           // the first so many are the system prompt's
        std::vector<int32_t> ends;  // of the last messages, and of a document: behind so many tokens other prompts may part
        AnswerForm form;            // what the answer may hold beside what is said

        int64_t n_tokens() const { return n_over > 0 ? n_over : static_cast<int64_t>(tokens.size()); }
    };
    struct Conversation {  // as the template gets it
        std::vector<ChatMessage> messages;
        ChatOptions options;
        const ChatRequest * asked = nullptr;
        ToolForm form = ToolForm::kFenced;
        std::optional<std::string> begun;  // of the answer: what the last message says, where it is the assistant's
    };
    Result<Conversation> conversation_of(const ChatRequest & asked) const;
    // Up to where the answer goes on. plain: names of special tokens in what is said stay text.
    Result<std::string> prompt_text(const Conversation & chat, bool plain) const;
    // The same, with all that was said in it: what a template leaves out is put together, or is an error that names it.
    Result<std::string> whole_prompt_text(Conversation & chat, bool plain) const;
    // Where a function must be called the options get the grammar for it.
    Result<Prompt> chat_prompt(ChatRequest & asked) const;
    Result<Job> job_of(const Prompt & prompt, const CompletionOptions & options) const;
    std::variant<Begun, ApiError> begin(const ApiRequest & request, const std::vector<Prompt> & prompts,
                                        const CompletionOptions & options);
    Result<ApiReply> complete(const ApiRequest & request, CompletionShape::Kind kind, const std::vector<Prompt> & prompts,
                              const CompletionOptions & options);

    const Model & model_;
    const Tokenizer & tokenizer_;
    Generator & generator_;
    ApiOptions options_;
    int64_t started_ = 0;  // Unix time
    std::atomic<bool> closed_{false};
    std::mutex told_mutex_;
    std::set<std::string> told_tools_;  // types of tools that the log has named
};

// In the shape that clients of this path read.
ApiReply reply_of(const ApiError & error, std::string_view path = "");
ApiReply stream_reply(std::shared_ptr<ReplyStream> stream);

}  // namespace pith::serve
