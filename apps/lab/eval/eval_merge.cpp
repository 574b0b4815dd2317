// eval_merge.cpp - parts' folders to one, and its table.
#include "app/eval/eval_merge.h"

#include <memory>
#include <string>
#include <vector>

#include "app/eval/eval_flags.h"
#include "common/base/errors.h"
#include "eval/run_shards.h"

namespace pith::app {
namespace {

struct MergeFlags {
    EvalFlags table;  // its format, and the folder that all goes to
    std::vector<std::string> folders;
};

int merge_command(const MergeFlags & flags) {
    if (const Status status = check_formats(flags.table); !status.ok()) { return fail_usage(status); }
    const auto folder = merge_shards(flags.folders, flags.table.out);
    if (!folder.ok()) { return fail(folder.status()); }
    const Status reported = report_eval(flags.table, **folder, true);
    return reported.ok() ? kExitOk : fail(reported);
}

}  // namespace

void add_merge_command(CLI::App & eval, int & exit_code) {
    auto flags = std::make_shared<MergeFlags>();
    CLI::App * command = eval.add_subcommand("merge", "The parts of a run that was divided with --shard, put together");
    command->add_option("FOLDER", flags->folders, "Folders of all parts, in any order")->required();
    command->add_option("-o,--out", flags->table.out, "Folder of the whole run, as if it had never been divided")->required();
    flags->table.add_format_options(*command);
    command->callback([flags, &exit_code] { exit_code = merge_command(*flags); });
}

}  // namespace pith::app
