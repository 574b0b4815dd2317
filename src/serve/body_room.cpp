// body_room.cpp - a count, and memory given back behind large bodies. Stage: serve.
#include "serve/body_room.h"

#include <algorithm>

#include "serve/free_memory.h"

namespace pith::serve {
namespace {

constexpr size_t kLarge = size_t{1} << 20;           // behind fewer bytes nothing is worth looking for
constexpr size_t kCopies = 5;                        // of a text: in the tree, as a message, in the prompt
constexpr size_t kValueBytes = 64;                   // of the tree
constexpr size_t kMostTreeBytes = size_t{50} << 20;  // of as many values as a body may have (shapes/json.cpp)

}  // namespace

BodyRoom::Share::~Share() {
    room_.bytes_ -= bytes_;
    if (bytes_ >= kLarge) { give_back_free_memory(); }
}

bool BodyRoom::Share::take(size_t n_bytes) {
    if (room_.bytes_.fetch_add(n_bytes) + n_bytes > room_.most_) {
        room_.bytes_ -= n_bytes;
        return false;
    }
    bytes_ += n_bytes;
    return true;
}

size_t bytes_made_of(std::string_view body) {
    // Each value stands behind one of these; so may a piece of text, which then counts twice.
    const auto begins_value = [](char c) { return c == ',' || c == ':' || c == '[' || c == '{'; };
    const auto n_values = static_cast<size_t>(std::ranges::count_if(body, begins_value));
    return kCopies * body.size() + std::min(kValueBytes * n_values, kMostTreeBytes);
}

}  // namespace pith::serve
