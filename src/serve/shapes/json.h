// json.h - JSON as the server reads and writes it. Stage: serve.
// Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith::serve {

using Json = nlohmann::ordered_json;

// One line; bytes that are no UTF-8 become U+FFFD.
std::string dump(const Json & value);

// Its bytes, each as a number.
Json bytes_of(const std::string & text);

// A body. Errors: kInvalidArgument: no UTF-8, no JSON (names the byte), no object, more values than a request has.
Result<Json> parse_body(std::string_view body);

}  // namespace pith::serve
