// text_columns.h - what the tables on the terminal are made with.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace pith::app {

// As std::printf would print it; 511 bytes at the most.
template <class... Args>
std::string format(const char * pattern, Args... args) {
    std::array<char, 512> text{};
    std::snprintf(text.data(), text.size(), pattern, args...);
    return text.data();
}

// Of the column that names the policies: as wide as the longest name, and as the word above them.
template <class Rows>
int policy_width(const Rows & rows) {
    size_t width = std::string("policy").size();
    for (const auto & row : rows) { width = std::max(width, row.policy.size()); }
    return static_cast<int>(width);
}

}  // namespace pith::app
