// request_parser.cpp - a parser of Boost.Beast, behind a scan of the head's lines. Stage: serve.
//
// The one file that includes Boost, and no more of it than the parser: sockets, deadlines and replies are this server's own.
#include "serve/request_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <utility>

#include "core/text.h"

namespace pith::serve {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr size_t kMostLine = size_t{8} << 10;
constexpr size_t kMostHead = size_t{64} << 10;
constexpr size_t kMostFields = 100;
constexpr size_t kMostChunkHead = size_t{8} << 10;

HttpFault malformed(std::string why) {
    return {400, "the request is no HTTP that can be read: " + std::move(why)};
}

bool is_control(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7F;
}

bool has_bare_lf(std::string_view text) {
    for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
        if (at == 0 || text[at - 1] != '\r') { return true; }
    }
    return false;
}

std::string text_of(beast::string_view view) {
    return {view.data(), view.size()};
}

}  // namespace

size_t RequestHead::count(std::string_view name) const {
    return static_cast<size_t>(std::ranges::count(fields, name, &HeaderField::name));
}

std::string_view RequestHead::value(std::string_view name) const {
    const auto found = std::ranges::find(fields, name, &HeaderField::name);
    return found == fields.end() ? std::string_view() : std::string_view(found->value);
}

class RequestParser::Beast final : public http::basic_parser<true> {
public:
    Beast() {
        header_limit(kMostHead + 1);
        body_limit(std::numeric_limits<std::uint64_t>::max());  // until somebody wants a body
    }

    RequestHead head;
    std::function<bool(std::string_view)> take;
    std::optional<HttpFault> fault;  // what was decided here and not by Beast

private:
    using Error = beast::error_code;
    static void stop(Error & error) { error = http::error::bad_value; }

    void on_request_impl(http::verb /*method*/, beast::string_view method, beast::string_view target, int version,
                         Error & /*error*/) override {
        head.method = text_of(method);
        head.target = text_of(target);
        head.minor_version = version - 10;
    }
    void on_response_impl(int /*code*/, beast::string_view /*reason*/, int /*version*/, Error & /*error*/) override {}
    // Of trailers, too, which begin where the head has ended: nothing is taken from there.
    void on_field_impl(http::field /*name*/, beast::string_view name, beast::string_view value, Error & error) override {
        if (is_header_done()) { return; }
        if (head.fields.size() == kMostFields) {
            fault = HttpFault{431, "the request has more than " + std::to_string(kMostFields) + " header fields"};
            return stop(error);
        }
        head.fields.push_back({to_lower(std::string_view(name.data(), name.size())), text_of(value)});
    }
    // Newer versions of Boost call this for trailers; older ones have nothing to override.
    void on_trailer_field_impl(http::field /*name*/, beast::string_view /*text*/, beast::string_view /*value*/,
                               Error & /*error*/) {}
    void on_header_impl(Error & /*error*/) override {}
    void on_body_init_impl(const boost::optional<std::uint64_t> & /*content_length*/, Error & /*error*/) override {}
    std::size_t on_body_impl(beast::string_view body, Error & error) override { return give(body, error); }
    void on_chunk_header_impl(std::uint64_t /*size*/, beast::string_view extensions, Error & error) override {
        // Line feeds in quotes, above all: others end the head there.
        const bool has_control = std::any_of(extensions.begin(), extensions.end(), [](char c) {
            return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
        });
        if (has_control) {
            fault = malformed("the head of a chunk has a control character");
        } else if (extensions.size() > kMostChunkHead) {
            fault = malformed("the head of a chunk is too long");
        } else {
            return;
        }
        stop(error);
    }
    std::size_t on_chunk_body_impl(std::uint64_t /*left*/, beast::string_view body, Error & error) override {
        return give(body, error);
    }
    void on_finish_impl(Error & /*error*/) override {}

    std::size_t give(beast::string_view piece, Error & error) {
        if (!take({piece.data(), piece.size()})) {
            fault = HttpFault{429, "the bodies of other requests take all the room there is: try again later"};
            stop(error);
        }
        return piece.size();
    }
};

RequestParser::RequestParser() : beast_(std::make_unique<Beast>()) {}
RequestParser::~RequestParser() = default;

const RequestHead & RequestParser::head() const {
    return beast_->head;
}

bool RequestParser::is_done() const {
    return has_head_ && beast_->is_done();
}

void RequestParser::read_body(size_t most_bytes, std::function<bool(std::string_view piece)> take) {
    beast_->take = std::move(take);
    beast_->body_limit(most_bytes);
    reads_body_ = true;
}

