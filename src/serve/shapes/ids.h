// ids.h - names for what a client may speak of later. Stage: serve.   Threads: any.
#pragma once

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

}  // namespace pith::serve
