// token_pass.cpp - parts of sequences, and what their gates do around each layer.
#include "engine/pass/token_pass.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "engine/pass/live_session.h"
#include "engine/pass/look_back.h"

namespace pith {
namespace {

BatchPart part_of(LiveSession & session, size_t n, int32_t first_position) {
    Sequence & seq = session.seq;
    BatchPart part;
    const bool ranks = known_gates(session) == KnownGates::kRank && seq.evidence.wants_retention();
    part.ranking = ranks ? &session.gates->gate() : nullptr;
    part.cache = seq.cache.get();
    part.evidence = &seq.evidence;
    part.states = &seq.states;
    part.n = static_cast<int>(n);
    part.first_position = first_position;
    return part;
}

// Forward::run_layer() under what each session's gates say of its part.
Status run_under_gates(Forward & forward, std::span<LiveSession * const> sessions, std::span<BatchPart> parts, int layer,
                       std::span<const int32_t> tokens, std::span<float> states, std::span<const int32_t> kept,
                       const RowsThere & there = {}) {
    for (size_t i = 0; i < parts.size(); ++i) {
        LiveSession & session = *sessions[i];
        if (!session.gates) { continue; }
        PITH_RETURN_IF_ERROR(session.gates->before_layer(session, layer, parts[i], session.seq, session.ledger));
    }
    PITH_RETURN_IF_ERROR(forward.run_layer(parts, layer, tokens, states, kept, there));
    for (size_t i = 0; i < parts.size(); ++i) {
        LiveSession & session = *sessions[i];
        if (!session.gates) { continue; }
        PITH_RETURN_IF_ERROR(session.gates->after_layer(session, layer, parts[i], session.seq, session.ledger));
    }
    return {};
}

bool shows_all(const PassPiece & piece) {
    return piece.on_logits != nullptr && *piece.on_logits;
}

bool looks_back(const PassPiece & piece) {
    return piece.may_look_back && pith::looks_back(*piece.session);
}

// What the pieces look back at, of the layer whose lanes this one sees.
Status bring_back(std::span<const PassPiece> pieces, int layer, SpillMemory & staging, std::deque<LookBack> & back) {
    for (const PassPiece & piece : pieces) {
        const CacheLayout & layout = piece.session->layout;
        const int source = layout.source(layer);
        if (!looks_back(piece) || !layout.governs(source)) { continue; }
        const int64_t n_new = source == layer ? std::ssize(piece.tokens) : 0;
        PITH_RETURN_IF_ERROR(back.emplace_back().bring(*piece.session, source, n_new, staging));
    }
    return {};
}

}  // namespace

bool can_share(const LiveSession & session) {
    return !asked(session.gates) && !session.seq.gate_state.hides_any();
}

bool can_run_tokens(const LiveSession & session) {
    return session.forward->can_run_tokens(*session.seq.cache, session.seq.evidence);
}

bool can_run_ahead(const LiveSession & session) {
    const Sequence & seq = session.seq;
    return !session.gates && session.file->hparams().n_recurrent_layers() == 0 && !seq.cache->any_in_buckets() &&
           !seq.evidence.wants_moments() && !seq.evidence.wants_blocks() && can_run_tokens(session);
}

// The rows of its draft, behind the piece's token.
void TokenPass::add_ahead(const PassPiece & piece) {
    LiveSession & session = *piece.session;
    const auto n = static_cast<int>(piece.draft.size());
    parts_.back().n_behind = n;
    parts_.back().n_together = 1 + n;
    for (AheadRow & row : session.ahead.begin(piece.draft, static_cast<size_t>(session.file->hparams().n_vocab))) {
        BatchPart part = parts_.back();
        part.first_position += 1;
        part.n_behind -= 1;
        part.ahead = &row;
        parts_.push_back(part);
        tokens_.push_back(row.token);
    }
}

Status TokenPass::run(std::span<const PassPiece> pieces) {
    parts_.clear();
    sessions_.clear();
    tokens_.clear();
    outcomes_.assign(pieces.size(), Status());
    const bool single = std::ranges::all_of(pieces, [](const PassPiece & piece) {
        return piece.tokens.size() == 1 && piece.wants_logits && !shows_all(piece) && !asked(piece.session->gates) &&
               can_run_tokens(*piece.session) && !looks_back(piece);
    });
    for (const PassPiece & piece : pieces) {
        LiveSession & session = *piece.session;
        session.ahead.drop();
        parts_.push_back(part_of(session, piece.tokens.size(), static_cast<int32_t>(session.seq.n_tokens)));
        sessions_.push_back(piece.session);
        tokens_.insert(tokens_.end(), piece.tokens.begin(), piece.tokens.end());
        if (single && !piece.draft.empty()) { add_ahead(piece); }
    }
    Forward & forward = *pieces.front().session->forward;
    if (single) { states_there_.release(); }  // of the chunks before
    PITH_RETURN_IF_ERROR(single ? run_tokens(forward, pieces) : run_pieces(forward, pieces));
    for (const PassPiece & piece : pieces) { piece.session->seq.n_tokens += std::ssize(piece.tokens); }
    return single ? end_tokens(pieces) : run_heads(forward, pieces);
}

// What each piece's rows came to.
Status TokenPass::end_tokens(std::span<const PassPiece> pieces) {
    size_t part = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
        LiveSession & session = *pieces[i].session;
        outcomes_[i] = std::move(of_parts_[part++]);
        size_t n_good = 0;
        for (bool good = true; part < parts_.size() && parts_[part].ahead != nullptr; ++part) {
            good = good && of_parts_[part].ok();  // behind one that is not, none is
            n_good += good ? 1 : 0;
        }
        if (n_good == 0) { continue; }
        session.ahead.keep(session.seq, n_good);
        session.ledger.n_drafted += static_cast<int64_t>(n_good);
    }
    return {};
}

