// json.cpp - bodies are checked before the JSON library sees them. Stage: serve.
#include "serve/shapes/json.h"

#include "core/json_syntax.h"
#include "text/utf8.h"

namespace pith::serve {
namespace {

// Far more than messages, functions and biases of all tokens are, and than a context has tokens; together some 50 MB.
constexpr JsonLimits kLimits{.most_values = int64_t{1} << 18, .most_numbers = int64_t{1} << 21};

}  // namespace

std::string dump(const Json & value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json bytes_of(const std::string & text) {
    Json bytes = Json::array();
    for (const char c : text) { bytes.push_back(static_cast<unsigned char>(c)); }
    return bytes;
}

Result<Json> parse_body(std::string_view body) {
    if (const auto offset = invalid_utf8_offset(body)) {
        return {ErrorCode::kInvalidArgument, "the body is not UTF-8: byte " + std::to_string(*offset)};
    }
    if (const std::string problem = json_problem(body, kLimits); !problem.empty()) {
        return {ErrorCode::kInvalidArgument, "the body is not JSON: " + problem};
    }
    Json value = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) { return {ErrorCode::kInvalidArgument, "the body holds a number that is too large"}; }
    if (!value.is_object()) { return {ErrorCode::kInvalidArgument, "the body is no JSON object: give {\"name\": value, …}"}; }
    return value;
}

}  // namespace pith::serve
