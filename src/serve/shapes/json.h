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

// What a request's body says. The JSON library's destructor wants memory for all values of an array, and ends the process where
// there is none: here they go one by one.
class Body {
public:
    Body() = default;
    Body(Body && other) noexcept { value_.swap(other.value_); }
    Body & operator=(Body && other) noexcept {
        value_.swap(other.value_);
        return *this;
    }
    Body(const Body &) = delete;
    Body & operator=(const Body &) = delete;
    ~Body();

    const Json & json() const { return value_; }
    Json & json() { return value_; }

private:
    Json value_;
};

// Errors: kInvalidArgument: no UTF-8, no JSON (names the byte), no object, more values than a request has.
Result<Body> parse_body(std::string_view body);

}  // namespace pith::serve
