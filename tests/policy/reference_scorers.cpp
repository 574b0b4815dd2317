// reference_scorers.cpp - the scorers' formulas: one score per entry.
#include <algorithm>
#include <cmath>

#include "policy/formulas.h"

namespace pith::test {
namespace {

using Row = std::vector<float>;

Row row(const Ragged<float> & rows, int r) {
    return {rows.row(r).begin(), rows.row(r).end()};
}

// The rows of a lane's query heads.
std::vector<Row> heads(const LayerEvidence & e, const Ragged<float> & rows, int h) {
    std::vector<Row> group;
    for (int g = 0; g < e.n_group; ++g) group.push_back(row(rows, h * e.n_group + g));
    return group;
}

Row reduce(const std::string & group, const std::vector<Row> & heads) {
    Row out = heads[0];
    for (size_t g = 1; g < heads.size(); ++g) {
        for (size_t j = 0; j < out.size(); ++j) out[j] = group == "max" ? std::max(out[j], heads[g][j]) : out[j] + heads[g][j];
    }
    if (group == "mean") {
        for (float & x : out) x /= static_cast<float>(heads.size());
    }
    return out;
}

Row reduced(const PartVariant & scorer, const std::vector<Row> & group) {
    return reduce(scorer.options.at("group"), group);
}

Row pool(const Row & in, const std::string & kind, bool over_before, bool zero_edges) {
    if (kind == "none") return in;
    const int n = static_cast<int>(in.size());
    const int kernel = std::stoi(kind.substr(3));
    Row out;
    for (int j = 0; j < n; ++j) {
        float most = in[static_cast<size_t>(j)];
        float sum = 0;
        int under = 0;
        const int first = over_before ? j - kernel + 1 : j - kernel / 2;
        for (int i = first; i < first + kernel; ++i) {
            if (i < 0 || i >= n) continue;
            most = std::max(most, in[static_cast<size_t>(i)]);
            sum += in[static_cast<size_t>(i)];
            ++under;
        }
        out.push_back(kind.starts_with("max") ? most : sum / static_cast<float>(zero_edges ? kernel : under));
    }
    return out;
}

// Entries of the lane that are neither the window's nor younger than a query that was observed.
size_t n_of_past(const PartVariant & scorer, const LayerEvidence & e, int h) {
    const auto positions = e.positions.row(h);
    size_t n = 0;
    while (n < positions.size() && positions[n] < e.n_seen - e.n_window &&
           n + static_cast<size_t>(scorer.number("window")) < positions.size()) {
        ++n;
    }
    return n;
}

// The window's own entries cut off, the rest pooled, the window put back.
Row pool_past(const PartVariant & scorer, const LayerEvidence & e, int h, const Row & row) {
    const size_t n_past = n_of_past(scorer, e, h);
    Row past(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(n_past));
    past = pool(past, scorer.options.at("pool"), scorer.is("pool_over", "before"), scorer.is("pool_edges", "zero"));
    past.insert(past.end(), row.begin() + static_cast<std::ptrdiff_t>(n_past), row.end());
    return past;
}

Row position(const PartVariant & /*scorer*/, const LayerEvidence & e, int h) {
    return {e.positions.row(h).begin(), e.positions.row(h).end()};
}

Row negative(const Ragged<float> & rows, int h) {
    Row out = row(rows, h);
    for (float & x : out) x = -x;
    return out;
}

Row random(const PartVariant & scorer, const LayerEvidence & e, int h) {
    const auto mix = [](uint64_t x) {
        x += 0x9E3779B97F4A7C15U;
        x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
        x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
        return x ^ (x >> 31U);
    };
    const auto seed = static_cast<uint64_t>(scorer.number("seed"));
    Row out;
    for (const int32_t position : e.positions.row(h)) {
        uint64_t hash = mix(seed);
        for (const int x : {e.layer, h, static_cast<int>(position)}) hash = mix(hash + static_cast<uint64_t>(x));
        out.push_back(static_cast<float>(hash >> 40U) * 0x1p-24F);
    }
    return out;
}

Row h2o(const PartVariant & scorer, const LayerEvidence & e, int h) {
    const auto positions = e.positions.row(h);
    auto group = heads(e, e.running_sum, h);
    if (scorer.is("normalise", "visible")) {
        for (size_t j = 0; j < positions.size(); ++j) {
            auto n_visible = static_cast<double>(e.n_seen - positions[j]);
            if (!scorer.is("observe", "all")) n_visible = std::min(n_visible, scorer.number("observe"));
            for (Row & one : group) one[j] /= static_cast<float>(n_visible);
        }
    }
    return reduced(scorer, group);
}

Row tova(const PartVariant & scorer, const LayerEvidence & e, int h) {
    if (scorer.is("heads", "lane")) return reduced(scorer, heads(e, e.last_query, h));
    Row out;
    for (const int32_t position : e.positions.row(h)) {
        float sum = 0;
        int n = 0;
        for (int r = 0; r < e.n_kv_heads * e.n_group; ++r) {
            const auto other = e.positions.row(r / e.n_group);
            for (size_t i = 0; i < other.size(); ++i) {
                if (other[i] == position) sum += e.last_query.row(r)[i], ++n;
            }
        }
        out.push_back(sum / static_cast<float>(n));
    }
    return out;
}

Row snapkv(const PartVariant & scorer, const LayerEvidence & e, int h) {
    auto group = heads(e, e.window_mean, h);
    if (!scorer.is("order", "pool-group")) return pool_past(scorer, e, h, reduced(scorer, group));
    for (Row & one : group) one = pool_past(scorer, e, h, one);
    return reduced(scorer, group);
}

Row attnvar(const PartVariant & scorer, const LayerEvidence & e, int h) {
    auto group = heads(e, e.window_mean, h);
    const auto squares = heads(e, e.window_head_sq, h);
    for (size_t g = 0; g < group.size(); ++g) {
        for (size_t j = 0; j < group[g].size(); ++j) {
            const double n = e.n_window;
            const double mean = group[g][j];
            const double variance = n == 1 ? 0 : std::max(0.0, (squares[g][j] - n * mean * mean) / (n - 1));
            group[g][j] = static_cast<float>(mean + scorer.number("gamma") * variance);
        }
        group[g] = pool_past(scorer, e, h, group[g]);
    }
    return reduced(scorer, group);
}

Row vmax(const PartVariant & scorer, const LayerEvidence & e, int h) {
    auto group = heads(e, e.window_mean, h);
    for (Row & one : group) {
        one = pool_past(scorer, e, h, one);
        float most = 0;  // of the entries outside the window
        for (size_t j = 0; j < n_of_past(scorer, e, h); ++j) { most = std::max(most, e.value_l1.row(h)[j]); }
        for (float & x : one) x *= most;
    }
    return reduced(scorer, group);
}

Row expected(const PartVariant & scorer, const LayerEvidence & e, int h) {
    const auto positions = e.positions.row(h);
    auto group = heads(e, e.expected, h);
    for (Row & one : group) {
        double sum = 0;  // over all but the sinks
        const auto is_sink = [&](size_t j) { return positions[j] < static_cast<int>(scorer.number("sinks")); };
        for (size_t j = 0; j < one.size(); ++j) sum += is_sink(j) ? 0 : std::exp(double{one[j]});
        for (size_t j = 0; j < one.size(); ++j) {
            one[j] = is_sink(j) ? 0.0F : static_cast<float>(std::exp(double{one[j]}) / sum);
        }
    }
    Row out = reduced(scorer, group);
    for (size_t j = 0; j < out.size(); ++j) {
        out[j] = (out[j] + static_cast<float>(scorer.number("eps"))) * (scorer.is("vnorm", "on") ? e.value_l2.row(h)[j] : 1);
    }
    return out;
}

// |Σ_g A_g ⊗ v·W_O^g| over the group's size, from inner products; only the columns' norms are pooled.
Row matprod_exact(const PartVariant & scorer, const LayerEvidence & e, int h) {
    const int n_pairs = e.n_group * (e.n_group + 1) / 2;
    std::vector<double> sums(e.positions.row(h).size(), 0.0);
    std::vector<Row> norms;
    std::vector<Row> pooled;
    for (int g = 0, pair = 0; g < e.n_group; pair += e.n_group - g, ++g) {
        Row norm = row(e.window_pairs, h * n_pairs + pair);
        for (float & x : norm) x = std::sqrt(x);
        norms.push_back(norm);
        pooled.push_back(pool_past(scorer, e, h, norm));
    }
    int pair = 0;
    for (size_t g = 0; g < norms.size(); ++g) {
        for (size_t o = g; o < norms.size(); ++o, ++pair) {
            for (size_t j = 0; j < sums.size(); ++j) {
                const double angle = norms[g][j] * norms[o][j] == 0
                                         ? 1.0
                                         : e.window_pairs.row(h * n_pairs + pair)[j] / (double{norms[g][j]} * norms[o][j]);
                const double behind = scorer.is("value", "vo") ? e.output_pairs.row(h * n_pairs + pair)[j] : 1.0;
                sums[j] += (g == o ? 1 : 2) * angle * pooled[g][j] * pooled[o][j] * behind;
            }
        }
    }
    Row out;
    for (size_t j = 0; j < sums.size(); ++j) {
        const double v = scorer.is("value", "v") ? e.value_l2.row(h)[j] : 1.0;
        out.push_back(static_cast<float>(std::sqrt(std::max(0.0, sums[j])) / e.n_group * v));
    }
    return out;
}

Row matprod(const PartVariant & scorer, const LayerEvidence & e, int h) {
    if (scorer.is("group", "exact")) return matprod_exact(scorer, e, h);
    const auto factor = [&](size_t g, size_t j) {
        if (scorer.is("value", "none")) return 1.0F;
        return scorer.is("value", "v") ? e.value_l2.row(h)[j] : e.output_l2.row(h * e.n_group + static_cast<int>(g))[j];
    };
    std::vector<Row> group;
    for (size_t g = 0; g < static_cast<size_t>(e.n_group); ++g) {
        Row column =
            scorer.is("group", "mean") ? row(e.window_sq, h) : row(e.window_head_sq, h * e.n_group + static_cast<int>(g));
        for (float & x : column) x = std::sqrt(x);
        column = pool_past(scorer, e, h, column);
        for (size_t j = 0; j < column.size(); ++j) column[j] *= factor(g, j);
        group.push_back(column);
    }
    return reduce("mean", group);
}

const Known<ScorerFormula> kScorers[] = {
    Known<ScorerFormula>(
        {"full", [](const PartVariant &, const LayerEvidence & e, int h) { return Row(e.positions.row(h).size()); }, kExact}),
    Known<ScorerFormula>({"random", random, kExact}),
    Known<ScorerFormula>({"streaming", position, kExact, /*by_position=*/true}),
    Known<ScorerFormula>({"window", position, kExact, /*by_position=*/true}),
    Known<ScorerFormula>(
        {"knorm", [](const PartVariant &, const LayerEvidence & e, int h) { return negative(e.key_norm, h); }, kExact}),
    Known<ScorerFormula>(
        {"keydiff", [](const PartVariant &, const LayerEvidence & e, int h) { return negative(e.key_cosine, h); }, kExact}),
    Known<ScorerFormula>({"h2o", h2o, kExact}),
    Known<ScorerFormula>({"tova", tova, kExact}),
    Known<ScorerFormula>({"snapkv", snapkv, kExact}),
    Known<ScorerFormula>({"attnvar", attnvar}),
    Known<ScorerFormula>({"vmax", vmax}),
    Known<ScorerFormula>({"expected", expected}),
    Known<ScorerFormula>({"matprod", matprod}),
    Known<ScorerFormula>({"gate", [](const PartVariant &, const LayerEvidence & e, int h) { return row(e.retention, h); },
                          kExact, /*by_position=*/false,
                          /*is_absolute=*/true}),
};

}  // namespace

double score_tolerance(const PartVariant & scorer) {
    return Known<ScorerFormula>::of(scorer).tolerance;
}

Lanes reference_scores(const PartVariant & scorer, const LayerEvidence & e) {
    const ScorerFormula & formula = Known<ScorerFormula>::of(scorer);
    Lanes scores;
    for (int h = 0; h < e.n_kv_heads; ++h) scores.push_back(formula.scores(scorer, e, h));
    return scores;
}

// [H]: before "group".
Lanes reference_head_scores(const PartVariant & scorer, const LayerEvidence & e) {
    // The same formulas with every query head as a lane of its own.
    LayerEvidence apart = e;
    apart.n_kv_heads = e.n_kv_heads * e.n_group;
    apart.n_group = 1;
    apart.positions = {};
    for (int r = 0; r < apart.n_kv_heads; ++r) apart.positions.push_row(e.positions.row(r / e.n_group));
    apart.value_l1 = {};
    apart.value_l2 = {};
    for (int r = 0; r < apart.n_kv_heads; ++r) {
        apart.value_l1.push_row(e.value_l1.row(r / e.n_group));
        apart.value_l2.push_row(e.value_l2.row(r / e.n_group));
    }
    PartVariant lane = scorer;
    if (scorer.name == "tova") lane.options["heads"] = "lane";
    return reference_scores(lane, apart);
}

}  // namespace pith::test
