// session_options.cpp - options and ledgers of a session, from one language to the other. Stage: façade.
#include "c/session_options.h"

#include <algorithm>
#include <string>

#include "c/handles.h"

using pith::ErrorCode;
using pith::Result;
using pith::Status;
using namespace pith::c;

namespace {

pith_session_options default_session_options() {
    const pith::SessionOptions defaults;
    pith_session_options options{};
    options.policy = "auto";
    options.type_k = options.type_v = "f16";
    options.prefill = "auto";
    options.chunk = defaults.chunk;
    options.evict_every = defaults.evict_every;
    options.rotate_kv = defaults.rotate_kv;
    options.context_shift = defaults.context_shift;
    options.cold_bytes = defaults.cold_bytes;
    options.repair_every = defaults.repair_every;
    return options;
}

}  // namespace

void pith_session_options_init(struct pith_session_options * options, size_t size) {
    init(options, size, default_session_options());
}

Result<pith::SessionOptions> pith::c::session_options(const pith_session_options * caller) {
    PITH_ASSIGN_OR_RETURN(const pith_session_options given, with_defaults(caller, default_session_options()));
    pith::SessionOptions options;
    options.policy = text_of(given.policy);
    if (given.budget != nullptr) { PITH_ASSIGN_OR_RETURN(options.budget, pith::Budget::parse(given.budget)); }
    PITH_ASSIGN_OR_RETURN(options.type_k, kv_type({"type_k"}, given.type_k));
    PITH_ASSIGN_OR_RETURN(options.type_v, kv_type({"type_v"}, given.type_v));
    options.rotate_kv = given.rotate_kv;
    options.context_shift = given.context_shift;
    if (given.cold != nullptr) { PITH_ASSIGN_OR_RETURN(options.cold, kv_type({"cold"}, given.cold)); }
    options.cold_bytes = given.cold_bytes;
    options.draft_ngram = given.draft_ngram;
    options.look_back = given.look_back;
    options.repair_every = given.repair_every;
    const std::string prefill = text_of(given.prefill);
    if (prefill == "one-shot") {
        options.prefill = pith::PrefillSchedule::kOneShot;
    } else if (prefill == "chunked") {
        options.prefill = pith::PrefillSchedule::kChunked;
    } else if (prefill != "auto") {
        return {ErrorCode::kInvalidArgument, pith::Item{"prefill"} + " is '" + prefill + "': use auto, one-shot or chunked"};
    }
    options.n_threads = given.n_threads;
    options.max_context = given.max_context;
    options.chunk = given.chunk;
    options.evict_every = given.evict_every;
    options.n_snapshots = given.n_snapshots;
    options.grid = given.grid;
    if (given.pinned == nullptr && given.n_pinned > 0) { return missing("pinned"); }
    for (size_t i = 0; i < given.n_pinned; ++i) { options.pinned.push_back({given.pinned[i].begin, given.pinned[i].end}); }
    options.heads_file = text_of(given.heads_file);
    const std::string observe = text_of(given.observe);
    for (size_t begin = 0; begin < observe.size();) {
        const size_t end = std::min(observe.find(',', begin), observe.size());
        options.observe.emplace_back(observe.substr(begin, end - begin));
        begin = end + 1;
    }
    return options;
}

Result<pith::KvType> pith::c::kv_type(Item field, const char * text) {
    auto type = parse_kv_type(text_of(text));
    if (type.ok()) { return type; }
    return {type.status().code(), field + ": " + type.status().wording()};
}

Status pith::c::check_lane(int32_t layer, int32_t kv_head, int n_layers, int n_kv_heads) {
    if (layer >= 0 && layer < n_layers && kv_head >= 0 && kv_head < n_kv_heads) { return {}; }
    return {ErrorCode::kInvalidArgument, "layer " + std::to_string(layer) + ", KV head " + std::to_string(kv_head) +
                                             ": there are " + std::to_string(n_layers) + " layers of " +
                                             std::to_string(n_kv_heads) + " KV heads"};
}

pith_ledger pith::c::ledger_of(const Ledger & l) {
    pith_ledger all{};
    all.budget_entries = l.budget_entries;
    all.n_prompt = l.n_prompt;
    all.n_generated = l.n_generated;
    all.n_drafted = l.n_drafted;
    all.n_draft_accepted = l.n_draft_accepted;
    all.look_back_s = l.look_back_s;
    all.n_evictions = l.n_evictions;
    all.evicted_entries = l.evicted_entries;
    all.kept_entries = l.kept_entries;
    all.n_context_shifts = l.n_context_shifts;
    all.peak_lane_entries = l.peak_lane_entries;
    all.kv_needed_bytes = l.kv_needed_bytes;
    all.kv_allocated_bytes = l.kv_allocated_bytes;
    all.kv_saved_bytes = l.kv_saved_bytes;
    all.kv_peak_bytes = l.kv_peak_bytes;
    all.evidence_peak_bytes = l.evidence_peak_bytes;
    all.activation_peak_bytes = l.activation_peak_bytes;
    all.rss_peak_bytes = l.rss_peak_bytes;
    all.rss_anonymous_bytes = l.rss_anonymous_bytes;
    all.gate_seen_entries = l.gate_seen_entries;
    all.gate_kept_entries = l.gate_kept_entries;
    all.gate_peak_bytes = l.gate_peak_bytes;
    all.prefill_s = l.prefill_s;
    all.decode_s = l.decode_s;
    all.evidence_s = l.evidence_s;
    all.plan_s = l.plan_s;
    all.compact_s = l.compact_s;
    all.gate_s = l.gate_s;
    all.policy = l.policy.c_str();
    all.policy_reason = l.policy_reason.c_str();
    all.schedule = l.schedule.c_str();
    all.n_lanes = l.n_lanes;
    all.n_tokens = l.n_tokens;
    all.kv_full_bytes = l.kv_full_bytes;
    all.kv_window_bytes = l.kv_window_bytes;
    all.kv_state_bytes = l.kv_state_bytes;
    all.kv_missed = l.kv_missed;
    all.n_repairs = l.n_repairs;
    all.returned_entries = l.returned_entries;
    all.cold_entries = l.cold_entries;
    all.cold_lost_entries = l.cold_lost_entries;
    all.cold_bytes = l.cold_bytes;
    all.cold_read_bytes = l.cold_read_bytes;
    all.repair_s = l.repair_s;
    all.n_answer_repairs = l.n_answer_repairs;
    all.answer_repair_s = l.answer_repair_s;
    return all;
}
