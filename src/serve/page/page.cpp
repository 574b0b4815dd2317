// page.cpp - which file stands at which path. Stage: serve.
#include "serve/page/page.h"

#include <algorithm>

namespace pith::serve {

const PageFile * find_page_file(std::string_view path) {
    const auto files = page_files();
    const auto found = std::ranges::find(files, path, &PageFile::path);
    return found == files.end() ? nullptr : &*found;
}

}  // namespace pith::serve
