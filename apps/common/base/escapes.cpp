// escapes.cpp - reads escapes.
#include "common/base/escapes.h"

#include <charconv>

namespace pith::app {

std::string unescaped(std::string_view text) {
    constexpr std::string_view kNames = "ntr\\\"'";
    constexpr std::string_view kMeant = "\n\t\r\\\"'";
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
        const size_t known = next == '\0' ? std::string_view::npos : kNames.find(next);
        if (known != std::string_view::npos) {
            out += kMeant[known];
            ++i;
            continue;
        }
        unsigned char byte = 0;
        const char * digits = text.data() + i + 2;
        if (next == 'x' && i + 3 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
            out += static_cast<char>(byte);
            i += 3;
            continue;
        }
        out += text[i];
    }
    return out;
}

}  // namespace pith::app
