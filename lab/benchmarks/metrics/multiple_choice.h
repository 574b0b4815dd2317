// multiple_choice.h - which choice a model takes, from the log-probability of each. Stage: benchmarks.
// Pure C++.   Threads: pure functions.   Source: lm-evaluation-harness (acc and acc_norm of multiple_choice tasks).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace pith::benchmarks {

// The first largest: acc.   REQUIRES: one value or more, none NaN.
size_t likeliest_choice(std::span<const double> log_probabilities);

// The first largest per character of the choice, the space that begins a continuation not counted: acc_norm.
// REQUIRES: as many choices as values.
size_t likeliest_choice_per_character(std::span<const double> log_probabilities, std::span<const std::string> choices);

}  // namespace pith::benchmarks
