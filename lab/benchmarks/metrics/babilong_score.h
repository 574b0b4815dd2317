// babilong_score.h - does an answer name the right label of its task, and no other. Stage: benchmarks.
// Pure C++.   Threads: pure functions.   Source: BABILong, babilong/metrics.py.
//
// The answer in lower case ends at the first "." or tag (<context>, <example>); the task's labels that occur in it, less those
// that occur in the question, must be the target alone. (The original also cuts at "Question", which lower case never has.)
#pragma once

#include <span>
#include <string_view>

namespace pith::benchmarks {

bool names_only_target(std::string_view prediction, std::string_view target, std::string_view question,
                       std::span<const std::string_view> labels);

}  // namespace pith::benchmarks
