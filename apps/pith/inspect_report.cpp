// inspect_report.cpp - an inspection for people to read, and as JSON.
#include "inspect_report.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace pith::app {
namespace {

constexpr int kMostInFull = 8;  // policies that are printed layer by layer

template <class... Args>
std::string format(const char * pattern, Args... args) {
    std::array<char, 512> text{};
    std::snprintf(text.data(), text.size(), pattern, args...);
    return text.data();
}

int policy_width(const Inspection & inspection) {
    size_t width = 6;
    for (const InspectCase & one : inspection.cases) { width = std::max(width, one.policy.size()); }
    return static_cast<int>(width);
}

void print_summary(const Inspection & inspection) {
    const int name = policy_width(inspection);
    std::printf("%-*s  %7s  %14s  %6s  %7s  %15s  %18s  %7s  %6s\n", name, "policy", "budget", "entries/lane", "mass", "sigma",
                "cosine (lowest)", "perturbation (L1)", "hidden", "token");
    std::string budget = inspection.cases.front().budget;
    for (const InspectCase & one : inspection.cases) {
        if (one.budget != budget) { std::puts(""); }
        budget = one.budget;
        if (!one.refused.empty()) {
            std::printf("%-*s  %7s  cannot hold what it protects\n", name, one.policy.c_str(), one.budget.c_str());
            continue;
        }
        const CaseMeans means = means_of(one);
        const std::string lanes = format("%.0f (%lld-%lld)", means.kept, static_cast<long long>(means.shortest),
                                         static_cast<long long>(means.longest));
        const std::string cosine = format("%.3f (%.3f)", means.cosine, means.lowest_cosine);
        const std::string perturbation = format("%.2f = %.0f %%", means.perturbation, 100 * means.relative);
        std::printf("%-*s  %7s  %14s  %4.0f %%  %5.0f %%  %15s  %18s  %5.1f %%  %6s\n", name, one.policy.c_str(),
                    one.budget.c_str(), lanes.c_str(), 100 * means.mass, 100 * means.sigma_share, cosine.c_str(),
                    perturbation.c_str(), 100 * means.hidden_error, one.same_choice ? "same" : "other");
    }
    std::puts(
        "\nmass: share of the last query's attention on kept entries; sigma: heads in which the protected and the better half\n"
        "of the other entries have more than half of it; cosine: of layers' attention outputs with the full cache's;\n"
        "perturbation: of a head's output, mean, and over its size; hidden: error of the last hidden state");
}

// Of the first budget: entries a lane, layer by layer.
void print_kept(const Inspection & inspection) {
    const std::string & budget = inspection.cases.front().budget;
    for (const InspectCase & one : inspection.cases) {
        if (one.budget != budget || !one.refused.empty()) { continue; }
        std::printf("\n%s, budget %s: entries kept by layer and KV head; cosine, hidden error\n", one.policy.c_str(),
                    budget.c_str());
        for (size_t l = 0; l < one.kept.size(); ++l) {
            std::printf("layer %3zu ", l);
            for (int h = 0; h < one.kept[l].n_rows(); ++h) { std::printf(" %5d", one.kept[l].length(h)); }
            std::printf("   %.4f  %.4f\n", one.layers[l].cosine, one.layers[l].hidden_error);
        }
    }
}

void print_pairs(const Inspection & inspection) {
    if (inspection.pairs.empty()) { return; }
    const std::string budget = inspection.pairs.front().budget;
    std::printf("\nbudget %s, by layer: rank correlation of scores / overlap of kept entries\n", budget.c_str());
    for (const InspectPair & pair : inspection.pairs) {
        if (pair.budget != budget) { continue; }
        std::printf("%s, %s:", pair.first.c_str(), pair.second.c_str());
        for (size_t l = 0; l < pair.spearman.size(); ++l) { std::printf("  %.2f/%.2f", pair.spearman[l], pair.jaccard[l]); }
        std::puts("");
    }
}

void print_model(const Inspection & inspection) {
    std::puts(
        "\nfull cache      entropy  strongest  sinks  recent |  mean A   max A  mean |vWo|   max |vWo|  rank |     IR     TD  "
        "HD by "
        "KV "
        "head");
    const size_t n_heads = inspection.heads.size() / inspection.layers.size();
    for (size_t l = 0; l < inspection.layers.size(); ++l) {
        HeadSummary mean;
        for (size_t g = 0; g < n_heads; ++g) {
            const HeadSummary & head = inspection.heads[l * n_heads + g];
            mean.entropy += head.entropy / static_cast<double>(n_heads);
            mean.strongest += head.strongest / static_cast<double>(n_heads);
            mean.sinks += head.sinks / static_cast<double>(n_heads);
            mean.recent += head.recent / static_cast<double>(n_heads);
        }
        const LayerSummary & layer = inspection.layers[l];
        std::printf("layer %3zu       %7.2f    %7.3f  %5.3f  %6.3f | %7.5f %7.3f %11.3f %11.3f %5.2f | %6.3f %6.3f ", l,
                    mean.entropy, mean.strongest, mean.sinks, mean.recent, layer.attention_mean, layer.attention_max,
                    layer.output_mean, layer.output_max, layer.attention_output_rank, layer.within, layer.temporal);
        for (const double distance : layer.head_distance) { std::printf(" %.3f", distance); }
        std::puts("");
    }
}

Json case_json(const InspectCase & one) {
    Json object;
    object["policy"] = one.policy;
    object["budget"] = one.budget;
    if (!one.refused.empty()) {
        object["refused"] = one.refused;
        return object;
    }
    const CaseMeans means = means_of(one);
    object["budget_entries"] = one.budget_entries;
    object["kept_entries_per_lane"] = means.kept;
    object["mass"] = means.mass;
    object["sigma_above_half"] = means.sigma_share;
    object["cosine"] = means.cosine;
    object["lowest_cosine"] = means.lowest_cosine;
    object["perturbation"] = means.perturbation;
    object["relative_perturbation"] = means.relative;
    object["hidden_error"] = means.hidden_error;
    object["logit_error"] = one.logit_error;
    object["same_choice"] = one.same_choice;
    Json layers = Json::array();
    const size_t n_heads = one.heads.size() / one.layers.size();
    for (size_t l = 0; l < one.layers.size(); ++l) {
        Json layer;
        layer["cosine"] = one.layers[l].cosine;
        layer["hidden_error"] = one.layers[l].hidden_error;
        layer["kept"] = Json::array();
        for (int h = 0; h < one.kept[l].n_rows(); ++h) { layer["kept"].push_back(one.kept[l].length(h)); }
        for (const char * key : {"mass", "sigma", "perturbation", "relative_perturbation", "output_error"}) {
            layer[key] = Json::array();
        }
        for (size_t g = 0; g < n_heads; ++g) {
            const HeadFidelity & head = one.heads[l * n_heads + g];
            layer["mass"].push_back(head.mass);
            layer["sigma"].push_back(head.sigma);
            layer["perturbation"].push_back(head.perturbation);
            layer["relative_perturbation"].push_back(head.relative_perturbation);
            layer["output_error"].push_back(head.output_error);
        }
        layers.push_back(std::move(layer));
    }
    object["layers"] = std::move(layers);
    return object;
}

Json model_json(const Inspection & inspection) {
    Json layers = Json::array();
    const size_t n_heads = inspection.heads.size() / inspection.layers.size();
    for (size_t l = 0; l < inspection.layers.size(); ++l) {
        const LayerSummary & from = inspection.layers[l];
        Json layer;
        layer["attention_mean"] = from.attention_mean;
        layer["attention_max"] = from.attention_max;
        layer["value_output_mean"] = from.output_mean;
        layer["value_output_max"] = from.output_max;
        layer["attention_value_output_rank"] = from.attention_output_rank;
        layer["ir"] = from.within;
        layer["td"] = from.temporal;
        layer["hd"] = from.head_distance;
        for (const char * key : {"entropy", "strongest", "sinks", "recent"}) { layer[key] = Json::array(); }
        for (size_t g = 0; g < n_heads; ++g) {
            const HeadSummary & head = inspection.heads[l * n_heads + g];
            layer["entropy"].push_back(head.entropy);
            layer["strongest"].push_back(head.strongest);
            layer["sinks"].push_back(head.sinks);
            layer["recent"].push_back(head.recent);
        }
        layers.push_back(std::move(layer));
    }
    return layers;
}

}  // namespace

