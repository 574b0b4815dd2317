// paper_tables.h - a paper's own numbers: the text they are kept as, read into tables. Stage: eval.
// Pure: text in, tables out.
//
//   = TABLE; PART; MODEL; COLUMN COLUMN …[; MEASURE]     begins a table: those of the paper's, by model
//   POLICY[ LABEL]; BUDGET; NUMBER NUMBER …              a row; '-': left out. LABEL: which of several gates, "(2-1)"
//
//   COLUMN    a task, a domain of LongBench ("few-shot"), a group of samples ("difficulty=easy"), "average" (of the part's
//             tasks), "average@4000" (at that length), "@30000" (a length or a chunk, of a measurement of speed);
//             "@longbench" and the like: the benchmark's columns in the papers' order
//   MEASURE   score (if nothing is said), difference (to the full cache), evicted (share of entries), first_s (seconds to the
//             first token), overhead (of the prefill's operations)
// Errors: kBadFile, naming the line: the numbers are part of the program, and a test reads them.   Threads: const-safe.
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

struct PaperTable {
    std::string_view table, part, model;
    PaperMeasure measure = PaperMeasure::kScore;
    std::vector<std::string_view> columns;
    std::vector<PaperRow> rows;
};

// The views are into `text`, which must stay.
Result<std::vector<PaperTable>> read_paper_tables(std::string_view text);

// The tasks of a domain of LongBench ("single-doc"); none: it is no domain.
std::span<const std::string_view> tasks_of_domain(std::string_view domain);

}  // namespace pith
