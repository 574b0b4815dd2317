// expert_product.cpp - which rows meet which expert, and what each thread computes of it.
#include "matmul/expert_product.h"

#include <algorithm>

#include "matmul/share.h"

namespace pith {
namespace {

constexpr size_t kCacheLine = 64;
// What it costs to read and unpack columns, in rows that they could meet instead: threads' shares are made by it.
constexpr size_t kRowsOfUnpacking = 8;

size_t head_bytes(const ChosenExperts & of) {
    const size_t bytes = (of.n_experts + 1 + of.n()) * sizeof(int32_t);
    return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}
size_t block_stride_of(const ChosenExperts & of) {
    return padded_rows(of.n()) + kQuantisedRowTile;  // the last expert's rows begin anywhere in a tile
}

// first [n_experts + 1]: where each expert's rows begin, if they lie in the order of experts.
void find_first_rows(const ChosenExperts & of, int32_t * first) {
    std::fill_n(first, of.n_experts + 1, 0);
    for (size_t i = 0; i < of.n(); ++i) { ++first[of.expert(i) + 1]; }
    for (size_t e = 0; e < of.n_experts; ++e) { first[e + 1] += first[e]; }
}

}  // namespace

ExpertRows::ExpertRows(void * memory, const ChosenExperts & of)
    : first_(static_cast<int32_t *>(memory)),
      places_(first_ + of.n_experts + 1),
      blocks_(reinterpret_cast<QuantisedBlock *>(static_cast<uint8_t *>(memory) + head_bytes(of))),
      block_stride_(block_stride_of(of)) {}

size_t ExpertRows::bytes(const ChosenExperts & of, size_t n_in) {
    const size_t n_blocks = (n_in + kQuantBlock - 1) / kQuantBlock;
    return head_bytes(of) + n_blocks * block_stride_of(of) * sizeof(QuantisedBlock);
}

void quantise_experts_part(const ExpertRowsToQuantise & rows, int ith, int n_threads) {
    const ChosenExperts & of = rows.of;
    const ExpertRows to(rows.rows, of);
    int32_t next[kMostExperts + 1];  // every thread finds all places, and writes those of its rows
    find_first_rows(of, next);
    if (ith == 0) { std::copy_n(next, of.n_experts + 1, to.first()); }
    const size_t n_same = rows.one_for_all ? of.n_used : 1;  // neighbours that have one row
    const auto [first, end] = share_of(of.n() / n_same, 1, ith, n_threads);
    const size_t n_blocks = (rows.n_in + kQuantBlock - 1) / kQuantBlock;
    QuantisedBlock * rounded = nullptr;
    for (size_t i = 0; i < end * n_same; ++i) {
        const auto place = static_cast<size_t>(next[of.expert(i)]++);
        if (i < first * n_same) { continue; }
        to.places()[place] = static_cast<int32_t>(i);
        QuantisedBlock * here = to.blocks() + place;
        if (i % n_same != 0) {
            for (size_t b = 0; b < n_blocks; ++b) { here[b * to.block_stride()] = rounded[b * to.block_stride()]; }
            continue;
        }
        rounded = here;
        RowsToQuantise one;
        one.x = rows.x + i / of.n_used * rows.token_stride + i % of.n_used * rows.used_stride;
        one.n = 1;
        one.n_in = rows.n_in;
        one.block_stride = to.block_stride();
        if (rows.in_groups) {
            one.groups = to.groups() + place;
        } else {
            one.blocks = here;
        }
        quantise_part(one, 0, 1);
    }
}

void multiply_experts_part(const ExpertProduct & product, int ith, int n_threads) {
    const ChosenExperts & of = product.of;
    const ExpertRows rows(product.rows, of);
    const size_t n_units = (product.n_out + kColumnsDealt - 1) / kColumnsDealt;  // of an expert's columns
    const auto rows_of = [&](size_t e) { return static_cast<size_t>(rows.first()[e + 1] - rows.first()[e]); };
    const auto unit_cost = [&](size_t e) { return rows_of(e) == 0 ? 0 : rows_of(e) + kRowsOfUnpacking; };
    size_t whole = 0;
    for (size_t e = 0; e < of.n_experts; ++e) { whole += n_units * unit_cost(e); }
    const auto [mine, end_of_mine] = share_of(whole, 1, ith, n_threads);

    size_t before = 0;  // what the experts up to this one cost
    for (size_t e = 0; e < of.n_experts && before < end_of_mine; ++e) {
        const size_t cost = unit_cost(e);
        if (cost == 0) { continue; }
        // A unit is the thread's in whose share it begins.
        const auto units_up_to = [&](size_t share) {
            return share <= before ? 0 : std::min(n_units, (share - before + cost - 1) / cost);
        };
        const size_t first = units_up_to(mine) * kColumnsDealt;
        const size_t end = std::min(product.n_out, units_up_to(end_of_mine) * kColumnsDealt);
        before += n_units * cost;
        if (first >= end) { continue; }
        const auto first_row = static_cast<size_t>(rows.first()[e]);
        QuantisedProduct one;
        one.type = product.type;
        one.weights = product.weights + e * product.expert_stride;
        one.weight_stride = product.weight_stride;
        if (has_groups(product.type)) {
            one.groups = rows.groups() + first_row;
        } else {
            one.x = rows.blocks() + first_row;
        }
        one.block_stride = rows.block_stride();
        one.out_rows = rows.places() + first_row;
        one.out = product.out;
        one.out_stride = product.out_stride;
        one.n_in = product.n_in;
        one.n_out = product.n_out;
        one.n = rows_of(e);
        multiply_columns(one, first, end);
    }
}

}  // namespace pith
