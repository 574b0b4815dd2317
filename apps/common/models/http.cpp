// http.cpp - libcurl's easy interface. Redirects are followed here, not there, so that a token's way can be seen.
#include "common/models/http.h"

#include <cctype>
#include <cstdlib>

#include "common/models/curl_library.h"
#include "core/text.h"

namespace pith::app {

std::string_view origin_of(std::string_view url) {
    const size_t scheme = url.find("://");
    const size_t host = scheme == url.npos ? 0 : scheme + 3;
    return url.substr(0, url.find_first_of("/?#", host));
}

std::string percent_encoded(std::string_view path) {
    std::string out;
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x80 && (std::isalnum(byte) != 0 || std::string_view("-._~/").find(c) != std::string_view::npos)) {
            out += c;
        } else {
            out += {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
        }
    }
    return out;
}

#ifdef PITH_WITH_CURL
namespace {

constexpr int kMaxRedirects = 10;
constexpr long kConnectSeconds = 30;
constexpr long kSilentSeconds = 60;

// What libcurl's callbacks see of one hop.
struct Transfer {
    const HttpRequest & request;
    const HttpSink & sink;
    HttpAnswer answer;
    Status status;

    bool cancelled() const { return request.cancel != nullptr && request.cancel->load(); }
};

// "<https://…/tree/main?cursor=…>; rel="next"" → the address
std::string next_link(std::string_view value) {
    const size_t begin = value.find('<'), end = value.find('>');
    if (begin == value.npos || end == value.npos || value.find("rel=\"next\"") == value.npos) { return {}; }
    return std::string(value.substr(begin + 1, end - begin - 1));
}

size_t on_header(char * data, size_t, size_t n, void * user) {
    HttpAnswer & answer = static_cast<Transfer *>(user)->answer;
    const std::string_view line(data, n);
    if (line.starts_with("HTTP/")) {  // once for each answer: "100 Continue", a proxy's, the server's
        const size_t space = line.find(' ');
        answer = {.status = space == line.npos ? 0 : std::atoi(std::string(line.substr(space)).c_str())};
        return n;
    }
    const size_t colon = line.find(':');
    if (colon == line.npos) { return n; }
    const std::string name = to_lower(line.substr(0, colon));
    const std::string value(line.substr(colon + 1));
    if (name == "link") { answer.next_page = next_link(value); }
    if (name == "content-range") {  // "bytes 100-199/200"
        const size_t digit = value.find_first_of("0123456789");
        if (digit != std::string::npos) { answer.begin = std::strtoull(value.c_str() + digit, nullptr, 10); }
    }
    return n;
}

size_t on_body(char * data, size_t, size_t n, void * user) {
    auto & transfer = *static_cast<Transfer *>(user);
    if (transfer.answer.status != 200 && transfer.answer.status != 206) { return n; }  // of an error: not wanted
    transfer.status = transfer.sink(transfer.answer, {data, n});
    return transfer.status.ok() ? n : 0;
}

int on_progress(void * user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<const Transfer *>(user)->cancelled() ? 1 : 0;
}

// One request, no redirect followed; where it leads, else "".
std::string perform(const CurlLibrary & curl, CURL * handle, const std::string & url, bool with_token, Transfer & transfer) {
    std::string range = std::to_string(transfer.request.begin) + "-";
    curl_slist * headers = nullptr;
    if (with_token) { headers = curl.slist_append(headers, ("Authorization: Bearer " + transfer.request.token).c_str()); }
    curl.easy_setopt(handle, CURLOPT_URL, url.c_str());
    curl.easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl.easy_setopt(handle, CURLOPT_RANGE, transfer.request.begin > 0 ? range.c_str() : nullptr);
    const CURLcode code = curl.easy_perform(handle);
    curl.easy_setopt(handle, CURLOPT_HTTPHEADER, nullptr);
    curl.slist_free_all(headers);
    if (code != CURLE_OK) {
        transfer.answer.broken = curl.easy_strerror(code);
        if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
            transfer.answer.broken +=
                "; certificates come with the package ca-certificates, or CURL_CA_BUNDLE or SSL_CERT_FILE names them";
        }
        return {};
    }
    char * next = nullptr;
    curl.easy_getinfo(handle, CURLINFO_REDIRECT_URL, &next);
    return next == nullptr ? "" : next;
}

void set_options(const CurlLibrary & curl, CURL * handle, Transfer & transfer) {
    curl.easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(handle, CURLOPT_USERAGENT, "pith/" PITH_VERSION);
    curl.easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl.easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl.easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    curl.easy_setopt(handle, CURLOPT_BUFFERSIZE, 256L * 1024);
    curl.easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
    curl.easy_setopt(handle, CURLOPT_HEADERDATA, &transfer);
    curl.easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
    curl.easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
    curl.easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl.easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl.easy_setopt(handle, CURLOPT_XFERINFODATA, &transfer);
    for (const char * name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {  // as the program `curl` has it
        if (const char * file = std::getenv(name); file != nullptr && *file != '\0') {
            curl.easy_setopt(handle, CURLOPT_CAINFO, file);
            break;
        }
    }
}

bool is_http(std::string_view url) {
    return url.starts_with("https://") || url.starts_with("http://");  // no file://, which libcurl reads, too
}

}  // namespace

Result<HttpAnswer> http_get(const HttpRequest & request, const HttpSink & sink) {
    PITH_ASSIGN_OR_RETURN(const CurlLibrary * curl, curl_library());
    CURL * handle = curl->easy_init();
    if (handle == nullptr) { return {ErrorCode::kOutOfMemory, "libcurl cannot begin a transfer: out of memory"}; }
    Transfer transfer{request, sink, {}, {}};
    set_options(*curl, handle, transfer);
    std::string url = request.url;
    Status status;
    for (int hop = 0;; ++hop) {
        transfer.answer = {};
        if (!is_http(url)) {
            status = hop == 0 ? Status(ErrorCode::kInvalidArgument, "'" + url + "' is no address of the web: give https://…")
                              : Status(ErrorCode::kIo, "'" + request.url + "' leads to '" + url + "', no address of the web");
        }
        if (hop > kMaxRedirects) { status = {ErrorCode::kIo, "'" + request.url + "' leads from one address to the next"}; }
        if (!status.ok()) { break; }
        const bool with_token = !request.token.empty() && origin_of(url) == origin_of(request.url);
        const std::string next = perform(*curl, handle, url, with_token, transfer);
        if (next.empty()) { break; }
        if (url.starts_with("https:") && !next.starts_with("https:")) {
            status = {ErrorCode::kIo, "'" + url + "' leads to '" + next + "', which is not encrypted"};
            break;
        }
        url = next;
    }
    curl->easy_cleanup(handle);
    if (transfer.cancelled()) { return {ErrorCode::kCancelled, "stopped"}; }
    if (!transfer.status.ok()) { return transfer.status; }
    if (!status.ok()) { return status; }
    return transfer.answer;
}

#else

Result<HttpAnswer> http_get(const HttpRequest &, const HttpSink &) {
    return curl_library().status();
}

#endif

}  // namespace pith::app
