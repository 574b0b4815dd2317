// comparison.cpp - finds in a run's table what the paper's cells are about. Stage: eval.
#include "eval/studies/comparison.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "eval/studies/studies.h"
#include "figures/text_table.h"

namespace pith {
namespace {

constexpr std::string_view kAverage = "average";
constexpr double kSameLength = 0.03;  // "4k" is 4,000 tokens or 4,096

bool is_task(std::string_view column) {
    return column != kAverage && column.find_first_of("@=") == std::string_view::npos && tasks_of_domain(column).empty();
}

// Nothing if one of them is nothing.
std::optional<double> mean_of_all(const std::vector<std::optional<double>> & values) {
    double sum = 0;
    for (const auto & value : values) {
        if (!value) { return {}; }
        sum += *value;
    }
    return values.empty() ? std::optional<double>() : sum / static_cast<double>(values.size());
}

std::vector<std::string> names(std::span<const std::string_view> views) {
    return {views.begin(), views.end()};
}

// A run's values by what the paper calls them.
class OneRun {
public:
    OneRun(const ComparedRun & run, PaperMeasure measure) : table_(run.table), measure_(measure) {
        if (table_ == nullptr) { return; }
        for (const EvalTask & task : table_->info.tasks) {  // without those that fit none of the lengths
            const auto is_there = [&](const EvalRow & row) { return row.task == task.name && row.score.has_value(); };
            if (std::ranges::any_of(table_->rows, is_there)) { tasks_.push_back(task.name); }
        }
        has_all_ = std::ranges::all_of(run.part_tasks, [&](const auto & name) { return std::ranges::count(tasks_, name) > 0; });
    }

    bool is_there() const { return table_ != nullptr; }
    bool has_all_tasks() const { return has_all_; }
    const std::vector<std::string> & tasks() const { return tasks_; }
    std::vector<EvalCase> cases() const {
        std::vector<EvalCase> cases = table_ == nullptr ? std::vector<EvalCase>() : table_->info.cases;
        for (EvalCase & one : cases) { one.policy = without_cake_preset(one.policy); }
        return cases;
    }

    std::optional<double> value(const EvalCase & wanted, std::string_view column) const {
        const std::vector<EvalCase> all = cases();
        const auto at = std::ranges::find(all, wanted);
        if (at == all.end()) { return {}; }
        const auto index = static_cast<size_t>(at - all.begin());
        if (const auto domain = tasks_of_domain(column); !domain.empty()) { return of_tasks(names(domain), index, 0); }
        if (column == kAverage) { return of_tasks(tasks_, index, 0); }
        if (column.starts_with("average@")) {
            return of_tasks(tasks_, index, std::atoi(std::string(column.substr(kAverage.size() + 1)).c_str()));
        }
        if (const size_t equals = column.find('='); equals != std::string_view::npos) {
            return of_group(column.substr(0, equals), column.substr(equals + 1), index);
        }
        return of_tasks({std::string(column)}, index, 0);
    }

private:
    std::optional<double> measured(const EvalRow & row) const {
        if (measure_ == PaperMeasure::kDifference) { return row.difference; }
        if (measure_ == PaperMeasure::kScore) { return row.score; }
        const EvalRow * full = table_->find(row.task, row.length, 0);
        if (measure_ != PaperMeasure::kEvicted || full == nullptr || full->kept <= 0 || !row.score) { return {}; }
        return 100 * (1 - row.kept / full->kept);
    }

    // Mean over the tasks, at the lengths that have all of them. length 0: at any.
    std::optional<double> of_tasks(const std::vector<std::string> & tasks, size_t index, int length) const {
        std::vector<std::optional<double>> means;
        for (const int here : table_->info.lengths) {
            if (length > 0 && std::abs(here - length) > kSameLength * length) { continue; }
            std::vector<std::optional<double>> values;
            for (const std::string & task : tasks) {
                const EvalRow * row = table_->find(task, here, index);
                values.push_back(row == nullptr ? std::nullopt : measured(*row));
            }
            if (const auto mean = mean_of_all(values)) { means.emplace_back(mean); }
        }
        return mean_of_all(means);
    }

    std::optional<double> of_group(std::string_view group, std::string_view value, size_t index) const {
        for (const EvalRow & row : table_->rows) {
            if (row.index == index && row.group == group && row.value == value) { return row.score; }
        }
        return {};
    }

