// page.h - the files of the page at '/', embedded in the program. Stage: serve.   Threads: const-safe.
#pragma once

#include <span>
#include <string_view>

namespace pith::serve {

struct PageFile {
    std::string_view path;  // "/", "/page.js", "/page.css" …
    std::string_view content_type;
    std::string_view body;
};

// What the browser may load and talk to: this server, and nothing else.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

// All of them; embed.cmake writes the source.
std::span<const PageFile> page_files();

// nullptr: no such file.
const PageFile * find_page_file(std::string_view path);

}  // namespace pith::serve
