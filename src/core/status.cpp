// status.cpp - names of the error codes, and messages of one line.
#include "pith/status.h"

#include <utility>

#include "core/text.h"

namespace pith {
namespace {

// Bytes 0x80 to 0xBF go on with a character of UTF-8 that began before them.
bool goes_on(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// The beginning and the end, and how much is missing between them; no character is cut in two.
std::string without_middle(const std::string & text) {
    constexpr size_t kEnds = Status::kMostMessageBytes / 2 - 20;
    size_t begin = kEnds;
    size_t end = text.size() - kEnds;
    while (begin > 0 && goes_on(text[begin])) { --begin; }
    while (end < text.size() && goes_on(text[end])) { ++end; }
    return text.substr(0, begin) + " [" + std::to_string(end - begin) + " bytes more] " + text.substr(end);
}

std::string one_line(std::string text) {
    if (text.size() > Status::kMostMessageBytes) { text = without_middle(text); }
    return without_controls(text);
}

}  // namespace

Status::Status(ErrorCode code, std::string message) : code_(code), message_(one_line(std::move(message))) {}

std::string_view to_string(ErrorCode code) {
    switch (code) {
        case ErrorCode::kOk:
            return "ok";
        case ErrorCode::kInvalidArgument:
            return "invalid argument";
        case ErrorCode::kNotFound:
            return "not found";
        case ErrorCode::kBadFile:
            return "bad file";
        case ErrorCode::kUnsupported:
            return "unsupported";
        case ErrorCode::kMissingEvidence:
            return "missing evidence";
        case ErrorCode::kNotFinite:
            return "not finite";
        case ErrorCode::kBudget:
            return "budget too small";
        case ErrorCode::kOutOfMemory:
            return "out of memory";
        case ErrorCode::kIo:
            return "input/output";
        case ErrorCode::kCancelled:
            return "cancelled";
        case ErrorCode::kInternal:
            return "internal error";
    }
    return "unknown";
}

}  // namespace pith
