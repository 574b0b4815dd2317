// request_target.h - what a request asks for, and of whom: the path, and the names in Host and Origin. Stage: serve.
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pith::serve {

struct RequestTarget {
    std::string path;       // decoded, without what stands behind '?'; "*" of OPTIONS alone
    std::string authority;  // "host:port", of a target that is a whole address; else empty
};
// Nothing: it is neither a path nor an address of http or https, or one of its "%41" is none.
std::optional<RequestTarget> target_of(std::string_view target);

// The name in "name", "name:80" or "[::1]:80", in small letters and without brackets; nothing: it is none of these.
std::optional<std::string> host_name_of(std::string_view authority);

// Whose names the server goes by. A page may have a name of its own lead to this machine after it was loaded (DNS rebinding):
// its browser then takes the server for the page's own, and what tells is the name alone. So a request says one that is known.
class AllowedHosts {
public:
    // names: "example.org"; ".example.org", what stands below it, too; "*", any. host: where the server listens.
    AllowedHosts(std::vector<std::string> names, std::string host);
    // Of a Host field. Addresses in numbers may be any: nobody can make one lead elsewhere.
    bool has_host(std::string_view authority) const;
    // Of an Origin field: a page of this server's, of this machine's, or of one of the names. "*" says nothing of pages.
    bool has_origin(std::string_view origin, std::string_view authority) const;

private:
    bool has_name(const std::string & name) const;

    std::vector<std::string> names_;
};

}  // namespace pith::serve
