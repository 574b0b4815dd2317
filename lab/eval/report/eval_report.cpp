// eval_report.cpp - the table as text, Markdown, CSV and JSON. Stage: eval.
#include "eval/report/eval_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "figures/text_table.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char * kNone = "-";

int digits_of(const EvalTable & table) {
    return table.is_perplexity ? 3 : 1;
}

std::string interval_or_none(const std::optional<Interval> & interval, int digits) {
    if (!interval) { return kNone; }
    return interval_text(interval->low, interval->high, digits);
}

std::string signed_text(double value, int digits) {
    const std::string text = fixed(value, digits);
    return value > 0 ? "+" + text : text;
}

std::string budget_text(const EvalCase & one) {
    return one.budget.empty() ? kNone : one.budget;
}

// score, interval, difference, interval, p, entries, prompt
std::vector<std::string> number_cells(const EvalRow & row, int digits) {
    if (!row.score) { return {"refused", kNone, kNone, kNone, kNone, kNone, kNone}; }
    return {fixed(*row.score, digits),
            interval_or_none(row.interval, digits),
            row.difference ? signed_text(*row.difference, digits) : kNone,
            interval_or_none(row.difference_interval, digits),
            row.p ? p_text(*row.p) : kNone,
            fixed(row.kept, 1),
            fixed(row.n_prompt, 0)};
}

std::vector<std::string> number_header(const EvalTable & table) {
    return {table.is_perplexity ? "perplexity" : "score", "95 %", "to full", "95 %", "p", "tokens/head", "prompt"};
}

// "duo*": the notes under the table say why the policy had nothing to choose.
std::string policy_text(const EvalCase & one, const EvalRow * row) {
    return one.policy + (row != nullptr && !row->no_choice.empty() ? "*" : "");
}

// A task, with intervals and its groups.
TextTable task_table(const EvalTable & table, const std::string & task, int length) {
    const bool grouped = std::any_of(table.rows.begin(), table.rows.end(), [&](const EvalRow & row) {
        return row.task == task && row.length == length && !row.group.empty();
    });
    const bool per_character = std::any_of(table.rows.begin(), table.rows.end(), [&](const EvalRow & row) {
        return row.task == task && row.length == length && row.per_character.has_value();
    });
    TextTable out;
    out.header = {"policy", "budget"};
    out.n_left = 2;
    if (grouped) {
        out.header.emplace_back("of");
        ++out.n_left;
    }
    for (std::string & name : number_header(table)) { out.header.push_back(std::move(name)); }
    if (per_character) { out.header.emplace_back("per character"); }
    out.header.emplace_back("samples");
    for (const EvalRow & row : table.rows) {
        if (row.task != task || row.length != length) { continue; }
        const EvalCase & one = table.info.cases[row.index];
        std::vector<std::string> cells = {policy_text(one, &row), budget_text(one)};
        if (grouped) { cells.push_back(row.group.empty() ? "all" : row.group + " " + row.value); }
        for (std::string & cell : number_cells(row, digits_of(table))) { cells.push_back(std::move(cell)); }
        if (per_character) { cells.push_back(row.per_character ? fixed(*row.per_character, digits_of(table)) : kNone); }
        cells.push_back(std::to_string(row.n_samples));
        out.rows.push_back(std::move(cells));
    }
    return out;
}

// A column for each task, and the average.
TextTable overview_table(const EvalTable & table, int length) {
    TextTable out;
    out.header = {"policy", "budget"};
    out.n_left = 2;
    for (const EvalTask & task : table.info.tasks) { out.header.push_back(task.name); }
    for (const char * name : {"average", "95 %", "to full", "95 %", "p", "tokens/head"}) { out.header.emplace_back(name); }
    for (size_t i = 0; i < table.info.cases.size(); ++i) {
        const EvalCase & one = table.info.cases[i];
        const EvalRow * average = table.find("", length, i);
        std::vector<std::string> cells = {policy_text(one, average), budget_text(one)};
        bool any = false;
        for (const EvalTask & task : table.info.tasks) {
            const EvalRow * row = table.find(task.name, length, i);
            any = any || row != nullptr;
            cells.push_back(row == nullptr ? kNone : row->score ? fixed(*row->score, digits_of(table)) : "refused");
        }
        std::vector<std::string> last(6, kNone);
        if (average != nullptr) {
            last = number_cells(*average, digits_of(table));
            last.resize(6);
        }
        cells.insert(cells.end(), last.begin(), last.end());
        if (any) { out.rows.push_back(std::move(cells)); }
    }
    return out;
}

