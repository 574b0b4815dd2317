// run_tables.cpp - what sets runs apart, in words; tables of chosen policies; tables under each other. Stage: eval.
#include "eval/report/run_tables.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "core/text.h"
#include "eval/report/eval_report.h"

namespace pith {
namespace {

constexpr const char * kQuestionAware = "--question-aware";

std::string value_of(const std::vector<std::pair<std::string, std::string>> & pairs, const std::string & name) {
    const auto at = std::find_if(pairs.begin(), pairs.end(), [&](const auto & pair) { return pair.first == name; });
    return at == pairs.end() ? "" : at->second;
}

std::string last_part(std::string path) {
    while (path.size() > 1 && path.back() == '/') { path.pop_back(); }
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

bool all_alike(const std::vector<std::string> & values) {
    return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// Names of settings, in the order they first come.
std::vector<std::string> setting_names(const std::vector<EvalTable> & tables) {
    std::vector<std::string> names;
    for (const EvalTable & table : tables) {
        for (const auto & [name, value] : table.info.settings) {
            if (std::find(names.begin(), names.end(), name) == names.end()) { names.push_back(name); }
        }
    }
    return names;
}

}  // namespace

std::string question_words(const RunInfo & info) {
    const std::string aware = value_of(info.settings, kQuestionAware);
    return aware == "yes" ? "question known" : aware == "no" ? "question later" : "";
}

std::string model_name(const RunInfo & info) {
    const std::string name = last_part(value_of(info.about, "model path"));
    return name.ends_with(".gguf") ? name.substr(0, name.size() - 5) : name;
}

std::vector<std::string> budgets_of(const RunInfo & info) {
    std::vector<std::string> budgets;
    for (const EvalCase & one : info.cases) {
        const bool known = std::find(budgets.begin(), budgets.end(), one.budget) != budgets.end();
        if (!one.budget.empty() && !known) { budgets.push_back(one.budget); }
    }
    return budgets;
}

std::string samples_text(const EvalTable & table, int length) {
    int least = 0;
    int most = 0;
    for (const EvalRow & row : table.rows) {
        if (row.length != length || row.task.empty() || !row.group.empty() || !row.score) { continue; }
        least = most == 0 ? row.n_samples : std::min(least, row.n_samples);
        most = std::max(most, row.n_samples);
    }
    if (most == 0) { return ""; }
    return (least < most ? std::to_string(least) + " to " : "") + std::to_string(most) +
           (most == 1 ? " sample a task" : " samples a task");
}

std::vector<RunTable> labelled(std::vector<EvalTable> tables, const std::vector<std::string> & folders) {
    // The figures and columns say these themselves, or they follow from others.
    constexpr std::array kSaid = {"--tasks", "--policy", "--budget", "--context", "--heads", "--ctx-size", "pith", "ggml"};
    std::vector<std::string> labels(tables.size());
    const auto add_where_different = [&](const auto & words_of) {
        std::vector<std::string> words;
        for (const EvalTable & table : tables) { words.push_back(words_of(table.info)); }
        if (all_alike(words)) { return; }
        for (size_t i = 0; i < words.size(); ++i) {
            if (!words[i].empty()) { labels[i] += (labels[i].empty() ? "" : ", ") + words[i]; }
        }
    };
    for (const std::string & name : setting_names(tables)) {
        if (std::find(kSaid.begin(), kSaid.end(), name) != kSaid.end()) { continue; }
        add_where_different([&](const RunInfo & info) -> std::string {
            if (name == kQuestionAware) { return question_words(info); }
            if (name == "model") { return model_name(info); }
            const std::string value = value_of(info.settings, name);
            return value.empty() ? "" : name == "FAMILY" ? value : name + " " + value;
        });
    }
    if (tables.size() > 1 && std::set<std::string>(labels.begin(), labels.end()).size() < labels.size()) {
        for (size_t i = 0; i < labels.size(); ++i) { labels[i] += (labels[i].empty() ? "" : ", ") + last_part(folders[i]); }
    }
    std::vector<RunTable> out;
    for (size_t i = 0; i < tables.size(); ++i) { out.push_back({labels[i], std::move(tables[i])}); }
    return out;
}

Result<EvalTable> only_policies(EvalTable table, const std::vector<std::string> & policies) {
    std::vector<EvalCase> cases;
    std::vector<size_t> new_index(table.info.cases.size(), table.info.cases.size());
    std::vector<std::string> known;
    for (size_t i = 0; i < table.info.cases.size(); ++i) {
        const EvalCase & one = table.info.cases[i];
        if (std::find(known.begin(), known.end(), one.policy) == known.end()) { known.push_back(one.policy); }
        if (std::find(policies.begin(), policies.end(), one.policy) == policies.end()) { continue; }
        new_index[i] = cases.size();
        cases.push_back(one);
    }
    for (const std::string & name : policies) {
        if (std::find(known.begin(), known.end(), name) != known.end()) { continue; }
        return {ErrorCode::kInvalidArgument, "the run has no policy '" + name + "': there are " + join(known, ", ")};
    }
    std::erase_if(table.rows, [&](const EvalRow & row) { return new_index[row.index] == new_index.size(); });
    for (EvalRow & row : table.rows) { row.index = new_index[row.index]; }
    table.info.cases = std::move(cases);
    return table;
}

TextTable columns_of_runs(const std::vector<RunTable> & runs) {
    TextTable all;
    for (const RunTable & run : runs) {
        TextTable one = eval_columns(run.table);
        if (all.header.empty()) {
            all.header = {"run"};
            std::move(one.header.begin(), one.header.end(), std::back_inserter(all.header));
        }
        for (std::vector<std::string> & row : one.rows) {
            row.insert(row.begin(), run.label);
            all.rows.push_back(std::move(row));
        }
    }
    return all;
}

}  // namespace pith
