// stored_states.cpp - scopes, and sessions to and from a folder's files.
#include "engine/rest/stored_states.h"

#include <algorithm>
#include <utility>

#include "core/byte_stream.h"
#include "core/guarded.h"
#include "core/hash64.h"
#include "core/simd.h"
#include "device/amx.h"
#include "engine/parts/model_parts.h"
#include "engine/rest/resume.h"
#include "engine/rest/saved_session.h"
#include "engine/rest/session_settings.h"
#include "pith/log.h"

namespace pith {
namespace {

constexpr uint64_t kMostShare = 4;  // a state may take such a part of the folder's bytes
// A state's evicted rows lie in so many files, which stay mapped and open as long as it is in memory; instead of one more a
// file is written that has all rows.
constexpr size_t kMostColdParts = 16;

// What a session computes does not depend on these.
SessionOptions without_limits(SessionOptions options) {
    options.max_context = 0;
    options.n_snapshots = 0;
    options.n_threads = 0;
    return options;
}

void write_plan(const RunPlan & plan, ByteWriter & to) {
    to.number(plan.share > 0 ? plan.least : plan.budget);  // which of a share depends on where the prompt ends
    to.number(plan.share);
    to.flag(plan.one_shot);
    for (const int n : {plan.chunk, plan.evict_every, plan.grid}) { to.number(n); }
}

bool same_plan(const RunPlan & a, const RunPlan & b) {
    const bool same_budget = a.share > 0 ? a.share == b.share && a.least == b.least : a.budget == b.budget && b.share == 0;
    return same_budget && a.one_shot == b.one_shot && a.chunk == b.chunk && a.evict_every == b.evict_every &&
           a.grid == b.grid && a.n_guide == b.n_guide && a.n_reread == b.n_reread && a.capacity == b.capacity;
}

// Whether what was saved with these goes on as the session will.
bool same_settings(const LiveSession & session, const SessionOptions & options, const std::string & policy,
                   const RunPlan & plan) {
    return !first_difference(options, session.options) && policy == session.seq.policy.name() &&
           same_plan(plan, *session.given_plan);
}

// Whether what was evicted lies on disk as the session would have it.
bool same_cold(const LiveSession & session, const SavedSession & saved) {
    const SessionOptions & here = session.options;
    if (!here.cold || !saved.cold) { return !here.cold && !saved.cold; }
    const int64_t most_back = session.given_plan->most_back;
    return saved.cold->type == *here.cold && saved.cold->is_rotated == is_rotated(*here.cold, here) &&
           saved.cold->most_bytes == here.cold_bytes && saved.cold->most_back.has_value() == here.look_back &&
           saved.cold->most_back.value_or(most_back) == most_back;
}

// What has read more, and evicted nothing, is what it was after so many tokens, but for its logits.
void cut_back(SequenceAtRest & sequence, int64_t n_tokens) {
    SequenceState & state = sequence.state;
    if (n_tokens == state.n_tokens) { return; }
    RaggedCache & cache = *sequence.cache;
    for (int l = 0; l < cache.layout().n_layers(); ++l) { cache.truncate_to_positions(0, l, static_cast<int32_t>(n_tokens)); }
    state.tokens.truncate(static_cast<size_t>(n_tokens));
    state.n_tokens = n_tokens;
    state.since_eviction = static_cast<int>(n_tokens);
    sequence.logits.clear();
}

// What the files of the sequence take, or a little more.
uint64_t bytes_in_file(const Sequence & seq) {
    return seq.cache->needed_bytes() + seq.states.size_bytes() + seq.evidence.size_bytes() + seq.bookkeeping_bytes() +
           seq.cold.size_bytes();
}

}  // namespace

std::vector<int64_t> ends_to_store(const RunPlan & plan, int64_t n_prompt, std::span<const int32_t> wanted) {
    std::vector<int64_t> ends = {chunk_end_before(plan, n_prompt)};
    if (plan.budget > 0 && ends[0] > 0) { ends.push_back(chunk_end_before(plan, ends[0] - 1)); }
    for (const int32_t n : wanted) { ends.push_back(chunk_end_before(plan, std::clamp<int64_t>(n, 0, n_prompt))); }
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    if (ends.front() == 0) { ends.erase(ends.begin()); }
    return ends;
}

Result<std::unique_ptr<StoredStates>> StoredStates::open(const Model & model, const Places & places) {
    std::optional<StateStore> store;
    ModelIdentity identity;
    if (!places.folder.empty()) {
        PITH_ASSIGN_OR_RETURN(store, StateStore::open(places.folder, places.most_bytes));
        const Gate * gate = gate_of(model).get();  // those that rank count where they are asked: scope_of()
        identity = identity_of(file_of(model), known_gates(gate) == KnownGates::kThreshold ? gate : nullptr);
    }
    SharedStates shared(places.most_memory_bytes, model.info().n_layers);
    return std::unique_ptr<StoredStates>(new StoredStates(std::move(store), std::move(identity), std::move(shared)));
}

std::optional<StateScope> StoredStates::scope_of(const LiveSession & session, const RunPlan & plan,
                                                 std::string_view whose) const {
    if (session.seq.policy.is_custom()) { return std::nullopt; }  // its name does not say what was kept
    const bool asks_gates = session.gates && session.seq.policy.needs_gate();
    // Gates that rank judge each token by itself: where a text is cut changes nothing of what they say.
    const bool by_tokens_alone = known_gates(session) == KnownGates::kRank;
    const bool watched = session.gates && session.gates->has_observer();
    const bool alone = session.observed.empty() && session.observers.empty() && !watched;
    if ((asks_gates && !by_tokens_alone) || !alone || plan.n_guide > 0 || plan.capacity > 0) { return std::nullopt; }
    ByteWriter equal;
    for (const auto & [item, value] : model_) {
        equal.text(item);
        equal.text(value);
    }
    write_settings(without_limits(session.options), equal);
    equal.text(session.seq.policy.name());
    equal.text(asks_gates ? session.gates->gate().hash() : "");
    write_plan(plan, equal);
    equal.text(whose);
    // Others round otherwise, and so may evict others: who shares a folder of states shares the way they are computed.
    equal.text(session.ledger.attention);
    equal.flag(has_wide_registers());
    equal.flag(has_amx_bytes());
    for (const DeviceUse & device : session.ledger.devices) { equal.text(device.name); }
    equal.number(
        static_cast<uint64_t>(session.file->resident_copies_bytes()));  // of weights that were arranged anew, or were not
    if (session.options.cold) {
        equal.text(to_string(*session.options.cold));
        equal.number(session.options.cold_bytes);
        equal.flag(session.options.look_back);
        equal.number(plan.most_back);
        equal.flag(is_rotated(*session.options.cold, session.options));
    }
    const bool by_tokens = plan.budget == 0 || (plan.grid > 0 && plan.evict_every > 0);
    const bool whole_prompts = plan.one_shot || !by_tokens;
    StateScope scope{.hash = hash64(equal.bytes()), .whole_prompts = whole_prompts};
    scope.prefixes = !whole_prompts && plan.budget == 0 && session.layout.governs_all();
    if (session.options.cold && plan.budget > 0 && !whole_prompts) {
        equal.text("rows of evicted entries");
        scope.cold = hash64(equal.bytes());
    }
    return scope;
}

std::optional<FoundState> StoredStates::find_file(const StateScope & scope, std::span<const int32_t> tokens) const {
    if (!store_) { return std::nullopt; }
    return scope.whole_prompts ? store_->find_whole(scope.hash, tokens) : store_->find(scope.hash, tokens);
}

FoundShared StoredStates::find_shared(const LiveSession & session, const StateScope & scope, std::span<const int32_t> tokens,
                                      std::span<const int64_t> ends) const {
    FoundShared found = shared_.find(scope, tokens);
    if (!found.state) { return {}; }
    const SequenceState & state = found.state->state;
    if (!same_settings(session, found.state->options, state.policy.name(), *state.plan)) { return {}; }
    const auto in_file = find_file(scope, tokens);
    const int64_t n_in_file = in_file ? in_file->n_tokens : 0;
    const bool without_logits = found.n_tokens < state.n_tokens || found.state->logits.empty();
    const bool is_end = without_logits && std::ranges::binary_search(ends, found.n_tokens);
    if (n_in_file > found.n_tokens) { return {}; }
    if (store_ && is_end && n_in_file < found.n_tokens) {
        if (!scope.prefixes) { return {}; }  // it cannot be cut back
        // It must be kept in the folder, with logits that the longer state no longer has: its last chunk is read anew.
        found.n_tokens = chunk_end_before(*state.plan, found.n_tokens - 1);
        if (found.n_tokens == 0 || n_in_file > found.n_tokens) { return {}; }
    }
    if (in_file && n_in_file == found.n_tokens) { touch(*in_file, scope, tokens); }
    return found;
}

Status StoredStates::go_on_from(const FoundShared & shared, std::optional<int64_t> copy_to_room, LiveSession & session) {
    const SharedState & from = *shared.state;
    std::unique_ptr<RaggedCache> cache;
    if (copy_to_room) {
        const int64_t most = shared.n_tokens < from.state.n_tokens ? shared.n_tokens : from.cache->capacity();
        PITH_ASSIGN_OR_RETURN(cache, from.cache->copy(most, *copy_to_room, /*to_fork=*/false));
    } else {
        PITH_ASSIGN_OR_RETURN(cache, from.cache->fork());
    }
    take_over(from.with(std::move(cache)), shared.n_tokens, session);
    return {};
}

void StoredStates::take_over(SequenceAtRest state, int64_t n_tokens, LiveSession & session) {
    state.cache->thaw();
    cut_back(state, n_tokens);
    resume(session, std::move(state));
}

int64_t StoredStates::begin(LiveSession & session, const StateScope & scope, std::span<const int32_t> tokens) {
    while (const auto found = find_file(scope, tokens)) {
        std::vector<std::string> files;
        const Status status = guarded([&] { return load(session, *found, scope, tokens, files); });
        if (status.ok()) {
            touch(*found, scope, tokens);
            return found->n_tokens;
        }
        if (status.code() == ErrorCode::kOutOfMemory) { return 0; }
        for (const std::string & file : files) { store_->pass_over(file); }
        if (status.code() != ErrorCode::kNotFound) {  // removed meanwhile
            log_line(LogLevel::kWarning, "a cached state is passed over: " + status.message());
        }
    }
    return 0;
}

void StoredStates::give_up(const StateScope & scope, std::span<const int32_t> tokens) {
    while (const auto state = shared_.find(scope, tokens).state) { shared_.drop(*state); }
    if (!store_) { return; }
    const auto pass_over = [&](const std::optional<FoundState> & found) {
        for (const std::string & path : found ? found->paths : std::vector<std::string>()) { store_->pass_over(path); }
        return found.has_value();
    };
    while (pass_over(find_file(scope, tokens))) {}
    while (scope.cold != 0 && pass_over(store_->find(scope.cold, tokens))) {}
}

// The files of the rows that a state of these tokens evicted: each of its own tokens, behind the one before it.
Result<std::vector<CacheFile>> StoredStates::open_cold_parts(const StateScope & scope, std::span<const int32_t> tokens,
                                                             std::vector<std::string> & files) const {
    std::vector<CacheFile> parts;
    const auto found = store_->find(scope.cold, tokens);
    if (!found || found->n_tokens != std::ssize(tokens) || found->paths.size() > kMostColdParts) {
        return Status(ErrorCode::kNotFound, "its evicted entries are in files that are gone");
    }
    uint64_t hash = 0;
    for (size_t i = 0; i < found->paths.size(); ++i) {
        files.push_back(found->paths[i]);
        PITH_ASSIGN_OR_RETURN(CacheFile part, CacheFile::open(found->paths[i]));
        const auto end = i + 1 < found->begins.size() ? found->begins[i + 1] : found->n_tokens;
        PITH_ASSIGN_OR_RETURN(const ColdParts says,
                              read_cold_parts(part.view(), tokens.subspan(static_cast<size_t>(found->begins[i]),
                                                                          static_cast<size_t>(end - found->begins[i]))));
        if (says.hash_before != hash || says.n_files() != i + 1) {
            return part.view().damaged("it goes on from another file than the one before it");
        }
        hash = part.view().entry("cold-rows").hash;
        parts.push_back(std::move(part));
        files.pop_back();
    }
    files.insert(files.end(), found->paths.begin(), found->paths.end());  // one alone says nothing of what they hold together
    return parts;
}

void StoredStates::touch(const FoundState & found, const StateScope & scope, std::span<const int32_t> tokens) const {
    store_->touch(found);
    if (scope.cold == 0) { return; }
    const auto cold = store_->find(scope.cold, tokens.first(static_cast<size_t>(found.n_tokens)));
    if (cold && cold->n_tokens == found.n_tokens) { store_->touch(*cold); }
}

Status StoredStates::load(LiveSession & session, const FoundState & found, const StateScope & scope,
                          std::span<const int32_t> tokens, std::vector<std::string> & files) const {
    const ModelIdentity model = identity_of(*session.file, gate_that_matters(session));
    PartsRead before;
    for (const std::string & path : found.paths) {
        files = {path};
        PITH_ASSIGN_OR_RETURN(const CacheFile opened, CacheFile::open(path));
        std::vector<CacheFile> cold;
        if (opened.view().has("cold") && !opened.view().has("cold-rows")) {
            const auto of_state = tokens.first(static_cast<size_t>(found.n_tokens));
            PITH_ASSIGN_OR_RETURN(cold, open_cold_parts(scope, of_state, files));
        }
        PITH_ASSIGN_OR_RETURN(const SavedSession saved, read_saved(opened.view(), cold));
        const auto begin = static_cast<size_t>(saved.before.n);
        const bool same = !saved.is_rows && saved.model == model && same_cold(session, saved) &&
                          same_settings(session, saved.options, saved.policy, *saved.sequence.plan) &&
                          saved.before.n == std::ssize(before.tokens) && saved.n_tokens() <= found.n_tokens &&
                          (begin == 0 || saved.before.hash == hash_of_tokens(before.tokens));
        if (!same || !std::ranges::equal(saved.tokens, tokens.subspan(begin, saved.tokens.size()))) {
            return {ErrorCode::kInvalidArgument, "'" + path + "' is not what its name says"};
        }
        if (saved.n_tokens() < found.n_tokens) {
            PITH_RETURN_IF_ERROR(read_part(saved, opened.view(), session, found.n_tokens, before));
            before.tokens = tokens.first(static_cast<size_t>(saved.n_tokens()));
            continue;
        }
        PITH_ASSIGN_OR_RETURN(SequenceAtRest state,
                              sequence_in(saved, opened.view(), session, /*base=*/nullptr, std::move(before)));
        resume(session, std::move(state));
        return {};
    }
    return {ErrorCode::kInvalidArgument, "'" + found.paths.back() + "' is not what its name says"};
}

std::shared_ptr<const SharedState> StoredStates::hold(LiveSession & session, const StateScope & scope, bool copies,
                                                      int64_t room) {
    Sequence & seq = session.seq;
    auto shared = std::make_shared<SharedState>();
    const Status status = guarded([&]() -> Status {
        shared_.prepare_to_add();
        static_cast<SequenceAtRest &>(*shared) = seq.at_rest();
        shared->options = session.options;
        shared->n_evictions = session.ledger.n_evictions;
        shared->evicted_entries = session.ledger.evicted_entries;
        shared->prefixes = PrefixHashes(seq.tokens.all());
        if (copies) {
            PITH_ASSIGN_OR_RETURN(shared->cache, seq.cache->copy(seq.cache->capacity(), room, /*to_fork=*/true));
            return {};
        }
        PITH_ASSIGN_OR_RETURN(shared->cache, RaggedCache::share(seq.cache, room));
        return {};
    });
    if (!status.ok()) { return nullptr; }
    shared_.add(scope, shared);
    return shared;
}

// The rows of what was evicted, in a file: those that are in none yet of a state of these tokens' beginning.
Status StoredStates::keep_cold(const LiveSession & session, const StateScope & scope, std::span<const int32_t> tokens) {
    const ColdStore & store = session.seq.cold;
    ColdParts parts;
    FoundState before;
    while (auto found = store_->find(scope.cold, tokens)) {
        const auto last = CacheFile::open(found->paths.back());
        const auto begin = static_cast<size_t>(found->begins.back());
        const auto of_last = tokens.subspan(begin, static_cast<size_t>(found->n_tokens) - begin);
        auto there = last.ok() ? read_cold_parts(last->view(), of_last) : last.status();
        // Of no use: damaged, of other files before it than there are, or not what this session has evicted.
        if (!there.ok() || !there->begin(store) || there->n_files() != found->paths.size()) {
            store_->pass_over(found->paths.back());
            continue;
        }
        if (found->n_tokens == std::ssize(tokens)) {
            store_->touch(*found);
            return {};
        }
        if (found->paths.size() < kMostColdParts) {
            parts = std::move(*there);
            parts.hash_before = last->view().entry("cold-rows").hash;
            before = std::move(*found);
        }
        break;
    }
    const std::string path = store_->path_of(scope.cold, tokens, before.n_tokens);
    PITH_RETURN_IF_ERROR(
        write_cold_part(path, tokens.subspan(static_cast<size_t>(before.n_tokens)), store, session.layout, std::move(parts)));
    store_->add(path, before);
    return {};
}

uint64_t StoredStates::bytes_to_write(const Sequence & seq, const StateScope & scope,
                                      const std::optional<FoundState> & found) const {
    const auto less = [](uint64_t bytes, const std::optional<FoundState> & there) {
        const uint64_t written = there ? StateStore::bytes_of(*there) : 0;
        return bytes - std::min(bytes, written);
    };
    const uint64_t cold = scope.cold != 0 ? seq.cold.size_bytes() : 0;
    const bool is_there = found && found->n_tokens == seq.n_tokens;
    const uint64_t state = is_there ? 0 : bytes_in_file(seq) - cold;
    const std::vector<int32_t> tokens = cold > 0 ? seq.tokens.all() : std::vector<int32_t>();
    return less(state, scope.prefixes ? found : std::nullopt) + (cold > 0 ? less(cold, store_->find(scope.cold, tokens)) : 0);
}

void StoredStates::keep(const LiveSession & session, const StateScope & scope) {
    if (!store_ || bytes_in_file(session.seq) > store_->most_bytes() / kMostShare) { return; }
    const Status status = guarded([&]() -> Status {
        const std::vector<int32_t> tokens = session.seq.tokens.all();
        auto found = find_file(scope, tokens);
        const bool shares_cold = scope.cold != 0 && session.seq.cold.size_bytes() > 0;
        if (!store_->has_room(bytes_in_file(session.seq))) {
            if (found) { touch(*found, scope, tokens); }  // what is there of it goes last
            store_->make_room(bytes_to_write(session.seq, scope, found));
            found = find_file(scope, tokens);  // some of it may have gone
        }
        if (shares_cold) { PITH_RETURN_IF_ERROR(keep_cold(session, scope, tokens)); }
        if (found && found->n_tokens == std::ssize(tokens)) {
            touch(*found, scope, tokens);
            return {};
        }
        const FoundState before = scope.prefixes && found ? *found : FoundState();
        SavedSession saved = describe(session);
        const auto n_before = static_cast<size_t>(before.n_tokens);
        saved.before = {before.n_tokens, hash_of_tokens(std::span(tokens).first(n_before))};
        const std::string path = store_->path_of(scope.hash, tokens, before.n_tokens);
        PITH_RETURN_IF_ERROR(write_saved(path, saved, session.seq, !shares_cold));
        ++n_kept_;
        store_->add(path, before);
        if (shares_cold) { touch({{path}, std::ssize(tokens), {0}}, scope, tokens); }  // what a state needs goes after it
        return {};
    });
    if (!status.ok() && !failed_) {
        const Status logged = guarded([&] {
            log_line(LogLevel::kWarning, "a state is not cached: " + status.message());
            return Status();
        });
        static_cast<void>(logged);  // without memory for the line nobody is told
    }
    failed_ = !status.ok();
}

}  // namespace pith
