// evidence_file.cpp - evidence as bytes, and back with all checked that later calls rely on.
#include <algorithm>
#include <string>
#include <utility>

#include "core/byte_stream.h"
#include "evidence/evidence_state.h"

namespace pith {
namespace {

// Needs as they decide what is kept: without_rows().
void write_needs(const EvidenceNeeds & needs, ByteWriter & to) {
    for (const int n : {needs.window, needs.window_max_pool, needs.running_last, needs.expected_future}) { to.number(n); }
    for (const bool is_wanted :
         {needs.window_mean,    needs.window_max, needs.window_sq,   needs.window_head_sq, needs.window_pairs,
          needs.window_entropy, needs.last_query, needs.running_sum, needs.key_norm,       needs.key_cosine,
          needs.value_l1,       needs.value_l2,   needs.output_l1,   needs.output_l2,      needs.output_pairs,
          needs.retention,      needs.reread_max, needs.values,      needs.output_errors,  needs.key_leverage,
          needs.block_attention}) {
        to.flag(is_wanted);
    }
    to.number(needs.profile.n_queries);
    to.number(needs.profile.margin);
    to.number(needs.profile.seed);
    to.number(static_cast<uint8_t>(needs.profile.sample));
    to.number(static_cast<uint8_t>(needs.profile.distance));
}

EvidenceNeeds read_needs(ByteReader & from) {
    EvidenceNeeds needs;
    for (int * n : {&needs.window, &needs.window_max_pool, &needs.running_last, &needs.expected_future}) {
        *n = from.number<int>();
    }
    for (bool * is_wanted :
         {&needs.window_mean,    &needs.window_max, &needs.window_sq,   &needs.window_head_sq, &needs.window_pairs,
          &needs.window_entropy, &needs.last_query, &needs.running_sum, &needs.key_norm,       &needs.key_cosine,
          &needs.value_l1,       &needs.value_l2,   &needs.output_l1,   &needs.output_l2,      &needs.output_pairs,
          &needs.retention,      &needs.reread_max, &needs.values,      &needs.output_errors,  &needs.key_leverage,
          &needs.block_attention}) {
        *is_wanted = from.flag();
    }
    needs.profile.n_queries = from.number<int>();
    needs.profile.margin = from.number<int>();
    needs.profile.seed = from.number<uint64_t>();
    needs.profile.sample = static_cast<QuerySample>(from.number<uint8_t>());
    needs.profile.distance = static_cast<HeadDistance>(from.number<uint8_t>());
    return needs;
}

void write_queries(const KeptQueries & queries, ByteWriter & to) {
    to.array(queries.positions());
    for (size_t i = 0; i < queries.size(); ++i) { to.array(queries.row(i)); }
}

// Of the newest of n_seen tokens, at most so many.
bool read_queries(ByteReader & from, size_t row_size, size_t most, int64_t n_seen, KeptQueries & queries) {
    const std::vector<int32_t> positions = from.array<int32_t>();
    const auto n = static_cast<int64_t>(positions.size());
    if (positions.size() > most || n > n_seen) { return false; }
    for (int64_t i = 0; i < n; ++i) {
        const std::vector<float> query = from.array<float>();
        const int32_t position = positions[static_cast<size_t>(i)];
        if (query.size() != row_size || position != n_seen - n + i) { return false; }
        queries.push(query.data(), position);
    }
    return true;
}

void write_rows(const std::vector<SharedRow> & rows, ByteWriter & to) {
    for (const SharedRow & row : rows) { to.array(row.values()); }
}

// Rows that go with the entries of lanes: one after the other, `n_each` for each lane, none longer than its lane.
bool read_rows(ByteReader & from, std::span<const int> lengths, size_t n_each, std::vector<SharedRow> & rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
        std::vector<float> values = from.array<float>();
        if (values.size() > static_cast<size_t>(lengths[i / n_each])) { return false; }
        if (!values.empty()) { rows[i] = SharedRow(std::move(values)); }
    }
    return from.ok();
}

Status no_evidence(int layer, const std::string & what) {
    return {ErrorCode::kBadFile, "the evidence of layer " + std::to_string(layer) + " has " + what};
}

}  // namespace