Status TokenPass::run_tokens(Forward & forward, std::span<const PassPiece> pieces) {
    const Hparams & hp = forward.hparams();
    rows_.clear();
    for (const PassPiece & piece : pieces) {
        LiveSession & session = *piece.session;
        for (int layer = 0; session.gates && layer < hp.n_layers; ++layer) {
            const auto position = static_cast<int32_t>(session.seq.n_tokens);
            PITH_RETURN_IF_ERROR(SessionGates::drop_hidden(layer, position, session.seq, session.ledger));
        }
        session.next_logits.resize(static_cast<size_t>(hp.n_vocab));
    }
    auto piece = pieces.begin();
    for (const BatchPart & part : parts_) {
        rows_.emplace_back(part.ahead != nullptr ? part.ahead->logits : (piece++)->session->next_logits);
    }
    of_parts_.assign(parts_.size(), Status());
    return forward.run_tokens(parts_, tokens_, rows_, of_parts_);
}

Status TokenPass::run_pieces(Forward & forward, std::span<const PassPiece> pieces) {
    const Hparams & hp = forward.hparams();
    const auto width = static_cast<size_t>(hp.n_embd);
    kept_.clear();
    int32_t end = 0;
    for (const PassPiece & piece : pieces) {
        const auto n = static_cast<int32_t>(piece.tokens.size());
        for (int32_t i = shows_all(piece) ? 0 : n - 1; i < n && (piece.wants_logits || shows_all(piece)); ++i) {
            kept_.push_back(end + i);
        }
        end += n;
    }
    const bool read_behind = !kept_.empty();
    if (!read_behind) { kept_.push_back(end - 1); }  // one must, and nobody reads it
    states_.resize(tokens_.size() * width);
    const bool gated = std::ranges::any_of(pieces, [](const PassPiece & piece) { return piece.session->gates != nullptr; });
    if (!gated) {
        PITH_RETURN_IF_ERROR(states_there_.begin_layers(*pieces.front().session, 0, hp.n_layers, std::ssize(tokens_)));
    } else {
        states_there_.release();
    }
    SpillMemory staging;  // of what is looked back at, from layer to layer
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        size_t row = 0;
        for (const PassPiece & piece : pieces) {
            LiveSession & session = *piece.session;
            const size_t n = piece.tokens.size();
            const auto states = std::span<const float>(states_).subspan(row * width, n * width);
            row += n;
            if (!session.gates) { continue; }
            PITH_RETURN_IF_ERROR(session.gates->ask(session, layer, {piece.tokens, states, static_cast<int>(n)},
                                                    static_cast<int32_t>(session.seq.n_tokens), session.seq, session.ledger));
        }
        const bool last = layer + 1 == hp.n_layers;
        std::deque<LookBack> back;
        PITH_RETURN_IF_ERROR(bring_back(pieces, layer, staging, back));
        PITH_RETURN_IF_ERROR(run_under_gates(forward, sessions_, parts_, layer, tokens_, states_,
                                             last ? std::span<const int32_t>(kept_) : std::span<const int32_t>(),
                                             states_there_.rows(layer, 0, read_behind)));
        for (LookBack & one : back) { PITH_RETURN_IF_ERROR(one.end()); }
    }
    return {};
}

