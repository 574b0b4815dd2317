// sample_table.cpp - answers into a line for each sample. Stage: eval.
#include "eval/report/sample_table.h"

#include <map>
#include <utility>

#include "eval/report/eval_table.h"
#include "figures/text_table.h"

namespace pith {
namespace {

// Six digits behind the point, as few of them as say it.
std::string short_number(double value) {
    std::string text = fixed(value, 6);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') { text.pop_back(); }
    return text;
}

}  // namespace

std::string sample_csv(const RunInfo & info, const std::vector<Answer> & answers) {
    TextTable table;
    table.header = {"task", "context", "sample"};
    for (const EvalCase & one : info.cases) {
        table.header.push_back(one.policy + (one.budget.empty() ? "" : " " + one.budget));
    }
    for (const int length : info.lengths) {
        for (const EvalTask & task : info.tasks) {
            std::map<int, std::vector<std::string>> cells;  // of samples that have a score, a case each
            for (size_t i = 0; i < info.cases.size(); ++i) {
                for (const auto & [index, score] : sample_scores(answers, task.name, length, info.cases[i])) {
                    cells[index].resize(info.cases.size());
                    cells[index][i] = short_number(score);
                }
            }
            const std::map<int, std::string> ids = sample_ids(answers, task.name, length);
            for (const auto & [index, of_cases] : cells) {
                std::vector<std::string> row = {task.name, std::to_string(length), ids.at(index)};
                row.insert(row.end(), of_cases.begin(), of_cases.end());
                table.rows.push_back(std::move(row));
            }
        }
    }
    return to_csv(table);
}

}  // namespace pith
