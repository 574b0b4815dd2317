// inspect_figures.cpp - an inspection as a page of figures.
#include <algorithm>
#include <set>

#include "inspect_report.h"
#include "report/svg.h"

namespace pith::app {
namespace {

// The value that `get` finds for each head of a case, as [layers][H].
template <class Get>
std::vector<double> of_heads(const InspectCase & one, Get get) {
    std::vector<double> values;
    for (const HeadFidelity & head : one.heads) { values.push_back(get(head)); }
    return values;
}

template <class Get>
std::vector<double> of_layers(const InspectCase & one, Get get) {
    std::vector<double> values;
    for (const LayerFidelity & layer : one.layers) { values.push_back(get(layer)); }
    return values;
}

std::vector<double> kept_counts(const InspectCase & one) {
    std::vector<double> counts;
    for (const Ragged<int32_t> & layer : one.kept) {
        for (int h = 0; h < layer.n_rows(); ++h) { counts.push_back(layer.length(h)); }
    }
    return counts;
}

// A line for each policy of the first budget, over the layers.
template <class Get>
report::LineChart chart_by_layer(const Inspection & inspection, const std::string & title, Get get) {
    report::LineChart chart{title, "layer", {}, {}};
    for (size_t l = 0; l < inspection.layers.size(); ++l) { chart.ticks.push_back(std::to_string(l)); }
    for (const InspectCase & one : inspection.cases) {
        if (one.budget != inspection.cases.front().budget || !one.refused.empty()) { continue; }
        chart.series.push_back({one.policy, of_layers(one, get)});
    }
    return chart;
}

// A line for each policy that holds every budget, over the budgets.
template <class Get>
report::LineChart chart_by_budget(const Inspection & inspection, const std::string & title, Get get) {
    report::LineChart chart{title, "budget", {}, {}};
    std::set<std::string> names;
    for (const InspectCase & one : inspection.cases) {
        if (std::ranges::find(chart.ticks, one.budget) == chart.ticks.end()) { chart.ticks.push_back(one.budget); }
    }
    for (const InspectCase & one : inspection.cases) {
        if (!names.insert(one.policy).second) { continue; }
        report::Series series{one.policy, {}};
        for (const std::string & budget : chart.ticks) {
            const InspectCase * found = inspection.find(one.policy, budget);
            if (found != nullptr && found->refused.empty()) { series.values.push_back(get(means_of(*found))); }
        }
        if (series.values.size() == chart.ticks.size()) { chart.series.push_back(std::move(series)); }
    }
    return chart;
}

void add_case_figures(const Inspection & inspection, report::SvgPage & page) {
    const int n_layers = inspection.shape.n_layers;
    const int n_heads = inspection.shape.n_heads();
    for (const InspectCase & one : inspection.cases) {
        if (!one.refused.empty()) { continue; }
        const std::string name = one.policy + ", budget " + one.budget + ": ";
        page.add(report::HeatMap{name + "entries kept", "layer", "KV head", n_layers, inspection.shape.n_kv_heads,
                                 kept_counts(one)});
        page.add(report::HeatMap{name + "attention mass kept", "layer", "head", n_layers, n_heads,
                                 of_heads(one, [](const auto & head) { return head.mass; })});
        page.add(report::HeatMap{name + "perturbation over the size of the head's output", "layer", "head", n_layers, n_heads,
                                 of_heads(one, [](const auto & head) { return head.relative_perturbation; })});
    }
}

}  // namespace

std::string inspection_svg(const Inspection & inspection) {
    report::SvgPage page("What policies keep, and what it changes at the first decoded token");
    const std::string first = ", budget " + inspection.cases.front().budget;
    page.add(chart_by_layer(inspection, "cosine of attention outputs with the full cache's" + first,
                            [](const auto & layer) { return layer.cosine; }));
    page.add(chart_by_layer(inspection, "relative error of hidden states" + first,
                            [](const auto & layer) { return layer.hidden_error; }));
    if (std::ranges::any_of(inspection.cases, [&](const auto & c) { return c.budget != inspection.cases.front().budget; })) {
        page.add(chart_by_budget(inspection, "mean perturbation over the size of heads' outputs",
                                 [](const auto & means) { return means.relative; }));
        page.add(
            chart_by_budget(inspection, "mean cosine of attention outputs", [](const auto & means) { return means.cosine; }));
    }
    report::LineChart novelty{
        "SCORE's distances within a layer (IR) and between layers (TD)", "layer", {}, {{"IR", {}}, {"TD", {}}}};
    for (size_t l = 0; l < inspection.layers.size(); ++l) {
        novelty.ticks.push_back(std::to_string(l));
        novelty.series[0].values.push_back(inspection.layers[l].within);
        novelty.series[1].values.push_back(inspection.layers[l].temporal);
    }
    page.add(novelty);
    const auto n = static_cast<int>(inspection.heads.size());
    page.add(report::HeatMap{"distance between heads' attention (1 - cosine)", "head of the model", "head of the model", n, n,
                             inspection.distance});
    add_case_figures(inspection, page);
    return page.str();
}

}  // namespace pith::app
