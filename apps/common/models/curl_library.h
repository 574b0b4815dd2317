// curl_library.h - libcurl, loaded when something is fetched for the first time: where it is missing, nothing else is.
// So no program needs it to start, and an installed one takes the system's own, with the system's certificates.
#pragma once

#ifdef PITH_WITH_CURL
#include <curl/curl.h>
#endif

#include "pith/status.h"

namespace pith::app {

#ifdef PITH_WITH_CURL
// The functions that are used of it, by their own names. Its interface is the same since version 7.16 (libcurl.so.4).
struct CurlLibrary {
    decltype(&::curl_global_init) global_init = nullptr;
    decltype(&::curl_easy_init) easy_init = nullptr;
    decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
    decltype(&::curl_easy_setopt) easy_setopt = nullptr;
    decltype(&::curl_easy_perform) easy_perform = nullptr;
    decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
    decltype(&::curl_easy_strerror) easy_strerror = nullptr;
    decltype(&::curl_slist_append) slist_append = nullptr;
    decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};
#else
struct CurlLibrary {};
#endif

// PITH_LIBCURL names another file than the system's. Errors: kUnsupported: it is not there, or was not when Pith was built.
Result<const CurlLibrary *> curl_library();

}  // namespace pith::app
