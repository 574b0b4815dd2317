// heat_map_page.cpp - policies × tasks as tables coloured by the score. Stage: eval.
#include <algorithm>
#include <limits>
#include <set>

#include "core/text.h"
#include "eval/report/eval_report.h"
#include "eval/report/run_tables.h"
#include "figures/svg.h"

namespace pith {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr const char * kMissing = "–";
constexpr const char * kRefused = "×";

// Which marks instead of numbers there are: each is explained once.
struct Marks {
    bool missing = false, refused = false, partly = false;
    std::set<std::string> left_out;  // tasks, with why
};

void add_cell(report::HeatMap & map, Marks & marks, const EvalRow * row, int digits) {
    if (row == nullptr) {
        marks.missing = true;
        map.values.push_back(kNone);
        map.texts.emplace_back(kMissing);
        map.details.emplace_back("no answer");
        return;
    }
    if (!row->score) {
        marks.refused = true;
        map.values.push_back(kNone);
        map.texts.emplace_back(kRefused);
        map.details.push_back("refused: " + row->note);
        return;
    }
    marks.partly = marks.partly || row->n_refused > 0;
    map.values.push_back(*row->score);
    map.texts.push_back(fixed(*row->score, digits) + (row->n_refused > 0 ? "*" : ""));
    std::string detail = fixed(*row->score, 1);
    if (row->interval) { detail += " (" + fixed(row->interval->low, 1) + " to " + fixed(row->interval->high, 1) + ")"; }
    map.details.push_back(detail);
}

// Cases of this budget, and those without any; best average first, then those without an average, in the run's order.
std::vector<size_t> rows_of(const EvalTable & table, int length, const std::string & budget, const std::string & by) {
    std::vector<size_t> rows;
    for (size_t i = 0; i < table.info.cases.size(); ++i) {
        const std::string & own = table.info.cases[i].budget;
        if (own.empty() || own == budget) { rows.push_back(i); }
    }
    const auto score = [&](size_t i) {
        const EvalRow * row = table.find(by, length, i);
        return row == nullptr || !row->score ? -1 : *row->score;
    };
    std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) { return score(a) > score(b); });
    return rows;
}

report::HeatMap map_of(const EvalTable & table, int length, const std::string & budget, Marks & marks) {
    const bool several = table.info.tasks.size() > 1;
    report::HeatMap map;
    map.title = budget.empty() ? "" : "budget " + budget;
    for (const EvalTask & task : table.info.tasks) { map.column_names.push_back(task.name); }
    if (several) {
        map.column_names.emplace_back("average");
        map.n_apart = 1;
    }
    for (const size_t i : rows_of(table, length, budget, several ? "" : table.info.tasks.front().name)) {
        map.row_names.push_back(table.info.cases[i].policy);
        for (const EvalTask & task : table.info.tasks) { add_cell(map, marks, table.find(task.name, length, i), 0); }
        if (several) { add_cell(map, marks, table.find("", length, i), 1); }
    }
    return map;
}

std::string note_of(const Marks & marks) {
    std::string note;
    if (marks.refused) { note += std::string(kRefused) + " refused: the budget cannot hold what the policy protects. "; }
    if (marks.partly) { note += "* some samples refused: the mean of the others. "; }
    if (marks.missing) { note += std::string(kMissing) + " no answer, or not of every task. "; }
    for (const std::string & task : marks.left_out) { note += task + ". "; }
    if (!note.empty()) { note.pop_back(); }
    return note;
}

std::string joined(std::vector<std::string> words) {
    std::erase(words, "");
    return join(words, ", ");
}

}  // namespace

std::string heat_map_svg(const std::vector<RunTable> & runs) {
    const bool single = runs.size() == 1;
    const RunInfo & first = runs.front().table.info;
    const std::string on = model_name(first).empty() ? "" : " on " + model_name(first);
    report::SvgPage page(single ? joined({first.family + on, question_words(first)}) : first.family,
                         "Policies by their average, the best first; intervals are in the CSV.");
    for (const RunTable & run : runs) {
        const EvalTable & table = run.table;
        for (const int length : table.info.lengths) {
            Marks marks;
            for (const EvalSkips & skips : table.skips) {
                if (skips.length == length && !skips.why.empty()) {
                    marks.left_out.insert(skips.task + " left out: " + skips.why);
                }
            }
            report::MapGroup group;
            group.title = joined({run.label, length_text(length), samples_text(table, length)});
            group.value_label = "score (0 to 100)";
            group.high = 100;
            std::vector<std::string> budgets = budgets_of(table.info);
            if (budgets.empty()) { budgets.emplace_back(); }  // the full cache alone
            for (const std::string & budget : budgets) { group.maps.push_back(map_of(table, length, budget, marks)); }
            group.note = note_of(marks);
            page.add(group);
        }
    }
    return page.str();
}

}  // namespace pith
