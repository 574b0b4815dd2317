// reread.cpp - piece by piece, layer by layer, and all taken back.
#include "engine/evict/reread.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/stopwatch.h"
#include "engine/evict/second_reading.h"
#include "engine/pass/states_there.h"
#include "engine/pass/token_pass.h"

namespace pith {
namespace {

void add_to(std::vector<int32_t> & to, std::span<const int32_t> tokens) {
    to.insert(to.end(), tokens.begin(), tokens.end());
}

using LayerProgress = std::function<void(int layer)>;

// The tokens through the layers, behind all that the lanes hold. maxima [layer of the model][H]: of the piece's entries.
Status run_again(LiveSession & session, std::span<const int32_t> tokens, const EvidenceNeeds & needs,
                 const PositionSpan & piece, const LayerProgress & progress, std::vector<Ragged<float>> & maxima) {
    Sequence & seq = session.seq;
    const int last_governed = session.governed.back();
    const auto n = static_cast<int>(tokens.size());
    const auto width = static_cast<size_t>(session.file->hparams().n_embd);
    std::vector<float> states(tokens.size() * width);
    StatesThere there;  // of a piece, which is short
    const auto first_position = static_cast<int32_t>(seq.n_tokens);
    for (int layer = 0; layer <= last_governed;) {
        progress(layer);
        const int end_of_run = session.file->hparams().end_of_run(layer);
        for (int l = layer; l < end_of_run; ++l) {  // on a device once, and not again for every chunk
            if (seq.cache->in_buckets(l)) { PITH_RETURN_IF_ERROR(seq.cache->reserve(0, l, n)); }
        }
        PITH_RETURN_IF_ERROR(there.begin_layers(session, layer, end_of_run, n));
        for (int i = 0; i < n; i += seq.plan->chunk) {
            const int m = std::min(seq.plan->chunk, n - i);
            const auto of_chunk = tokens.subspan(static_cast<size_t>(i), static_cast<size_t>(m));
            const auto rows = std::span(states).subspan(static_cast<size_t>(i) * width, static_cast<size_t>(m) * width);
            for (int l = layer; l < end_of_run; ++l) {
                const int n_out = l == last_governed ? 1 : m;  // nobody reads what comes out of it
                PITH_RETURN_IF_ERROR(run_layer(session, l,
                                               {of_chunk, rows, first_position + i, n_out, n - i - m,
                                                there.rows(l, i, /*read_behind=*/l != last_governed)}));
            }
        }
        for (int l = layer; l < end_of_run; ++l) {
            if (!session.layout.governs(l)) { continue; }
            PITH_ASSIGN_OR_RETURN(const LayerEvidence seen, seq.evidence.gather(session.forward->observer(), *seq.cache, 0, l,
                                                                                first_position + n, needs));
            for (int head = 0; head < session.shape().n_heads(); ++head) {
                const auto positions = seen.positions.row(head / session.shape().n_group);
                const auto from = std::ranges::lower_bound(positions, piece.begin) - positions.begin();
                const auto to = std::ranges::lower_bound(positions, piece.end) - positions.begin();
                maxima[static_cast<size_t>(l)].push_row(
                    seen.window_max.row(head).subspan(static_cast<size_t>(from), static_cast<size_t>(to - from)));
            }
        }
        seq.evidence.reset();  // the layers' queries
        layer = end_of_run;
    }
    return {};
}

Status read_piece_again(LiveSession & session, int64_t begin, int64_t end, const LayerProgress & progress) {
    Sequence & seq = session.seq;
    const RereadPrompt & prompt = session.options.reread;
    std::vector<int32_t> tokens = begin == 0 ? prompt.first : prompt.next;
    if (begin > 0 && !prompt.next.empty()) {
        const int64_t hint = std::max<int64_t>(0, begin - kRereadHint);
        add_to(tokens, seq.tokens.range(static_cast<size_t>(hint), static_cast<size_t>(begin)));
    }
    add_to(tokens, prompt.behind);
    add_to(tokens, seq.tokens.range(static_cast<size_t>(begin), static_cast<size_t>(end)));

    const auto n = static_cast<int>(tokens.size());
    const EvidenceNeeds needs{.window = n, .window_max = true};
    std::vector<Ragged<float>> maxima(static_cast<size_t>(session.n_layers()));
    {
        const SecondReading reading(session, EvidenceState(session.layout.shape_of_model(), needs, session.output));
        const PositionSpan piece{static_cast<int32_t>(begin), static_cast<int32_t>(end)};
        PITH_RETURN_IF_ERROR(run_again(session, tokens, needs, piece, progress, maxima));
    }
    for (const int layer : session.governed) {
        seq.evidence.add_reread(*seq.cache, 0, layer, static_cast<int32_t>(begin), maxima[static_cast<size_t>(layer)]);
    }
    return {};
}

}  // namespace

int64_t n_unread(const LiveSession & session) {
    const Sequence & seq = session.seq;
    const int layer = session.governed.front();
    const auto n_read = static_cast<int64_t>(seq.evidence.n_reread(layer));
    return std::max<int64_t>(0, seq.cache->length(seq.cache->lane(0, layer, 0)) - n_read);
}

Status read_again(LiveSession & session, const ReadAgainProgress & progress) {
    const Sequence & seq = session.seq;
    // Gates hide entries from queries that come, and the second reading's are none that come.
    if (!seq.evidence.wants_reread() || session.governed.empty() || seq.policy.gated()) { return {}; }
    const Stopwatch watch;
    // Where nothing is evicted it is for evict(), which leaves what one shot would have left.
    const int64_t piece = seq.evicts() ? seq.plan->piece_to_reread() : kRereadPiece;
    const int64_t n_all = n_unread(session);
    for (int64_t n_left = n_all; n_left > 0;) {
        const int64_t begin = seq.n_tokens - n_left;
        const int64_t n = std::min(piece, n_left);
        PITH_RETURN_IF_ERROR(read_piece_again(session, begin, begin + n, [&](int layer) {
            if (progress) { progress(n_all - n_left + n * layer / session.n_layers(), n_all); }
        }));
        n_left -= n;
    }
    session.ledger.reread_s += watch.seconds();
    return {};
}

}  // namespace pith
