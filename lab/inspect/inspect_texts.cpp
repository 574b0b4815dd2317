// inspect_texts.cpp - means over texts.
#include "inspect/inspect_texts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "speed/policy_costs.h"

namespace pith {
namespace {

double mean(const std::vector<double> & values) {
    double sum = 0;
    for (const double value : values) { sum += value; }
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// Unbiased.
double deviation(const std::vector<double> & values) {
    if (values.size() < 2) { return 0; }
    const double middle = mean(values);
    double sum = 0;
    for (const double value : values) { sum += (value - middle) * (value - middle); }
    return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// Of each lane, the entries kept in every text that the policy could hold.
std::vector<std::vector<double>> kept_by_lane(std::span<const Inspection> inspections, size_t index) {
    std::vector<std::vector<double>> kept;
    for (const Inspection & inspection : inspections) {
        const InspectCase & one = inspection.cases[index];
        if (!one.refused.empty()) { continue; }
        const std::vector<double> lanes = kept_of_lanes(one);
        kept.resize(lanes.size());
        for (size_t lane = 0; lane < lanes.size(); ++lane) { kept[lane].push_back(lanes[lane]); }
    }
    return kept;
}

// As CriticalKV counts (its section 4.7): a head's mean over the texts under both policies, then the share of heads whose mean
// falls.
void compare_with_base(std::span<const Inspection> inspections, size_t index, TextsRow & row) {
    const std::string base = base_policy(row.policy);
    if (base == row.policy) { return; }
    std::vector<double> less;  // of each head: what it has less than under the base, summed over texts that both could hold
    for (const Inspection & inspection : inspections) {
        const InspectCase & one = inspection.cases[index];
        const InspectCase * other = inspection.find(base, row.budget);
        if (other == nullptr || !other->refused.empty() || !one.refused.empty()) { continue; }
        less.resize(one.heads.size(), 0.0);
        for (size_t head = 0; head < one.heads.size(); ++head) {
            less[head] += other->heads[head].perturbation - one.heads[head].perturbation;
        }
    }
    if (less.empty()) { return; }
    row.base = base;
    const auto n_below = std::ranges::count_if(less, [](double x) { return x > 0; });
    row.heads_below_base = static_cast<double>(n_below) / static_cast<double>(less.size());
}

}  // namespace

void keep_for_summary(Inspection & one) {
    one.tokens = {};
    one.heads = {};
    one.layers = {};
    one.distance = {};
    one.pairs = {};
    one.scores = {};
    for (InspectCase & c : one.cases) {
        c.kept_mean = kept_of_lanes(c);
        c.kept = {};
    }
}

std::vector<TextsRow> summarise_texts(std::span<const Inspection> inspections) {
    std::vector<TextsRow> rows;
    if (inspections.empty()) { return rows; }
    for (size_t index = 0; index < inspections.front().cases.size(); ++index) {
        TextsRow row;
        row.policy = inspections.front().cases[index].policy;
        row.budget = inspections.front().cases[index].budget;
        std::vector<double> cosine;
        std::vector<double> perturbation;
        for (const Inspection & inspection : inspections) {
            const InspectCase & one = inspection.cases[index];
            if (!one.refused.empty()) { continue; }
            const CaseMeans means = means_of(one);
            cosine.push_back(means.cosine);
            perturbation.push_back(means.relative);
            row.hidden_error += means.hidden_error;
            row.mass += means.mass;
            row.sigma_share += means.sigma_share;
            row.same_choice += one.same_choice ? 1 : 0;
            ++row.n_texts;
        }
        if (row.n_texts > 0) {
            for (double * sum : {&row.hidden_error, &row.mass, &row.sigma_share, &row.same_choice}) { *sum /= row.n_texts; }
            row.cosine = mean(cosine);
            row.cosine_interval = bootstrap_interval(cosine);
            row.relative_perturbation = mean(perturbation);
            row.perturbation_interval = bootstrap_interval(perturbation);
            std::vector<double> deviations;
            for (const std::vector<double> & lane : kept_by_lane(inspections, index)) { deviations.push_back(deviation(lane)); }
            row.kept_deviation = mean(deviations);
            compare_with_base(inspections, index, row);
        }
        rows.push_back(row);
    }
    return rows;
}

}  // namespace pith
