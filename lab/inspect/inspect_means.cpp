// inspect_means.cpp - what tables show of an inspection's cases: means, and how heads vary around them. Stage: inspect.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "inspect/inspect.h"

namespace pith {

const InspectCase * Inspection::find(const std::string & policy, const std::string & budget) const {
    const auto found = std::ranges::find_if(cases, [&](const auto & c) { return c.policy == policy && c.budget == budget; });
    return found == cases.end() ? nullptr : &*found;
}

std::vector<double> kept_of_lanes(const InspectCase & one) {
    if (!one.kept_mean.empty()) { return one.kept_mean; }
    std::vector<double> lanes;
    for (const Ragged<int32_t> & layer : one.kept) {
        for (int h = 0; h < layer.n_rows(); ++h) { lanes.push_back(layer.length(h)); }
    }
    return lanes;
}

CaseMeans means_of(const InspectCase & one) {
    CaseMeans means;
    const std::vector<double> lanes = kept_of_lanes(one);
    means.shortest = INT64_MAX;
    for (const double n_entries : lanes) {
        means.kept += n_entries;
        means.shortest = std::min(means.shortest, static_cast<int64_t>(n_entries));
        means.longest = std::max(means.longest, static_cast<int64_t>(n_entries));
    }
    means.kept /= static_cast<double>(lanes.size());
    const auto n_heads = static_cast<double>(one.heads.size());
    for (const HeadFidelity & head : one.heads) {
        means.mass += head.mass / n_heads;
        means.sigma_share += head.sigma > 0.5 ? 1 / n_heads : 0;
        means.perturbation += head.perturbation / n_heads;
        means.relative += head.relative_perturbation / n_heads;
    }
    means.lowest_cosine = 1;
    for (const LayerFidelity & layer : one.layers) {
        means.cosine += layer.cosine / static_cast<double>(one.layers.size());
        means.lowest_cosine = std::min(means.lowest_cosine, layer.cosine);
    }
    means.hidden_error = one.layers.back().hidden_error;
    return means;
}

CaseSpreads spreads_of(const InspectCase & one) {
    const auto of_heads = [&one](double HeadFidelity::*measure) {
        std::vector<double> values;
        for (const HeadFidelity & head : one.heads) { values.push_back(head.*measure); }
        return spread_of(std::move(values));
    };
    std::vector<double> cosines;
    for (const LayerFidelity & layer : one.layers) { cosines.push_back(layer.cosine); }
    return {spread_of(kept_of_lanes(one)),
            of_heads(&HeadFidelity::mass),
            of_heads(&HeadFidelity::sigma),
            of_heads(&HeadFidelity::perturbation),
            of_heads(&HeadFidelity::relative_perturbation),
            spread_of(std::move(cosines))};
}

}  // namespace pith
