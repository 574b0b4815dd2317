// run_shards.h - a run divided among processes or machines, and its parts put together again. Stage: eval.
//
// Every part plans the whole run and asks what is its own: of the prompts, in the run's order, every n-th with all that is
// asked about it. So each part has about as many samples of every task, and no prompt is read by two. Its run.json says how
// many answers it will have and how many the whole run has, so that nothing can be missing unseen.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "eval/evaluate.h"
#include "eval/run_folder.h"

namespace pith {

struct Shard {
    int index = 1;  // from 1
    int count = 1;
};

// Among RunInfo::settings: what another part than this is refused by, and what is left out to compare parts.
inline constexpr const char * kShardSetting = "--shard";

// "2/4": the second of four. Errors: kInvalidArgument.
Result<Shard> parse_shard(std::string_view text);

// Leaves in the plan what is this part's, and says in its info how much that is of all.
void keep_shard(EvalPlan & plan, const Shard & shard);

// All parts of one run as that run, as if it had never been divided: in the folder `out`, which is new or was begun so before.
// Errors: kInvalidArgument (no part of a run, parts of different runs, one that is missing, comes twice or is not finished:
// names
//         it), kBadFile (parts that do not add up to the run), those of RunFolder.
Result<std::unique_ptr<RunFolder>> merge_shards(const std::vector<std::string> & folders, const std::string & out);

}  // namespace pith
