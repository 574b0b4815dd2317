// tolerance.cpp - policies with a threshold.
#include "policy/tolerance.h"

#include <string>
#include <vector>

#include "core/text.h"

namespace pith {

Result<PolicyChoice> with_tolerance(const PolicyChoice & choice, double tolerance, std::string_view policy_of_auto) {
    constexpr std::string_view kThreshold = "threshold";
    std::vector<std::string_view> parts;
    for (const std::string_view part : split(choice.is_auto() ? policy_of_auto : std::string_view(choice.name()), '+')) {
        if (trim(part.substr(0, part.find(':'))) != kThreshold) { parts.push_back(part); }
    }
    return PolicyChoice::parse(join(parts, "+") + "+" + std::string(kThreshold) + ":tau=" + format_number(tolerance));
}

}  // namespace pith
