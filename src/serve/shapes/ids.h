// ids.h - names for what a client may speak of later, and when it was. Stage: serve.   Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace pith::serve {

inline std::string random_letters(int n) {
    constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static thread_local std::mt19937_64 random{std::random_device{}()};
    std::string text;
    for (int i = 0; i < n; ++i) { text += kLetters[random() % kLetters.size()]; }
    return text;
}

// Of a tool call: nine letters and digits, since some models' templates (Mistral's) take no other.
inline std::string call_id() {
    return random_letters(9);
}

// Seconds since 1970.
inline int64_t unix_time() {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace pith::serve
