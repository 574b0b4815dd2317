// sample_table.cpp - answers into a line for each sample. Stage: eval.
#include "eval/report/sample_table.h"

#include <map>
#include <tuple>
#include <utility>

#include "figures/text_table.h"

namespace pith {
namespace {

using SampleKey = std::tuple<std::string, int, int>;  // task, length, index

struct Mean {
    double sum = 0;
    int n = 0;
    void add(double value) {
        sum += value;
        ++n;
    }
};

struct SampleScores {
    std::string id;
    std::vector<Mean> cases;
};

// Six digits behind the point, as few of them as say it.
std::string short_number(double value) {
    std::string text = fixed(value, 6);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') { text.pop_back(); }
    return text;
}

}  // namespace

std::string sample_csv(const RunInfo & info, const std::vector<Answer> & answers) {
    std::map<std::pair<std::string, std::string>, size_t> columns;
    TextTable table;
    table.header = {"task", "context", "sample"};
    for (size_t i = 0; i < info.cases.size(); ++i) {
        columns[{info.cases[i].policy, info.cases[i].budget}] = i;
        table.header.push_back(info.cases[i].policy + (info.cases[i].budget.empty() ? "" : " " + info.cases[i].budget));
    }
    std::map<SampleKey, SampleScores> samples;
    for (const Answer & answer : answers) {
        const auto column = columns.find({answer.policy, answer.budget});
        if (answer.is_left_out() || !answer.refused.empty() || column == columns.end()) { continue; }
        SampleScores & one = samples[{answer.task, answer.length, answer.index}];
        one.id = answer.sample;
        one.cases.resize(info.cases.size());
        one.cases[column->second].add(answer.score);
    }
    for (const int length : info.lengths) {
        for (const EvalTask & task : info.tasks) {
            for (auto at = samples.lower_bound({task.name, length, 0});
                 at != samples.end() && std::get<0>(at->first) == task.name && std::get<1>(at->first) == length; ++at) {
                std::vector<std::string> row = {task.name, std::to_string(length), at->second.id};
                for (const Mean & mean : at->second.cases) { row.push_back(mean.n > 0 ? short_number(mean.sum / mean.n) : ""); }
                table.rows.push_back(std::move(row));
            }
        }
    }
    return to_csv(table);
}

}  // namespace pith
