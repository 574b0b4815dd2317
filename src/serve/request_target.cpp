// request_target.cpp - RFC 9112's forms of a target, names compared. Stage: serve.
#include "serve/request_target.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/text.h"

namespace pith::serve {
namespace {

std::optional<std::string> decoded(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        unsigned byte = 0;
        const char * from = text.data() + i + 1;
        if (i + 2 >= text.size()) { return {}; }
        const auto [end, error] = std::from_chars(from, from + 2, byte, 16);
        if (error != std::errc() || end != from + 2) { return {}; }
        out += static_cast<char>(byte);
        i += 2;
    }
    return out;
}

bool is_numeric_address(const std::string & name) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    return inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

bool is_this_machine(const std::string & name) {
    return name == "localhost" || name.ends_with(".localhost") || name == "::1" ||
           (name.starts_with("127.") && is_numeric_address(name));
}

// Behind "http://"; nothing: another scheme.
std::optional<std::string_view> behind_scheme(std::string_view text) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (to_lower(text.substr(0, scheme.size())) == scheme) { return text.substr(scheme.size()); }
    }
    return {};
}

}  // namespace

std::optional<RequestTarget> target_of(std::string_view target) {
    RequestTarget found;
    if (target == "*") {
        found.path = "*";
        return found;
    }
    if (!target.starts_with('/')) {
        const auto address = behind_scheme(target);
        if (!address) { return {}; }
        const size_t end = address->find_first_of("/?#");
        found.authority = address->substr(0, end);
        if (found.authority.empty()) { return {}; }
        target = end == std::string_view::npos ? std::string_view() : address->substr(end);
        if (!target.starts_with('/')) { target = "/"; }
    }
    auto path = decoded(target.substr(0, target.find_first_of("?#")));
    if (!path) { return {}; }
    found.path = std::move(*path);
    return found;
}

std::optional<std::string> host_name_of(std::string_view authority) {
    std::string_view name = authority;
    std::string_view port;
    if (name.starts_with('[')) {
        const size_t end = name.find(']');
        if (end == std::string_view::npos) { return {}; }
        port = name.substr(end + 1);
        name = name.substr(1, end - 1);
    } else if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
        port = name.substr(colon);
        name = name.substr(0, colon);
    }
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const bool has_port = port.starts_with(':') && std::ranges::all_of(port.substr(1), is_digit);
    if (name.empty() || (!port.empty() && !has_port)) { return {}; }
    const auto may_stand = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == ':';
    };
    std::string lower = to_lower(name);
    if (!std::ranges::all_of(lower, may_stand)) { return {}; }
    if (lower.size() > 1 && lower.ends_with('.')) { lower.pop_back(); }  // "localhost." is the same
    return lower;
}

AllowedHosts::AllowedHosts(std::vector<std::string> names, std::string host) : names_(std::move(names)) {
    names_.push_back(std::move(host));
    for (std::string & name : names_) { name = to_lower(name); }
}

bool AllowedHosts::has_name(const std::string & name) const {
    return is_this_machine(name) || std::ranges::any_of(names_, [&](const std::string & known) {
               return known == name || (known.starts_with('.') && (name.ends_with(known) || name == known.substr(1)));
           });
}

bool AllowedHosts::has_host(std::string_view authority) const {
    const auto name = host_name_of(authority);
    const bool is_any = std::ranges::find(names_, "*") != names_.end();
    return name && (is_any || is_numeric_address(*name) || has_name(*name));
}

bool AllowedHosts::has_origin(std::string_view origin, std::string_view authority) const {
    const auto of_origin = behind_scheme(origin);
    if (!of_origin) { return false; }
    if (to_lower(*of_origin) == to_lower(authority)) { return true; }
    const auto name = host_name_of(*of_origin);
    return name && has_name(*name);
}

}  // namespace pith::serve
