// gguf_strings.cpp - see gguf_strings.h.
#include "file/gguf_strings.h"

#include <gguf.h>

#include <memory>

namespace pith {

std::vector<std::string> gguf_strings(const std::string & path, const char * key) {
    std::vector<std::string> strings;
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_from_file(path.c_str(), {true, nullptr}),
                                                                   gguf_free);
    const int64_t id = gguf ? gguf_find_key(gguf.get(), key) : -1;
    if (id < 0 || gguf_get_kv_type(gguf.get(), id) != GGUF_TYPE_ARRAY ||
        gguf_get_arr_type(gguf.get(), id) != GGUF_TYPE_STRING) {
        return strings;
    }
    const size_t n = gguf_get_arr_n(gguf.get(), id);
    strings.reserve(n);
    for (size_t i = 0; i < n; ++i) { strings.emplace_back(gguf_get_arr_str(gguf.get(), id, i)); }
    return strings;
}

}  // namespace pith
