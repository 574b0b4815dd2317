// batch_pass.h - pieces of several sequences through all layers in one pass, and the logits of those that want them. Stage:
// model graph → attention → evidence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/live_session.h"

namespace pith {

struct PassPiece {
    LiveSession * session = nullptr;
    std::span<const int32_t> tokens;
    bool wants_logits = false;  // of the newest: they come to session->next_logits
};

// Whether the session's tokens may share a pass: no gate is asked about them, or has anything hidden.
bool can_share(const LiveSession & session);

// One pass after another over one model.   Threads: one at a time.
class BatchPass {
public:
    explicit BatchPass(std::shared_ptr<Forward> forward) : forward_(std::move(forward)) {}

    // Whether a token of it may be a part of one graph with others' tokens. Where one may not, all of a pass go layer by layer.
    bool can_run_tokens(const LiveSession & session) const {
        return forward_->can_run_tokens(*session.seq.cache, session.seq.evidence);
    }

    // Adds the pieces' K/V to their lanes, counts their tokens, tells their evidence.
    // REQUIRES: transactions are open; can_share(); at least one piece, none empty, no session twice.
    // Errors: kOutOfMemory, kInternal; the lanes may then hold new entries already, and all pieces must be rolled back.
    Status run(std::span<const PassPiece> pieces);
    // Of a piece of a pass that has succeeded: an error where its logits are not numbers, which is its sequence's business
    // alone.
    const Status & outcome(size_t piece) const { return outcomes_[piece]; }

    size_t size_bytes() const { return (hidden_.capacity() + logits_.capacity()) * sizeof(float); }

private:
    Status run_tokens(std::span<const PassPiece> pieces);
    Status run_pieces(std::span<const PassPiece> pieces);

    std::shared_ptr<Forward> forward_;
    std::vector<BatchPart> parts_;
    std::vector<int32_t> tokens_;
    std::vector<std::span<float>> rows_;
    std::vector<float> hidden_;     // [rows][D]
    std::vector<float> logits_;     // [pieces that want them][n_vocab]
    std::vector<Status> outcomes_;  // [piece]
};

}  // namespace pith
