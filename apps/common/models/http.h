// http.h - one GET over HTTP or HTTPS, by libcurl.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith::app {

struct HttpRequest {
    std::string url;
    std::string token;   // goes to the host of `url`, and to no other that it leads to; empty: none
    uint64_t begin = 0;  // the first byte that is wanted
    const std::atomic<bool> * cancel = nullptr;
};

struct HttpAnswer {
    int status = 0;         // 200 …; 0: none came
    std::string broken;     // not empty: the connection failed, by this reason; what came before it was good
    uint64_t begin = 0;     // of a 206: the first byte that came
    std::string next_page;  // of a long list
};

// Gets the body of a 200 or 206, piece by piece; what it returns that is not ok ends the transfer.
using HttpSink = std::function<Status(const HttpAnswer & so_far, std::string_view bytes)>;

// Redirects are followed, never from https to http. A minute without a byte is a broken connection.
// Errors: those of curl_library() and of the sink; kCancelled; kInvalidArgument: no such address; kIo: redirects
// that lead nowhere.
Result<HttpAnswer> http_get(const HttpRequest & request, const HttpSink & sink);

// "https://huggingface.co/…" → "https://huggingface.co"
std::string_view origin_of(std::string_view url);

// As part of an address: all but letters, digits, "-._~" and "/" as %XX.
std::string percent_encoded(std::string_view path);

}  // namespace pith::app
