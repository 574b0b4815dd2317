// stopwatch.h - seconds since it was made.
// Pure C++: no ggml, no I/O.
#pragma once

#include <chrono>

namespace pith {

class Stopwatch {
public:
    double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace pith
