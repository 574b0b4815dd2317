// budget.cpp - budgets as users write them.
#include "pith/budget.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "core/items.h"
#include "core/text.h"

namespace pith {
namespace {

constexpr double kKilo = 1024.0;
constexpr double kMostEntries = 2147483647.0;
constexpr double kMostBytes = 1024.0 * kKilo * kKilo * kKilo * kKilo;  // a pebibyte

double unit_of(char suffix) {
    switch (suffix) {
        case 'K':
            return kKilo;
        case 'M':
            return kKilo * kKilo;
        case 'G':
            return kKilo * kKilo * kKilo;
        default:
            return 0;
    }
}

// Bytes that "M", "MB", "mb" or "MiB" stands for: 1,048,576 all of them; 0: none of these. A small k alone is thousands of
// tokens.
double bytes_of(std::string_view suffix) {
    if (suffix.empty() || suffix == "k") { return 0; }
    const std::string_view behind = suffix.substr(1);
    const bool is_unit = behind.empty() || behind == "B" || behind == "b" || behind == "iB";
    return is_unit ? unit_of(static_cast<char>(std::toupper(static_cast<unsigned char>(suffix[0])))) : 0;
}

Status bad(Item item, std::string_view text, std::string_view what) {
    return {ErrorCode::kInvalidArgument, item + " '" + std::string(text) + "' " + std::string(what)};
}

}  // namespace

Result<Budget> Budget::parse(std::string_view text, Item item) {
    constexpr std::string_view kForms =
        "is not a budget: write tokens per head (1024, 4k), per cent of the prompt (20%), bytes (512M) or auto";
    text = trim(text);
    if (text == "auto") { return Budget(BudgetKind::kAuto, 0); }
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    const std::string_view suffix = trim(text.substr(static_cast<size_t>(end - text.data())));
    if (error != std::errc{} || !std::isfinite(value)) { return bad(item, text, kForms); }
    const bool is_entries = suffix.empty() || suffix == "k";
    const bool is_percent = suffix == "%";
    const double unit = bytes_of(suffix);
    if (!is_entries && !is_percent && unit == 0) { return bad(item, text, kForms); }
    if (value <= 0) { return bad(item, text, "must be more than 0; policy full keeps everything"); }
    if (is_percent) {
        if (value > 100) { return bad(item, text, "is more than 100%: the most there is to keep is all"); }
        return Budget(BudgetKind::kPercent, value);
    }
    if (is_entries) {
        if (!suffix.empty()) { value *= kKilo; }
        if (value != std::floor(value)) { return bad(item, text, "must be a whole number of tokens per head"); }
        if (value > kMostEntries) {
            return bad(item, text, "is more than 2147483647 tokens per head; policy full keeps everything");
        }
        return Budget(BudgetKind::kEntries, value);
    }
    value = std::floor(value * unit);
    if (value < 1 || value > kMostBytes) { return bad(item, text, "must be from 1 byte to 1048576G"); }
    return Budget(BudgetKind::kBytes, value);
}

Status Budget::check() const {
    if (kind == BudgetKind::kNone || kind == BudgetKind::kAuto) { return {}; }
    const bool is_percent = kind == BudgetKind::kPercent;
    const double most = is_percent ? 100 : kind == BudgetKind::kEntries ? kMostEntries : kMostBytes;
    if (value > 0 && (is_percent || value >= 1) && value <= most) { return {}; }  // a NaN is none of it
    const char * unit = is_percent ? " per cent of the prompt" : kind == BudgetKind::kEntries ? " tokens per head" : " bytes";
    return {ErrorCode::kInvalidArgument,
            "the " + item::kBudget + " is " + format_number(value) + unit + ": give " +
                (is_percent ? "more than 0, and 100 at most"
                            : "1 to " + format_number(most) + ", or BudgetKind::kNone for no limit")};
}

std::string Budget::to_string() const {
    switch (kind) {
        case BudgetKind::kNone:
            return "none";
        case BudgetKind::kAuto:
            return "auto";
        case BudgetKind::kEntries:
            return format_number(value);
        case BudgetKind::kPercent:
            return format_number(value) + "%";
        case BudgetKind::kBytes:
            break;
    }
    // The largest unit that says it in whole numbers; K else, with decimals.
    for (const char suffix : {'G', 'M'}) {
        const double n = value / unit_of(suffix);
        if (n >= 1 && n == std::floor(n)) { return format_number(n) + suffix; }
    }
    return format_number(value / kKilo) + "K";
}

}  // namespace pith