void print_inspection(const Inspection & inspection) {
    std::printf("%lld tokens, %d layers of %d heads over %d KV heads; differences at the first decoded token (%d)\n\n",
                static_cast<long long>(inspection.n_tokens), inspection.shape.n_layers, inspection.shape.n_heads(),
                inspection.shape.n_kv_heads, inspection.next_token);
    print_summary(inspection);
    const std::string & budget = inspection.cases.front().budget;
    if (std::ranges::count(inspection.cases, budget, &InspectCase::budget) <= kMostInFull) {
        print_kept(inspection);
        print_pairs(inspection);
    } else {
        std::printf("\nMore than %d policies: layers and pairs of policies are in the files that --out writes.\n", kMostInFull);
    }
    print_model(inspection);
}

void print_texts(const std::vector<TextsRow> & rows) {
    size_t name = 6;
    for (const TextsRow & row : rows) { name = std::max(name, row.policy.size()); }
    const int width = static_cast<int>(name);
    std::printf("%-*s  %7s  %5s  %22s  %21s  %7s  %6s  %6s  %9s  %s\n", width, "policy", "budget", "texts", "cosine (95 %)",
                "perturbation (95 %)", "hidden", "mass", "same", "deviation", "heads below base");
    std::string budget = rows.empty() ? "" : rows.front().budget;
    for (const TextsRow & row : rows) {
        if (row.budget != budget) { std::puts(""); }
        budget = row.budget;
        if (row.n_texts == 0) {
            std::printf("%-*s  %7s  cannot hold what it protects\n", width, row.policy.c_str(), row.budget.c_str());
            continue;
        }
        const std::string cosine = format("%.4f (%.4f-%.4f)", row.cosine, row.cosine_interval.low, row.cosine_interval.high);
        const std::string perturbation = format("%.1f %% (%.1f-%.1f)", 100 * row.relative_perturbation,
                                                100 * row.perturbation_interval.low, 100 * row.perturbation_interval.high);
        const std::string base =
            row.base.empty() ? "" : format("%.0f %% of %s's", 100 * row.heads_below_base, row.base.c_str());
        std::printf("%-*s  %7s  %5d  %22s  %21s  %5.1f %%  %4.0f %%  %4.0f %%  %9.1f  %s\n", width, row.policy.c_str(),
                    row.budget.c_str(), row.n_texts, cosine.c_str(), perturbation.c_str(), 100 * row.hidden_error,
                    100 * row.mass, 100 * row.same_choice, row.kept_deviation, base.c_str());
    }
    std::puts(
        "\ncosine: of layers' attention outputs with the full cache's; perturbation: of a head's output, over its size; "
        "hidden:\n"
        "error of the last hidden state; mass: share of the last query's attention on kept entries; same: texts whose "
        "likeliest\n"
        "next token stays; deviation: of a lane's entries over texts; heads with less perturbation than under the base");
}

