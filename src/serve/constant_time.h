// constant_time.h - keys are compared in a time that tells nothing about them. Stage: serve.
// Pure C++. Threads: const-safe. Cost: the length of what is given.
#pragma once

#include <cstddef>
#include <string_view>

namespace pith::serve {

// Which byte differs, and how long the secret is, does not show in the time.
inline bool equal_in_constant_time(std::string_view secret, std::string_view given) {
    unsigned differs = secret.size() == given.size() ? 0U : 1U;
    for (size_t i = 0; i < given.size(); ++i) {
        const auto a = static_cast<unsigned char>(secret.empty() ? 0 : secret[i % secret.size()]);
        differs |= a ^ static_cast<unsigned>(static_cast<unsigned char>(given[i]));
    }
    return differs == 0;
}

}  // namespace pith::serve