void EvidenceState::write(ByteWriter & to) const {
    to.number(uint64_t{needs_.size()});
    for (const EvidenceNeeds & needs : needs_) { write_needs(needs, to); }
    to.number(uint64_t{layers_.size()});
    for (const Layer & layer : layers_) {
        write_queries(layer.queries, to);
        for (const QuerySampler & sampler : layer.samplers) { sampler.write(to); }
        for (const auto * rows : {&layer.running, &layer.retention, &layer.key_norms, &layer.reread, &layer.block_sums}) {
            write_rows(*rows, to);
        }
        write_queries(layer.block, to);
        to.number(layer.moments.n);
        to.flag(layer.moments.only_sinks);
        to.array(layer.moments.mean);
        to.array(layer.moments.squares);
        to.number(uint64_t{layer.output_l1->size()});
        for (const std::vector<float> & norms : *layer.output_l1) { to.array(norms); }
    }
}

Status EvidenceState::read_layer(ByteReader & from, int index, std::span<const int> lengths, int64_t n_seen) {
    Layer & layer = layers_[static_cast<size_t>(index)];
    const auto n_heads = static_cast<size_t>(shape_.n_heads());
    const auto group = static_cast<size_t>(shape_.n_group);

    const size_t limit = keeps_all_ ? KeptQueries::kAll : static_cast<size_t>(n_kept_queries_);
    if (!read_queries(from, query_size(), limit, n_seen, layer.queries)) {
        return no_evidence(index, "queries that are not the newest, or too many");
    }
    const auto n_kept = static_cast<int64_t>(layer.queries.size());
    for (QuerySampler & sampler : layer.samplers) {
        if (!sampler.read(from, n_seen, n_kept)) { return no_evidence(index, "a sample of queries that is none"); }
    }
    const bool fit = read_rows(from, lengths, group, layer.running) && read_rows(from, lengths, 1, layer.retention) &&
                     read_rows(from, lengths, 1, layer.key_norms) && read_rows(from, lengths, group, layer.reread) &&
                     read_rows(from, lengths, group, layer.block_sums);
    if (!fit) { return no_evidence(index, "rows longer than its lanes"); }
    if (!read_queries(from, query_size(), wants_blocks() ? size_t{kBlockTokens} : 0, n_seen, layer.block)) {
        return no_evidence(index, "queries of a block that are not the newest, or too many");
    }

    KeptMoments & moments = layer.moments;
    moments.n = from.number<int64_t>();
    moments.only_sinks = from.flag();
    moments.mean = from.array<float>();
    moments.squares = from.array<float>();
    const size_t n_mean = moments.n > 0 ? query_size() : 0;
    const size_t n_squares = moments.n > 0 ? n_heads * KeptMoments::n_squares(static_cast<size_t>(shape_.head_dim)) : 0;
    if (moments.n < 0 || moments.n > n_seen || moments.mean.size() != n_mean || moments.squares.size() != n_squares) {
        return no_evidence(index, "moments of another size");
    }
    const size_t n_norms = from.count(sizeof(uint64_t));
    if (n_norms != 0 && n_norms != n_heads) { return no_evidence(index, "norms of other heads"); }
    for (size_t head = 0; head < n_norms; ++head) {
        std::vector<float> norms = from.array<float>();
        if (norms.size() > static_cast<size_t>(lengths[head / group])) {
            return no_evidence(index, "rows longer than its lanes");
        }
        layer.output_l1.own().push_back(std::move(norms));
    }
    return from.ok() ? Status() : no_evidence(index, "an end before its end");
}

Result<EvidenceState> EvidenceState::read(ByteReader & from, const CacheShape & shape, std::span<const EvidenceNeeds> known,
                                          std::shared_ptr<OutputMatrices> output, std::span<const int> lengths,
                                          std::span<const int64_t> n_seen) {
    const Status other_needs(ErrorCode::kBadFile, "its evidence is that of no policy that its settings name");
    std::vector<EvidenceNeeds> needs(from.count(sizeof(int)));
    for (EvidenceNeeds & one : needs) {
        const EvidenceNeeds said = read_needs(from);
        const auto same = std::ranges::find(known, said, &EvidenceNeeds::without_rows);
        if (!from.ok() || same == known.end()) { return other_needs; }
        one = *same;
    }
    EvidenceState state(shape, std::move(needs), std::move(output));
    if (from.number<uint64_t>() != state.layers_.size()) {
        return Status(ErrorCode::kBadFile, "its evidence is that of another number of layers");
    }
    const auto n_kv = static_cast<size_t>(shape.n_kv_heads);
    for (size_t i = 0; i < state.layers_.size(); ++i) {
        PITH_RETURN_IF_ERROR(state.read_layer(from, static_cast<int>(i), lengths.subspan(i * n_kv, n_kv), n_seen[i]));
    }
    if (!from.ok()) { return other_needs; }
    return state;
}

}  // namespace pith
