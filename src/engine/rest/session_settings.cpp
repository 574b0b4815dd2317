// session_settings.cpp - options field by field.
#include "engine/rest/session_settings.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/byte_stream.h"
#include "policy/auto_policy.h"

namespace pith {
namespace {

constexpr int kMostTokens = 1 << 30;  // of a chunk, a grid, a context

Status bad_setting(const char * name) {
    return {ErrorCode::kBadFile, std::string("its setting '") + name + "' makes no sense"};
}

std::string words(PrefillSchedule prefill) {
    switch (prefill) {
        case PrefillSchedule::kOneShot:
            return "one-shot";
        case PrefillSchedule::kChunked:
            return "chunked";
        case PrefillSchedule::kAuto:
            break;
    }
    return "auto";
}

std::string words(const Budget & budget) {
    return budget.kind == BudgetKind::kNone ? "none" : budget.to_string();
}

std::string words(bool on) {
    return on ? "on" : "off";
}

std::string words(const std::vector<PositionSpan> & spans) {
    std::string all;
    for (const PositionSpan & span : spans) {
        all += (all.empty() ? "" : ", ") + std::to_string(span.begin) + " to " + std::to_string(span.end);
    }
    return all.empty() ? "none" : all;
}

std::string words(const std::vector<PolicyChoice> & policies) {
    std::string all;
    for (const PolicyChoice & one : policies) { all += (all.empty() ? "" : ", ") + one.name(); }
    return all.empty() ? "none" : all;
}

// A type, and whether rows of it are rotated before they are rounded.
constexpr std::string_view kRotated = " rotated";
std::string words(KvType type, const SessionOptions & options) {
    return std::string(to_string(type)) + std::string(is_rotated(type, options) ? kRotated : "");
}

bool same(const std::shared_ptr<const HeadImportance> & a, const std::shared_ptr<const HeadImportance> & b) {
    if (!a || !b) { return !a && !b; }
    return a->copy == b->copy && a->reason == b->reason;
}

bool reads_again(const SessionOptions & options) {
    const auto rereads = [&](const PolicyChoice & one) { return may_read_again(one, options.auto_may_reread); };
    return rereads(options.policy) || std::ranges::any_of(options.observe, rereads);
}

// Both types are rotated or neither, where they are of a kind that may be.
Status read_types(std::string_view text_k, std::string_view text_v, SessionOptions & options) {
    options.rotate_kv = text_k.ends_with(kRotated) || text_v.ends_with(kRotated);
    for (const auto & [text, type] : {std::pair{text_k, &options.type_k}, std::pair{text_v, &options.type_v}}) {
        const auto parsed = parse_kv_type(text.ends_with(kRotated) ? text.substr(0, text.size() - kRotated.size()) : text);
        if (!parsed.ok() || text != words(*parsed, options)) { return bad_setting("K/V type"); }
        *type = *parsed;
    }
    return {};
}

}  // namespace

bool is_rotated(KvType type, const SessionOptions & options) {
    return options.rotate_kv && is_quantised(type);
}

void write_budget(const Budget & budget, ByteWriter & to) {
    to.number(static_cast<uint8_t>(budget.kind));
    to.number(budget.value);
}

Result<Budget> read_budget(ByteReader & from) {
    const auto kind = from.number<uint8_t>();
    const auto value = from.number<double>();
    if (!from.ok() || kind > static_cast<uint8_t>(BudgetKind::kAuto)) { return bad_setting("budget"); }
    const Budget budget(static_cast<BudgetKind>(kind), value);
    if (!budget.check().ok()) { return bad_setting("budget"); }
    return budget;
}

void write_settings(const SessionOptions & options, ByteWriter & to) {
    to.text(options.policy.name());
    write_budget(options.budget, to);
    to.text(words(options.type_k, options));
    to.text(words(options.type_v, options));
    to.number(static_cast<uint8_t>(options.prefill));
    for (const int n : {options.max_context, options.chunk, options.evict_every, options.grid, options.n_snapshots}) {
        to.number(n);
    }
    to.number(uint64_t{options.pinned.size()});
    for (const PositionSpan & span : options.pinned) {
        to.number(span.begin);
        to.number(span.end);
    }
    to.number(uint64_t{options.observe.size()});
    for (const PolicyChoice & policy : options.observe) { to.text(policy.name()); }
    for (const auto * tokens : {&options.reread.first, &options.reread.next, &options.reread.behind}) { to.array(*tokens); }
    to.flag(options.auto_may_reread);
    to.flag(options.context_shift);
    to.flag(options.heads != nullptr);
    if (options.heads) {
        to.array(options.heads->copy);
        to.array(options.heads->reason);
    }
}

Result<SessionOptions> read_settings(ByteReader & from) {
    SessionOptions options;
    options.policy = from.text();
    PITH_ASSIGN_OR_RETURN(options.budget, read_budget(from));
    const std::string type_k = from.text();
    const std::string type_v = from.text();
    PITH_RETURN_IF_ERROR(read_types(type_k, type_v, options));
    const auto prefill = from.number<uint8_t>();
    if (prefill > static_cast<uint8_t>(PrefillSchedule::kChunked)) { return bad_setting("prefill"); }
    options.prefill = static_cast<PrefillSchedule>(prefill);
    for (const auto & [n, name] : {std::pair{&options.max_context, "context"}, std::pair{&options.chunk, "chunk"},
                                   std::pair{&options.evict_every, "evict every"}, std::pair{&options.grid, "grid"},
                                   std::pair{&options.n_snapshots, "snapshots"}}) {
        *n = from.number<int>();
        if (*n < 0 || *n > kMostTokens) { return bad_setting(name); }
    }
    if (options.chunk < 1) { return bad_setting("chunk"); }
    options.pinned.resize(from.count(2 * sizeof(int32_t)));
    for (PositionSpan & span : options.pinned) {
        span.begin = from.number<int32_t>();
        span.end = from.number<int32_t>();
        if (span.begin < 0 || span.end < span.begin) { return bad_setting("pinned"); }
    }
    options.observe.resize(from.count(sizeof(uint64_t)));
    for (PolicyChoice & policy : options.observe) { policy = from.text(); }
    for (auto * tokens : {&options.reread.first, &options.reread.next, &options.reread.behind}) {
        *tokens = from.array<int32_t>();
    }
    options.auto_may_reread = from.flag();
    options.context_shift = from.flag();
    if (from.flag()) {
        auto heads = std::make_shared<HeadImportance>();
        heads->copy = from.array<double>();
        heads->reason = from.array<double>();
        options.heads = std::move(heads);
    }
    if (!from.ok()) { return bad_setting("head importances"); }
    return options;
}

std::optional<SettingDifference> first_difference(const SessionOptions & saved, const SessionOptions & here) {
    const auto number = [](int n) { return std::to_string(n); };
    const SettingDifference all[] = {
        {"policy", saved.policy.name(), here.policy.name()},
        {"budget", words(saved.budget), words(here.budget)},
        {"K type", words(saved.type_k, saved), words(here.type_k, here)},
        {"V type", words(saved.type_v, saved), words(here.type_v, here)},
        {"prefill schedule", words(saved.prefill), words(here.prefill)},
        {"chunk", number(saved.chunk), number(here.chunk)},
        {"tokens between evictions", number(saved.evict_every), number(here.evict_every)},
        {"grid", number(saved.grid), number(here.grid)},
        {"context shift", words(saved.context_shift), words(here.context_shift)},
        {"pinned positions", words(saved.pinned), words(here.pinned)},
        {"observed policies", words(saved.observe), words(here.observe)},
        {"head importances", saved.heads ? "given" : "none", here.heads ? "given" : "none"},
    };
    for (const SettingDifference & one : all) {
        if (one.saved != one.here) { return one; }
    }
    if (!same(saved.heads, here.heads)) { return SettingDifference{"head importances", "others", "these"}; }
    // Of a policy that reads nothing again nobody asks for the words, and what `auto` might have become is settled.
    if (reads_again(saved) && saved.reread != here.reread) {
        return SettingDifference{"words that ask for the text again", "others", "these"};
    }
    if (saved.budget.value != here.budget.value) { return SettingDifference{"budget", "another", words(here.budget)}; }
    return std::nullopt;
}

}  // namespace pith
