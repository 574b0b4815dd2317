// custom_scorers.cpp - names, checked, and what they stand for. Stage: set-up.
// Pure C++: no ggml, no I/O.
#include "policy/custom_scorers.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "core/text.h"
#include "pith/policies.h"

namespace pith {
namespace {

constexpr size_t kLongestName = 64;
constexpr int kMostWindow = 65536;  // as that of other scorers
constexpr int kMostProtected = 1 << 24;

struct Known {
    std::mutex mutex;
    std::vector<std::shared_ptr<const OwnScorer>> scorers;
};

// Never destroyed: policies may be parsed until the process ends.
Known & known() {
    static Known & all = *new Known;
    return all;
}

auto find(std::vector<std::shared_ptr<const OwnScorer>> & scorers, std::string_view name) {
    return std::ranges::find_if(scorers, [&](const auto & one) { return one->given().name == name; });
}

Status bad(std::string_view name, const std::string & what) {
    return {ErrorCode::kInvalidArgument, "scorer " + quoted(name) + ": " + what};
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

Status check_name(std::string_view name) {
    const bool good =
        !name.empty() && name.size() <= kLongestName && is_letter(name.front()) && std::ranges::all_of(name, [](char c) {
            return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
        });
    if (good) { return {}; }
    return bad(name, "a name is a letter, then letters, digits, '-', '_' or '.', at most " + std::to_string(kLongestName) +
                         " in all, e.g. my-scorer");
}

Status check_numbers(const CustomScorer & scorer) {
    const ScorerNeeds & needs = scorer.needs;
    const bool by_window = needs.window_mean || needs.window_max || needs.window_attention || needs.window_queries;
    if (needs.window < 0 || needs.window > kMostWindow) {
        return bad(scorer.name,
                   "a window of " + std::to_string(needs.window) + " queries: use 0 to " + std::to_string(kMostWindow));
    }
    if (by_window && needs.window == 0) {
        return bad(scorer.name, "it needs what a window of queries saw, and its window is 0: use 1 or more, e.g. 32");
    }
    if (!by_window && needs.window > 0) {
        return bad(scorer.name, "a window of " + std::to_string(needs.window) +
                                    " queries that it needs nothing of: ask for window_mean, window_max, window_attention or "
                                    "window_queries, or leave the window 0");
    }
    if (scorer.n_sinks < 0 || scorer.n_sinks > kMostProtected || scorer.n_recent < -1 || scorer.n_recent > kMostProtected) {
        return bad(scorer.name, std::to_string(scorer.n_sinks) + " first and " + std::to_string(scorer.n_recent) +
                                    " newest protected entries: use 0 to " + std::to_string(kMostProtected));
    }
    return {};
}

}  // namespace

std::shared_ptr<const OwnScorer> custom_scorer(std::string_view name) {
    const std::lock_guard lock(known().mutex);
    const auto one = find(known().scorers, name);
    return one == known().scorers.end() ? nullptr : *one;
}

std::vector<std::shared_ptr<const OwnScorer>> custom_scorers() {
    const std::lock_guard lock(known().mutex);
    return known().scorers;
}

Status register_scorer(CustomScorer scorer) {
    PITH_RETURN_IF_ERROR(check_name(scorer.name));
    PITH_RETURN_IF_ERROR(check_numbers(scorer));
    if (!scorer.score) { return bad(scorer.name, "it has no function"); }
    for (const PolicyInfo & info : list_policies()) {
        if (info.name == scorer.name && custom_scorer(scorer.name) == nullptr) {
            return bad(scorer.name, "Pith has a policy or a part of that name: use another, e.g. my-" + scorer.name);
        }
    }
    const std::string name = scorer.name;
    auto made = std::make_shared<const OwnScorer>(std::move(scorer));
    const std::lock_guard lock(known().mutex);
    if (find(known().scorers, name) != known().scorers.end()) {
        return bad(name, "it is registered already: unregister it first, or use another name");
    }
    known().scorers.push_back(std::move(made));
    return {};
}

Status unregister_scorer(std::string_view name) {
    std::shared_ptr<const OwnScorer> gone;  // its function may lock what it likes when it goes
    const std::lock_guard lock(known().mutex);
    const auto one = find(known().scorers, name);
    if (one == known().scorers.end()) { return {ErrorCode::kNotFound, "scorer " + quoted(name) + " is not registered"}; }
    // Others get theirs from here alone, under the lock, or copy one that is counted.
    if (one->use_count() > 1) { return bad(name, "it is in use: end the sessions, requests and options that name it first"); }
    gone = std::move(*one);
    known().scorers.erase(one);
    return {};
}

}  // namespace pith
