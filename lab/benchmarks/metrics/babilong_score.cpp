// babilong_score.cpp - see babilong_score.h.
#include "benchmarks/metrics/babilong_score.h"

#include <string>

#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {

bool names_only_target(std::string_view prediction, std::string_view target, std::string_view question,
                       std::span<const std::string_view> labels) {
    const std::string whole = lower(prediction);
    std::string_view answer = whole;
    for (const std::string_view end : {".", "<context>", "<example>"}) { answer = answer.substr(0, answer.find(end)); }
    const std::string asked = lower(question);
    const std::string right = lower(target);
    bool target_named = false;
    int n_named = 0;
    for (const std::string_view label : labels) {
        const std::string name = lower(label);
        if (answer.find(name) == std::string_view::npos || asked.find(name) != std::string::npos) { continue; }
        ++n_named;
        target_named = target_named || name == right;
    }
    return target_named && n_named == 1;
}

}  // namespace pith::benchmarks
