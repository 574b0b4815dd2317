// make_session.cpp - options become parts, and what is wrong with them is said.
#include "engine/settle/make_session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "attention/lane_attention.h"
#include "attention/lane_places.h"
#include "core/check.h"
#include "core/items.h"
#include "engine/parts/cache_layout.h"
#include "engine/parts/find_heads.h"
#include "engine/parts/model_parts.h"
#include "engine/pass/execution.h"
#include "engine/settle/auto.h"
#include "evidence/evidence_notes.h"
#include "pith/log.h"
#include "policy/named_policy.h"

namespace pith {
namespace {

// Whether `auto`, asked for by name or as one of the policies to observe, may come to want importances.
bool auto_wants_heads(const SessionOptions & options, KnownGates gates) {
    const bool own = options.policy.is_auto() && gates != KnownGates::kThreshold && options.budget.kind != BudgetKind::kNone;
    return own || std::ranges::any_of(options.observe, &PolicyChoice::is_auto);
}

// Gates that evict decide while a prompt is read: for evict() they come too late.
KnownGates ranks_only(KnownGates gates) {
    return gates == KnownGates::kRank ? gates : KnownGates::kNone;
}

// What `auto` may come to need when it is asked for by evict().
void observe_auto(KnownGates gates, LiveSession & session) {
    for (const KnownQuestion question : {KnownQuestion::kInSight, KnownQuestion::kUnknown}) {
        const AutoChoice choice = choose_policy({.limited = true,
                                                 .gates = ranks_only(gates),
                                                 .heads = session.known_heads,
                                                 .question = question,
                                                 .may_reread = session.options.auto_may_reread});
        session.observed.push_back(choice.policy.needs());
    }
}

// What the policy looks at and the model does otherwise.
void tell_evidence_notes(const Hparams & hparams, const Policy & policy) {
    for (const std::string & note : evidence_notes(hparams, {policy.needs(), policy.ranks_across_layers()})) {
        log_line(LogLevel::kInfo, "policy '" + policy.name() + "' on architecture '" + hparams.arch_name + "': " + note);
    }
}

// What options.observe asks for, and the importances where one of these policies wants them.
Status observe(const ModelHeads & heads, KnownGates gates, LiveSession & session) {
    for (const PolicyChoice & choice : session.options.observe) {
        if (choice.is_auto()) {
            observe_auto(gates, session);
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        PITH_RETURN_IF_ERROR(policy.check_gates(gates));
        PITH_RETURN_IF_ERROR(find_heads(heads, policy, session.options));
        session.observed.push_back(policy.needs());
    }
    return {};
}

// Policies see governed layers alone; importances are of all that the model has.
std::shared_ptr<const HeadImportance> heads_governed(const SessionParts & parts) {
    const HeadImportance * all = parts.options.heads.get();
    if (all == nullptr || parts.layout.governs_all()) { return parts.options.heads; }
    auto chosen = std::make_shared<HeadImportance>();
    const auto n = static_cast<size_t>(parts.shape().n_heads());
    const auto choose = [&](const std::vector<double> & from, std::vector<double> & to) {
        for (const int layer : parts.governed) {
            const auto first = from.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(layer) * n);
            to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(n));
        }
    };
    choose(all->copy, chosen->copy);
    choose(all->reason, chosen->reason);
    return chosen;
}

Status check_numbers(const SessionOptions & options, int n_vocab) {
    for (const PositionSpan & span : options.pinned) {
        if (span.begin < 0 || span.end < span.begin) {
            return {ErrorCode::kInvalidArgument,
                    "pinned span [" + std::to_string(span.begin) + ", " + std::to_string(span.end) + ") is not a span"};
        }
    }
    constexpr size_t kMostWords = 1024;
    for (const auto * words : {&options.reread.first, &options.reread.next, &options.reread.behind}) {
        const bool in_vocabulary = std::ranges::all_of(*words, [&](int32_t token) { return token >= 0 && token < n_vocab; });
        if (!in_vocabulary || words->size() > kMostWords) {
            return {ErrorCode::kInvalidArgument, "the words that ask for the text again are " + std::to_string(words->size()) +
                                                     " tokens: give at most " + std::to_string(kMostWords) +
                                                     ", each in the vocabulary"};
        }
    }
    PITH_RETURN_IF_ERROR(check_at_least(item::kThreads, options.n_threads, 0));
    PITH_RETURN_IF_ERROR(check_at_least(item::kContext, options.max_context, 0));
    return check_at_least(Item{"n_snapshots"}, options.n_snapshots, 0);
}

}  // namespace

