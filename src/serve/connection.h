// connection.h - the requests of one connection, one after the other, and their replies. Stage: serve.
//
// A request has a time in which the whole of it must come; a body is read when its request's key, host and length are known to
// be good, and not before. A request that was read whole leaves the connection open, whatever its reply; where it was not, or
// cannot be read, the connection ends with the reply: what follows might be a part of it. A client that writes no more gets its
// answer. Whether it is still there it is asked by what may stand in front of a reply (100, which clients pass over) or in a
// stream (a comment): where nobody is, the system says so. Threads: one for a connection.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/api.h"
#include "serve/body_room.h"
#include "serve/http_server.h"
#include "serve/request_parser.h"
#include "serve/request_target.h"
#include "serve/timed_socket.h"

namespace pith::serve {

// What the connections of a server have in common.
struct Connections {
    Connections(Api & with, HttpOptions as);

    Api & api;
    const HttpOptions options;
    const AllowedHosts hosts;
    BodyRoom room;
    std::atomic<int> n_in_hand{0};       // requests that have come whole and whose replies are not written
    std::atomic<bool> is_ending{false};  // a connection ends with the reply that it waits for
};

// A reply that wants no memory.
extern const std::string_view kNoMemoryReply;
// The same, for a connection that there is no room for.
extern const std::string_view kTooManyReply;

class Connection {
public:
    Connection(Connections & all, const TimedSocket & socket) : all_(all), socket_(socket) {}

    // Until one of the two sides ends it. Nothing is thrown.
    void serve();

private:
    using Headers = std::vector<std::pair<std::string, std::string>>;

    // false: it was the last one.
    bool serve_request();
    // Until the parser has its head, or all. Else: why not.
    std::optional<HttpFault> read_head(RequestParser & parser);
    std::optional<HttpFault> read_body(RequestParser & parser, BodyRoom::Share & room, std::string & body);
    std::optional<HttpFault> read_more();
    // What the reply is before anything of a body is read; nothing: it may be read.
    std::optional<ApiReply> refuse(const RequestHead & head, const ApiRequest & asked) const;
    std::optional<ApiReply> refuse_names(const RequestHead & head, const RequestTarget & target) const;
    Headers cors(const RequestHead & head) const;
    bool refuse_fault(const HttpFault & fault, const std::string & path);
    // Each says whether the connection goes on.
    bool answer(const RequestHead & head, ApiReply reply, bool keeps_alive);
    bool write_stream(ReplyStream & stream);
    bool is_gone();
    bool write(std::string_view first, std::string_view second = {});

    Connections & all_;
    const TimedSocket & socket_;
    std::string came_;  // and was not used yet
    SteadyClock::time_point deadline_;
    std::optional<SteadyClock::time_point> next_probe_;  // of whether a client that writes no more is there; none: not yet
    Headers cors_;                                       // of this request's reply
    int minor_version_ = 1;                              // of this request
    bool has_written_ = false;                           // of this request's reply
    bool has_seen_end_ = false;                          // the client writes no more
    bool writes_events_ = false;
};

}  // namespace pith::serve
