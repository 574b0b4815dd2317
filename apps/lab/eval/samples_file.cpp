// samples_file.cpp - from the file's samples to what is asked.
#include "app/eval/samples_file.h"

#include <algorithm>
#include <utility>

#include "common/base/args.h"
#include "common/base/read_text.h"
#include "core/text.h"
#include "eval/fingerprint.h"
#include "eval/sample_file.h"

namespace pith::app {

Status read_samples_file(const EvalFlags & flags, EvalOptions & options) {
    const std::string & file = flags.samples_file;
    SampleFileRequest request;
    request.name = file;
    PITH_ASSIGN_OR_RETURN(request.text, read_text(file));
    options.samples_hash = fingerprint(request.text);
    auto samples = read_samples(request);
    const auto wrong = [&file](const std::string & what) {
        return Status(ErrorCode::kInvalidArgument, "--samples-file '" + file + "' " + what);
    };
    // An error of a file that is another one would speak of other options.
    if (samples.status().code() == ErrorCode::kInvalidArgument) {
        return wrong("is none of --write-samples: give a benchmark's own files with --data");
    }
    PITH_RETURN_IF_ERROR(samples.status());
    std::vector<std::string> names;
    const std::vector<std::string_view> asked =
        flags.tasks.empty() || flags.tasks == "all" ? std::vector<std::string_view>() : split(flags.tasks, ',');
    for (FileSample & one : *samples) {
        if (one.family.empty()) { return wrong("is none of --write-samples: give a benchmark's own files with --data"); }
        if (one.task == nullptr) { return wrong("has samples of " + one.family + "/" + one.name + ", which is no task here"); }
        if (options.family.empty()) { options.family = one.family; }
        if (one.family != options.family) {
            return wrong("has samples of " + one.family + ", and " + options.family +
                         " is asked: give one benchmark at a time");
        }
        names.push_back(one.name);
        if (!asked.empty() && std::ranges::none_of(asked, [&](std::string_view name) { return trim(name) == one.name; })) {
            continue;
        }
        if (std::ranges::find(options.tasks, one.task) == options.tasks.end()) { options.tasks.push_back(one.task); }
        if (std::ranges::find(options.lengths, one.length) == options.lengths.end()) { options.lengths.push_back(one.length); }
        options.ready_samples.push_back(std::move(one));
    }
    for (const std::string_view name : asked) {
        const std::string task(trim(name));
        if (std::ranges::find(names, task) == names.end()) {
            return wrong("has no samples of task '" + task + "'" + did_you_mean(task, names, ""));
        }
    }
    return {};
}

}  // namespace pith::app
