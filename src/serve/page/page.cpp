// page.cpp - which file stands at which path. Stage: serve.
#include "serve/page/page.h"

#include "serve/page/page_bytes.h"

namespace pith::serve {

const PageFile * find_page_file(std::string_view path) {
    static const PageFile files[] = {
        {"/", "text/html; charset=utf-8", page_html()},
        {"/page.css", "text/css; charset=utf-8", page_css()},
        {"/page.js", "text/javascript; charset=utf-8", page_js()},
    };
    for (const PageFile & file : files) {
        if (file.path == path) { return &file; }
    }
    return nullptr;
}

}  // namespace pith::serve
