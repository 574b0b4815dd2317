// built_in_task.cpp - tells a length that is too small from a mistake. Stage: eval.
#include "eval/built_in_task.h"

#include <algorithm>
#include <utility>

namespace pith {

Result<BuiltInTask> make_built_in_task(std::string_view id, const corpus::TaskOptions & options,
                                       const corpus::CountTokens & count) {
    auto made = corpus::make_task(id, options, count);
    if (made.ok()) { return BuiltInTask{std::move(*made), ""}; }
    const auto tasks = corpus::task_list();
    const bool known = std::ranges::find(tasks, id, &corpus::TaskInfo::id) != tasks.end();
    // A task that there is refuses nothing but its length.
    if (!known || made.status().code() != ErrorCode::kInvalidArgument) { return made.status(); }
    const std::string & message = made.status().message();
    return BuiltInTask{{}, message.substr(0, message.find(", but n_tokens"))};
}

corpus::CountTokens count_tokens_of(const Tokenizer & tokenizer) {
    return [&tokenizer](std::string_view text) {
        const auto tokens = tokenizer.encode(text, false, false);
        return tokens.ok() ? static_cast<int>(tokens->size()) : 0;
    };
}

}  // namespace pith
