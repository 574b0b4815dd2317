// batch_pass.cpp - one token of each as one graph, anything else layer by layer.
#include "engine/batch/batch_pass.h"

#include <algorithm>
#include <utility>

namespace pith {

bool can_share(const LiveSession & session) {
    return !asked(session.gates) && !session.seq.gate_state.hides_any();
}

Status BatchPass::run(std::span<const PassPiece> pieces) {
    parts_.clear();
    tokens_.clear();
    outcomes_.assign(pieces.size(), Status());
    for (const PassPiece & piece : pieces) {
        Sequence & seq = piece.session->seq;
        BatchPart & part = parts_.emplace_back();
        part.cache = seq.cache.get();
        part.evidence = &seq.evidence;
        part.states = &seq.states;
        part.n = static_cast<int>(piece.tokens.size());
        part.first_position = static_cast<int32_t>(seq.n_tokens);
        tokens_.insert(tokens_.end(), piece.tokens.begin(), piece.tokens.end());
    }
    const bool single = std::ranges::all_of(pieces, [&](const PassPiece & piece) {
        return piece.tokens.size() == 1 && piece.wants_logits && can_run_tokens(*piece.session);
    });
    PITH_RETURN_IF_ERROR(single ? run_tokens(pieces) : run_pieces(pieces));
    for (const PassPiece & piece : pieces) { piece.session->seq.n_tokens += std::ssize(piece.tokens); }
    return {};
}

Status BatchPass::run_tokens(std::span<const PassPiece> pieces) {
    const auto n_vocab = static_cast<size_t>(forward_->hparams().n_vocab);
    rows_.clear();
    for (const PassPiece & piece : pieces) {
        piece.session->next_logits.resize(n_vocab);
        rows_.emplace_back(piece.session->next_logits);
    }
    return forward_->run_tokens(parts_, tokens_, rows_, outcomes_);
}

Status BatchPass::run_pieces(std::span<const PassPiece> pieces) {
    const Hparams & hp = forward_->hparams();
    const auto width = static_cast<size_t>(hp.n_embd);
    const auto n_vocab = static_cast<size_t>(hp.n_vocab);
    std::vector<int32_t> newest;  // rows whose logits are wanted
    int32_t row = -1;
    for (const PassPiece & piece : pieces) {
        row += static_cast<int32_t>(piece.tokens.size());
        if (piece.wants_logits) { newest.push_back(row); }
    }
    hidden_.resize(tokens_.size() * width);
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        const bool last = layer + 1 == hp.n_layers;
        PITH_RETURN_IF_ERROR(forward_->run_layer(parts_, layer, tokens_, hidden_, last ? newest : std::vector<int32_t>()));
    }
    if (newest.empty()) { return {}; }
    logits_.resize(newest.size() * n_vocab);
    PITH_RETURN_IF_ERROR(
        forward_->run_head(std::span(hidden_).first(newest.size() * width), static_cast<int>(newest.size()), logits_));
    const float * from = logits_.data();
    for (size_t i = 0; i < pieces.size(); ++i) {
        if (!pieces[i].wants_logits) { continue; }
        outcomes_[i] = check_logits({from, n_vocab});
        pieces[i].session->next_logits.assign(from, from + n_vocab);
        from += n_vocab;
    }
    return {};
}

}  // namespace pith