std::optional<HttpFault> RequestParser::scan_line(std::string_view line, bool is_whole) {
    if (line.size() > kMostLine) {
        if (n_scanned_ == 0) { return HttpFault{414, "the address is longer than " + std::to_string(kMostLine) + " bytes"}; }
        return HttpFault{431, "a header field is longer than " + std::to_string(kMostLine) + " bytes"};
    }
    if (n_scanned_ + line.size() > kMostHead) {
        return HttpFault{431, "the header fields have more than " + std::to_string(kMostHead) + " bytes together"};
    }
    if (is_whole && !line.ends_with('\r')) { return malformed("a line ends in LF, not in CRLF"); }
    if (line.ends_with('\r')) { line.remove_suffix(1); }
    if (std::ranges::any_of(line, is_control)) { return malformed("there is a control character in its head"); }
    if (line.starts_with(' ') || line.starts_with('\t')) { return malformed("a line begins with a blank"); }
    return {};
}

// Lines of the head, each once it is whole; of an unfinished one, what can be said of it already.
std::optional<HttpFault> RequestParser::scan(std::string_view bytes) {
    while (!head_is_whole_) {
        const std::string_view rest = bytes.substr(n_scanned_);
        const size_t end = rest.find('\n');
        const bool is_whole = end != std::string_view::npos;
        const std::string_view line = rest.substr(0, end);
        if (auto fault = scan_line(line, is_whole)) { return fault; }
        if (!is_whole) { return {}; }
        head_is_whole_ = line == "\r";
        n_scanned_ += end + 1;
    }
    return {};
}

std::optional<HttpFault> RequestParser::check_head() const {
    const RequestHead & head = beast_->head;
    const size_t n_hosts = head.count("host");
    if (n_hosts > 1) { return malformed("it has two Host fields"); }
    if (n_hosts == 0 && head.minor_version > 0) { return malformed("it has no Host field"); }
    const size_t n_lengths = head.count("content-length");
    const size_t n_codings = head.count("transfer-encoding");
    if (n_lengths > 1) { return malformed("it has two Content-Length fields"); }
    if (n_codings > 0 && n_lengths > 0) { return malformed("it has a Content-Length beside a Transfer-Encoding"); }
    const std::string_view length = head.value("content-length");
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (n_lengths > 0 && (length.empty() || !std::ranges::all_of(length, is_digit))) {
        return malformed("its Content-Length is no number");
    }
    if (n_codings > 0 && (n_codings > 1 || to_lower(head.value("transfer-encoding")) != "chunked")) {
        return malformed("its Transfer-Encoding is another than chunked");
    }
    if (n_codings > 0 && head.minor_version == 0) { return malformed("HTTP/1.0 has no Transfer-Encoding"); }
    return {};
}

std::optional<HttpFault> RequestParser::put(std::string_view bytes, size_t & n_used) {
    n_used = 0;
    if (!has_head_) {
        if (n_scanned_ == 0) {  // empty lines in front of a request are left out
            while (bytes.substr(n_used).starts_with("\r\n")) { n_used += 2; }
            bytes.remove_prefix(n_used);
            if (bytes.empty() || bytes == "\r") { return {}; }
        }
        if (auto fault = scan(bytes)) { return fault; }
        if (!head_is_whole_) { return {}; }
        beast::error_code error;
        beast_->eager(false);
        n_used += beast_->put(boost::asio::buffer(bytes.data(), n_scanned_), error);
        if (beast_->fault) { return beast_->fault; }
        if (error) { return malformed(error.message()); }
        if (auto fault = check_head()) { return fault; }
        has_head_ = true;
        RequestHead & head = beast_->head;
        head.keeps_alive = beast_->keep_alive();
        head.is_chunked = beast_->chunked();
        head.content_length = beast_->content_length().value_or(0);
        beast_->eager(true);
        return {};
    }
    if (!reads_body_ || beast_->is_done() || bytes.empty()) { return {}; }
    beast::error_code error;
    n_used = beast_->put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    if (beast_->fault) { return beast_->fault; }
    if (error == http::error::body_limit) { return HttpFault{413, ""}; }
    if (error && error != http::error::need_more) { return malformed(error.message()); }
    // What is left is of the head of a chunk, or of trailers, which Beast looks at when they are whole.
    const std::string_view left = error ? bytes.substr(n_used) : std::string_view();
    if (left.size() > kMostChunkHead) { return malformed("the head of a chunk is too long"); }
    if (has_bare_lf(left)) { return malformed("the head of a chunk ends in LF, not in CRLF"); }
    return {};
}

}  // namespace pith::serve
