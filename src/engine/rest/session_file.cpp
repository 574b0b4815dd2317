// session_file.cpp - sessions to files, and back: what the file needs of the model, and what the session becomes. Stage:
// engine.
#include "engine/rest/session_file.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/byte_stream.h"
#include "core/guarded.h"
#include "core/text.h"
#include "engine/parts/cache_layout.h"
#include "engine/parts/model_parts.h"
#include "engine/pass/live_session.h"
#include "engine/rest/resume.h"
#include "engine/rest/saved_gates.h"
#include "engine/rest/saved_session.h"
#include "engine/rest/session_settings.h"
#include "engine/settle/make_session.h"
#include "engine/settle/memory.h"
#include "policy/auto_policy.h"
#include "policy/named_policy.h"

namespace pith {
namespace {

constexpr const char * kOtherLanes = "its lanes are not those of its model";

std::string absolute(const std::string & path) {
    std::error_code error;
    const auto whole = std::filesystem::absolute(path, error);
    return path.empty() || error ? path : whole.lexically_normal().string();
}

}  // namespace

ModelIdentity identity_of(const ModelFile & file, const Gate * gate) {
    ModelIdentity identity = file.identity();
    identity.emplace_back(kGatesItem, gate == nullptr ? "none" : gate->hash());
    return identity;
}

const Gate * gate_that_matters(const LiveSession & session) {
    const bool asks = session.seq.policy.needs_gate() || session.seq.evidence.wants_retention();
    return session.gates && (asks || known_gates(session) == KnownGates::kThreshold) ? &session.gates->gate() : nullptr;
}

SavedSession describe(const LiveSession & session) {
    const Sequence & seq = session.seq;
    SavedSession saved;
    const Gate * gate = gate_that_matters(session);
    saved.model = identity_of(*session.file, gate);
    const ModelFile::Adapter adapter = session.file->adapter();
    saved.origin = {session.file->hparams().name, absolute(session.file->path()), absolute(adapter.path), adapter.scale,
                    gate == nullptr ? "" : absolute(gate->path())};
    saved.options = session.options;
    saved.known_heads = session.known_heads;
    saved.policy = seq.policy.name();
    saved.sequence = seq;
    saved.ledger = session.ledger;
    return saved;
}

namespace {

Status check_model(const SavedSession & saved, const ModelFile & file, const Gate * gate, const std::string & path) {
    const bool without = known_gates(gate) == KnownGates::kRank && saved.origin.gate_file.empty();
    const auto difference = first_difference(saved.model, identity_of(file, without ? nullptr : gate));
    if (!difference) { return {}; }
    const std::string whose = difference->item == kGatesItem || difference->item == kLoraItem ? "other " : "another model: ";
    const std::string item = difference->item == kLoraItem ? "LoRA adapters" : difference->item;
    return {ErrorCode::kInvalidArgument, "cache file '" + path + "' was saved with " + whose + item + ": " + difference->saved +
                                             ", here " + difference->here + " ('" + file.path() + "')"};
}

// What the evidence of such a session may have been made for.
std::vector<EvidenceNeeds> known_needs(const LiveSession & session, const Policy & in_force) {
    std::vector<EvidenceNeeds> known = session.observed;
    known.push_back(session.seq.policy.needs());
    known.push_back(in_force.needs());
    if (session.options.policy.is_auto()) {
        for (const Policy & policy : auto_candidates(session.options.auto_may_reread)) { known.push_back(policy.needs()); }
    }
    return known;
}

bool same_lanes(const LayerLanes & a, const LayerLanes & b) {
    return a.n_kv_heads == b.n_kv_heads && a.n_group == b.n_group && a.head_dim == b.head_dim && a.head_dim_v == b.head_dim_v &&
           a.window == b.window;
}

bool same_lanes(const SavedSession & saved, const CacheLayout & layout) {
    if (std::ssize(saved.layers) != layout.n_layers()) { return false; }
    for (int l = 0; l < layout.n_layers(); ++l) {
        if (!same_lanes(saved.layers[static_cast<size_t>(l)], layout.lanes(l))) { return false; }
    }
    return true;
}

// nullopt: they are not those of such a model.
std::optional<RecurrentStates> states_of(const SavedSession & saved, const Hparams & hparams) {
    RecurrentStates states(hparams);
    for (int l = 0; l < std::ssize(saved.layers); ++l) {
        if (states.has(l) != saved.states.has(l)) { return std::nullopt; }
        if (!states.has(l)) { continue; }
        if (states.layer(l).size() != saved.states.layer(l).size()) { return std::nullopt; }
        std::ranges::copy(saved.states.layer(l), states.overwrite(l).begin());
    }
    return states;
}

// Every lane of a layer that sees a window holds the newest positions without a gap, from `begin` on: none of them, where the
// window is a chunk that has just ended.
bool holds_window(std::span<const int32_t> lane, int64_t begin, int64_t n_tokens) {
    if (begin == n_tokens) { return lane.empty(); }
    return !lane.empty() && lane.front() == begin && lane.back() == n_tokens - 1 && std::ssize(lane) == n_tokens - begin;
}

}  // namespace

SeenEntries seen_entries(const CacheLayout & layout, std::span<const int> lane_lengths, int64_t n_tokens) {
    SeenEntries seen;
    size_t lane = 0;
    for (int l = 0; l < layout.n_layers(); ++l) {
        const auto n_kv = static_cast<size_t>(layout.lanes(l).n_kv_heads);
        const bool governs = layout.governs(l);
        for (size_t h = 0; h < static_cast<size_t>(layout.shape.n_kv_heads); ++h) {
            seen.lengths.push_back(governs ? lane_lengths[lane + h] : 0);
        }
        seen.n_seen.push_back(governs ? n_tokens : 0);
        lane += n_kv;
    }
    return seen;
}

Status read_part(const SavedSession & saved, const CacheFileView & file, const LiveSession & session, int64_t n_tokens,
                 PartsRead & parts) {
    if (!same_lanes(saved, session.layout)) { return file.damaged(kOtherLanes); }
    if (!saved.holds_all() || saved.before.n != std::ssize(parts.tokens)) {
        return file.damaged("its entries are not those that another file goes on from");
    }
    if (!parts.entries) {
        PITH_ASSIGN_OR_RETURN(const int64_t capacity, lane_capacity(session, *saved.sequence.plan, n_tokens));
        PITH_ASSIGN_OR_RETURN(parts.entries, RaggedCache::make(session.layout, capacity));
        for (int l = 0; l < session.n_layers(); ++l) { PITH_RETURN_IF_ERROR(parts.entries->reserve(0, l, n_tokens)); }
    }
    return parts.entries->load_behind(0, saved.entries);
}

Result<SequenceAtRest> sequence_in(const SavedSession & saved, const CacheFileView & from, const LiveSession & session,
                                   const RaggedCache * base, PartsRead before) {
    const auto damaged = [&from](const std::string & what) { return from.damaged(what); };
    if (!same_lanes(saved, session.layout)) { return damaged(kOtherLanes); }
    const auto n_before = static_cast<int>(std::ssize(before.tokens));
    if (saved.before.n != n_before) { return damaged("it goes on from other tokens"); }
    auto states = states_of(saved, session.file->hparams());
    if (!states) { return damaged("its states of recurrent layers are not those of its model"); }
    const auto n_vocab = static_cast<size_t>(session.file->hparams().n_vocab);
    const auto is_token = [n_vocab](int32_t token) { return token >= 0 && static_cast<size_t>(token) < n_vocab; };
    if (saved.logits.size() != n_vocab || !check_logits(saved.logits).ok() || !std::ranges::all_of(saved.tokens, is_token)) {
        return damaged("its tokens or logits are not those of its model's vocabulary");
    }
    const Result<Policy> policy = named_policy(PolicyChoice(saved.policy));
    if (!policy.ok()) { return damaged(policy.status().message()); }
    PITH_RETURN_IF_ERROR(policy->check_gates(known_gates(session)));
    if (policy->wants_importance() && !session.options.heads) {
        return damaged("its policy wants head importances, and it has none");
    }
    const std::vector<EvidenceNeeds> known = known_needs(session, *policy);

    const int64_t n_tokens = saved.n_tokens();
    size_t longest = 1;
    size_t i = 0;
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; h < session.layout.lanes(l).n_kv_heads; ++h) {
            const std::span<const int32_t> lane = saved.entries.positions[i++];
            longest = std::max(longest, lane.size());
            if (!session.layout.governs(l) && !holds_window(lane, session.layout.window_begin(l, n_tokens), n_tokens)) {
                return damaged("layer " + std::to_string(l) + " does not hold its window");
            }
        }
    }
    PITH_ASSIGN_OR_RETURN(const auto evidence_bytes, from.section("evidence"));
    ByteReader from_evidence(evidence_bytes);
    std::vector<int> lengths = saved.entries.lengths();
    for (int & length : lengths) { length += n_before; }
    const SeenEntries seen = seen_entries(session.layout, lengths, n_tokens);
    auto evidence =
        EvidenceState::read(from_evidence, session.layout.shape_of_model(), known, session.output, seen.lengths, seen.n_seen);
    if (!evidence.ok()) { return damaged(evidence.status().message()); }
    if (!from_evidence.done()) { return damaged("its evidence does not end where it should"); }
    PITH_ASSIGN_OR_RETURN(const auto gate_bytes, from.section("gates"));
    ByteReader from_gates(gate_bytes);
    auto gate_state = read_gates_of(session, from_gates, n_tokens);
    if (!gate_state.ok()) { return damaged(gate_state.status().message()); }
    if (!from_gates.done() || gate_state->hidden.empty() != (session.gates == nullptr)) {
        return damaged("what it says of gates does not fit its model");
    }

    SequenceAtRest found;
    if (base != nullptr) {
        PITH_ASSIGN_OR_RETURN(found.cache, base->fork());
    } else if (before.entries) {
        PITH_RETURN_IF_ERROR(before.entries->load_behind(0, saved.entries));
        found.cache = std::move(before.entries);
    } else {
        PITH_ASSIGN_OR_RETURN(const int64_t capacity,
                              lane_capacity(session, *saved.sequence.plan, static_cast<int64_t>(longest)));
        PITH_ASSIGN_OR_RETURN(found.cache, RaggedCache::make(session.layout, capacity));
        PITH_RETURN_IF_ERROR(found.cache->load(0, saved.entries));
    }
    SequenceState & state = found.state;
    static_cast<SequencePlan &>(state) = saved.sequence;
    state.policy = *policy;
    state.evidence = std::move(*evidence);
    state.gate_state = std::move(*gate_state);
    state.states = std::move(*states);
    state.tokens.append(before.tokens);
    state.tokens.append(saved.tokens);
    if (saved.cold && from.mapped()) {
        auto rows = std::make_shared<ColdFile>(saved.cold->rows);
        PITH_ASSIGN_OR_RETURN(const ColdStore empty, empty_cold_store(*session.file, session.options));
        state.cold = ColdStore(std::make_shared<CacheLayout>(empty.layout()), session.options.cold_bytes, std::move(rows),
                               saved.cold->lanes);
        for (const ColdFile::Part & part : saved.cold->rows) {  // they stay mapped, for what is evicted
            part.file->drop(0, part.file->bytes().size());
        }
    }
    found.logits = saved.logits;
    found.n_evictions = saved.ledger.n_evictions;
    found.evicted_entries = saved.ledger.evicted_entries;
    return found;
}

