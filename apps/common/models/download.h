// download.h - a file from an address: resumed where it was left, its checksum compared, under its name only when it is whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "pith/status.h"

namespace pith::app {

struct Download {
    std::string url;
    std::string token;   // for the address's own host
    std::string to;      // "TO.incomplete" while it comes
    uint64_t size = 0;   // bytes
    std::string sha256;  // empty: only the size is compared
    std::string label;   // of the progress line
    const std::atomic<bool> * cancel = nullptr;
};

// What came of it before is kept and continued, after a broken connection (a few times by itself) as after Ctrl-C.
// Errors: kCancelled; kIo: the connection, the server, the disk, or another process that fetches the same; kBadFile: another
// size or checksum (what came is deleted); kNotFound: HTTP 404; kUnsupported: no libcurl.
Status download(const Download & download);

// What lies there of it already, in bytes.
uint64_t bytes_of_earlier(const std::string & to);

// What an HTTP status that is no success means for the one who asked for `what` ("'user/repo'").
Status http_error(int status, const std::string & what, const std::string & url, bool had_token);

}  // namespace pith::app
