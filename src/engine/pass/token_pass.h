// token_pass.h - the one way from tokens to logits: tokens of a session, or of several, through all layers and the head, under
// what their gates say. Stage: model graph → attention → evidence → logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/pass/batch_part.h"
#include "engine/pass/states_there.h"
#include "pith/status.h"

namespace pith {

class Forward;
struct LiveSession;

struct PassPiece {
    LiveSession * session = nullptr;
    std::span<const int32_t> tokens;
    bool wants_logits = false;  // of the newest: they come to session->next_logits
    // May come next, behind a single token: they run ahead (ahead_rows.h) where the pass is one graph, and else not at all.
    std::span<const int32_t> draft = {};
    // A prompt's, which look back at what was evicted where the session says so (look_back.h).
    bool may_look_back = false;
    // Shown every position's; nullptr or empty: none.
    const std::function<void(int64_t position, std::span<const float> logits)> * on_logits = nullptr;
};

// Whether the session's tokens may share a pass: no gate is asked about them, or has anything hidden.
bool can_share(const LiveSession & session);
// Whether a token of it may be a part of one graph, with others' tokens. Where one may not, all of a pass go layer by layer.
bool can_run_tokens(const LiveSession & session);

// One pass after another over one model: one token of each as one graph, anything else layer by layer.   Threads: one at a
// time.
class TokenPass {
public:
    // Adds the pieces' K/V to their lanes, counts their tokens, tells their evidence.
    // REQUIRES: transactions are open; at least one piece, none empty, no session twice, all on the same threads; of several,
    // can_share() and none with on_logits.
    // Errors: kOutOfMemory, kInternal, kCancelled; the lanes may then hold new entries already, and all pieces must be rolled
    // back.
    Status run(std::span<const PassPiece> pieces);
    // Of a piece of a pass that has succeeded: an error where its logits are not numbers, which is its sequence's business
    // alone.
    const Status & outcome(size_t piece) const { return outcomes_[piece]; }

    // [rows][D], from layer to layer; a prompt that is read layer by layer keeps its own here.
    std::vector<float> & states() { return states_; }
    StatesThere & states_there() { return states_there_; }  // of such a prompt, and of a pass that goes layer by layer
    const StatesThere & states_there() const { return states_there_; }
    void release_states() noexcept {
        std::vector<float>().swap(states_);  // `= {}` would keep the memory
        states_there_.release();
    }
    size_t size_bytes() const { return (states_.capacity() + logits_.capacity()) * sizeof(float); }

private:
    void add_ahead(const PassPiece & piece);
    Status run_tokens(Forward & forward, std::span<const PassPiece> pieces);
    Status end_tokens(std::span<const PassPiece> pieces);
    Status run_pieces(Forward & forward, std::span<const PassPiece> pieces);
    Status run_heads(Forward & forward, std::span<const PassPiece> pieces);

    std::vector<BatchPart> parts_;
    std::vector<LiveSession *> sessions_;
    std::vector<int32_t> tokens_;
    std::vector<int32_t> kept_;  // rows that go on from the last layer
    std::vector<std::span<float>> rows_;
    std::vector<float> states_;
    StatesThere states_there_;
    std::vector<float> logits_;     // [pieces that want them][n_vocab], of several
    std::vector<Status> outcomes_;  // [piece]
    std::vector<Status> of_parts_;
};

// Whether a draft may run behind its tokens: all that a row changes can be put down, and taken later.
bool can_run_ahead(const LiveSession & session);

// The session's tokens by themselves, in its own pass; a single one whose row ran ahead takes that in place of it.
Status run_pass(LiveSession & session, const PassPiece & piece);

// What a prompt that is read layer by layer has of it: one layer over n tokens of the session, and the logits of what comes out
// of the last.
struct LayerRows {
    std::span<const int32_t> tokens;  // [n]
    std::span<float> states;          // [n][D] read in front of all layers but the first; overwritten with the result
    int32_t first_position = 0;
    int n_out = 0;      // so many of the newest go on: they are then in front
    int n_to_come = 0;  // tokens that the layer sees after these before its evidence is asked for anything
    RowsThere there = {};
};
Status run_layer(LiveSession & session, int layer, const LayerRows & rows);
// states [n][D]: all rows where on_logits is shown them, else the newest in front, whose logits come to session.next_logits.
Status run_head(LiveSession & session, std::span<const float> states, int n, int64_t first_position,
                const std::function<void(int64_t position, std::span<const float> logits)> & on_logits);

}  // namespace pith