Status check_draft(int most) {
    if (most >= 0 && most <= kMostDraft) { return {}; }
    return {ErrorCode::kInvalidArgument, item::kDraftNgram + " " + std::to_string(most) + ": give 0 (no drafts) to " +
                                             std::to_string(kMostDraft) + " tokens"};
}

Status check_repair_every(int n_tokens) {
    if (n_tokens >= 0 && n_tokens <= kMostRepairEvery) { return {}; }
    return {ErrorCode::kInvalidArgument, item::kRepairEvery + " " + std::to_string(n_tokens) +
                                             ": give 0 (what the question looked for is all) to " +
                                             std::to_string(kMostRepairEvery) + " tokens"};
}

Result<std::unique_ptr<LiveSession>> make_session(const Model & model, const SessionOptions & options,
                                                  const std::shared_ptr<Execution> & execution,
                                                  std::optional<KnownHeads> known) {
    PITH_RETURN_IF_ERROR(options.budget.check());
    const ModelParts & loaded = parts_of(model);
    auto session = std::make_unique<LiveSession>();
    session->model = model;
    session->file = loaded.file;
    session->output = loaded.output;
    session->options = options;
    // `auto` is settled when the prompt comes: until then it keeps what it would keep of one that nobody asks anything of.
    session->seq.policy_asked = options.policy;
    session->seq.budget = options.budget;
    if (!options.policy.is_auto()) { PITH_ASSIGN_OR_RETURN(session->seq.policy, named_policy(options.policy)); }
    session->layout = cache_layout(*loaded.file, options.type_k, options.type_v);
    if (options.rotate_kv) { PITH_RETURN_IF_ERROR(rotate_quantised(*loaded.file, session->layout)); }
    if (options.cold) { PITH_ASSIGN_OR_RETURN(session->seq.cold, empty_cold_store(*loaded.file, options)); }
    for (int l = 0; l < session->n_layers(); ++l) {
        if (session->layout.governs(l)) { session->governed.push_back(l); }
    }
    // What can be refused before a prompt is known is refused here.
    const KnownGates gates = known_gates(loaded.gate.get());
    if (known) {
        session->known_heads = *known;
    } else if (auto_wants_heads(options, gates)) {
        PITH_ASSIGN_OR_RETURN(session->known_heads, find_heads_for_auto(*loaded.heads, session->options));
    }
    settle_policy(session->seq, session->known_heads, {.gates = gates});
    PITH_RETURN_IF_ERROR(session->seq.policy.check_gates(gates));
    if (options.cold && session->seq.policy.gated()) {
        return {ErrorCode::kInvalidArgument, "policy '" + session->seq.policy.name() +
                                                 "' has gates decide what is cached at all: what it leaves out cannot be kept "
                                                 "cold; leave out cold, or choose another policy"};
    }
    PITH_RETURN_IF_ERROR(find_heads(*loaded.heads, session->seq.policy, session->options));
    tell_policy(policy_names(session->seq), session->ledger);
    tell_evidence_notes(loaded.file->hparams(), session->seq.policy);
    PITH_RETURN_IF_ERROR(observe(*loaded.heads, gates, *session));
    session->governed_heads = heads_governed(*session);
    PITH_RETURN_IF_ERROR(RaggedCache::check_types(session->layout));
    PITH_RETURN_IF_ERROR(check_numbers(options, loaded.file->hparams().n_vocab));
    PITH_RETURN_IF_ERROR(check_draft(options.draft_ngram));
    PITH_RETURN_IF_ERROR(check_repair_every(options.repair_every));
    if (options.look_back && !options.cold) {
        return {ErrorCode::kInvalidArgument,
                item::kLookBack + " is at what was evicted, and this session does not keep it: give " + item::kCold + ", too"};
    }
    std::shared_ptr<Execution> runs_it = execution;
    if (!runs_it) { PITH_ASSIGN_OR_RETURN(runs_it, Execution::make(loaded.file, options.n_threads)); }
    session->execution = runs_it;
    session->forward = std::shared_ptr<Forward>(runs_it, &runs_it->forward);
    if (loaded.gate) { session->gates = std::make_unique<SessionGates>(loaded.file, loaded.gate, runs_it->backend.get()); }
    session->ledger.devices = model.devices();
    if (!runs_it->lane_devices.empty()) {
        const Placement & placement = *loaded.file->placement();
        if (session->seq.policy.gated()) {
            keep_lanes_here(placement, session->layout, "policy gated hides entries from the prompt that brings them",
                            session->ledger.devices);
        } else {
            PITH_RETURN_IF_ERROR(place_lanes(placement, runs_it->lane_devices, session->layout, session->ledger.devices));
        }
    }
    session->ledger.attention = attention_kernels(session->forward->observer().custom_operations(), session->layout);
    return session;
}

}  // namespace pith