Json texts_json(const std::vector<TextsRow> & rows) {
    Json object;
    object["rows"] = Json::array();
    const auto pair = [](const Interval & interval) { return Json::array({interval.low, interval.high}); };
    for (const TextsRow & row : rows) {
        object["rows"].push_back({{"policy", row.policy},
                                  {"budget", row.budget},
                                  {"n_texts", row.n_texts},
                                  {"cosine", row.cosine},
                                  {"cosine_interval", pair(row.cosine_interval)},
                                  {"relative_perturbation", row.relative_perturbation},
                                  {"perturbation_interval", pair(row.perturbation_interval)},
                                  {"hidden_error", row.hidden_error},
                                  {"mass", row.mass},
                                  {"sigma_above_half", row.sigma_share},
                                  {"same_choice", row.same_choice},
                                  {"kept_deviation", row.kept_deviation},
                                  {"base", row.base},
                                  {"heads_below_base", row.heads_below_base}});
    }
    return object;
}

Json inspection_json(const Inspection & inspection) {
    Json object;
    object["n_tokens"] = inspection.n_tokens;
    object["next_token"] = inspection.next_token;
    object["n_layers"] = inspection.shape.n_layers;
    object["n_heads"] = inspection.shape.n_heads();
    object["n_kv_heads"] = inspection.shape.n_kv_heads;
    object["cases"] = Json::array();
    for (const InspectCase & one : inspection.cases) { object["cases"].push_back(case_json(one)); }
    object["pairs"] = Json::array();
    for (const InspectPair & pair : inspection.pairs) {
        object["pairs"].push_back({{"first", pair.first},
                                   {"second", pair.second},
                                   {"budget", pair.budget},
                                   {"spearman", pair.spearman},
                                   {"overlap", pair.jaccard}});
    }
    object["full_cache"] = model_json(inspection);
    const size_t n = inspection.heads.size();
    object["distance"] = Json::array();
    for (size_t i = 0; i < n; ++i) {
        const auto row = inspection.distance.begin() + static_cast<std::ptrdiff_t>(i * n);
        object["distance"].push_back(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(n)));
    }
    return object;
}

}  // namespace pith::app
