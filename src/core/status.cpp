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
Wording without_middle(const Wording & message) {
    constexpr size_t kEnds = Status::kMostMessageBytes / 2 - 20;
    const std::string & text = message.text();
    size_t begin = kEnds;
    size_t end = text.size() - kEnds;
    while (begin > 0 && goes_on(text[begin])) { --begin; }
    while (end < text.size() && goes_on(text[end])) { ++end; }
    return message.part(0, begin) + " [" + std::to_string(end - begin) + " bytes more] " + message.part(end, text.size());
}

// The pieces of a message in order, those between names and the names.
template <class Text, class Name>
void each_piece(const Wording & message, const Text & text, const Name & name) {
    const std::string_view all = message.text();
    size_t done = 0;
    for (const auto & [begin, size] : message.places()) {
        text(all.substr(done, begin - done));
        name(all.substr(begin, size));
        done = begin + size;
    }
    text(all.substr(done));
}

Wording one_line(Wording message) {
    if (message.text().size() > Status::kMostMessageBytes) { message = without_middle(message); }
    Wording clean;
    each_piece(
        message, [&](std::string_view text) { clean += without_controls(text); },
        [&](std::string_view name) { clean += Item{without_controls(name)}; });
    return clean;
}

}  // namespace

Wording & Wording::operator+=(const Wording & more) {
    for (const Place & place : more.places_) { places_.push_back({text_.size() + place.begin, place.size}); }
    text_ += more.text_;
    return *this;
}

Wording Wording::part(size_t begin, size_t end) const {
    Wording part(text_.substr(begin, end - begin));
    for (const Place & place : places_) {
        if (place.begin >= begin && place.begin + place.size <= end) {
            part.places_.push_back({place.begin - begin, place.size});
        }
    }
    return part;
}

Wording operator+(Wording begin, const Wording & end) {
    begin += end;
    return begin;
}

Status::Status(ErrorCode code, Wording message) : code_(code), message_(one_line(std::move(message))) {}

std::string Status::message(ItemNames names) const {
    std::string text;
    each_piece(
        message_, [&](std::string_view piece) { text += piece; }, [&](std::string_view name) { text += names(name); });
    return text;
}

std::string_view Status::item() const {
    if (message_.places().empty()) { return {}; }
    const auto & [begin, size] = message_.places().front();
    return std::string_view(message()).substr(begin, size);
}

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
