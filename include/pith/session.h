// session.h - one conversation on a model: prefill, decode, and the KV cache that stays inside its budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pith/budget.h"
#include "pith/head_importance.h"
#include "pith/kv_type.h"
#include "pith/ledger.h"
#include "pith/policy_choice.h"
#include "pith/position_span.h"
#include "pith/prefill_schedule.h"
#include "pith/status.h"

namespace pith {

// What a policy that reads the text again (`reread`) feeds in front of each piece of it: to ask for the first, to ask for one
// of the others, after which the last kRereadHint tokens of the piece before come, and behind these. Empty: the text alone.
// The commands give the usual words; without any the text alone does.
struct RereadPrompt {
    std::vector<int32_t> first;
    std::vector<int32_t> next;
    std::vector<int32_t> behind;
    bool operator==(const RereadPrompt &) const = default;
};
inline constexpr int kRereadHint = 8;

inline constexpr int kMostDraft = 64;  // tokens of a draft

struct SessionOptions {
    // A policy, or `auto`: chosen when the first prompt comes, by what is known then (`pith policies` says how), and told with
    // the reason in the ledger. `full` without a budget, or where the budget is `auto` and memory holds the whole context
    // (max_context, or what the model was trained on); a session of the chosen name would be the same, bit for bit. `gated` and
    // `gate` need ModelOptions::gate_file, or what lies beside the model.
    PolicyChoice policy;
    Budget budget;
    KvType type_k = KvType::kF16;
    KvType type_v = KvType::kF16;
    // Rows of q8_0 and q4_0 are rotated (Hadamard) before they are rounded, which then costs less; other types stay as they
    // are.
    bool rotate_kv = true;
    int n_threads = 0;    // 0: one per CPU that the process may use, or 1 for models under 32 MiB
    int max_context = 0;  // positions to reserve address space for; 0: the model's training length, or the prompt if longer
    PrefillSchedule prefill = PrefillSchedule::kAuto;
    int chunk = kDefaultChunk;             // tokens; also the batch of a one-shot prefill, with lanes on devices a longer one
    int evict_every = kDefaultEvictEvery;  // decoded tokens between evictions: the headroom; 0: no eviction in decode
    // Tokens; 0: none. On a grid, evictions come whenever so many tokens, or a multiple, have been fed, and at no other time,
    // the end of a prompt included: what is kept then depends on the tokens alone, not on how they were cut into calls, nor on
    // which of them were decoded. Lanes hold up to budget + grid entries. A budget in bytes takes a smaller power of two where
    // it holds no more. Left alone: a prompt in one shot, a question in sight, and evict_every = 0.
    int grid = 0;
    // Where entries are evicted, and the next token would stand past the length that the model was trained on, the keys that
    // are kept turn to places side by side, and reading goes on behind them, without end. Positions, here and in reports, go on
    // counting all tokens. Costs the rounding of keys once more each time. Off: such tokens stand where no training was.
    bool context_shift = true;
    // Drafts without a model: what followed the last few tokens where they stood before in the text, at most so many tokens of
    // it, runs in the pass of a decoded token, and whoever then feeds the same tokens has their logits without a pass. Nothing
    // else changes: logits and what is kept are, bit for bit, those without. Fewer tokens, or none, where they seldom come
    // true. 0: none. None either where a token changes what cannot be put down beside the sequence: with gates, recurrent
    // layers, lanes on devices, evidence of moments or of blocks, or another attention than Pith's own.
    int draft_ngram = 0;               // to kMostDraft; no cache file says it
    std::vector<PositionSpan> pinned;  // never evicted, and kept whatever gates say
    // For policies that divide the budget by head (headkv, duo) and for `auto`: the importances, or else the file that `pith
    // calibrate heads` made. Neither: the file beside the model (model.heads.json for model.gguf), where there is one, else
    // those that come with Pith, where they are for this model; `auto` passes over a file that does not fit. A file called
    // `none`: neither of these is looked for.
    std::shared_ptr<const HeadImportance> heads;
    std::string heads_file;
    // Policies that evict() may be asked for later: their evidence is gathered along with the session's own policy's.
    std::vector<PolicyChoice> observe;
    RereadPrompt reread;
    // `auto` may take a policy that reads the text again, where what will be asked is not known: less than twice the time of
    // a prefill, for more right answers. The right choice for what is read once and asked often.
    bool auto_may_reread = false;
    // What evictions remove is kept outside the budget, rounded to this type, for repair(): in a file without a name in the
    // folder for temporary files, at most cold_bytes of it (what would be more is lost), and in the file of save().
    // nullopt: it is gone. Not for policies whose gates decide what is cached at all.
    std::optional<KvType> cold;
    uint64_t cold_bytes = uint64_t{8} << 30U;
    // With `cold`: the tokens of a prompt see what was evicted, too. Of one layer after the other it comes back while a chunk
    // goes through it, so that the text is read as by a cache that holds all of it, and only what is answered sees the budget.
    // Costs what attention to the whole text takes, the reading of what was evicted from disk for each chunk, and memory for
    // one layer's, twice: of a budget in bytes a quarter at most, and where that is too little, they see the newest of it
    // alone; an engine's ceiling reserves it. Not once keys have turned (context_shift), nor for what append() and decode()
    // feed.
    bool look_back = false;
    // With `cold`, of an answer to a question that was looked for (repair(), RunHooks::repair): behind every so many of its
    // tokens, as append() and decode() feed them, what these look for comes back, too, within the budget: what the question
    // named by its beginning alone, and what was found leads to. Costs a product of their queries with all keys of the context,
    // those on disk, too. 0: what the question looked for is all. Not once keys have turned (context_shift), nor where a file
    // of save() goes on with an answer.
    int repair_every = 8;
    // Snapshots that will be held at a time. The budget `auto` leaves memory for the copies that evictions make of what they
    // hold; under one in bytes these lie in files without names, and others do not count them.
    int n_snapshots = 0;
};

// What a hook throws ends the call as an error does (kInternal, with its text).
struct RunHooks {
    std::function<void(int64_t n_done, int64_t n_total)> progress;  // tokens (one-shot: layer-weighted tokens)
    const std::atomic<bool> * cancel = nullptr;                     // seen all along, in evictions too: kCancelled
    // When set, called for every position with its logits [n_vocab], in order (costs the output product for each).
    std::function<void(int64_t position, std::span<const float> logits)> on_logits;
    // The last so many tokens of the first prompt ask: what is kept is chosen in their sight also when the prompt comes in
    // chunks. After each chunk they run behind it as observers only, the chunk is evicted as a one-shot prefill of it with the
    // question behind would be, and they are taken back. Costs n_question tokens a chunk, so a question longer than a chunk
    // guides none; gates that must decide what is cached guide none either. 0: what will be asked is not known.
    int n_question = 0;
    // Of a session that looks back (SessionOptions::look_back): what the last 64 of these tokens look for among what was
    // evicted comes back within the budget, for what is answered, and Ledger::kv_missed tells their share. As repair() in front
    // of them would do it, but chosen behind them, so that they are read once, not twice. Of an empty session nothing was
    // evicted yet, and once keys have turned (context_shift) nothing comes back: the tokens are read all the same. Errors:
    // kInvalidArgument: the session does not look back, or is_answer is set; kIo: the file of what was evicted.
    bool repair = false;
    // The tokens stand for what decode would add (a continuation whose likelihood is asked for): no gate is asked about them.
    bool is_answer = false;
};

// The states that a governed layer makes queries, keys and values of (after the layer's norm): f32 [n_tokens][n_embd], of the
// positions from first_position on. layer: 0, 1, … of those that policies govern, as ScorerLayer::layer (custom_scorer.h).
struct HiddenRows {
    int layer = 0;
    int n_embd = 0;
    int n_tokens = 0;
    int32_t first_position = 0;
    std::span<const float> rows;  // valid during the call
};
// What it returns, or throws, that is an error ends the call it came in.
using HiddenWatcher = std::function<Status(const HiddenRows & hidden)>;

// What a saved session's file says besides: names and texts.
using CacheNotes = std::vector<std::pair<std::string, std::string>>;

// Threads: one at a time. A session keeps its model's weights alive.
class Session {
public:
    // Feeds tokens. The first call on an empty session follows the prefill schedule; later ones go in chunks, and evict
    // like decoded tokens do. logits() are then those of the last token.
    // Policies that need the model's gates (`gated`, `gate`): gates that are not causal must see a prompt whole, so they make
    // the first call one-shot and are asked about that prompt alone, later tokens are kept; causal and linear gates go on with
    // every call. What append() and decode() feed, and RunHooks::is_answer, is never gated, nor seen by gates. Gates that rank
    // (`pith calibrate importance`) say of every token what it matters, decoded ones too.
    // Errors: kInvalidArgument (empty prompt, token out of range, …), kBudget, kOutOfMemory, kCancelled, kIo (of `cold`).
    //         kInternal (logits that are not numbers: damaged weights).
    //         After an error the session is, bit for bit, as before the call; the ledger's times and peaks alone go on.
    //         For this an eviction in the middle of a later prompt keeps what it drops until the call has succeeded: the
    //         ledger's KV peak counts it.
    Status prefill(std::span<const int32_t> tokens, const RunHooks & hooks = {});