    const EvalTable * table_;
    PaperMeasure measure_;
    std::vector<std::string> tasks_;
    bool has_all_ = false;
};

// One of the paper's tables: the same rows and columns for several models.
class Comparer {
public:
    Comparer(std::vector<const PaperTable *> tables, const ComparedRun & run)
        : tables_(std::move(tables)), run_(run, tables_.front()->measure) {}

    PaperComparison compare(bool details) const {
        PaperComparison out;
        out.table = tables_.front()->table;
        out.measure = tables_.front()->measure;
        for (const PaperTable * table : tables_) { out.models.push_back(table->model); }
        for (const Key & key : keys()) {
            for (const std::string_view column : columns(details)) { out.rows.push_back(row(key, column)); }
        }
        return out;
    }

private:
    struct Key {
        std::string policy, label, budget;
        bool operator==(const Key &) const = default;
    };

    // What the run has, once for each of the paper's labels; then the paper's others.
    std::vector<Key> keys() const {
        std::vector<Key> of_paper;
        for (const PaperTable * table : tables_) {
            for (const PaperRow & row : table->rows) {
                const Key key{std::string(row.policy), std::string(row.label), std::string(row.budget)};
                if (std::ranges::count(of_paper, key) == 0) { of_paper.push_back(key); }
            }
        }
        std::vector<Key> keys;
        for (const EvalCase & one : run_.cases()) {
            const size_t before = keys.size();
            std::ranges::copy_if(of_paper, std::back_inserter(keys),
                                 [&](const Key & key) { return key.policy == one.policy && key.budget == one.budget; });
            if (keys.size() == before) { keys.push_back({one.policy, "", one.budget}); }
        }
        std::ranges::copy_if(of_paper, std::back_inserter(keys),
                             [known = keys](const Key & key) { return std::ranges::count(known, key) == 0; });
        return keys;
    }

    bool averages_itself() const {
        const auto & columns = tables_.front()->columns;
        return columns.size() > 1 && std::ranges::all_of(columns, is_task);
    }

    std::vector<std::string_view> columns(bool details) const {
        const auto & printed = tables_.front()->columns;
        const auto of_a_length = [](std::string_view column) { return column.starts_with("average@"); };
        if (run_.is_there() && std::ranges::any_of(printed, of_a_length)) {  // the paper's mean is over more lengths
            std::vector<std::string_view> lengths;
            std::ranges::copy_if(printed, std::back_inserter(lengths), of_a_length);
            return lengths;
        }
        const bool has_average = std::ranges::count(printed, kAverage) > 0;
        if (!details && (has_average || averages_itself())) { return {kAverage}; }
        std::vector<std::string_view> columns = printed;
        if (!has_average && averages_itself()) { columns.push_back(kAverage); }
        return columns;
    }

    // A run of some of the part's tasks, which the paper has one by one.
    bool has_some() const {
        const auto & columns = tables_.front()->columns;
        return run_.is_there() && !run_.has_all_tasks() && !run_.tasks().empty() &&
               std::ranges::all_of(run_.tasks(), [&](const auto & task) { return std::ranges::count(columns, task) > 0; });
    }

    ComparedRow row(const Key & key, std::string_view column) const {
        ComparedRow row{key.policy, key.label, key.budget, std::string(column), {}, {}};
        const bool is_average = column == kAverage;
        if (is_average && has_some()) {
            const size_t n = run_.tasks().size();
            row.column = n == 1 ? run_.tasks().front() : "average of " + std::to_string(n) + " tasks";
        }
        if (run_.is_there() && (!is_average || run_.has_all_tasks() || has_some())) {
            row.here = run_.value({key.policy, key.budget}, column);
        }
        for (const PaperTable * table : tables_) { row.paper.push_back(printed(*table, key, column)); }
        return row;
    }

