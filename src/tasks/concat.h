// concat.h - joins texts. (Chained operator+ on temporaries makes GCC 12 warn about overlaps that cannot be.)
// Pure C++: no I/O.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace pith::corpus {

inline std::string concat(std::initializer_list<std::string_view> parts) {
    std::string out;
    for (const auto part : parts) { out.append(part); }
    return out;
}

}  // namespace pith::corpus