    // As prefill() of a first prompt, for questions that will be asked of it later, each by itself; true: they were in sight.
    // questions [n] are the tokens of all of them, one question after the other. They run behind the prompt, or behind every
    // chunk of it, as observers: what is kept is chosen in the sight of all of them, and they are taken back. The session then
    // holds the prompt alone, within its whole budget, as if the questions had never been there: take a snapshot(), prefill()
    // a question, decode, restore(), and so on with the next.
    // A policy that looks at the last queries looks at all the questions' tokens (at more, where its window is longer); one
    // that looks at the last query alone (tova) at the mean over all of them. A question sees those in front of it: reading
    // each behind the prompt alone would take a run, and evidence, for each.
    // false: what is kept is what prefill() keeps. So it is where nothing is evicted; where the policy needs the model's
    // gates, which decide before they could look; and where the prompt is read in chunks and they are longer than a chunk.
    // Errors: those of prefill(), and the session is then as they leave it; kInvalidArgument: no questions, a session that
    // holds tokens, RunHooks::n_question not 0.
    // Cost: the questions' tokens once more; in chunks, with every chunk.
    Result<bool> prefill_for_questions(std::span<const int32_t> tokens, std::span<const int32_t> questions,
                                       const RunHooks & hooks = {});

    // Feeds one token (a decode step), by a row that ran ahead of it where there is one (SessionOptions::draft_ngram), and
    // evicts when `evict_every` tokens have come since the last eviction.
    Status append(int32_t token);

