// ledger_report.cpp - writes ledgers out.
#include "common/base/ledger_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "common/base/text_columns.h"
#include "core/text.h"
#include "policy/auto_policy.h"

namespace pith::app {

namespace {

// change(a's, b's) of all that grows with what is read and written.
template <class Change>
void for_each_count(Ledger & a, const Ledger & b, const Change & change) {
    change(a.n_prompt, b.n_prompt);
    change(a.n_generated, b.n_generated);
    change(a.n_drafted, b.n_drafted);
    change(a.n_draft_accepted, b.n_draft_accepted);
    change(a.n_evictions, b.n_evictions);
    change(a.evicted_entries, b.evicted_entries);
    change(a.n_context_shifts, b.n_context_shifts);
    change(a.prefill_s, b.prefill_s);
    change(a.decode_s, b.decode_s);
    change(a.evidence_s, b.evidence_s);
    change(a.plan_s, b.plan_s);
    change(a.compact_s, b.compact_s);
    change(a.gate_s, b.gate_s);
    change(a.reread_s, b.reread_s);
    change(a.n_repairs, b.n_repairs);
    change(a.returned_entries, b.returned_entries);
    change(a.cold_read_bytes, b.cold_read_bytes);
    change(a.repair_s, b.repair_s);
    change(a.n_answer_repairs, b.n_answer_repairs);
    change(a.answer_repair_s, b.answer_repair_s);
    change(a.look_back_s, b.look_back_s);
    change(a.gate_seen_entries, b.gate_seen_entries);
    change(a.gate_kept_entries, b.gate_kept_entries);
}

}  // namespace

Ledger since(const Ledger & ledger, const Ledger & before) {
    Ledger rest = ledger;
    for_each_count(rest, before, [](auto & count, auto earlier) { count -= earlier; });
    return rest;
}

Ledger combined(const Ledger & first, const Ledger & second) {
    Ledger sum = second;
    for_each_count(sum, first, [](auto & count, auto more) { count += more; });
    sum.budget_entries = std::max(first.budget_entries, second.budget_entries);
    sum.most_entries = std::max(first.most_entries, second.most_entries);
    sum.kept_entries = std::max(first.kept_entries, second.kept_entries);
    sum.peak_lane_entries = std::max(first.peak_lane_entries, second.peak_lane_entries);
    sum.n_tokens = std::max(first.n_tokens, second.n_tokens);
    sum.kv_full_bytes = std::max(first.kv_full_bytes, second.kv_full_bytes);
    sum.kv_needed_bytes = std::max(first.kv_needed_bytes, second.kv_needed_bytes);
    sum.kv_allocated_bytes = std::max(first.kv_allocated_bytes, second.kv_allocated_bytes);
    sum.kv_window_bytes = std::max(first.kv_window_bytes, second.kv_window_bytes);
    sum.kv_state_bytes = std::max(first.kv_state_bytes, second.kv_state_bytes);
    sum.kv_saved_bytes = std::max(first.kv_saved_bytes, second.kv_saved_bytes);
    sum.kv_peak_bytes = std::max(first.kv_peak_bytes, second.kv_peak_bytes);
    sum.evidence_peak_bytes = std::max(first.evidence_peak_bytes, second.evidence_peak_bytes);
    sum.activation_peak_bytes = std::max(first.activation_peak_bytes, second.activation_peak_bytes);
    sum.gate_peak_bytes = std::max(first.gate_peak_bytes, second.gate_peak_bytes);
    sum.rss_anonymous_bytes = second.rss_anonymous_bytes;
    sum.rss_peak_bytes = std::max(first.rss_peak_bytes, second.rss_peak_bytes);
    return sum;
}

void add_ledger(Json & object, const Ledger & ledger) {
    object["schedule"] = ledger.schedule;
    object["n_prompt"] = ledger.n_prompt;
    object["n_generated"] = ledger.n_generated;
    if (ledger.n_drafted > 0) {
        object["n_drafted"] = ledger.n_drafted;
        object["n_draft_accepted"] = ledger.n_draft_accepted;
    }
    object["policy"] = ledger.policy;
    if (!ledger.policy_reason.empty()) { object["policy_reason"] = ledger.policy_reason; }
    object["budget_entries"] = ledger.budget_entries;
    object["most_entries"] = ledger.most_entries;
    object["attention"] = ledger.attention;
    object["n_evictions"] = ledger.n_evictions;
    object["evicted_entries"] = ledger.evicted_entries;
    object["n_context_shifts"] = ledger.n_context_shifts;
    object["kept_entries"] = ledger.kept_entries;
    object["peak_lane_entries"] = ledger.peak_lane_entries;
    object["kv_needed_bytes"] = ledger.kv_needed_bytes;
    object["kv_full_bytes"] = ledger.kv_full_bytes;
    object["kv_allocated_bytes"] = ledger.kv_allocated_bytes;
    object["kv_window_bytes"] = ledger.kv_window_bytes;
    object["kv_state_bytes"] = ledger.kv_state_bytes;
    object["kv_saved_bytes"] = ledger.kv_saved_bytes;
    object["kv_peak_bytes"] = ledger.kv_peak_bytes;
    object["evidence_peak_bytes"] = ledger.evidence_peak_bytes;
    object["activation_peak_bytes"] = ledger.activation_peak_bytes;
    object["rss_peak_bytes"] = ledger.rss_peak_bytes;
    object["rss_anonymous_bytes"] = ledger.rss_anonymous_bytes;
    for (const DeviceUse & use : ledger.devices) { object["devices"].push_back(device_json(use)); }
    if (ledger.gate_s > 0) {
        object["gate_seen_entries"] = ledger.gate_seen_entries;
        object["gate_kept_entries"] = ledger.gate_kept_entries;
        object["gate_peak_bytes"] = ledger.gate_peak_bytes;
        object["gate_s"] = ledger.gate_s;
    }
    if (ledger.cold_entries > 0) {
        object["cold_entries"] = ledger.cold_entries;
        object["cold_lost_entries"] = ledger.cold_lost_entries;
        object["cold_bytes"] = ledger.cold_bytes;
        object["cold_read_bytes"] = ledger.cold_read_bytes;
        object["n_repairs"] = ledger.n_repairs;
        object["returned_entries"] = ledger.returned_entries;
        object["repair_s"] = ledger.repair_s;
        object["n_answer_repairs"] = ledger.n_answer_repairs;
        object["answer_repair_s"] = ledger.answer_repair_s;
        object["look_back_s"] = ledger.look_back_s;
    }
    object["prefill_s"] = ledger.prefill_s;
    object["decode_s"] = ledger.decode_s;
    object["evidence_s"] = ledger.evidence_s;
    if (ledger.reread_s > 0) { object["reread_s"] = ledger.reread_s; }
    object["plan_s"] = ledger.plan_s;
    object["compact_s"] = ledger.compact_s;
    object["prefill_tps"] = ledger.prefill_tps();
    object["decode_tps"] = ledger.decode_tps();
}

std::string ledger_lines(const Ledger & ledger) {
    std::string text;
    if (ledger.n_tokens > 0 && ledger.n_lanes > 0) {
        const double all = static_cast<double>(ledger.n_tokens) * static_cast<double>(ledger.n_lanes);
        const auto per_head =
            static_cast<int64_t>(std::llround(static_cast<double>(ledger.kept_entries) / static_cast<double>(ledger.n_lanes)));
        const double share = 100.0 * static_cast<double>(ledger.kept_entries) / all;
        text += format(share < 10 && share > 0 && share < 99.5 ? "kept     %.1f %%" : "kept     %.0f %%", share) + " (" +
                with_commas(per_head) + " of " + with_commas(ledger.n_tokens) + " tokens per head), " +
                with_commas(ledger.evicted_entries) + " evicted in " + with_commas(ledger.n_evictions) + " evictions, read " +
                (ledger.schedule.empty() ? "in chunks" : ledger.schedule) + "\n";
        if (ledger.n_context_shifts > 0) {
            text += "past     the length that the model was trained on: kept keys moved together " +
                    (ledger.n_context_shifts == 1 ? "once" : with_commas(ledger.n_context_shifts) + " times") +
                    " (context shift)\n";
        }
        const bool less = ledger.kv_needed_bytes < ledger.kv_full_bytes;
        const bool copies = ledger.kv_saved_bytes > 0;  // of what evictions have moved since, for /undo and further questions
        text += "KV       " + bytes_text(ledger.kv_allocated_bytes - ledger.kv_saved_bytes) +
                (less ? " instead of " + bytes_text(ledger.kv_full_bytes) : "") +
                (ledger.kv_window_bytes > 0 ? " (" + bytes_text(ledger.kv_window_bytes) + " of it windows)" : "") +
                (ledger.kv_state_bytes > 0 ? " (" + bytes_text(ledger.kv_state_bytes) + " of it recurrent states)" : "") +
                (copies ? ", and " + bytes_text(ledger.kv_saved_bytes) + " of copies to go back to" : "") + ", " +
                bytes_text(ledger.kv_peak_bytes) + " at the peak\n";
    }
    if (ledger.cold_entries > 0) {
        text += "cold     " + bytes_text(static_cast<size_t>(ledger.cold_bytes)) + " on disk of " +
                with_commas(ledger.cold_entries) + " evicted entries";
        if (ledger.cold_lost_entries > 0) { text += " (" + with_commas(ledger.cold_lost_entries) + " more found no room)"; }
        if (ledger.cold_read_bytes > 0) { text += "; " + bytes_text(static_cast<size_t>(ledger.cold_read_bytes)) + " read"; }
        if (ledger.repair_s > 0) {
            text +=
                "; " + with_commas(ledger.returned_entries) + format(" came back for questions, in %.2f s", ledger.repair_s);
            if (ledger.answer_repair_s > 0) {
                text += format(", and while they were answered, in %.2f s", ledger.answer_repair_s);
            }
        }
        if (ledger.look_back_s > 0) { text += format("; looking back took %.2f s beside attention", ledger.look_back_s); }
        text += "\n";
    }
    text += "policy   " + policy_text(ledger);
    if (ledger.budget_entries > 0) { text += ", budget " + with_commas(ledger.budget_entries) + " tokens per head"; }
    if (ledger.most_entries > 0) { text += " (between evictions up to " + with_commas(ledger.most_entries) + ")"; }
    text += "\nkernels  " + ledger.attention + "\n";
    if (ledger.gate_s > 0) {
        text += "gates    ";
        if (ledger.gate_seen_entries > 0) {
            text +=
                format("kept %.0f %% of %lld prompt entries, ",
                       100.0 * static_cast<double>(ledger.gate_kept_entries) / static_cast<double>(ledger.gate_seen_entries),
                       static_cast<long long>(ledger.gate_seen_entries));
        }
        text += format("%.2f s, ", ledger.gate_s) + bytes_text(ledger.gate_peak_bytes) + " peak\n";
    }
    for (const DeviceUse & use : ledger.devices) { text += "device   " + device_text(use) + "\n"; }
    text += "memory   " + bytes_text(ledger.activation_peak_bytes) + " activations, " + bytes_text(ledger.evidence_peak_bytes) +
            " evidence, " + bytes_text(ledger.rss_peak_bytes) + " resident at the peak\n";
    text += format("prefill  %lld tokens in %.2f s, %.1f t/s", static_cast<long long>(ledger.n_prompt), ledger.prefill_s,
                   ledger.prefill_tps());
    text += (ledger.reread_s > 0 ? format(" (%.2f s of it a second reading)", ledger.reread_s) : "") + "\n";
    text += format("decode   %lld tokens in %.2f s, %.1f t/s", static_cast<long long>(ledger.n_generated), ledger.decode_s,
                   ledger.decode_tps());
    if (ledger.n_drafted > 0) {
        text += format(" (%lld of %lld drafted tokens accepted)", static_cast<long long>(ledger.n_draft_accepted),
                       static_cast<long long>(ledger.n_drafted));
    }
    return text + "\n";
}

std::string policy_text(const Ledger & ledger) {
    if (ledger.policy_reason.empty()) { return ledger.policy; }
    return ledger.policy + (ledger.policy == kAutoPolicy ? " (" : " (auto: ") + ledger.policy_reason + ")";
}

std::string device_text(const DeviceUse & use) {
    std::string text = use.name + (use.server.empty() ? "" : " (" + use.server + ")") + ": ";
    const int last = use.first_layer + use.n_layers - 1;
    if (use.n_layers == 1) { text += "layer " + std::to_string(last); }
    if (use.n_layers > 1) { text += "layers " + std::to_string(use.first_layer) + "-" + std::to_string(last); }
    if (use.has_output) { text += use.n_layers > 0 ? " and the output" : "the output"; }
    text += ", " + bytes_text(use.weight_bytes) + " of weights";
    const auto of_layers = [](int n) { return " of " + std::to_string(n) + (n == 1 ? " layer" : " layers"); };
    if (use.n_kv_layers > 0) {
        text += use.kv_bytes > 0 ? ", " + bytes_text(use.kv_bytes) + " of keys and values" : ", keys and values";
        text += of_layers(use.n_kv_layers);
    }
    if (use.graph_bytes > 0) { text += ", " + bytes_text(use.graph_bytes) + " to compute in"; }
    if (use.n_kv_layers_here > 0) {
        text += "; those" + of_layers(use.n_kv_layers_here) + " stay here: " + use.kv_here_because;
    }
    return text;
}

Json device_json(const DeviceUse & use) {
    return {{"name", use.name},
            {"server", use.server},
            {"first_layer", use.first_layer},
            {"n_layers", use.n_layers},
            {"has_output", use.has_output},
            {"weight_bytes", use.weight_bytes},
            {"n_kv_layers", use.n_kv_layers},
            {"kv_bytes", use.kv_bytes},
            {"graph_bytes", use.graph_bytes},
            {"n_kv_layers_here", use.n_kv_layers_here},
            {"kv_here_because", use.kv_here_because}};
}

std::string bytes_text(size_t bytes) {
    constexpr std::array<const char *, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    return format(unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits.at(unit));
}

void print_json(const Json & value) {
    std::puts(value.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace pith::app
