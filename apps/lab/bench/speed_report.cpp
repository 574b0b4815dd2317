// speed_report.cpp - tables of seconds and bytes.
#include "app/bench/speed_report.h"

#include <algorithm>

#include "core/median.h"
#include "figures/text_table.h"

namespace pith::app {
namespace {

const PolicySpeed & full_cache_of(std::span<const PolicySpeed> rows, const PolicySpeed & row) {
    return *std::ranges::find_if(rows, [&](const PolicySpeed & one) {
        return one.policy == "full" && one.length == row.length && one.chunk == row.chunk;
    });
}

std::string ratio(double full, double here) {
    return full > 0 && here > 0 ? fixed(full / here, 2) + " x" : "-";
}

}  // namespace

std::string speed_text(std::span<const PolicySpeed> rows) {
    TextTable table;
    table.header = {"tokens",   "chunk",    "policy",   "budget",  "first token", "speed-up",
                    "evicting", "ms/token", "speed-up", "KV peak", "KV kept",     "computing"};
    table.n_left = 3;
    std::string notes;
    for (const PolicySpeed & row : rows) {
        if (!row.note.empty()) {
            notes += row.policy + " at " + std::to_string(row.length) + " tokens: " + row.note + "\n";
            continue;
        }
        const PolicySpeed & full = full_cache_of(rows, row);
        const double first = median(row.first_s);
        const double token = median(row.token_s);
        table.rows.push_back({std::to_string(row.length), std::to_string(row.chunk), row.policy,
                              row.budget.empty() ? "all" : row.budget, fixed(first, 3) + " s",
                              ratio(median(full.first_s), first), fixed(100 * median(row.eviction_s) / first, 1) + " %",
                              fixed(1000 * token, 2), ratio(median(full.token_s), token), bytes_text(row.kv_peak_bytes),
                              bytes_text(row.kv_bytes), bytes_text(row.compute_bytes)});
    }
    return to_text(table) + notes;
}

Json speed_json(std::span<const PolicySpeed> rows) {
    Json all = Json::array();
    for (const PolicySpeed & row : rows) {
        Json one = {{"tokens", row.length}, {"chunk", row.chunk}, {"policy", row.policy}, {"budget", row.budget}};
        if (!row.note.empty()) {
            one["note"] = row.note;
        } else {
            one["first_token_s"] = median(row.first_s);
            one["decode_tps"] = median(row.token_s) > 0 ? 1 / median(row.token_s) : 0;
            one["first_token_samples_s"] = row.first_s;
            one["eviction_samples_s"] = row.eviction_s;
            one["token_samples_s"] = row.token_s;
            one["kv_peak_bytes"] = row.kv_peak_bytes;
            one["kv_bytes"] = row.kv_bytes;
            one["compute_peak_bytes"] = row.compute_bytes;
        }
        all.push_back(std::move(one));
    }
    return all;
}

}  // namespace pith::app