    // Greedy: picks the best of logits(), feeds it, returns it.
    Result<int32_t> decode();

    std::span<const float> logits() const;  // [n_vocab] of the newest token, valid until the next call; empty before prefill
    int64_t n_tokens() const;               // tokens fed so far: the next position

    // Evicts now, and leaves what a one-shot prefill under this policy and budget would have left; the session goes on under
    // them. So one prefill serves many policies: prefill under `full`, snapshot, then for each: evict, ask, restore.
    // A budget in bytes gives the entries that a one-shot prefill would have been given; the full cache held until now is
    // above it.
    // `auto` leaves gates aside, and knows of the question where the first prompt ended in one and nothing has come since.
    // REQUIRES: the policy is the session's own or one of options.observe, and nothing has been evicted yet.
    // Errors: kInvalidArgument (empty session, evicted before, a policy that is `gated`: its prefill is another),
    //         kMissingEvidence (policy not observed), kBudget (names the budget and what is protected), kCancelled; the session
    //         is then as before.
    // cancel: as RunHooks::cancel.
    Status evict(const PolicyChoice & policy, const Budget & budget, const std::atomic<bool> * cancel = nullptr);

    // The second of two stages, for a context that was compressed before anybody knew what would be asked: evicts what is left
    // of it down to this budget in the sight of `questions`, which are asked next, and goes on under this policy and budget.
    // The questions' tokens run behind it as observers, as in prefill_for_questions(), and are taken back; logits() stay as
    // they are. A snapshot() taken before is the context as the first stage left it, for the next question.
    // `auto` chooses as it does with the question in sight. A budget in per cent counts all tokens fed so far.
    // Errors: kInvalidArgument (no questions, an empty session, a policy that is `gated`, or a session whose gates are asked);
    //         kMissingEvidence (the policy asks what queries paid that ran before, and this session did not keep that: names
    //         the policy); kBudget, kOutOfMemory, kCancelled. The session is then as before.
    // Cost: a pass over the questions' tokens, and one eviction.   cancel: as RunHooks::cancel.
    Status evict_for_questions(std::span<const int32_t> questions, const PolicyChoice & policy, const Budget & budget,
                               const std::atomic<bool> * cancel = nullptr);

