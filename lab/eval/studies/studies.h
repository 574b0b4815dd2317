// studies.h - the papers' tables and figures: what shows each of them here, and the settings of those that are run. Stage:
// eval.
//
// An item is one table, figure or ablation, with the commands that show it or the reason why there is none. A part is what one
// evaluation (or measurement of speed) runs: a benchmark, its policies, how they compress. It has two sizes: the paper's, for
// models of its kind, and one for the reference model, whose contexts are a few thousand tokens: budgets there keep about the
// paper's share of the context. Where a part's benchmark needs data that is not there, RULER's generated tasks take its place
// (`stand_in`), or the part is passed over. One file for each paper: studies/NAME.cpp; its own numbers: paper_tables.h.
// Threads: const-safe.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/model.h"

namespace pith {

// Lists are separated by ','.
struct StudySize {
    std::string_view lengths = {};  // tokens; empty: as the data is
    std::string_view budgets = {};
    std::string_view chunks = "512";  // several: a run for each
    int n_samples = 0;                // of each task; 0: all. Efficiency: measurements of each case; 0: 3
};

enum class StudyKind { kEvaluation, kEfficiency };

struct StudyPart {
    std::string_view name = {};   // of its folder
    std::string_view table = {};  // "Table 1: RULER at 40 %"
    StudyKind kind = StudyKind::kEvaluation;
    std::string_view family = {};
    std::string_view tasks = {};  // "all": every one; empty: those that need no file, and those whose file is there
    std::string_view policies = {};
    std::string_view pairs = {};  // "snapkv<criticalkv,…": by the paper the second is better; tested on the same samples
    bool question_aware = false;
    bool chunked = false;
    int evict_every = 0;  // tokens of question and answer between evictions; 0: none there
    bool needs_data = false;
    bool stand_in = false;
    StudySize paper = {}, reference = {};
};

struct PaperItem {
    std::string_view label = {};  // "Table 4"
    std::string_view what = {};
    std::array<std::string_view, 3> commands = {};  // with -m MODEL and --data FOLDER where they are wanted; empty ones: none
    std::string_view why_not = {};                  // the reason, where there is no command
};

struct Study {
    std::string_view name = {};
    std::string_view paper = {};
    std::string_view differs = {};  // from the paper, whatever the model
    std::span<const StudyPart> parts;
    std::span<const PaperItem> items;
};

std::span<const Study> studies();
const Study * find_study(std::string_view name);  // nullptr: there is none
const StudyPart * find_part(const Study & study, std::string_view name);

// The tasks by name: all of the family where the part does not name them; of a perplexity, itself; of efficiency, none.
std::vector<std::string> tasks_of_part(const StudyPart & part);

// The pieces of a list; none of an empty one.
std::vector<std::string_view> list_of(std::string_view text);

// CAKE's authors have constants for some models: the preset of this one, by its shape; empty: none.
std::string_view cake_preset_of(const ModelInfo & model);
// Every policy of the list, or of pairs, that CAKE's allocator divides for takes the preset; an empty one changes nothing.
std::string with_cake_preset(std::string_view policies, std::string_view preset);
// An option ("pool=avg45") for every policy of the list, or of pairs, whose scorer has it, in place of the study's own.
std::string with_scorer_option(std::string_view policies, std::string_view option);
// Whether a scorer has an option of this name.
bool is_scorer_option(std::string_view name);
// The policy as a study names it: without the preset.
std::string without_cake_preset(std::string_view policy);

}  // namespace pith
