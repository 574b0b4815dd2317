// paper_tables.h - a paper's own numbers: the files they are kept in, read into tables. Stage: eval.
// Pure: text in, tables out.
//
// numbers/STUDY/table-NN.csv holds one table of a paper, as printed. The build puts these files into the program.
//
//   # paper: TITLE
//   # table: Table 2
//   # part: PART                                    of the study: whose runs the table is compared with
//   # …                                             any remark: what is left out, what is not as it should be
//   model,measure,policy,which,budget,COLUMN,…      then a line for each row; an empty number: left out
//
//   measure   score, difference (to the full cache), evicted (share of entries), first_s (seconds to the first token),
//             overhead (of the prefill's operations)
//   which     of several gates, "(2-1)"
//   budget    empty: no limit
//   COLUMN    a task, a domain of LongBench ("few-shot"), a group of samples ("difficulty=easy"), "average" (of the part's
//             tasks), "average@4000" (at that length), "@30000" (a length or a chunk, of a measurement of speed)
// Errors: kBadFile, naming file and line: the numbers are part of the program, and a test reads them.   Threads: const-safe.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith {

enum class PaperMeasure { kScore, kDifference, kEvicted, kFirstSeconds, kOverhead };
std::string_view to_string(PaperMeasure measure);

struct PaperRow {
    std::string_view policy, label, budget;     // budget empty: no limit
    std::vector<std::optional<double>> values;  // [column]
};

// What a paper's table prints of one model, by one measure.
struct PaperTable {
    std::string_view table, part, model;
    PaperMeasure measure = PaperMeasure::kScore;
    std::vector<std::string_view> columns;
    std::vector<PaperRow> rows;
};

struct PaperFile {
    std::string_view name;  // "caote/table-02"
    std::string_view text;
};

// One file's tables, by model and measure, in the order of their first rows. The views are into the file's text, which must
// stay.
Result<std::vector<PaperTable>> read_paper_tables(const PaperFile & file);
// What the file says after "# KEY: "; empty: it does not.
std::string_view remark_of(const PaperFile & file, std::string_view key);

// The files that the program holds, in the order of their names; and all tables of a study.
std::span<const PaperFile> all_paper_files();
Result<std::vector<PaperTable>> paper_tables_of(std::string_view study);

// The tasks of a domain of LongBench ("single-doc"); none: it is no domain.
std::span<const std::string_view> tasks_of_domain(std::string_view domain);

}  // namespace pith
