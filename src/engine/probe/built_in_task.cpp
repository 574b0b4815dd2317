// built_in_task.cpp - tells a length that is too small from a mistake. Stage: probe.
#include "engine/probe/built_in_task.h"

#include <algorithm>
#include <utility>

namespace pith {
namespace {

// A task that there is refuses nothing but its length.
std::string too_short(const Status & refused) {
    return refused.message().substr(0, refused.message().find(", but n_tokens"));
}

}  // namespace

Result<BuiltInTask> make_built_in_task(std::string_view id, const corpus::TaskOptions & options,
                                       const corpus::CountTokens & count) {
    auto made = corpus::make_task(id, options, count);
    if (made.ok()) { return BuiltInTask{std::move(*made), ""}; }
    const auto tasks = corpus::task_list();
    const bool known = std::ranges::find(tasks, id, &corpus::TaskInfo::id) != tasks.end();
    if (!known || made.status().code() != ErrorCode::kInvalidArgument) { return made.status(); }
    return BuiltInTask{{}, too_short(made.status())};
}

Result<BuiltInTasks> make_built_in_multikey(const corpus::TaskOptions & options, const corpus::CountTokens & count) {
    auto made = corpus::make_multikey_tasks(options, count);
    if (made.ok()) { return BuiltInTasks{std::move(*made), ""}; }
    if (made.status().code() != ErrorCode::kInvalidArgument) { return made.status(); }
    return BuiltInTasks{{}, too_short(made.status())};
}

corpus::CountTokens count_tokens_of(const Tokenizer & tokenizer) {
    return [&tokenizer](std::string_view text) {
        const auto tokens = tokenizer.encode(text, false, false);
        return tokens.ok() ? static_cast<int>(tokens->size()) : 0;
    };
}

}  // namespace pith