Result<std::unique_ptr<LiveSession>> open_saved(const Model & model, const SavedSession & saved, const CacheFileView & file,
                                                const OpenAs & as) {
    if (saved.is_part()) {
        const std::string what =
            saved.is_rows        ? "holds evicted entries alone, of states in its folder"
            : saved.before.n > 0 ? "holds only what was read behind the first " + with_commas(saved.before.n) +
                                       " tokens, and the rest is in other files of its folder"
                                 : "holds only the entries that its budget kept, and the rest is in other files of its folder";
        return {ErrorCode::kInvalidArgument,
                "cache file '" + file.path() + "' " + what + ": open the folder as a folder of states (cache_dir)"};
    }
    PITH_RETURN_IF_ERROR(check_model(saved, file_of(model), gate_of(model).get(), file.path()));
    SessionOptions options = as.options != nullptr ? *as.options : saved.options;
    if (as.options != nullptr) {
        if (const auto difference = first_difference(saved.options, *as.options)) {
            return {ErrorCode::kInvalidArgument, "cache file '" + file.path() + "' was saved with another " + difference->name +
                                                     ": " + difference->saved + ", here " + difference->here};
        }
    }
    options.n_threads = as.n_threads;
    options.cold = saved.options.cold;
    options.cold_bytes = saved.options.cold_bytes;
    options.look_back = saved.options.look_back;
    if (saved.cold) { options.rotate_kv = saved.options.rotate_kv; }
    auto made = make_session(model, options, as.execution, saved.known_heads);
    if (!made.ok()) {
        const bool makes_no_sense = made.status().code() == ErrorCode::kInvalidArgument;
        return makes_no_sense ? file.damaged(made.status().message()) : made.status();
    }
    LiveSession & session = **made;
    PITH_ASSIGN_OR_RETURN(SequenceAtRest sequence, sequence_in(saved, file, session, as.base));
    Ledger ledger = saved.ledger;
    ledger.attention = std::move(session.ledger.attention);
    ledger.devices = std::move(session.ledger.devices);
    session.ledger = std::move(ledger);
    resume(session, std::move(sequence));
    return made;
}

Result<std::unique_ptr<LiveSession>> open_saved(const Model & model, const CacheFileView & file, const OpenAs & as) {
    PITH_ASSIGN_OR_RETURN(const SavedSession saved, read_saved(file));
    return open_saved(model, saved, file, as);
}

Status save_session(const LiveSession & session, const std::string & path, const CacheNotes & notes) {
    if (session.seq.n_tokens == 0 || !session.seq.plan) {
        return {ErrorCode::kInvalidArgument, "a session must be prefilled before it can be saved"};
    }
    SavedSession saved = describe(session);
    saved.notes = notes;
    return write_saved(path, saved, session.seq);
}

Result<std::unique_ptr<LiveSession>> load_session(const LiveSession & like, const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const CacheFile file, CacheFile::open(path));
    const OpenAs as{like.execution, like.options.n_threads, &like.options};
    return open_saved(*like.model, file.view(), as);
}

}  // namespace pith
