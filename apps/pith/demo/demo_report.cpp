// demo_report.cpp - tables, JSON and CSV of the demo.
#include "app/demo/demo_report.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "common/base/text_columns.h"
#include "common/demo/demo_rows.h"
#include "core/csv_field.h"
#include "core/text.h"

namespace pith::app {
namespace {

constexpr int kEnoughForIntervals = 30;  // samples: below, an interval says no more than the count

std::string percent_range(const Interval & interval) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f-%.1f %%", 100 * interval.low, 100 * interval.high);
    return text;
}

std::string count_text(const DemoRow & row) {
    if (!row.note.empty()) { return "-"; }
    char text[32];
    std::snprintf(text, sizeof text, "%g of %d", row.n_right, row.n_samples);
    return text;
}

const char * setting_text(const std::vector<DemoColumn> & columns) {
    if (columns.size() > 1) {
        return "Question known: policies see the question before they evict. Later: the text is compressed first.";
    }
    return columns.front().question_aware
               ? "Question-aware: policies see the question before they evict (--context-only: they do not)."
               : "Context-only: the text is compressed before the question is known.";
}

// "auto is laprox", or one for each column where they differ; empty: nothing was chosen.
std::string choice_text(const std::vector<DemoColumn> & columns) {
    std::string text;
    std::string first;
    bool same = true;
    for (const DemoColumn & column : columns) {
        const auto chosen = std::ranges::find_if(column.rows, [](const DemoRow & row) { return !row.chosen.empty(); });
        if (chosen == column.rows.end()) { continue; }
        if (first.empty()) { first = chosen->chosen; }
        same = same && chosen->chosen == first;
        text += (text.empty() ? "" : ", ") + chosen->chosen + (column.question_aware ? " (known)" : " (later)");
    }
    return text.empty() ? "" : "auto is " + (same ? first : text);
}

Json row_json(const DemoRow & row, bool question_aware, bool shared) {
    Json out = {{"policy", row.policy},
                {"budget", row.budget},
                {"question_aware", question_aware},
                {"n_samples", row.n_samples},
                {"n_right", row.n_right},
                {"right_low", row.right_interval.low},
                {"right_high", row.right_interval.high},
                {"kept_entries_per_lane", row.kept_entries},
                {"prompt_tokens", row.prompt_tokens},
                {"kv_allocated_bytes", row.kv_bytes}};
    if (!row.chosen.empty()) { out["chosen"] = row.chosen; }
    if (!shared) { out["prefill_tps"] = row.prefill_tps; }
    out["decode_tps"] = row.decode_tps;
    if (!row.note.empty()) { out["note"] = row.note; }
    return out;
}

}  // namespace

void print_answers(const DemoOptions & options, const std::string & model_path, const std::vector<DemoColumn> & columns) {
    const std::vector<DemoRow> & rows = columns.front().rows;
    double prompt_tokens = 0;
    for (const DemoRow & row : rows) { prompt_tokens = std::max(prompt_tokens, row.prompt_tokens); }
    std::printf("%s: %d texts of about %.0f tokens, a fact hidden in each (%s), greedy answers.\n",
                std::filesystem::path(model_path).filename().c_str(), options.n_samples, prompt_tokens,
                join(options.tasks, ", ").c_str());
    std::puts(setting_text(columns));
    if (options.share) { std::puts("One prefill of each text serves all rows."); }
    std::puts("");
    const int width = policy_width(rows);
    const bool intervals = options.n_samples >= kEnoughForIntervals;
    std::printf("%-*s  %8s", width, "policy", "budget");
    for (const DemoColumn & column : columns) {
        std::printf("  %12s", columns.size() == 1 ? "right" : column.question_aware ? "known" : "later");
        if (intervals) { std::printf("  %14s", "95 %"); }
    }
    std::printf("  %13s  %10s", "tokens/head", "KV");
    if (!options.share) { std::printf("  %11s  %10s", "prefill t/s", "decode t/s"); }
    std::puts("");
    std::string budget = rows.empty() ? "" : rows.front().budget;
    for (size_t i = 0; i < rows.size(); ++i) {
        const DemoRow & row = rows[i];
        begin_row(row, budget, width);
        if (!row.note.empty()) {
            std::printf("  %s\n", row.note.c_str());
            continue;
        }
        for (const DemoColumn & column : columns) {
            std::printf("  %12s", count_text(column.rows[i]).c_str());
            if (intervals) { std::printf("  %14s", percent_range(column.rows[i].right_interval).c_str()); }
        }
        std::printf("  %13.0f  %10s", row.kept_entries, bytes_text(row.kv_bytes).c_str());
        if (!options.share) { std::printf("  %11.0f  %10.0f", row.prefill_tps, row.decode_tps); }
        std::puts("");
    }
    if (const std::string text = choice_text(columns); !text.empty()) { std::printf("\n%s\n", text.c_str()); }
}

Json answers_json(const DemoOptions & options, const std::string & model_path, const std::vector<DemoColumn> & columns) {
    Json object;
    object["model"] = model_path;
    object["tasks"] = options.tasks;
    object["n_samples"] = options.n_samples;
    object["n_tokens"] = options.n_tokens;
    object["seed"] = options.seed;
    object["shared_prefill"] = options.share;
    object["rows"] = Json::array();
    for (const DemoColumn & column : columns) {
        for (const DemoRow & row : column.rows) {
            object["rows"].push_back(row_json(row, column.question_aware, options.share));
        }
    }
    return object;
}

void print_answers_csv(const DemoOptions & options, const std::vector<DemoColumn> & columns) {
    std::puts(
        "tasks,question_aware,n_tokens,policy,budget,n_samples,n_right,right_low,right_high,kept_entries_per_lane,"
        "prompt_tokens,kv_allocated_bytes,prefill_tps,decode_tps,note");
    for (const DemoColumn & column : columns) {
        for (const DemoRow & row : column.rows) {
            std::printf("%s,%d,%d,%s,%s,%d,%g,%.4f,%.4f,%.2f,%.1f,%zu,", csv_field(join(options.tasks, " ")).c_str(),
                        column.question_aware ? 1 : 0, options.n_tokens, csv_field(row.policy).c_str(), row.budget.c_str(),
                        row.n_samples, row.n_right, row.right_interval.low, row.right_interval.high, row.kept_entries,
                        row.prompt_tokens, row.kv_bytes);
            if (!options.share) { std::printf("%.1f", row.prefill_tps); }
            std::printf(",%.1f,%s\n", row.decode_tps, csv_field(row.note).c_str());
        }
    }
}

}  // namespace pith::app
