// comparison.h - a run's scores beside the paper's own, cell by cell. Stage: eval.
// Pure: the same run and tables give the same rows.
//
// A row is a policy under a budget and a column of the paper's table. `here` is the mean over the run's lengths; nothing where
// the run has no such case, task or group. An average is compared over the same tasks: all of the part's, or, where a run has
// fewer of them and the paper has numbers for each, over those alone, on both sides. Where the paper prints no average, the
// mean of its tasks stands in. Policies are the same whatever preset CAKE's allocator has. Threads: const-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/report/eval_table.h"
#include "eval/studies/paper_tables.h"

namespace pith {

struct ComparedRow {
    std::string policy, label, budget;
    std::string column;  // as the paper's: a task, a domain, "average"; "average of 3 tasks"
    std::optional<double> here;
    std::vector<std::optional<double>> paper;  // [model]
};

struct PaperComparison {
    std::string_view table;
    PaperMeasure measure = PaperMeasure::kScore;
    std::vector<std::string_view> models;
    std::vector<ComparedRow> rows;  // the run's cases first, then what only the paper has
};

// The run that is compared: of a part's tasks.
struct ComparedRun {
    const EvalTable * table = nullptr;    // nothing: the paper's numbers alone
    std::vector<std::string> part_tasks;  // all that the part has, whether or not this run has them
};

// Of the tables of this part. details: every column; else averages, where there are any.
std::vector<PaperComparison> compare_with_paper(std::span<const PaperTable> tables, std::string_view part,
                                                const ComparedRun & run, bool details);

// A block for each table: a column for this run, where there is one, and one for each of the paper's models.
std::string comparison_text(std::span<const PaperComparison> comparisons, bool with_run);
// An array with an object for each table.
std::string comparison_json(std::span<const PaperComparison> comparisons);

}  // namespace pith
