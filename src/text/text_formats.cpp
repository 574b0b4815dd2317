// text_formats.cpp - what a `format` of JSON Schema says of a text, as a pattern. Stage: text.
//
// Each pattern holds less than its source allows rather than more: web addresses have known schemes, fractions of seconds six
// digits, a minute no 61st second. Sources: RFC 3339 (dates and times), ISO 8601 (durations), RFC 4122, 5321, 1123, 3986, 4291,
// 6901.
#include <map>

#include "text/text_pattern.h"

namespace pith {
namespace {

std::string whole(const std::string & pattern) {
    return "^(?:" + pattern + ")$";
}

std::map<std::string, std::string, std::less<>> all_formats() {
    const std::string days =
        R"(\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])))";
    const std::string leap_days = R"((?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
    const std::string date = "(?!0000)(?:" + days + "|" + leap_days + ")";
    const std::string clock = R"((?:[01]\d|2[0-3]):[0-5]\d)";
    const std::string time = clock + R"(:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-])" + clock + ")";
    const std::string span = R"(\d{1,6}W|(?=\d|T)(?:\d{1,6}Y)?(?:\d{1,6}M)?(?:\d{1,6}D)?)";
    const std::string time_span = R"((?:T(?=\d)(?:\d{1,6}H)?(?:\d{1,6}M)?(?:\d{1,6}(?:\.\d{1,6})?S)?)?)";
    // Of 63 characters at most, which is counted where nothing else is there: it is many states.
    const std::string short_label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
    const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
    const std::string host = label + R"((?:\.)" + label + ")*";
    const std::string short_host = short_label + R"((?:\.)" + short_label + ")*";
    const std::string word = "[A-Za-z0-9_'+-]+";
    const std::string email = word + R"((?:\.)" + word + ")*@(?:" + label + R"(\.)+[A-Za-z]{2,24})";
    const std::string byte = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
    const std::string group = "[0-9a-fA-F]{1,4}";
    const std::string groups = group + "(?::" + group + ")*";
    const std::string ipv6 = "(?:" + group + ":){7}" + group + "|(?=(?:[0-9a-fA-F]{0,4}:){2,6}[0-9a-fA-F]{0,4}$)(?:" + groups +
                             ")?::(?:" + groups + ")?";
    const std::string character = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
    const std::string path = "(?:/" + character + "*)*";
    const std::string rest = R"((?:\?(?:)" + character + "|[/?])*)?(?:#(?:" + character + "|[/?])*)?";
    const std::string uri = "(?:(?:https?|ftp|wss?)://" + host + R"((?::\d{1,4})?)" + path +
                            "|(?:urn:[a-z]{2,8}|mailto|tel):" + character + "+)" + rest;
    const std::string uri_reference = uri + "|/?[A-Za-z0-9._~-]+" + path + rest;
    const std::string pointer = "(?:/(?:[^/~]|~[01])*)*";
    std::map<std::string, std::string, std::less<>> out = {
        {"date", date},
        {"time", time},
        {"date-time", date + "T" + time},
        {"duration", "P(?:" + span + time_span + ")"},
        {"uuid", "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
        {"email", email},
        {"idn-email", email},
        {"hostname", short_host},
        {"idn-hostname", short_host},
        {"ipv4", "(?:" + byte + R"(\.){3})" + byte},
        {"ipv6", ipv6},
        {"uri", uri},
        {"iri", uri},
        {"uri-reference", uri_reference},
        {"iri-reference", uri_reference},
        {"json-pointer", pointer},
        {"relative-json-pointer", R"((?:0|[1-9]\d{0,8})(?:#|)" + pointer + ")"},
    };
    for (auto & [name, pattern] : out) { pattern = whole(pattern); }
    return out;
}

}  // namespace

const std::string * pattern_of_format(std::string_view format) {
    static const std::map<std::string, std::string, std::less<>> formats = all_formats();
    const auto found = formats.find(format);
    return found != formats.end() ? &found->second : nullptr;
}

}  // namespace pith
