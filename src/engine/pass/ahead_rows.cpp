// ahead_rows.cpp - rows that wait for their tokens.
#include "engine/pass/ahead_rows.h"

namespace pith {

size_t AheadRow::size_bytes() const {
    size_t n = (logits.capacity() + queries.capacity()) * sizeof(float);
    for (const PartReads & one : reads) { n += one.size_bytes(); }
    for (const std::vector<float> & one : sums) { n += one.capacity() * sizeof(float); }
    return n;
}

size_t AheadRows::size_bytes() const {
    size_t n = 0;
    for (const AheadRow & row : rows_) { n += row.size_bytes(); }
    return n;
}

std::span<AheadRow> AheadRows::begin(std::span<const int32_t> tokens, size_t n_vocab) {
    drop();
    if (rows_.size() < tokens.size()) { rows_.resize(tokens.size()); }
    for (size_t i = 0; i < tokens.size(); ++i) {
        rows_[i].token = tokens[i];
        rows_[i].logits.resize(n_vocab);
    }
    return std::span(rows_).first(tokens.size());
}

void AheadRows::keep(const Sequence & seq, size_t n) {
    next_ = 0;
    n_left_ = n;
    position_ = seq.n_tokens;
    sequence_ = seq.id();
    storage_ = seq.cache->storage_id();
    moves_ = seq.n_moves();
}

bool AheadRows::has(const Sequence & seq, int32_t token) const {
    return n_left_ > 0 && rows_[next_].token == token && position_ == seq.n_tokens && sequence_ == seq.id() &&
           seq.cache != nullptr && storage_ == seq.cache->storage_id() && moves_ == seq.n_moves();
}

void AheadRows::take(Sequence & seq, std::vector<float> & logits) {
    AheadRow & row = rows_[next_];
    const auto position = static_cast<int32_t>(seq.n_tokens);
    --n_left_;  // whatever comes of it: it is taken once
    ++next_;
    ++position_;
    RaggedCache & cache = *seq.cache;
    seq.evidence.prepare_token(cache, 0);
    for (int l = 0; l < cache.layout().n_layers(); ++l) { cache.append(0, l, std::span(&position, 1)); }
    tell(seq, row);
    logits.swap(row.logits);
    ++seq.n_tokens;
}

// As Forward::run_tokens() and the attention do.
void AheadRows::tell(Sequence & seq, AheadRow & row) const {
    EvidenceState & evidence = seq.evidence;
    const RaggedCache & cache = *seq.cache;
    const CacheLayout & layout = cache.layout();
    const auto position = static_cast<int32_t>(seq.n_tokens);
    const int n_layers = layout.n_layers();
    const auto n_heads = static_cast<size_t>(layout.shape.n_heads());
    for (int l = 0; l < n_layers; ++l) {
        if (!layout.governs(l)) { continue; }
        const auto layer = static_cast<size_t>(l);
        for (size_t head = 0; evidence.wants_running() && head < n_heads; ++head) {
            const std::vector<float> & paid = row.sums[layer * n_heads + head];
            const auto [before, n_before, to] =
                evidence.add_to_running(l, static_cast<int>(head), static_cast<int>(paid.size()));
            for (size_t j = 0; j < paid.size(); ++j) { to[j] = j < n_before ? before[j] + paid[j] : paid[j]; }
        }
        if (evidence.wants_key_norms()) { evidence.add_key_norms(cache, 0, l, row.reads[layer].key_norms); }
        if (evidence.wants_queries()) {
            const size_t size = row.queries.size() / static_cast<size_t>(n_layers);
            evidence.remember(l, row.queries.data() + layer * size, 1, position);
        }
    }
}

}  // namespace pith
