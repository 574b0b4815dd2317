// bench_turns.cpp - the table of decoded tokens over depths and budgets, and lines through the budgets.
#include "speed/bench_turns.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "app/bench/bench_modes.h"
#include "common/base/errors.h"
#include "common/base/text_columns.h"
#include "common/bench/bench_measure.h"
#include "core/median.h"

namespace pith::app {
namespace {

struct BudgetLine {
    std::string policy;
    int64_t depth = 0;
    LinearFit fit;  // milliseconds over entries of a lane
};

// Through the rows of one policy and depth, where there are three budgets or more.
std::vector<BudgetLine> budget_lines(const std::vector<TurnsRow> & rows) {
    std::vector<BudgetLine> lines;
    for (const TurnsRow & first : rows) {
        const bool known = std::any_of(lines.begin(), lines.end(), [&](const BudgetLine & line) {
            return line.policy == first.policy && line.depth == first.depth;
        });
        if (known) { continue; }
        std::vector<double> entries;
        std::vector<double> milliseconds;
        for (const TurnsRow & row : rows) {
            if (row.policy != first.policy || row.depth != first.depth) { continue; }
            entries.push_back(row.n_entries);
            milliseconds.push_back(1000 * median(row.token_s));
        }
        if (entries.size() < 3) { continue; }
        const auto [least, most] = std::minmax_element(entries.begin(), entries.end());
        if (*least < *most) { lines.push_back({first.policy, first.depth, fit_line(entries, milliseconds)}); }
    }
    return lines;
}

void print_rows(const TurnsOptions & options, const std::vector<TurnsRow> & rows) {
    const int name = policy_width(rows);
    std::printf("%d decoded tokens a round, medians of %d rounds in turns\n\n", options.n_generate, options.n_repetitions);
    std::printf("%7s  %-*s  %7s  %8s | %9s  %19s | %s\n", "depth", name, "policy", "budget", "entries", "ms/token",
                "least - most", "over the first");
    const double first = median(rows.front().token_s);
    for (const TurnsRow & row : rows) {
        const auto [least, most] = std::minmax_element(row.token_s.begin(), row.token_s.end());
        std::printf("%7lld  %-*s  %7s  %8.0f | %9.3f  %8.3f - %8.3f | %.3f\n", static_cast<long long>(row.depth), name,
                    row.policy.c_str(), row.budget.empty() ? "all" : row.budget.c_str(), row.n_entries,
                    1000 * median(row.token_s), 1000 * *least, 1000 * *most, median(row.token_s) / first);
    }
    for (const BudgetLine & line : budget_lines(rows)) {
        std::printf("\n%s at depth %lld: %.3f ms + %.3f ms per 1000 tokens per head; farthest from it: %.1f %%\n",
                    line.policy.c_str(), static_cast<long long>(line.depth), line.fit.at_zero, 1000 * line.fit.slope,
                    100 * line.fit.worst);
    }
}

Json to_json(const std::string & model_path, const TurnsOptions & options, const std::vector<TurnsRow> & rows) {
    Json object = measurement_json(model_path, options);
    object["rows"] = Json::array();
    for (const TurnsRow & row : rows) {
        Json out;
        out["depth"] = row.depth;
        out["policy"] = row.policy;
        out["budget"] = row.budget;
        out["n_entries"] = row.n_entries;
        out["token_s"] = median(row.token_s);
        out["token_samples_s"] = row.token_s;
        object["rows"].push_back(std::move(out));
    }
    object["lines"] = Json::array();
    for (const BudgetLine & line : budget_lines(rows)) {
        Json out;
        out["policy"] = line.policy;
        out["depth"] = line.depth;
        out["token_s_at_zero"] = line.fit.at_zero / 1000;
        out["token_s_per_entry"] = line.fit.slope / 1000;
        out["worst"] = line.fit.worst;
        object["lines"].push_back(std::move(out));
    }
    return object;
}

// "snapkv 1024, behind 16384"
std::string case_name(const TurnsRow & row) {
    const std::string who = row.policy + (row.budget.empty() ? "" : " " + row.budget);
    return who + (row.n_prompt > 0 ? ", prompt of " + std::to_string(row.n_prompt) : ", behind " + std::to_string(row.depth));
}

// A reader on the other side says when: two builds can be measured in turns.
void pace(TurnsOptions & options, int n_prompt) {
    options.n_prompt = n_prompt;
    options.n_repetitions = std::numeric_limits<int>::max();
    options.next_round = [](int round) {
        if (round == 0) {
            std::puts("ready");
            std::fflush(stdout);
        }
        for (int c = std::getchar(); c != '\n'; c = std::getchar()) {
            if (c == EOF) { return false; }
        }
        return true;
    };
    options.round_done = [](int round, const std::vector<TurnsRow> & rows) {
        for (const TurnsRow & row : rows) {
            std::printf("%d\t%s\t%.9f\n", round + 1, case_name(row).c_str(), row.token_s.back());
        }
        std::puts("done");
        std::fflush(stdout);
    };
}

}  // namespace

int bench_in_turns(const ModelFlags & model_flags, const BenchOptions & bench, const std::vector<Budget> & budgets,
                   TurnsOutput output) {
    auto options = measure_options<TurnsOptions>(bench);
    options.budgets = budgets;
    options.depths = bench.depths;
    if (output == TurnsOutput::kPaced) { pace(options, bench.n_prompt); }
    const auto rows = measure_on(model_flags, options, measure_turns);
    if (!rows.ok()) { return fail(rows.status()); }
    if (output == TurnsOutput::kJson) {
        print_json(to_json(model_flags.path, options, *rows));
    } else if (output == TurnsOutput::kTable) {
        print_rows(options, *rows);
    }
    return kExitOk;
}

}  // namespace pith::app
