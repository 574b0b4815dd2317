// check.cpp - see check.h.
#include "core/check.h"

#include <string>

namespace pith {

Status check_at_least(const Wording & name, int64_t value, int64_t low) {
    if (value >= low) { return {}; }
    return {ErrorCode::kInvalidArgument, name + " is " + std::to_string(value) + ": give " + std::to_string(low) + " or more"};
}

}  // namespace pith
