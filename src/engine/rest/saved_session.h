// saved_session.h - the sections of a cache file, without the model: what a session was, and where its rows lie. Stage: engine.
//
//   before    of a part of a state in a folder alone: which tokens' entries are in other files
//   model     what the model must be, to the bit: the items of model/model_identity.h
//   origin    where it was, for whoever looks for it
//   settings  session_settings.h
//   state     policy and plan in force, counters, what the ledger has counted
//   tokens    all that were fed, or all but those before: i32 each
//   logits    f32 each, of the newest token
//   lanes     the lanes of each layer, and the positions of each lane's entries
//   rows      lane by lane: the entries' rows of K, then those of V
//   states    of recurrent layers
//   evidence  evidence/evidence_file.cpp
//   gates     what a session remembers of its gates
//   notes     whatever the caller wants back
//   cold, cold-rows   where evicted entries are kept; in a folder of states their rows may lie in other files: saved_cold.h
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache_file.h"
#include "cache/ragged_cache.h"
#include "engine/rest/saved_cold.h"
#include "engine/sequence/sequence.h"
#include "model/model_identity.h"
#include "pith/ledger.h"
#include "pith/model.h"
#include "pith/session.h"
#include "policy/auto_policy.h"

namespace pith {

class ByteReader;
class ByteWriter;
class Gate;
class ModelFile;
struct Execution;
struct LiveSession;

struct SavedOrigin {
    std::string model_name;
    std::string model_path;
    std::string lora_file;
    float lora_scale = 1.0F;
    std::string gate_file;
};

// Tokens whose entries are in other files, when nothing was evicted of them: those of a state's beginning
// (cache/state_store.h).
struct TokensBefore {
    int64_t n = 0;
    uint64_t hash = 0;  // of them (core/hash64.h)
};

struct SavedSession {
    TokensBefore before;
    ModelIdentity model;
    SavedOrigin origin;
    SessionOptions options;
    KnownHeads known_heads = KnownHeads::kNone;

    std::string policy;           // the one that evicts
    SequencePlan sequence;        // has a plan
    Ledger ledger;                // counters, peaks and times
    std::vector<int32_t> tokens;  // that the file holds
    std::vector<float> logits;
    std::vector<LayerLanes> layers;  // of the model; those without lanes have 0 KV heads
    RestingLanes entries;            // of all layers, in the file
    RecurrentStates states;
    std::optional<SavedCold> cold;
    CacheNotes notes;

    CacheLayout layout() const;  // of lanes alone
    int64_t n_tokens() const { return before.n + std::ssize(tokens); }
    bool is_rows = false;  // it holds evicted entries of states alone: nothing else is said
    // It gives no session: others of its folder must be there, too.
    bool is_part() const { return is_rows || before.n > 0 || (cold && cold->rows.empty()); }
    bool holds_all() const;  // each lane has an entry of every token of the file, where it was read, and no other
    // Lanes and entries of the layers that see everything, which are those that policies count.
    int64_t n_governed_lanes() const;
    int64_t n_governed_entries() const;
    uint64_t window_bytes() const;  // of the other layers' rows
};

// Everything is checked against everything else.
// cold_parts: the files in which the rows of evicted entries lie, where they do not lie in this one (read_cold()).
// Errors: kBadFile: names what makes no sense. What is read refers to the file.
Result<SavedSession> read_saved(const CacheFileView & file, std::span<const CacheFile> cold_parts = {});

// What the file of such a session says, but for what lies in its sequence. REQUIRES: it has read something.
SavedSession describe(const LiveSession & session);
ModelIdentity identity_of(const ModelFile & file, const Gate * gate);
// The session's, for its identity: gates that only rank belong to a session that asks them, and to no other. May be null.
const Gate * gate_that_matters(const LiveSession & session);

// Of a sequence that has read something; of its tokens from session.before on. REQUIRES: nothing was evicted, where there are
// some before. cold_rows: those of evicted entries, too. Errors: kIo.
Status write_saved(const std::string & path, const SavedSession & session, const Sequence & sequence, bool cold_rows = true);

// A state's files but for the last, read one after the other, so that no more than one is in memory beside its entries.
struct PartsRead {
    std::span<const int32_t> tokens;
    std::unique_ptr<RaggedCache> entries;  // of all of these
};
// The entries of the next of them. n_tokens: of all files, the last included.   Errors: kBadFile, kOutOfMemory.
Status read_part(const SavedSession & saved, const CacheFileView & file, const LiveSession & session, int64_t n_tokens,
                 PartsRead & parts);
// What the file says, for a session of its model. base: as OpenAs has it; before: what it goes on from.
// Errors: kBadFile, kOutOfMemory.
Result<SequenceAtRest> sequence_in(const SavedSession & saved, const CacheFileView & file, const LiveSession & session,
                                   const RaggedCache * base, PartsRead before = {});

// The session that was saved. Errors: those of Session::load(). Throws std::bad_alloc.
struct OpenAs {
    std::shared_ptr<Execution> execution = nullptr;  // nullptr: on threads of its own, so many:
    int n_threads = 0;
    const SessionOptions * options = nullptr;  // that it must have been saved with, and has; nullptr: the file's
    const RaggedCache * base = nullptr;        // frozen, with the file's entries, of the same model: it forks that; or nullptr
};
// file: the one that it was read from.
Result<std::unique_ptr<LiveSession>> open_saved(const Model & model, const SavedSession & saved, const CacheFileView & file,
                                                const OpenAs & as);
Result<std::unique_ptr<LiveSession>> open_saved(const Model & model, const CacheFileView & file, const OpenAs & as);

// What evidence is of: [layer][KV head] the entries, and [layer] the tokens that were seen; 0 where policies do not govern.
struct SeenEntries {
    std::vector<int> lengths;
    std::vector<int64_t> n_seen;
};
SeenEntries seen_entries(const CacheLayout & layout, std::span<const int> lane_lengths, int64_t n_tokens);

}  // namespace pith
