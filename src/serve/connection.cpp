// connection.cpp - from bytes to the API, and back. Stage: serve.
#include "serve/connection.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "core/guarded.h"
#include "core/text.h"
#include "core/utc_time.h"
#include "serve/memory_reserve.h"
#include "serve/shapes/api_error.h"

namespace pith::serve {
namespace {

constexpr size_t kReadBytes = size_t{16} << 10;
constexpr size_t kLargeReadBytes = size_t{64} << 10;          // of bodies
constexpr int64_t kRetryBodyS = 1;                            // other bodies come and go
constexpr auto kFirstProbe = std::chrono::milliseconds(100);  // behind its end: short answers are there by then
constexpr auto kProbeEvery = std::chrono::seconds(2);
constexpr auto kEndPatience = std::chrono::milliseconds(1000);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kComment = ":\n\n";  // of server-sent events

std::string_view phrase_of(int status) {
    struct Row {
        int status;
        std::string_view phrase;
    };
    static constexpr auto rows = std::to_array<Row>({
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    });
    const auto found = std::ranges::find(rows, status, &Row::status);
    return found == rows.end() ? "Other" : found->phrase;
}

bool is_known_method(std::string_view method) {
    static constexpr auto known = std::to_array<std::string_view>({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"});
    return std::ranges::find(known, method) != known.end();
}

bool may_have_body(std::string_view method) {
    return method != "GET" && method != "HEAD" && method != "OPTIONS";
}

ApiError http_error(int status, std::string message) {
    ApiError error = invalid_request(message);
    error.code = status;
    return error;
}

// One more that is in hand, for as long as it lives.
class InHand {
public:
    explicit InHand(std::atomic<int> & n) : n_(n) { ++n_; }
    ~InHand() { --n_; }
    InHand(const InHand &) = delete;
    InHand & operator=(const InHand &) = delete;

private:
    std::atomic<int> & n_;
};

}  // namespace

constexpr std::string_view kNoMemoryReply =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\nRetry-After: "
    "1\r\n"
    "\r\n{\"error\":{\"code\":503,\"type\":\"unavailable_error\",\"message\":\"the server has no memory for this request now: "
    "try again later\"}}";
constexpr std::string_view kTooManyReply =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\nRetry-After: "
    "1\r\n"
    "\r\n{\"error\":{\"code\":503,\"type\":\"unavailable_error\",\"message\":\"the server has as many connections as it may "
    "have: try again later\"}}";

Connections::Connections(Api & with, HttpOptions as)
    : api(with), options(std::move(as)), hosts(options.allowed_hosts, options.host), room(options.most_bodies_bytes) {}

void Connection::serve() {
    for (bool goes_on = true; goes_on;) {
        const MemoryReserve::Scope scope;
        try {
            goes_on = serve_request();
        } catch (...) {  // no memory: this connection ends, and no other
            if (!has_written_) { write(kNoMemoryReply); }
            goes_on = false;
        }
    }
    if (!has_seen_end_) { socket_.end(kEndPatience); }
}

bool Connection::write(std::string_view first, std::string_view second) {
    return socket_.write(first, second, std::chrono::seconds(all_.options.write_timeout_s));
}

// The next bytes. Else: they did not come in time, or none will.
std::optional<HttpFault> Connection::read_more() {
    const size_t most = came_.empty() ? kLargeReadBytes : kReadBytes;
    switch (socket_.read(came_, most, deadline_)) {
        case TimedSocket::Read::kSome:
            return {};
        case TimedSocket::Read::kLate:
            return HttpFault{408, "the request did not arrive in time"};
        case TimedSocket::Read::kEnd:
            has_seen_end_ = true;
            return HttpFault{400, "the request ends before it is whole"};
        case TimedSocket::Read::kBroken:
            break;
    }
    has_seen_end_ = true;
    return HttpFault{0, ""};  // nobody is there to be told
}

std::optional<HttpFault> Connection::read_head(RequestParser & parser) {
    for (;;) {
        size_t n_used = 0;
        auto fault = parser.put(came_, n_used);
        came_.erase(0, n_used);
        if (fault || parser.has_head()) { return fault; }
        if (auto ended = read_more()) {
            if (came_.empty() && !parser.has_begun()) { ended->status = 0; }  // it was between two requests
            return ended;
        }
    }
}

std::optional<HttpFault> Connection::read_body(RequestParser & parser, BodyRoom::Share & room, std::string & body) {
    const RequestHead & head = parser.head();
    if (!head.has_body()) { return {}; }
    parser.read_body(all_.options.most_body_bytes, [&](std::string_view piece) {
        if (!room.take(piece.size())) { return false; }
        const size_t all = body.size() + piece.size();
        if (all > body.capacity()) {  // what is said to come takes no memory before it does, and no more than it is
            const size_t ahead = std::max(2 * body.capacity(), all);
            body.reserve(head.is_chunked ? ahead : std::min<size_t>(ahead, head.content_length));
        }
        body += piece;
        return true;
    });
    const bool client_waits = head.minor_version > 0 && !head.value("expect").empty() && came_.empty();
    if (client_waits && !write(kContinue)) { return HttpFault{0, ""}; }
    while (!parser.is_done()) {
        size_t n_used = 0;
        if (auto fault = parser.put(came_, n_used)) { return fault; }
        came_.erase(0, n_used);
        if (parser.is_done()) { break; }
        if (auto ended = read_more()) { return ended; }
    }
    const size_t made = bytes_made_of(body);
    if (room.take(made)) { return {}; }
    const size_t most = room.most_bytes();
    if (room.could_take(made)) { return HttpFault{429, "other requests take all the room there is: try again later"}; }
    return HttpFault{413,
                     "what is made of the body would take more than " + std::to_string(most) + " bytes: send less at once"};
}

Connection::Headers Connection::cors(const RequestHead & head) const {
    const std::string & allowed = all_.options.cors_origin;
    if (allowed.empty() || head.value("origin").empty()) { return {}; }
    Headers headers = {{"Access-Control-Allow-Origin", allowed}, {"Access-Control-Expose-Headers", "Retry-After"}};
    if (allowed != "*") { headers.emplace_back("Vary", "Origin"); }
    if (head.method == "OPTIONS") {
        headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, *");
        headers.emplace_back("Access-Control-Max-Age", "600");
    }
    return headers;
}

std::optional<ApiReply> Connection::refuse_names(const RequestHead & head, const RequestTarget & target) const {
    const HttpOptions & options = all_.options;
    const std::string host(target.authority.empty() ? head.value("host") : std::string_view(target.authority));
    if (!host.empty() && !all_.hosts.has_host(host)) {
        return reply_of(http_error(403, "this server does not go by the name " + pith::quoted(host) +
                                            ": ask for it by its address, or start it with this name among its allowed hosts"),
                        target.path);
    }
    const std::string origin(head.value("origin"));
    const bool is_named = options.cors_origin == "*" || origin == options.cors_origin;
    if (!origin.empty() && !is_named && !all_.hosts.has_origin(origin, host)) {
        return reply_of(http_error(403, "pages of " + pith::quoted(origin) + " may not call this server"), target.path);
    }
    return {};
}

std::optional<ApiReply> Connection::refuse(const RequestHead & head, const ApiRequest & asked) const {
    const auto say = [&](int status, const std::string & why) { return reply_of(http_error(status, why), asked.path); };
    if (!is_known_method(head.method)) {
        ApiReply reply = say(405, "there is no method of this name");
        reply.headers.emplace_back("Allow", "GET, HEAD, POST, OPTIONS");
        return reply;
    }
    if (head.has_body() && !may_have_body(head.method)) { return say(400, "a " + head.method + " request has no body"); }
    if (head.method == "OPTIONS") {
        ApiReply reply;
        reply.status = 204;
        return reply;
    }
    if (auto reply = all_.api.refuse(asked)) { return reply; }
    const std::string expects = to_lower(head.value("expect"));
    if (!expects.empty() && expects != "100-continue") { return say(417, "nothing but '100-continue' can be expected"); }
    if (!head.has_body()) { return {}; }
    if (to_lower(head.value("content-type")).starts_with("multipart/form-data")) {
        return say(400, "the body is a form of several parts: send a JSON object");
    }
    const std::string coding = to_lower(head.value("content-encoding"));
    if (!coding.empty() && coding != "identity") {
        return say(415, "the body is coded as " + pith::quoted(coding) + ": send it as it is");
    }
    const size_t most = all_.options.most_body_bytes;
    if (head.content_length > most) { return reply_of(too_large(most), asked.path); }
    return {};
}

bool Connection::refuse_fault(const HttpFault & fault, const std::string & path) {
    if (fault.status == 0) { return false; }
    const bool is_too_long = fault.status == 413 && fault.message.empty();
    const ApiError error = is_too_long           ? too_large(all_.options.most_body_bytes)
                           : fault.status == 429 ? no_room(fault.message, kRetryBodyS)
                                                 : http_error(fault.status, fault.message);
    return answer(RequestHead(), reply_of(error, path), /*keeps_alive=*/false);
}

bool Connection::serve_request() {
    has_written_ = false;
    cors_.clear();
    minor_version_ = 1;
    writes_events_ = false;
    if (came_.empty()) {
        came_ = {};  // and what a long one took
        if (!socket_.wait(SteadyClock::now() + std::chrono::seconds(all_.options.keep_alive_s))) { return false; }
    }
    deadline_ = SteadyClock::now() + std::chrono::seconds(all_.options.receive_timeout_s);
    RequestParser parser;
    if (const auto fault = read_head(parser)) { return refuse_fault(*fault, ""); }
    const RequestHead & head = parser.head();
    minor_version_ = head.minor_version;
    const auto target = target_of(head.target);
    if (!target || (target->path == "*" && head.method != "OPTIONS")) {
        return refuse_fault({400, "the address is neither a path nor one of http"}, "");
    }
    if (head.count("host") > 0 && !head.value("host").empty() && !host_name_of(head.value("host"))) {
        return refuse_fault({400, "the Host of the request is no name"}, target->path);
    }
    cors_ = cors(head);
    const bool may_go_on = head.keeps_alive && !head.has_body();
    if (auto reply = refuse_names(head, *target)) { return answer(head, std::move(*reply), may_go_on); }

    std::optional<InHand> in_hand;
    ApiReply reply;
    bool goes_on = head.keeps_alive;
    {
        BodyRoom::Share share(all_.room);  // until all that came of the body is gone
        ApiRequest asked;
        asked.method = head.method == "HEAD" ? "GET" : head.method;
        asked.path = target->path;
        asked.authorization = head.value("authorization");
        asked.api_key = head.value("x-api-key");
        asked.gone = [this] { return is_gone(); };
        asked.room = &share;
        if (auto refused = refuse(head, asked)) {
            reply = std::move(*refused);
            goes_on = may_go_on;
        } else if (const auto fault = read_body(parser, share, asked.body)) {
            return refuse_fault(*fault, asked.path);
        } else {
            in_hand.emplace(all_.n_in_hand);
            next_probe_.reset();
            reply = all_.api.handle(asked);
        }
    }
    return answer(head, std::move(reply), goes_on);
}

bool Connection::answer(const RequestHead & head, ApiReply reply, bool keeps_alive) {
    const bool is_stream = reply.stream != nullptr;
    const bool ends_by_closing = is_stream && minor_version_ == 0;
    keeps_alive = keeps_alive && !ends_by_closing && !all_.is_ending;
    std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " ";
    text += phrase_of(reply.status);
    text += "\r\nDate: " + http_date(std::time(nullptr)) + "\r\n";
    if (reply.status != 204) { text += "Content-Type: " + reply.content_type + "\r\n"; }
    for (const Headers & headers : {std::cref(reply.headers), std::cref(cors_)}) {
        for (const auto & [name, value] : headers) { text += name + ": " + value + "\r\n"; }
    }
    if (is_stream && !ends_by_closing) {
        text += "Transfer-Encoding: chunked\r\n";
    } else if (!is_stream && reply.status != 204) {
        text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    }
    text += keeps_alive
                ? "Connection: keep-alive\r\nKeep-Alive: timeout=" + std::to_string(all_.options.keep_alive_s) + "\r\n\r\n"
                : "Connection: close\r\n\r\n";
    const bool has_body = head.method != "HEAD" && reply.status != 204;
    has_written_ = true;
    if (!write(text, has_body && !is_stream ? std::string_view(reply.body) : std::string_view())) { return false; }
    if (is_stream && has_body && !write_stream(*reply.stream)) {
        socket_.cut();  // its client sees that the rest is missing
        has_seen_end_ = true;
        return false;
    }
    return keeps_alive;
}

bool Connection::write_stream(ReplyStream & stream) {
    const auto write_piece = [this](const std::string & piece) {
        if (minor_version_ == 0) { return write(piece); }
        std::array<char, 24> size{};
        const int n = std::snprintf(size.data(), size.size(), "%zx\r\n", piece.size());
        return write({size.data(), static_cast<size_t>(n)}, piece + "\r\n");
    };
    writes_events_ = true;
    std::string piece;
    for (bool goes_on = true; goes_on;) {
        piece.clear();
        const auto more = guarded([&]() -> Result<bool> { return stream.next(piece); });
        if (!more.ok()) { return false; }  // no memory
        goes_on = *more;
        if (piece.empty() ? is_gone() : !write_piece(piece)) { return false; }
    }
    return minor_version_ == 0 || write("0\r\n\r\n");
}

bool Connection::is_gone() {
    switch (socket_.peer()) {
        case TimedSocket::Peer::kThere:
            return false;
        case TimedSocket::Peer::kGone:
            return true;
        case TimedSocket::Peer::kHalfClosed:
            break;
    }
    const auto now = SteadyClock::now();
    if (!next_probe_) { next_probe_ = now + kFirstProbe; }
    if (now < *next_probe_) { return false; }
    next_probe_ = now + kProbeEvery;
    if (writes_events_) { return minor_version_ == 0 ? !write(kComment) : !write("3\r\n", std::string(kComment) + "\r\n"); }
    return minor_version_ > 0 && !write(kContinue);  // HTTP/1.0 has nothing of the kind
}

}  // namespace pith::serve
