// token_pass.cpp - a token as one graph where it may be, anything else layer by layer.
#include "engine/token_pass.h"

#include <algorithm>
#include <vector>

namespace pith {

Status run_layer(LiveSession & session, int layer, const LayerRows & rows) {
    Sequence & seq = session.seq;
    BatchPart part{.cache = seq.cache.get(),
                   .evidence = &seq.evidence,
                   .n = static_cast<int>(rows.tokens.size()),
                   .first_position = rows.first_position,
                   .n_to_come = rows.n_to_come,
                   .states = &seq.states};
    if (session.gates) { PITH_RETURN_IF_ERROR(session.gates->before_layer(session, layer, part, seq, session.ledger)); }
    PITH_RETURN_IF_ERROR(session.forward->run_layer(part, layer, rows.tokens, rows.states, rows.n_out));
    return session.gates ? session.gates->after_layer(session, layer, part, seq, session.ledger) : Status();
}

Status run_layers(LiveSession & session, std::span<const int32_t> tokens, bool all_states) {
    const auto n = static_cast<int>(tokens.size());
    const auto first_position = static_cast<int32_t>(session.seq.n_tokens);
    session.hidden.resize(tokens.size() * static_cast<size_t>(session.file->hparams().n_embd));
    for (int layer = 0; layer < session.n_layers(); ++layer) {
        const int n_out = layer + 1 == session.n_layers() && !all_states ? 1 : n;
        if (session.gates) {
            PITH_RETURN_IF_ERROR(
                session.gates->ask(session, layer, {tokens, session.hidden, n}, first_position, session.seq, session.ledger));
        }
        PITH_RETURN_IF_ERROR(run_layer(session, layer, {tokens, session.hidden, first_position, n_out}));
    }
    session.seq.n_tokens += n;
    return {};
}

Status run_chunk(LiveSession & session, std::span<const int32_t> tokens, const RunHooks & hooks, bool is_last) {
    Sequence & seq = session.seq;
    const auto n = static_cast<int>(tokens.size());
    const auto width = static_cast<size_t>(session.file->hparams().n_embd);
    const auto first_position = static_cast<int32_t>(seq.n_tokens);
    if (n == 1 && !asked(session.gates) && !hooks.on_logits && session.forward->can_run_tokens(*seq.cache, seq.evidence)) {
        for (int layer = 0; session.gates && layer < session.n_layers(); ++layer) {
            PITH_RETURN_IF_ERROR(SessionGates::drop_hidden(layer, first_position, seq, session.ledger));
        }
        session.next_logits.resize(static_cast<size_t>(session.file->hparams().n_vocab));
        const BatchPart part{.cache = seq.cache.get(),
                             .evidence = &seq.evidence,
                             .n = 1,
                             .first_position = first_position,
                             .states = &seq.states};
        const std::span<float> row = session.next_logits;
        PITH_RETURN_IF_ERROR(session.forward->run_tokens(std::span(&part, 1), tokens, std::span(&row, 1)));
        ++seq.n_tokens;
        return {};
    }
    PITH_RETURN_IF_ERROR(run_layers(session, tokens, static_cast<bool>(hooks.on_logits)));
    if (!is_last && !hooks.on_logits) { return {}; }
    return emit_logits(session, std::span(session.hidden).first(static_cast<size_t>(n) * width), n, first_position, hooks);
}

Status emit_logits(LiveSession & session, std::span<const float> states, int n, int64_t first_position,
                   const RunHooks & hooks) {
    constexpr int kLogitRows = 64;  // positions whose logits are computed at a time
    const auto width = static_cast<size_t>(session.file->hparams().n_embd);
    const auto n_vocab = static_cast<size_t>(session.file->hparams().n_vocab);
    if (!hooks.on_logits) {
        session.next_logits.resize(n_vocab);
        PITH_RETURN_IF_ERROR(session.forward->run_head(states.first(width), 1, session.next_logits));
        return check_logits(session.next_logits);
    }
    std::vector<float> rows;
    for (int first = 0; first < n; first += kLogitRows) {
        const int m = std::min(kLogitRows, n - first);
        rows.resize(static_cast<size_t>(m) * n_vocab);
        PITH_RETURN_IF_ERROR(session.forward->run_head(
            states.subspan(static_cast<size_t>(first) * width, static_cast<size_t>(m) * width), m, rows));
        PITH_RETURN_IF_ERROR(check_logits(rows));
        for (int i = 0; i < m; ++i) {
            hooks.on_logits(first_position + first + i, std::span(rows).subspan(static_cast<size_t>(i) * n_vocab, n_vocab));
        }
        session.next_logits.assign(rows.end() - static_cast<int64_t>(n_vocab), rows.end());
    }
    return {};
}

}  // namespace pith