Status TokenPass::run_heads(Forward & forward, std::span<const PassPiece> pieces) {
    const auto width = static_cast<size_t>(forward.hparams().n_embd);
    const auto n_vocab = static_cast<size_t>(forward.hparams().n_vocab);
    if (shows_all(pieces.front())) {
        const int64_t n = std::ssize(pieces.front().tokens);
        LiveSession & session = *pieces.front().session;
        return run_head(session, states_, static_cast<int>(n), session.seq.n_tokens - n, *pieces.front().on_logits);
    }
    const auto n_wanted = static_cast<size_t>(std::ranges::count_if(pieces, &PassPiece::wants_logits));
    if (n_wanted == 0) { return {}; }
    const auto states = std::span<const float>(states_).first(n_wanted * width);
    if (pieces.size() == 1) {  // straight to where they are wanted
        std::vector<float> & logits = pieces.front().session->next_logits;
        logits.resize(n_vocab);
        PITH_RETURN_IF_ERROR(forward.run_head(states, 1, logits));
        outcomes_.front() = check_logits(logits);
        return {};
    }
    logits_.resize(n_wanted * n_vocab);
    PITH_RETURN_IF_ERROR(forward.run_head(states, static_cast<int>(n_wanted), logits_));
    const float * from = logits_.data();
    for (size_t i = 0; i < pieces.size(); ++i) {
        if (!pieces[i].wants_logits) { continue; }
        outcomes_[i] = check_logits({from, n_vocab});
        pieces[i].session->next_logits.assign(from, from + n_vocab);
        from += n_vocab;
    }
    return {};
}

Status run_pass(LiveSession & session, const PassPiece & piece) {
    const bool single = piece.tokens.size() == 1 && piece.wants_logits && !shows_all(piece) && !looks_back(piece);
    if (single && session.ahead.has(session.seq, piece.tokens.front())) {
        session.ahead.take(session.seq, session.next_logits);
        ++session.ledger.n_draft_accepted;
        return {};
    }
    PITH_RETURN_IF_ERROR(session.pass.run(std::span(&piece, 1)));
    return session.pass.outcome(0);
}

Status run_layer(LiveSession & session, int layer, const LayerRows & rows) {
    session.ahead.drop();
    BatchPart part = part_of(session, rows.tokens.size(), rows.first_position);
    part.n_to_come = rows.n_to_come;
    std::vector<int32_t> newest(static_cast<size_t>(rows.n_out < part.n ? rows.n_out : 0));  // none: all go on
    std::iota(newest.begin(), newest.end(), part.n - rows.n_out);
    LiveSession * const one = &session;
    return run_under_gates(*session.forward, std::span(&one, 1), std::span(&part, 1), layer, rows.tokens, rows.states, newest,
                           rows.there);
}

Status run_head(LiveSession & session, std::span<const float> states, int n, int64_t first_position,
                const std::function<void(int64_t position, std::span<const float> logits)> & on_logits) {
    constexpr int kLogitRows = 64;  // positions whose logits are computed at a time
    Forward & forward = *session.forward;
    const auto width = static_cast<size_t>(forward.hparams().n_embd);
    const auto n_vocab = static_cast<size_t>(forward.hparams().n_vocab);
    if (!on_logits) {
        session.next_logits.resize(n_vocab);
        PITH_RETURN_IF_ERROR(forward.run_head(states.first(width), 1, session.next_logits));
        return check_logits(session.next_logits);
    }
    std::vector<float> rows;
    for (int first = 0; first < n; first += kLogitRows) {
        const int m = std::min(kLogitRows, n - first);
        rows.resize(static_cast<size_t>(m) * n_vocab);
        PITH_RETURN_IF_ERROR(
            forward.run_head(states.subspan(static_cast<size_t>(first) * width, static_cast<size_t>(m) * width), m, rows));
        PITH_RETURN_IF_ERROR(check_logits(rows));
        for (int i = 0; i < m; ++i) {
            on_logits(first_position + first + i, std::span(rows).subspan(static_cast<size_t>(i) * n_vocab, n_vocab));
        }
        session.next_logits.assign(rows.end() - static_cast<int64_t>(n_vocab), rows.end());
    }
    return {};
}

}  // namespace pith
