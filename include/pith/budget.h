// budget.h - how much KV cache a session may hold, as its user said it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith {

enum class BudgetKind {
    kNone,     // no limit
    kEntries,  // mean entries per lane after eviction, protected ones included
    kPercent,  // of the prompt's length, turned into entries when the prompt is known
    kBytes,    // peak of KV memory, headroom included
    kAuto,  // the bytes that are left on this machine when the prompt comes, less a tenth; nothing is evicted before they are
            // full
};

struct Budget {
    BudgetKind kind = BudgetKind::kNone;
    double value = 0;

    Budget() = default;
    Budget(int entries) : kind(BudgetKind::kEntries), value(entries) {}  // NOLINT: implicit on purpose
    Budget(BudgetKind k, double v) : kind(k), value(v) {}

    // "auto", "1024" entries, "20%" of the prompt, "512K" / "512M" / "2G" bytes (powers of 1024).
    // Errors: kInvalidArgument for anything else, 0, negative, or more than 100 %. item: what the text was given for.
    static Result<Budget> parse(std::string_view text, Item item = {"budget"});
    // Errors: kInvalidArgument for a value that is none of its kind's: 0, negative, no number, below 1, more than 100 %.
    Status check() const;
    std::string to_string() const;
};

}  // namespace pith