    // For a question that is asked next: what of the context it looks for among what was evicted (SessionOptions::cold). Its
    // tokens run as queries and are taken back; Ledger::kv_missed tells their share. brings_back: each lane then gets those
    // evicted entries that they pay most to, and what follows them in the text, in place of entries that they pay least to:
    // as many as it had, at their own positions. logits() stay as they are; prefill() the question next, or, where the session
    // looks back, call prefill() alone with RunHooks::repair. A snapshot() taken before is the context as it was.
    // Errors: kInvalidArgument (no question, an empty session, or one that keeps nothing), kIo (the file), kOutOfMemory,
    // kCancelled; the session is then as before.
    // Cost: a pass over the question, and over the evicted keys.   cancel: as RunHooks::cancel.
    Status repair(std::span<const int32_t> question, bool brings_back = true, const std::atomic<bool> * cancel = nullptr);

    bool looks_back() const;  // SessionOptions::look_back, or what the file said

    // A state to come back to, policy and budget included. Cheap while nothing is evicted in between; else the entries evicted
    // since are saved first.
    struct Snapshot;
    Result<std::shared_ptr<Snapshot>> snapshot();
    Status restore(const std::shared_ptr<Snapshot> & snapshot);

    // All of the session as a file (docs/caches.md), of mode 0600, to go on from in this process or another: opened by
    // Model::open_session() or load(), it is as if it had never been saved, bit for bit. A file that is there stays whole
    // until the new one is. notes: what the caller wants back (CacheFileInfo::notes).
    // Errors: kInvalidArgument (nothing was fed yet); kIo (path and reason).   Cost: the first save of a loaded model reads its
    // tensors once, a sample of those above 1 GB, to note which model it is.
    Status save(const std::string & path, const CacheNotes & notes = {}) const;
    // Becomes what was saved there, under the same settings; n_threads, max_context and n_snapshots may be others. Snapshots
    // taken before are void.
    // Errors: kNotFound, kIo; kBadFile (damaged), kUnsupported (another version of the format); kInvalidArgument: another
    // model, adapter, gates or settings: names the item that differs. The session is then as before.
    Status load(const std::string & path);
    std::vector<int32_t> tokens() const;  // all that were fed

    // SessionOptions::draft_ngram from now on. Errors: kInvalidArgument.
    Status set_draft_ngram(int most);
    Status set_repair_every(int n_tokens);  // the same; of questions asked from now on

    // Shown the hidden states of all that is read from now on, layer by layer, for scorers of one's own that go by them: once a
    // chunk is read they are gone. Tokens that run as queries only (questions in sight, a second reading) are shown, too, at
    // the positions that they stand at, and tokens of calls that fail afterwards. An empty function ends it. Neither saved nor
    // part of a snapshot. Cost: the states are read out of each layer; a decoded token runs layer by layer, without drafts.
    void watch_hidden(HiddenWatcher watcher);

    const Ledger & ledger() const;
    // Original positions of the entries that a lane holds, ascending; none of a lane that there is not.
    std::span<const int32_t> lane_positions(int layer, int kv_head) const;
    int n_layers() const;
    // false: the layer sees a window only, and its lanes hold that, whatever the policy and the budget; or it is recurrent, and
    // has none.
    bool is_governed(int layer) const;
    int n_kv_heads() const;

    Session(Session &&) noexcept;
    Session & operator=(Session &&) noexcept;
    ~Session();

    struct Impl;

private:
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace pith
