// samples_file.h - --samples-file: what `pith eval --write-samples` wrote, to be asked again.
#pragma once

#include "app/eval/eval_flags.h"

namespace pith::app {

// Family, tasks and lengths of the samples that the file has, in their order; with --tasks only those.
// Errors: kNotFound, kIo, kBadFile; kInvalidArgument: another file, of another benchmark, or without a task that is named.
Status read_samples_file(const EvalFlags & flags, EvalOptions & options);

}  // namespace pith::app
