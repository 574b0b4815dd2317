// curl_library.cpp - dlopen.
#include "common/models/curl_library.h"

#ifdef PITH_WITH_CURL
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>
#endif

namespace pith::app {

#ifdef PITH_WITH_CURL
namespace {

// reason: why the first of them cannot be had.
void * open_library(std::string & reason) {
    std::vector<const char *> names = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"};
    if (const char * other = std::getenv("PITH_LIBCURL")) { names = {other}; }
    for (const char * name : names) {
        if (void * library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) { return library; }
        if (reason.empty()) { reason = dlerror(); }
    }
    return nullptr;
}

template <class Function>
bool find(void * library, const char * name, Function & function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

Result<const CurlLibrary *> load() {
    static CurlLibrary curl;
    std::string reason;
    void * library = open_library(reason);  // for as long as the process runs
    const bool whole =
        library != nullptr && find(library, "curl_global_init", curl.global_init) &&
        find(library, "curl_easy_init", curl.easy_init) && find(library, "curl_easy_cleanup", curl.easy_cleanup) &&
        find(library, "curl_easy_setopt", curl.easy_setopt) && find(library, "curl_easy_perform", curl.easy_perform) &&
        find(library, "curl_easy_getinfo", curl.easy_getinfo) && find(library, "curl_easy_strerror", curl.easy_strerror) &&
        find(library, "curl_slist_append", curl.slist_append) && find(library, "curl_slist_free_all", curl.slist_free_all);
    if (!whole || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return {ErrorCode::kUnsupported,
                "-hf fetches with libcurl, which cannot be used here" + (reason.empty() ? "" : " (" + reason + ")") +
                    ": install it (Debian: libcurl4), or get the GGUF file by other means and give it with -m"};
    }
    return &curl;
}

}  // namespace

Result<const CurlLibrary *> curl_library() {
    static const Result<const CurlLibrary *> curl = load();
    return curl;
}

#else

Result<const CurlLibrary *> curl_library() {
    return {ErrorCode::kUnsupported,
            "-hf fetches with libcurl, and this pith was built without its headers: build it again where they are (Debian: "
            "libcurl4-openssl-dev), or get the GGUF file by other means and give it with -m"};
}

#endif

}  // namespace pith::app
