// inspect_figures.cpp - an inspection as a page of figures.
#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "app/inspect/inspect_report.h"
#include "figures/svg.h"
#include "figures/text_table.h"

namespace pith::app {
namespace {

constexpr double kPercent = 100;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The value that `get` finds for each head of a case, as [layers][H].
template <class Get>
std::vector<double> of_heads(const InspectCase & one, Get get) {
    std::vector<double> values;
    for (const HeadFidelity & head : one.heads) { values.push_back(get(head)); }
    return values;
}

std::vector<std::string> budgets_of(const Inspection & inspection) {
    std::vector<std::string> budgets;
    for (const InspectCase & one : inspection.cases) {
        if (std::ranges::find(budgets, one.budget) == budgets.end()) { budgets.push_back(one.budget); }
    }
    return budgets;
}

// The mean, with bars over the middle half.
void push(report::Series & series, const Spread & spread, double unit) {
    series.values.push_back(unit * spread.mean);
    series.low.push_back(unit * spread.low_quarter);
    series.high.push_back(unit * spread.high_quarter);
}

std::vector<std::string> layer_names(const Inspection & inspection) {
    std::vector<std::string> names;
    for (const int number : inspection.layer_numbers) { names.push_back(std::to_string(number)); }
    return names;
}

// A line for each policy of the first budget, over the layers.
template <class Get>
report::LineChart chart_by_layer(const Inspection & inspection, const std::string & title, const std::string & y_label,
                                 Get get) {
    report::LineChart chart;
    chart.title = title;
    chart.x_label = "layer";
    chart.y_label = y_label;
    chart.ticks = layer_names(inspection);
    for (const InspectCase & one : inspection.cases) {
        if (one.budget != inspection.cases.front().budget || !one.refused.empty()) { continue; }
        report::Series series{one.policy, {}, false, {}, {}};
        for (size_t l = 0; l < one.layers.size(); ++l) { get(one, l, series); }
        chart.series.push_back(std::move(series));
    }
    return chart;
}

// The middle half of one layer's heads.
Spread perturbations_of(const InspectCase & one, size_t layer) {
    const size_t n_heads = one.heads.size() / one.layers.size();
    std::vector<double> values;
    for (size_t g = layer * n_heads; g < (layer + 1) * n_heads; ++g) { values.push_back(one.heads[g].relative_perturbation); }
    return spread_of(std::move(values));
}

void add_layers(const Inspection & inspection, report::SvgPage & page) {
    report::ChartGroup group{"By layer, budget " + inspection.cases.front().budget, {}};
    group.charts.push_back(chart_by_layer(
        inspection, "Attention output against the full cache's", "cosine",
        [](const InspectCase & one, size_t l, report::Series & series) { series.values.push_back(one.layers[l].cosine); }));
    group.charts.push_back(chart_by_layer(inspection, "Error of the hidden state after the layer", "% of its length",
                                          [](const InspectCase & one, size_t l, report::Series & series) {
                                              series.values.push_back(kPercent * one.layers[l].hidden_error);
                                          }));
    group.charts.push_back(chart_by_layer(
        inspection, "Perturbation of heads; bars: the middle half of the layer's heads", "% of the head's output",
        [](const InspectCase & one, size_t l, report::Series & series) { push(series, perturbations_of(one, l), kPercent); }));
    page.add(group);
}

// The budgets in entries, ascending, and what users called them.
struct BudgetAxis {
    std::vector<std::pair<double, std::string>> budgets;
    explicit BudgetAxis(const Inspection & inspection) {
        for (const std::string & name : budgets_of(inspection)) {
            const auto one = std::ranges::find_if(inspection.cases,
                                                  [&](const InspectCase & c) { return c.budget == name && c.refused.empty(); });
            if (one != inspection.cases.end()) { budgets.emplace_back(static_cast<double>(one->budget_entries), name); }
        }
        std::ranges::sort(budgets);
    }
};

// A line for each policy, over the budgets that it holds.
template <class Get>
report::LineChart chart_by_budget(const Inspection & inspection, const std::string & title, const std::string & y_label,
                                  double unit, Get get) {
    const BudgetAxis axis(inspection);
    report::LineChart chart;
    chart.title = title;
    chart.x_label = "budget (tokens per head)";
    chart.y_label = y_label;
    for (const auto & [entries, name] : axis.budgets) {
        const std::string count = std::to_string(static_cast<long long>(entries));
        chart.ticks.push_back(count == name ? count : count + " (" + name + ")");
        chart.x.push_back(entries);
    }
    chart.log_x = report::wants_log(chart.x);
    std::set<std::string> names;
    for (const InspectCase & one : inspection.cases) {
        if (!names.insert(one.policy).second) { continue; }
        report::Series series{one.policy, {}, false, {}, {}};
        for (const auto & [entries, name] : axis.budgets) {
            const InspectCase * found = inspection.find(one.policy, name);
            if (found != nullptr && found->refused.empty()) {
                push(series, get(spreads_of(*found)), unit);
            } else {
                push(series, {}, kNone);
            }
        }
        chart.series.push_back(std::move(series));
    }
    return chart;
}

void add_budgets(const Inspection & inspection, report::SvgPage & page) {
    if (BudgetAxis(inspection).budgets.size() < 2) { return; }
    report::ChartGroup group{"By budget: means over all heads (cosine: over layers); bars: the middle half of them", {}};
    group.charts.push_back(chart_by_budget(inspection, "Attention mass kept", "% of the last query's attention", kPercent,
                                           [](const CaseSpreads & spreads) { return spreads.mass; }));
    group.charts.push_back(chart_by_budget(inspection, "Perturbation of heads", "% of the head's output", kPercent,
                                           [](const CaseSpreads & spreads) { return spreads.relative; }));
    group.charts.push_back(chart_by_budget(inspection, "Attention output against the full cache's", "cosine", 1,
                                           [](const CaseSpreads & spreads) { return spreads.cosine; }));
    page.add(group);
}

std::vector<std::string> policies_of(const Inspection & inspection) {
    std::vector<std::string> policies;
    for (const InspectCase & one : inspection.cases) {
        if (std::ranges::find(policies, one.policy) == policies.end()) { policies.push_back(one.policy); }
    }
    return policies;
}

// One number of every policy under every budget, coloured.
template <class Get>
report::MapGroup table_of(const Inspection & inspection, const std::string & title, const std::string & unit, int digits,
                          Get get) {
    report::HeatMap table;
    table.row_names = policies_of(inspection);
    table.column_names = budgets_of(inspection);
    std::vector<double> drawn;
    bool refused = false;
    for (const std::string & policy : table.row_names) {
        for (const std::string & budget : table.column_names) {
            const InspectCase * found = inspection.find(policy, budget);
            const bool is_there = found != nullptr && found->refused.empty();
            refused = refused || !is_there;
            table.values.push_back(is_there ? get(*found) : kNone);
            table.texts.push_back(is_there ? fixed(table.values.back(), digits) : "×");
            if (is_there) { drawn.push_back(table.values.back()); }
        }
    }
    report::MapGroup group{title, unit, {std::move(table)}, 0, 1, ""};
    if (!drawn.empty()) { std::tie(group.low, group.high) = std::pair(std::ranges::min(drawn), std::ranges::max(drawn)); }
    if (group.low == group.high) { group.high += 1; }
    if (refused) { group.note = "× refused: the budget cannot hold what the policy protects."; }
    return group;
}

void add_policies(const Inspection & inspection, report::SvgPage & page) {
    if (policies_of(inspection).size() < 2) { return; }
    page.add(table_of(inspection, "Attention output against the full cache's", "cosine, mean over layers", 3,
                      [](const InspectCase & one) { return spreads_of(one).cosine.mean; }));
    page.add(table_of(inspection, "Perturbation of heads, by policy and budget", "% of the head's output, mean over heads", 1,
                      [](const InspectCase & one) { return kPercent * spreads_of(one).relative.mean; }));
}

// A map for each policy under that budget, all on one scale; `budget` empty: under each of them.
template <class Get>
report::MapGroup maps_of(const Inspection & inspection, const std::string & title, const std::string & unit,
                         const std::string & budget, bool by_lane, Get get) {
    report::MapGroup group{title, unit, {}, 0, 0};
    const bool several = budgets_of(inspection).size() > 1;
    for (const InspectCase & one : inspection.cases) {
        if (!one.refused.empty() || (!budget.empty() && one.budget != budget)) { continue; }
        report::HeatMap map;
        map.title = one.policy + (budget.empty() && several ? ", " + one.budget : "");
        map.row_label = "layer";
        map.column_label = by_lane ? "KV head" : "head";
        map.n_rows = inspection.shape.n_layers;
        map.n_columns = by_lane ? inspection.shape.n_kv_heads : inspection.shape.n_heads();
        map.values = get(one);
        map.row_names = layer_names(inspection);
        group.maps.push_back(std::move(map));
    }
    group.keep_first();
    return group;
}

// One scale for the policies of one budget.
void add_kept(const Inspection & inspection, report::SvgPage & page) {
    for (const std::string & budget : budgets_of(inspection)) {
        page.add(maps_of(inspection, "Entries kept, budget " + budget, "tokens per head", budget, true, kept_of_lanes));
    }
}

void add_mass(const Inspection & inspection, report::SvgPage & page) {
    report::MapGroup group = maps_of(
        inspection, "Attention mass kept", "% of the last query's attention", "", false,
        [](const InspectCase & one) { return of_heads(one, [](const HeadFidelity & head) { return kPercent * head.mass; }); });
    group.high = kPercent;
    page.add(group);
}

void add_perturbation(const Inspection & inspection, report::SvgPage & page) {
    report::MapGroup group =
        maps_of(inspection, "Perturbation of heads", "% of the head's output", "", false, [](const InspectCase & one) {
            return of_heads(one, [](const HeadFidelity & head) { return kPercent * head.relative_perturbation; });
        });
    for (const report::HeatMap & map : group.maps) { group.high = std::max(group.high, std::ranges::max(map.values)); }
    page.add(group);
}

// IR and TD by layer, HD by KV head; of several texts with bars of one standard deviation.
void draw_novelty(const Inspection & inspection, const Inspection * deviation, report::SvgPage & page) {
    report::LineChart chart;
    chart.title = deviation == nullptr ? "Within a layer (IR) and from layer to layer (TD)"
                                       : "Within a layer (IR) and from layer to layer (TD); bars: a standard deviation";
    chart.x_label = "layer";
    chart.y_label = "distance (" + distance_label(inspection.distance_by) + ")";
    chart.series = {{"IR", {}, false, {}, {}}, {"TD", {}, false, {}, {}}};
    const auto push_value = [&](report::Series & series, double LayerSummary::*measure, size_t l) {
        const double value = inspection.layers[l].*measure;
        series.values.push_back(value);
        if (deviation == nullptr) { return; }
        series.low.push_back(value - deviation->layers[l].*measure);
        series.high.push_back(value + deviation->layers[l].*measure);
    };
    report::HeatMap heads;
    heads.row_label = "layer";
    heads.column_label = "KV head";
    heads.n_rows = inspection.shape.n_layers;
    heads.n_columns = inspection.shape.n_kv_heads;
    heads.row_names = layer_names(inspection);
    for (size_t l = 0; l < inspection.layers.size(); ++l) {
        chart.ticks.push_back(std::to_string(inspection.layer_numbers[l]));
        push_value(chart.series[0], &LayerSummary::within, l);
        push_value(chart.series[1], &LayerSummary::temporal, l);
        const std::vector<double> & of_layer = inspection.layers[l].head_distance;
        heads.values.insert(heads.values.end(), of_layer.begin(), of_layer.end());
    }
    page.add(report::ChartGroup{"SCORE's distances", {std::move(chart)}});
    page.add(report::MapGroup{"Distance of a head to those of its layer and the one below (HD)",
                              distance_label(inspection.distance_by),
                              {heads},
                              0,
                              0});
}

void add_novelty(const Inspection & inspection, report::SvgPage & page) {
    draw_novelty(inspection, nullptr, page);
}

void add_distances(const Inspection & inspection, report::SvgPage & page) {
    const auto n = static_cast<int>(inspection.heads.size());
    const bool counts_all = inspection.shape.n_layers == inspection.n_model_layers;
    const std::string label =
        (counts_all ? "layer * " : "governed layer * ") + std::to_string(inspection.shape.n_heads()) + " + head";
    page.add(report::MapGroup{"Distance between heads' attention",
                              distance_label(inspection.distance_by),
                              {{"", label, label, n, n, inspection.distance, {}, {}}},
                              0,
                              0});
}

std::string shape_text(const Inspection & inspection) {
    return inspected_layers(inspection) + " of " + std::to_string(inspection.shape.n_heads()) + " heads over " +
           std::to_string(inspection.shape.n_kv_heads) + " KV heads, K " + std::string(to_string(inspection.type_k)) + ", V " +
           std::string(to_string(inspection.type_v));
}

struct Figure {
    const char * name;
    void (*add)(const Inspection & inspection, report::SvgPage & page);
};
constexpr Figure kFigures[] = {{"policies", add_policies}, {"layers", add_layers},      {"budgets", add_budgets},
                               {"kept", add_kept},         {"mass", add_mass},          {"perturbation", add_perturbation},
                               {"novelty", add_novelty},   {"distances", add_distances}};

}  // namespace

std::vector<std::string> inspection_figures() {
    std::vector<std::string> names;
    for (const Figure & figure : kFigures) { names.emplace_back(figure.name); }
    return names;
}

std::string inspection_svg(const Inspection & inspection, const std::vector<std::string> & only) {
    report::SvgPage page("What policies keep, and what it changes at the first decoded token",
                         std::to_string(inspection.n_tokens) + " tokens, " + shape_text(inspection));
    for (const Figure & figure : kFigures) {
        if (only.empty() || std::ranges::find(only, figure.name) != only.end()) { figure.add(inspection, page); }
    }
    return page.str();
}

std::string means_svg(const InspectAverage & average, const std::vector<std::string> & only) {
    report::SvgPage page("What policies keep, and what it changes at the first decoded token",
                         "means over " + std::to_string(average.n_texts) + " texts of about " +
                             std::to_string(average.mean.n_tokens) + " tokens, " + shape_text(average.mean));
    for (const Figure & figure : kFigures) {
        if (!only.empty() && std::ranges::find(only, figure.name) == only.end()) { continue; }
        if (figure.add == add_novelty) {
            draw_novelty(average.mean, &average.deviation, page);
        } else {
            figure.add(average.mean, page);
        }
    }
    return page.str();
}

std::string distance_label(const std::string & distance_by) {
    if (distance_by == "pearson") { return "1 - Pearson's correlation"; }
    if (distance_by == "bc") { return "1 - Bhattacharyya's coefficient"; }
    if (distance_by == "jsd") { return "Jensen-Shannon distance"; }
    return distance_by == "l2" ? "Euclidean distance" : "1 - cosine";
}

}  // namespace pith::app
