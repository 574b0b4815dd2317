// request_parser.h - the bytes of a connection as a request: Boost.Beast's parser, and what it leaves open decided. Stage:
// serve.
//
// Where parsers disagree about where a request ends, a proxy in front may take for a body what is read as a request here. So
// what can be read in two ways is refused, though some of it was allowed once: lines that do not end in CRLF, folded lines,
// control characters, two lengths, a length beside chunks, a coding other than chunked, two hosts. Chunk extensions and
// trailers are read and left out. Limits: a line of the head 8 KiB, all of them 64 KiB, 100 fields; a line of a chunk's head
// with its extensions, and all trailers, 8 KiB.   Source: RFC 9110, RFC 9112.   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pith::serve {

struct HeaderField {
    std::string name;  // in small letters
    std::string value;
};

struct RequestHead {
    std::string method;
    std::string target;
    int minor_version = 1;  // of HTTP/1
    std::vector<HeaderField> fields;
    uint64_t content_length = 0;
    bool is_chunked = false;
    bool keeps_alive = false;  // the client goes on with this connection

    bool has_body() const { return is_chunked || content_length > 0; }
    size_t count(std::string_view name) const;
    // Of the first; empty: there is none.
    std::string_view value(std::string_view name) const;
};

// Why a request is not read any further.
struct HttpFault {
    int status = 400;
    std::string message;
};

class RequestParser {
public:
    RequestParser();
    ~RequestParser();
    RequestParser(const RequestParser &) = delete;
    RequestParser & operator=(const RequestParser &) = delete;

    // Bytes as they come: begins with what was not used before. n_used: how many are the request's, and done with; of what has
    // come of an unfinished line none are. Nothing is read beyond the head before read_body() was called, and nothing beyond
    // the request.
    std::optional<HttpFault> put(std::string_view bytes, size_t & n_used);
    bool has_begun() const { return n_scanned_ > 0 || has_head_; }  // more than empty lines has come
    bool has_head() const { return has_head_; }
    // REQUIRES: has_head().
    const RequestHead & head() const;
    // take: gets each piece of the body; false: there is no room for it, and a fault says so.
    void read_body(size_t most_bytes, std::function<bool(std::string_view piece)> take);
    bool is_done() const;

private:
    class Beast;
    std::optional<HttpFault> scan(std::string_view bytes);
    std::optional<HttpFault> scan_line(std::string_view line, bool is_whole);
    std::optional<HttpFault> check_head() const;

    std::unique_ptr<Beast> beast_;
    size_t n_scanned_ = 0;  // bytes of whole lines of the head
    bool head_is_whole_ = false;
    bool has_head_ = false;
    bool reads_body_ = false;
};

}  // namespace pith::serve