// "--samples 25, --seed 1, …": what the columns and rows do not say already.
std::string settings_text(const EvalTable & table) {
    constexpr std::array kSaid = {"FAMILY", "model", "--tasks", "--policy", "--budget", "--context"};
    std::string text;
    for (const auto & [name, value] : table.info.settings) {
        if (std::find(kSaid.begin(), kSaid.end(), name) != kSaid.end()) { continue; }
        text += (text.empty() ? "" : ", ") + name + " " + value;
    }
    return text;
}

std::string setting(const EvalTable & table, const std::string & name) {
    for (const auto & [known, value] : table.info.settings) {
        if (known == name) { return value; }
    }
    return "";
}

// What the table says of a policy where it says something: one line for each length and budget, of all its tasks.
std::string said_of_policies(const EvalTable & table, std::string EvalRow::*said, const std::string & mark) {
    const bool several = table.info.tasks.size() > 1;
    std::string text;
    for (const EvalRow & row : table.rows) {
        if ((row.*said).empty() || !row.group.empty() || row.task.empty() != several) { continue; }
        const EvalCase & one = table.info.cases[row.index];
        text += mark + one.policy + " at " + budget_text(one) + ", " + length_text(row.length) + ": " + row.*said + "\n";
    }
    return text;
}

// A long document's perplexity as it goes on: level, where what is kept serves as well as before.
std::string blocks_text(const EvalTable & table) {
    std::string text;
    for (const EvalRow & row : table.rows) {
        if (row.blocks.empty() || !row.group.empty()) { continue; }
        const EvalCase & one = table.info.cases[row.index];
        std::string line =
            one.policy + (one.budget.empty() ? "" : " at " + one.budget) + " by " + with_commas(Answer::kBlock) + " tokens:";
        for (const double block : row.blocks) { line += " " + fixed(block, 2); }
        text += line + "\n";
    }
    return text;
}

// What the table leaves out, and why.
std::string notes(const EvalTable & table) {
    std::string text;
    for (const EvalSkips & skips : table.skips) {
        const std::string where = skips.task + " at " + length_text(skips.length) + ": ";
        if (!skips.why.empty()) { text += where + "left out: " + skips.why + "\n"; }
        if (skips.n_left_out > 0) {
            text += where + std::to_string(skips.n_left_out) + " samples are longer than the limit and were left out\n";
        }
        if (skips.n_cut > 0) {
            text += where + "the middle of " + std::to_string(skips.n_cut) + " samples was cut out, as the benchmark does\n";
        }
    }
    text += said_of_policies(table, &EvalRow::chosen, "");  // what `auto` became
    text += said_of_policies(table, &EvalRow::no_choice, "* ");
    for (const EvalRow & row : table.rows) {
        if (row.n_refused == 0 || row.task.empty() || !row.group.empty()) { continue; }
        const EvalCase & one = table.info.cases[row.index];
        text += row.task + " at " + length_text(row.length) + ": " + one.policy + " at " + one.budget + " refused " +
                std::to_string(row.n_refused) + " samples: " + row.note + "\n";
    }
    return text;
}

std::string title(const EvalTable & table) {
    return table.info.family + " on " + setting(table, "model");
}

std::string render(const EvalTable & table, bool details, bool markdown) {
    const auto draw = [markdown](const TextTable & one) { return markdown ? "\n" + to_markdown(one) : to_text(one); };
    const auto head = [markdown](const std::string & text) { return markdown ? "\n### " + text + "\n" : "\n" + text + "\n"; };
    std::string text = markdown ? "## " + title(table) + "\n\n" + settings_text(table) + "\n"
                                : title(table) + "\n" + settings_text(table) + "\n";
    const bool several = table.info.tasks.size() > 1;
    for (const int length : table.info.lengths) {
        if (several) { text += head(length_text(length)) + draw(overview_table(table, length)); }
        for (const EvalTask & task : table.info.tasks) {
            if (several && !details) { continue; }
            text += head(task.name + ", " + length_text(length) + (task.is_perplexity ? "" : " (" + task.metric + ")"));
            text += draw(task_table(table, task.name, length));
        }
    }
    if (const std::string blocks = blocks_text(table); !blocks.empty()) { text += "\n" + blocks; }
    const std::string left = notes(table);
    if (!left.empty()) { text += "\n" + left; }
    return text;
}

