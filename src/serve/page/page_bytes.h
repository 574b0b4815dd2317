// page_bytes.h - the files' bytes; embed.cmake writes the source of these from page.html, page.css and page.js. Stage: serve.
#pragma once

#include <string_view>

namespace pith::serve {

std::string_view page_html();
std::string_view page_css();
std::string_view page_js();

}  // namespace pith::serve
