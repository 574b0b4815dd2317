// check.cpp - see check.h.
#include "core/check.h"

#include <string>

namespace pith {

Status check_at_least(std::string_view name, int64_t value, int64_t low) {
    if (value >= low) { return {}; }
    return {ErrorCode::kInvalidArgument,
            std::string(name) + " is " + std::to_string(value) + ": give " + std::to_string(low) + " or more"};
}

}  // namespace pith