std::string number_or_nothing(const std::optional<double> & value) {
    return value ? fixed(*value, 4) : "";
}

}  // namespace

std::string eval_text(const EvalTable & table, bool details) {
    return render(table, details, false);
}

std::string eval_markdown(const EvalTable & table) {
    return render(table, true, true);
}

std::string eval_csv(const EvalTable & table) {
    return to_csv(eval_columns(table));
}

TextTable eval_columns(const EvalTable & table) {
    TextTable out;
    out.header = {
        "family",        "task",     "context", "policy",      "budget",       "group",     "value",         "score",
        "low",           "high",     "to_full", "to_full_low", "to_full_high", "to_full_p", "per_character", "entries_per_lane",
        "prompt_tokens", "kv_bytes", "samples", "refused",     "note",         "chosen"};
    for (const EvalRow & row : table.rows) {
        const EvalCase & one = table.info.cases[row.index];
        const auto if_score = [&row](double value) { return row.score ? fixed(value, 4) : ""; };
        const auto low = [](const std::optional<Interval> & interval) { return interval ? fixed(interval->low, 4) : ""; };
        const auto high = [](const std::optional<Interval> & interval) { return interval ? fixed(interval->high, 4) : ""; };
        out.rows.push_back({table.info.family,
                            row.task.empty() ? "average" : row.task,
                            std::to_string(row.length),
                            one.policy,
                            one.budget,
                            row.group,
                            row.value,
                            number_or_nothing(row.score),
                            low(row.interval),
                            high(row.interval),
                            number_or_nothing(row.difference),
                            low(row.difference_interval),
                            high(row.difference_interval),
                            row.p ? p_text(*row.p) : "",
                            number_or_nothing(row.per_character),
                            if_score(row.kept),
                            if_score(row.n_prompt),
                            row.kv_bytes ? fixed(*row.kv_bytes, 0) : "",
                            std::to_string(row.n_samples),
                            std::to_string(row.n_refused),
                            row.note.empty() ? row.no_choice : row.note,
                            row.chosen});
    }
    return out;
}

std::string eval_json(const EvalTable & table) {
    Json object;
    object["family"] = table.info.family;
    object["settings"] = Json::object();
    for (const auto & [name, value] : table.info.settings) { object["settings"][name] = value; }
    object["metric"] = Json::object();
    for (const EvalTask & task : table.info.tasks) { object["metric"][task.name] = task.metric; }
    object["rows"] = Json::array();
    for (const EvalRow & row : table.rows) {
        const EvalCase & one = table.info.cases[row.index];
        Json line;
        line["task"] = row.task.empty() ? "average" : row.task;
        line["context"] = row.length;
        line["policy"] = one.policy;
        line["budget"] = one.budget;
        if (!row.chosen.empty()) { line["chosen"] = row.chosen; }
        if (!row.group.empty()) { line["group"] = {{row.group, row.value}}; }
        if (row.score) {
            line["score"] = *row.score;
            if (row.interval) { line["interval"] = {row.interval->low, row.interval->high}; }
            if (row.difference) {
                line["to_full"] = *row.difference;
                if (row.difference_interval) {
                    line["to_full_interval"] = {row.difference_interval->low, row.difference_interval->high};
                }
                line["to_full_p"] = *row.p;
            }
            if (row.per_character) { line["per_character"] = *row.per_character; }
            line["entries_per_lane"] = row.kept;
            line["prompt_tokens"] = row.n_prompt;
            if (row.kv_bytes) { line["kv_bytes"] = *row.kv_bytes; }
        }
        line["samples"] = row.n_samples;
        if (row.n_refused > 0) {
            line["refused"] = row.n_refused;
            line["note"] = row.note;
        }
        if (!row.no_choice.empty()) { line["no_choice"] = row.no_choice; }
        object["rows"].push_back(std::move(line));
    }
    object["skipped"] = Json::array();
    for (const EvalSkips & skips : table.skips) {
        object["skipped"].push_back(
            {{"task", skips.task}, {"context", skips.length}, {"left_out", skips.n_left_out}, {"middle_cut_out", skips.n_cut}});
        if (!skips.why.empty()) { object["skipped"].back()["task_left_out"] = skips.why; }
    }
    return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pith
