// studies.h - the papers' main tables as settings of an evaluation: the same rows, columns and protocol. Stage: eval.
//
// A part is one table: a benchmark, its policies, how they compress. Two sizes: the paper's, for models of its kind, and one
// for the reference model, whose contexts are a few thousand tokens: budgets there keep about the paper's share of the context.
// Where a part's benchmark needs data that is not there, RULER's generated tasks take its columns (`stand_in`), or the part is
// passed over.
// Threads: const-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pith {

struct StudySize {
    std::vector<int> lengths;  // empty: as the data is
    std::vector<std::string> budgets;
    int chunk = 512;
    int n_samples = 0;  // 0: all
};

struct StudyPart {
    std::string name;   // of its folder
    std::string table;  // "Table 1: RULER at 40 %"
    std::string family, tasks, policies;
    bool question_aware = false;
    bool chunked = false;
    bool needs_data = false;
    bool stand_in = false;
    StudySize paper, reference;
};

struct Study {
    std::string name;
    std::string paper;
    std::string differs;  // from the paper, whatever the model
    std::vector<StudyPart> parts;
};

std::span<const Study> studies();
const Study * find_study(std::string_view name);  // nullptr: there is none

}  // namespace pith
