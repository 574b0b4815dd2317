// reference_refiners.cpp - the refiners' formulas: better scores.
#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/evidence_maker.h"
#include "policy/formulas.h"

namespace pith::test {

std::vector<double> reference_attention(const std::vector<float> & scores) {
    std::vector<double> a(scores.begin(), scores.end());
    double least = 0;
    for (const double x : a) least = std::min(least, x);
    double sum = 0;
    for (double & x : a) sum += x -= least;
    for (double & x : a) x = sum == 0 ? 1.0 : x;
    return a;
}

std::vector<double> mean_value(const std::vector<double> & a, const std::vector<float> & values,
                               const std::vector<bool> & left) {
    const size_t d = a.empty() ? 0 : values.size() / a.size();
    std::vector<double> mean(d, 0.0);
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        if (!left[i]) continue;
        sum += a[i];
        for (size_t c = 0; c < d; ++c) mean[c] += a[i] * values[i * d + c];
    }
    for (double & x : mean) x /= sum;
    return mean;
}

namespace {

Lanes eviction_error(const PartVariant & refiner, const LayerEvidence & evidence, const Lanes & base, const Lanes & heads,
                     const std::vector<int64_t> & /*net_budgets*/) {
    const bool exact = refiner.is("group", "exact") && !heads.empty();
    const size_t n_rows = exact ? static_cast<size_t>(evidence.n_group) : 1;
    const auto d = static_cast<size_t>(evidence.values->head_dim_v());
    Lanes refined;
    for (size_t h = 0; h < base.size(); ++h) {
        const size_t n = base[h].size();
        std::vector<float> values;
        if (!evidence.values->lane_values(static_cast<int>(h), values).ok()) no_values(h);
        std::vector<std::vector<double>> attention;
        std::vector<std::vector<double>> means;
        for (size_t g = 0; g < n_rows; ++g) {
            attention.push_back(reference_attention(exact ? heads[h * n_rows + g] : base[h]));
            const std::vector<double> weights = refiner.name == "caote" ? attention[g] : std::vector<double>(n, 1.0);
            means.push_back(mean_value(weights, values, std::vector<bool>(n, true)));
        }
        std::vector<float> out;
        for (size_t j = 0; refiner.is("space", "output") && j < n; ++j) {
            // How far the layer's output goes: every query head of the group loses entry j.
            std::vector<double> moved(HostValues::kOutputs, 0.0);
            bool all = false;
            for (int g = 0; g < evidence.n_group; ++g) {
                const size_t r = exact ? static_cast<size_t>(g) : 0;
                double others = 0;
                for (size_t i = 0; i < n; ++i) others += i == j ? 0 : attention[r][i];
                all = all || others == 0;
                const int head = static_cast<int>(h) * evidence.n_group + g;
                for (size_t c = 0; c < d; ++c) {
                    for (size_t o = 0; o < moved.size(); ++o) {
                        moved[o] += attention[r][j] / others * (values[j * d + c] - means[r][c]) *
                                    HostValues::output_weight(head, c, static_cast<int>(o));
                    }
                }
            }
            double sum = 0;
            for (const double x : moved) sum += x * x;
            out.push_back(all ? std::numeric_limits<float>::max() : static_cast<float>(std::sqrt(sum)));
        }
        for (size_t j = out.size(); j < n; ++j) {
            double sum = 0;
            for (size_t g = 0; g < n_rows; ++g) {
                const std::vector<double> & a = attention[g];
                double others = 0;
                for (size_t i = 0; i < n; ++i) others += i == j ? 0 : a[i];
                double distance = 0;
                for (size_t c = 0; c < d; ++c) distance += std::pow(values[j * d + c] - means[g][c], 2);
                if (refiner.is("squared", "false")) distance = std::sqrt(distance);
                sum += others == 0 ? std::numeric_limits<double>::infinity() : std::pow(a[j] / others * distance, 2);
            }
            out.push_back(static_cast<float>(std::min<double>(std::sqrt(sum), std::numeric_limits<float>::max())));
        }
        refined.push_back(out);
    }
    return refined;
}

const Known<RefinerFormula> kRefiners[] = {
    Known<RefinerFormula>({"caote", eviction_error}),
    Known<RefinerFormula>({"fastcaote", eviction_error}),
};

}  // namespace

double refined_tolerance(const PartVariant & refiner) {
    return Known<RefinerFormula>::of(refiner).tolerance;
}

Lanes reference_refine(const PartVariant & refiner, const LayerEvidence & evidence, const Lanes & base, const Lanes & heads,
                       const std::vector<int64_t> & net_budgets) {
    return Known<RefinerFormula>::of(refiner).refine(refiner, evidence, base, heads, net_budgets);
}

}  // namespace pith::test
