// built_in_task.h - a sample of the text generator, or why there is none of this length. Stage: probe.
//
// The generator refuses a length that its task does not fit; what measures many samples goes around those, and says by which
// option the length was given.
// Threads: as the tokeniser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pith/text.h"
#include "tasks/tasks.h"

namespace pith {

struct BuiltInTask {
    corpus::Task task;
    std::string too_short;  // "task 'vt' needs at least 256 tokens": the length is too small; empty: there is a task
};

// Errors: kInvalidArgument: no task has that name.
Result<BuiltInTask> make_built_in_task(std::string_view id, const corpus::TaskOptions & options,
                                       const corpus::CountTokens & count);

// corpus::make_multikey_tasks(), likewise; no tasks where the length is too small.
struct BuiltInTasks {
    std::vector<corpus::Task> tasks;
    std::string too_short;
};
Result<BuiltInTasks> make_built_in_multikey(const corpus::TaskOptions & options, const corpus::CountTokens & count);

// Tokens of a text, without special ones. The tokeniser must outlive it.
corpus::CountTokens count_tokens_of(const Tokenizer & tokenizer);

}  // namespace pith
