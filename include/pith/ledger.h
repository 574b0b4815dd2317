// ledger.h - what one session did and what it cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pith/devices.h"

namespace pith {

struct Ledger {
    std::string policy;          // the one that evicts: under `auto` the chosen one, "auto" before the first prompt
    std::string policy_reason;   // why `auto` chose it; empty: its user did
    int64_t budget_entries = 0;  // mean per lane; 0: no limit
    int64_t most_entries = 0;    // the same with what comes between two evictions: what holds at any time; 0: nothing does
    std::string attention;       // whose kernels attend: "pith" and the instruction set, or "ggml"

    int64_t n_lanes = 0;           // governed layers · KV heads: what is kept is kept so many times
    int64_t n_tokens = 0;          // fed so far, or restored
    int64_t n_prompt = 0;          // tokens prefilled
    int64_t n_generated = 0;       // tokens decoded
    int64_t n_drafted = 0;         // tokens that ran before they were chosen (SessionOptions::draft_ngram)
    int64_t n_draft_accepted = 0;  // of these: chosen
    // How the prompt was read: "one-shot" or "in chunks", ", question seen" where that judged, and ", evicted at every Nth
    // token" on a grid.
    std::string schedule;
    int64_t n_evictions = 0;  // times a plan was applied
    int64_t evicted_entries = 0;
    int64_t n_context_shifts = 0;   // times that kept keys turned to places side by side (SessionOptions::context_shift)
    int64_t kept_entries = 0;       // in the cache now, all lanes of governed layers
    int64_t peak_lane_entries = 0;  // longest lane ever

    // Where evicted entries are kept (SessionOptions::cold), of the last question to Session::repair() or RunHooks::repair:
    double kv_missed = -1;          // the share of what it pays to the context that goes to evicted entries; -1: none was seen
    int64_t n_repairs = 0;          // questions that brought entries back
    int64_t n_answer_repairs = 0;   // times that what an answer looked for came back (SessionOptions::repair_every)
    int64_t returned_entries = 0;   // that came back for questions, each in place of another
    int64_t cold_entries = 0;       // outside the budget now
    int64_t cold_lost_entries = 0;  // evicted when there was no more room for them
    int64_t cold_bytes = 0;         // on disk
    int64_t cold_read_bytes = 0;    // from there, for questions and for prompts that look back
    double repair_s = 0;            // of prefill_s and decode_s nothing
    double answer_repair_s = 0;     // of decode_s
    double look_back_s = 0;         // of prefill_s and repair_s: until what prompts look back at was there, and gone again

    size_t kv_needed_bytes = 0;        // what the entries take, to the byte
    size_t kv_full_bytes = 0;          // what they would take had nothing been evicted
    size_t kv_allocated_bytes = 0;     // pages held for them now, and what snapshots saved
    size_t kv_window_bytes = 0;        // of these: of layers that see a window only, which no policy governs
    size_t kv_state_bytes = 0;         // of these: states of recurrent layers, as long as the text may be
    size_t kv_saved_bytes = 0;         // of these: saved by snapshots
    size_t kv_peak_bytes = 0;          // the most that was ever allocated
    size_t evidence_peak_bytes = 0;    // evidence and kept queries, and what of them an open call would go back to
    size_t activation_peak_bytes = 0;  // compute buffers and hidden states
    size_t rss_peak_bytes = 0;         // of the whole process
    size_t rss_anonymous_bytes = 0;    // of the whole process now, without mapped files; 0 where the system does not say
    std::vector<DeviceUse> devices;    // of the model's weights, what lies elsewhere

    int64_t gate_seen_entries = 0;  // policy `gated`: prompt entries that gates decided on, all lanes
    int64_t gate_kept_entries = 0;  // of these: cached
    size_t gate_peak_bytes = 0;     // gates' keys, values and activations; a causal gate's keys and values stay

    double prefill_s = 0;  // all of it: forward passes, evidence, eviction
    double decode_s = 0;
    double evidence_s = 0;  // inside the two above
    double plan_s = 0;      // score, allocate, select
    double compact_s = 0;
    double gate_s = 0;    // gates' own work
    double reread_s = 0;  // reading the text again

    double prefill_tps() const { return prefill_s > 0 ? static_cast<double>(n_prompt) / prefill_s : 0; }
    double decode_tps() const { return decode_s > 0 ? static_cast<double>(n_generated) / decode_s : 0; }
};

}  // namespace pith
