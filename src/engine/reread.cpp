// reread.cpp - what is new in the lanes is read once more behind them, and what that pays to each entry is remembered. Stage:
// attention → evidence.
//
// For policies that keep what a repetition of the text looks up, whatever will be asked. It comes right before an eviction,
// piece by piece: the words that ask for the piece, then the piece itself, as queries behind all that the lanes hold. Lanes,
// evidence and states are afterwards, bit for bit, what they were, but for the evidence that was asked for.
// Cost: a pass over the new tokens and the words, whose queries see all entries. Memory: lanes grow by a piece and the words
// (RunPlan::n_reread), and the piece's hidden states and one layer's queries are held.
#include <algorithm>
#include <utility>

#include "core/stopwatch.h"
#include "engine/session_impl.h"

namespace pith {
namespace {

// Puts aside what running tokens changes, and brings it back, whatever happens meanwhile.
class SecondReading {
public:
    SecondReading(Session::Impl & session, EvidenceState evidence)
        : session_(session),
          lengths_(session.seq.lane_lengths()),
          states_(session.seq.states),
          gating_(std::exchange(session.gating, false)),
          evidence_(std::exchange(session.seq.evidence, std::move(evidence))) {}
    ~SecondReading() {
        session_.seq.truncate(lengths_);
        session_.seq.evidence = std::move(evidence_);
        session_.seq.states = std::move(states_);
        session_.gating = gating_;
    }
    SecondReading(const SecondReading &) = delete;
    SecondReading & operator=(const SecondReading &) = delete;

private:
    Session::Impl & session_;
    std::vector<int> lengths_;
    RecurrentStates states_;
    bool gating_;
    EvidenceState evidence_;
};

void add_to(std::vector<int32_t> & to, std::span<const int32_t> tokens) {
    to.insert(to.end(), tokens.begin(), tokens.end());
}

}  // namespace

// Of the newest entries, how many were not read again yet.
int64_t Session::Impl::n_unread() const {
    const int layer = governed.front();
    const auto n_read = static_cast<int64_t>(seq.evidence.n_reread(layer));
    return std::max<int64_t>(0, seq.cache->length(seq.cache->lane(0, layer, 0)) - n_read);
}

Status Session::Impl::read_again(const ReadAgainProgress & progress) {
    // Gates hide entries from queries that come, and the second reading's are none that come.
    if (!seq.evidence.wants_reread() || governed.empty() || seq.policy.gated()) { return {}; }
    const Stopwatch watch;
    // Where nothing is evicted it is for evict(), which leaves what one shot would have left.
    const int64_t piece = evicts() ? seq.plan->piece_to_reread() : kRereadPiece;
    const int64_t n_all = n_unread();
    for (int64_t n_left = n_all; n_left > 0;) {
        const int64_t begin = seq.n_tokens - n_left;
        const int64_t n = std::min(piece, n_left);
        PITH_RETURN_IF_ERROR(read_piece_again(begin, begin + n, [&](int layer) {
            if (progress) { progress(n_all - n_left + n * layer / n_layers(), n_all); }
        }));
        n_left -= n;
    }
    ledger.reread_s += watch.seconds();
    return {};
}

Status Session::Impl::read_piece_again(int64_t begin, int64_t end, const std::function<void(int layer)> & progress) {
    const RereadPrompt & prompt = options.reread;
    std::vector<int32_t> tokens = begin == 0 ? prompt.first : prompt.next;
    if (begin > 0 && !prompt.next.empty()) {
        const int64_t hint = std::max<int64_t>(0, begin - kRereadHint);
        add_to(tokens, seq.tokens.range(static_cast<size_t>(hint), static_cast<size_t>(begin)));
    }
    add_to(tokens, prompt.behind);
    add_to(tokens, seq.tokens.range(static_cast<size_t>(begin), static_cast<size_t>(end)));

    const auto n = static_cast<int>(tokens.size());
    const EvidenceNeeds needs{.window = n, .window_max = true};
    std::vector<Ragged<float>> maxima(static_cast<size_t>(n_layers()));
    {
        const SecondReading reading(*this, EvidenceState(layout.shape_of_model(), needs, output));
        PITH_RETURN_IF_ERROR(
            run_again(tokens, needs, {static_cast<int32_t>(begin), static_cast<int32_t>(end)}, progress, maxima));
    }
    for (const int layer : governed) {
        seq.evidence.add_reread(*seq.cache, 0, layer, static_cast<int32_t>(begin), maxima[static_cast<size_t>(layer)]);
    }
    return {};
}

// The tokens through the layers, behind all that the lanes hold. maxima [layer of the model][H]: of the piece's entries.
Status Session::Impl::run_again(std::span<const int32_t> tokens, const EvidenceNeeds & needs, const PositionSpan & piece,
                                const std::function<void(int layer)> & progress, std::vector<Ragged<float>> & maxima) {
    const auto n = static_cast<int>(tokens.size());
    const auto width = static_cast<size_t>(file->hparams().n_embd);
    std::vector<float> states(tokens.size() * width);
    const auto first_position = static_cast<int32_t>(seq.n_tokens);
    for (int layer = 0; layer <= governed.back();) {
        progress(layer);
        const int end_of_run = file->hparams().end_of_run(layer);
        for (int l = layer; l < end_of_run; ++l) {  // on a device once, and not again for every chunk
            if (seq.cache->in_buckets(l)) { PITH_RETURN_IF_ERROR(seq.cache->reserve(0, l, n)); }
        }
        for (int i = 0; i < n; i += seq.plan->chunk) {
            const int m = std::min(seq.plan->chunk, n - i);
            const auto rows = std::span(states).subspan(static_cast<size_t>(i) * width, static_cast<size_t>(m) * width);
            for (int l = layer; l < end_of_run; ++l) {
                const int n_out = l == governed.back() ? 1 : m;  // nobody reads what comes out of it
                PITH_RETURN_IF_ERROR(run_layer(l, tokens.subspan(static_cast<size_t>(i), static_cast<size_t>(m)), rows, m,
                                               first_position + i, n_out, n - i - m));
            }
        }
        for (int l = layer; l < end_of_run; ++l) {
            if (!layout.governs(l)) { continue; }
            PITH_ASSIGN_OR_RETURN(const LayerEvidence seen,
                                  seq.evidence.gather(forward->observer(), *seq.cache, 0, l, first_position + n, needs));
            for (int head = 0; head < shape().n_heads(); ++head) {
                const auto positions = seen.positions.row(head / shape().n_group);
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

}  // namespace pith
