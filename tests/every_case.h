// every_case.h - sweeps: the default run takes a share of the cases, in turns so that each kind is there; ctest's label `slow`
// takes all of them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string_view>

namespace pith::testing {

// PITH_EVERY_CASE, which the label sets.
inline bool every_case() {
    return std::getenv("PITH_EVERY_CASE") != nullptr;
}

// Whether a test runs this case of its sweep: one of every n, another one for the next test.
inline bool in_turn(size_t test, size_t one, size_t n) {
    return every_case() || (test + one) % n == 0;
}
inline bool in_turn(std::string_view test, size_t one, size_t n) {
    return in_turn(std::hash<std::string_view>()(test), one, n);
}

}  // namespace pith::testing