    std::optional<double> printed(const PaperTable & table, const Key & key, std::string_view column) const {
        const auto at = std::ranges::find_if(table.rows, [&](const PaperRow & row) {
            return row.policy == key.policy && row.label == key.label && row.budget == key.budget;
        });
        if (at == table.rows.end()) { return {}; }
        const auto value = [&](std::string_view name) {
            const auto found = std::ranges::find(table.columns, name);
            return found == table.columns.end() ? std::nullopt : at->values[static_cast<size_t>(found - table.columns.begin())];
        };
        if (column != kAverage) { return value(column); }
        if (has_some()) {
            std::vector<std::optional<double>> some;
            for (const std::string & task : run_.tasks()) { some.push_back(value(task)); }
            return mean_of_all(some);
        }
        return averages_itself() ? mean_of_all(at->values) : value(kAverage);
    }

    std::vector<const PaperTable *> tables_;
    OneRun run_;
};

std::string number(PaperMeasure measure, const std::optional<double> & value) {
    if (!value) { return "-"; }
    if (measure == PaperMeasure::kOverhead) {
        char text[24];
        std::snprintf(text, sizeof text, "%.2e", *value);
        return text;
    }
    return fixed(*value, measure == PaperMeasure::kDifference ? 3 : 2);
}

std::string title_of(const PaperComparison & comparison) {
    switch (comparison.measure) {
        case PaperMeasure::kScore:
            return "";
        case PaperMeasure::kDifference:
            return ", difference to the full cache";
        case PaperMeasure::kEvicted:
            return ", % of the entries evicted";
        case PaperMeasure::kFirstSeconds:
            return ", seconds to the first token (@: tokens of a chunk)";
        case PaperMeasure::kOverhead:
            return ", of the prefill's operations (@: tokens of the prompt)";
    }
    return "";
}

}  // namespace

std::vector<PaperComparison> compare_with_paper(std::span<const PaperTable> tables, std::string_view part,
                                                const ComparedRun & run, bool details) {
    std::vector<std::vector<const PaperTable *>> groups;
    for (const PaperTable & table : tables) {
        if (table.part != part) { continue; }
        const auto same = std::ranges::find_if(groups, [&](const auto & group) {
            return group.front()->table == table.table && group.front()->measure == table.measure &&
                   group.front()->columns == table.columns;
        });
        if (same == groups.end()) {
            groups.push_back({&table});
        } else {
            same->push_back(&table);
        }
    }
    std::vector<PaperComparison> out;
    for (auto & group : groups) { out.push_back(Comparer(std::move(group), run).compare(details)); }
    return out;
}

std::string comparison_text(std::span<const PaperComparison> comparisons, bool with_run) {
    std::string text;
    for (const PaperComparison & comparison : comparisons) {
        TextTable table;
        table.header = {"policy", "budget", ""};
        table.n_left = 3;
        if (with_run) { table.header.emplace_back("here"); }
        for (const std::string_view model : comparison.models) { table.header.emplace_back(model); }
        for (const ComparedRow & row : comparison.rows) {
            std::vector<std::string> cells = {row.policy + (row.label.empty() ? "" : " " + row.label),
                                              row.budget.empty() ? "all" : row.budget, row.column};
            if (with_run) { cells.push_back(number(comparison.measure, row.here)); }
            for (const auto & value : row.paper) { cells.push_back(number(comparison.measure, value)); }
            table.rows.push_back(std::move(cells));
        }
        text += (text.empty() ? "" : "\n") + std::string("The paper's ") + std::string(comparison.table) +
                title_of(comparison) + "\n" + to_text(table);
    }
    return text;
}

std::string comparison_json(std::span<const PaperComparison> comparisons) {
    using Json = nlohmann::ordered_json;
    const auto value_of = [](const std::optional<double> & value) { return value ? Json(*value) : Json(); };
    Json all = Json::array();
    for (const PaperComparison & comparison : comparisons) {
        Json object;
        object["table"] = comparison.table;
        object["measure"] = to_string(comparison.measure);
        object["rows"] = Json::array();
        for (const ComparedRow & row : comparison.rows) {
            Json one;
            one["policy"] = row.policy;
            if (!row.label.empty()) { one["which"] = row.label; }
            one["budget"] = row.budget;
            one["column"] = row.column;
            one["here"] = value_of(row.here);
            one["paper"] = Json::object();
            for (size_t m = 0; m < row.paper.size(); ++m) {
                one["paper"][std::string(comparison.models[m])] = value_of(row.paper[m]);
            }
            object["rows"].push_back(std::move(one));
        }
        all.push_back(std::move(object));
    }
    return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pith
