// byte_count.h - a number of bytes that a user gives: 500M, 8G, 4096, 0.
#pragma once

#include <cstdint>
#include <string>

#include "pith/budget.h"
#include "pith/status.h"

namespace pith::app {

// Errors: kInvalidArgument: names the flag and the text.
inline Result<uint64_t> parse_byte_count(const std::string & flag, const std::string & text) {
    if (text == "0") { return uint64_t{0}; }
    const auto parsed = Budget::parse(text);
    if (!parsed.ok() || (parsed->kind != BudgetKind::kBytes && parsed->kind != BudgetKind::kEntries)) {
        return {ErrorCode::kInvalidArgument, flag + " is '" + text + "': give bytes (500M, 8G)"};
    }
    return static_cast<uint64_t>(parsed->value);
}

}  // namespace pith::app
