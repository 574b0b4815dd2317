// score_report.cpp - which averages there are, and the columns. Stage: eval.
#include "eval/report/score_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char * kNone = "-";

struct Average {
    ScoredPredictions like;  // length, policy and budget
    Estimate score;
    int n_tasks = 0;
};

std::string folder_of(const std::string & file) {
    const size_t slash = file.rfind('/');
    return slash == std::string::npos ? "" : file.substr(0, slash);
}

std::vector<Average> averages(const std::vector<ScoredPredictions> & rows) {
    std::map<std::tuple<int, bool, std::string, std::string>, std::vector<const ScoredPredictions *>> groups;
    std::set<std::string> folders;
    for (const ScoredPredictions & row : rows) {
        groups[{row.length, row.policy != "full", row.policy, row.budget}].push_back(&row);
        folders.insert(folder_of(row.file));
    }
    std::vector<Average> out;
    if (folders.size() > 1) { return out; }
    for (const auto & [key, members] : groups) {
        std::set<const benchmarks::Task *> tasks;
        std::vector<Estimate> scores;
        for (const ScoredPredictions * row : members) {
            tasks.insert(row->task);
            if (row->score) { scores.push_back(*row->score); }
        }
        if (tasks.size() < 2 || tasks.size() != members.size() || scores.size() != members.size()) { continue; }
        out.push_back({*members.front(), mean_of(scores), static_cast<int>(tasks.size())});
    }
    return out;
}

std::string score_text(double score) {
    return fixed(score * 100, 1);
}

std::string interval_text(const Interval & interval) {
    return "[" + score_text(interval.low) + ", " + score_text(interval.high) + "]";
}

Json interval_json(const Interval & interval) {
    return {interval.low * 100, interval.high * 100};
}

void add_case(Json & line, const ScoredPredictions & row) {
    if (row.policy.empty()) { return; }
    line["context"] = row.length;
    line["policy"] = row.policy;
    line["budget"] = row.budget;
}

}  // namespace

TextTable score_table(const std::vector<ScoredPredictions> & rows) {
    const bool files = std::any_of(rows.begin(), rows.end(), [&](const auto & row) { return row.file != rows.front().file; });
    const bool cases = std::any_of(rows.begin(), rows.end(), [](const auto & row) { return !row.policy.empty(); });
    const bool refusals = std::any_of(rows.begin(), rows.end(), [](const auto & row) { return row.n_refused > 0; });
    TextTable table;
    if (files) { table.header.emplace_back("file"); }
    table.header.insert(table.header.end(), {"task", "metric"});
    if (cases) { table.header.insert(table.header.end(), {"policy", "budget"}); }
    table.n_left = table.header.size();
    if (cases) { table.header.emplace_back("context"); }
    table.header.insert(table.header.end(), {"score", "95 %", "samples"});
    if (refusals) { table.header.emplace_back("refused"); }
    const auto add = [&](const ScoredPredictions & row, const std::string & file, const std::string & task,
                         const std::string & metric, const std::optional<Estimate> & score, int n_samples) {
        std::vector<std::string> cells;
        if (files) { cells.push_back(file); }
        cells.insert(cells.end(), {task, metric});
        if (cases) {
            cells.insert(cells.end(), {row.policy.empty() ? kNone : row.policy, row.budget.empty() ? kNone : row.budget,
                                       row.policy.empty() ? kNone : std::to_string(row.length)});
        }
        cells.push_back(score ? score_text(score->mean) : "refused");
        cells.push_back(score ? interval_text(score->interval) : kNone);
        cells.push_back(std::to_string(n_samples));
        if (refusals) { cells.push_back(std::to_string(row.n_refused)); }
        table.rows.push_back(std::move(cells));
    };
    for (const ScoredPredictions & row : rows) {
        const benchmarks::TaskRules & rules = row.task->rules();
        add(row, row.file, full_name(rules), rules.metric, row.score, row.n_samples);
    }
    for (const Average & average : averages(rows)) {
        ScoredPredictions like = average.like;
        int n_samples = 0;
        like.n_refused = 0;
        for (const ScoredPredictions & row : rows) {
            if (row.length != like.length || row.policy != like.policy || row.budget != like.budget) { continue; }
            n_samples += row.n_samples;
            like.n_refused += row.n_refused;
        }
        add(like, kNone, "average", "over " + std::to_string(average.n_tasks) + " tasks", average.score, n_samples);
    }
    return table;
}

std::string score_json(const std::vector<ScoredPredictions> & rows) {
    Json object;
    object["rows"] = Json::array();
    for (const ScoredPredictions & row : rows) {
        Json line;
        line["file"] = row.file;
        line["family"] = row.task->rules().family;
        line["task"] = row.task->rules().name;
        line["metric"] = row.task->rules().metric;
        add_case(line, row);
        if (row.score) {
            line["score"] = row.score->mean * 100;
            line["interval"] = interval_json(row.score->interval);
        }
        line["samples"] = row.n_samples;
        if (row.n_refused > 0) { line["refused"] = row.n_refused; }
        object["rows"].push_back(std::move(line));
    }
    object["averages"] = Json::array();
    for (const Average & average : averages(rows)) {
        Json line;
        add_case(line, average.like);
        line["score"] = average.score.mean * 100;
        line["interval"] = interval_json(average.score.interval);
        line["tasks"] = average.n_tasks;
        object["averages"].push_back(std::move(line));
    }
    return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string score_lines(const std::vector<ScoredPredictions> & rows) {
    std::string lines;
    for (const ScoredPredictions & row : rows) {
        Json line;
        line["file"] = row.file;
        line["family"] = row.task->rules().family;
        line["task"] = row.task->rules().name;
        if (!row.policy.empty()) {
            line["length"] = row.length;
            line["policy"] = row.policy;
            line["budget"] = row.budget;
        }
        for (const ScoredAnswer & answer : row.answers) {
            line["sample"] = answer.sample;
            line["turn"] = answer.turn;
            line["score"] = answer.score;
            lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
        }
    }
    return lines;
}

}  // namespace pith
