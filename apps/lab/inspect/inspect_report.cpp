// inspect_report.cpp - an inspection for people to read.
#include "app/inspect/inspect_report.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/base/text_columns.h"

namespace pith::app {
namespace {

constexpr int kMostInFull = 8;  // policies that are printed layer by layer

void print_summary(const Inspection & inspection) {
    const int name = policy_width(inspection.cases);
    std::printf("%-*s  %7s  %14s  %6s  %7s  %15s  %18s  %7s  %6s\n", name, "policy", "budget", "tokens/head", "mass", "sigma",
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
        "\nmass: share of the last query's attention on kept entries; sigma: heads whose own best, half as\n"
        "many as are kept for them, have more than half of it; cosine: of layers' attention outputs with the full cache's;\n"
        "perturbation: of a head's output, mean, and over its size; hidden: error of the last hidden state");
}

// How the means above come about: over the lanes and over all layers' heads.
void print_spreads(const Inspection & inspection) {
    const int name = policy_width(inspection.cases);
    std::printf(
        "\nover the heads of all layers: standard deviation; least / median / largest\n%-*s  %7s  %22s  %24s  %24s  %26s\n",
        name, "policy", "budget", "tokens/head", "mass, %", "sigma, %", "perturbation, %");
    std::string budget = inspection.cases.front().budget;
    for (const InspectCase & one : inspection.cases) {
        if (!one.refused.empty()) { continue; }
        if (one.budget != budget) { std::puts(""); }
        budget = one.budget;
        const CaseSpreads spreads = spreads_of(one);
        const auto text = [](const Spread & spread, double unit) {
            return format("%.1f; %.0f / %.0f / %.0f", unit * spread.deviation, unit * spread.least, unit * spread.median,
                          unit * spread.largest);
        };
        std::printf("%-*s  %7s  %22s  %24s  %24s  %26s\n", name, one.policy.c_str(), one.budget.c_str(),
                    text(spreads.kept, 1).c_str(), text(spreads.mass, 100).c_str(), text(spreads.sigma, 100).c_str(),
                    text(spreads.relative, 100).c_str());
    }
}

// Of the first budget: entries a lane, layer by layer.
void print_kept(const Inspection & inspection) {
    const std::string & budget = inspection.cases.front().budget;
    for (const InspectCase & one : inspection.cases) {
        if (one.budget != budget || !one.refused.empty()) { continue; }
        std::printf("\n%s, budget %s: entries kept by layer and KV head; cosine, hidden error\n", one.policy.c_str(),
                    budget.c_str());
        for (size_t l = 0; l < one.kept.size(); ++l) {
            std::printf("layer %3d ", inspection.layer_numbers[l]);
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

// The last query's attention, by layer: mean over the heads, and how far they are apart.
void print_attention(const Inspection & inspection) {
    std::puts(
        "\nfull cache, attention of the last query: mean over heads (least-largest)\n"
        "             entropy, nats       strongest entry     first 4 positions   last 32 positions");
    const size_t n_heads = inspection.heads.size() / inspection.layers.size();
    for (size_t l = 0; l < inspection.layers.size(); ++l) {
        const auto text = [&](double HeadSummary::*measure, const char * pattern) {
            std::vector<double> values;
            for (size_t g = 0; g < n_heads; ++g) { values.push_back(inspection.heads[l * n_heads + g].*measure); }
            const Spread spread = spread_of(std::move(values));
            return format(pattern, spread.mean, spread.least, spread.largest);
        };
        std::printf(
            "layer %3d    %-19s %-19s %-19s %s\n", inspection.layer_numbers[l],
            text(&HeadSummary::entropy, "%.2f (%.2f-%.2f)").c_str(), text(&HeadSummary::strongest, "%.3f (%.3f-%.3f)").c_str(),
            text(&HeadSummary::sinks, "%.3f (%.3f-%.3f)").c_str(), text(&HeadSummary::recent, "%.3f (%.3f-%.3f)").c_str());
    }
}

void print_model(const Inspection & inspection) {
    std::puts("\nfull cache     mean A   max A  mean |vWo|   max |vWo|  rank |     IR     TD  HD by KV head");
    for (size_t l = 0; l < inspection.layers.size(); ++l) {
        const LayerSummary & layer = inspection.layers[l];
        std::printf("layer %3d     %7.5f %7.3f %11.3f %11.3f %5.2f | %6.3f %6.3f ", inspection.layer_numbers[l],
                    layer.attention_mean, layer.attention_max, layer.output_mean, layer.output_max, layer.attention_output_rank,
                    layer.within, layer.temporal);
        for (const double distance : layer.head_distance) { std::printf(" %.3f", distance); }
        std::puts("");
    }
}

}  // namespace

std::string inspected_layers(const Inspection & inspection) {
    const std::string n = std::to_string(inspection.shape.n_layers);
    if (inspection.shape.n_layers == inspection.n_model_layers) { return n + " layers"; }
    return n + " of " + std::to_string(inspection.n_model_layers) + " layers (policies govern no others)";
}

void print_inspection(const Inspection & inspection) {
    std::printf(
        "%lld tokens of perplexity %.4g, %s of %d heads over %d KV heads, K %s, V %s;\n"
        "differences at the first decoded token (%d)\n\n",
        static_cast<long long>(inspection.n_tokens), inspection.perplexity, inspected_layers(inspection).c_str(),
        inspection.shape.n_heads(), inspection.shape.n_kv_heads, std::string(to_string(inspection.type_k)).c_str(),
        std::string(to_string(inspection.type_v)).c_str(), inspection.next_token);
    print_summary(inspection);
    print_spreads(inspection);
    const std::string & budget = inspection.cases.front().budget;
    if (std::ranges::count(inspection.cases, budget, &InspectCase::budget) <= kMostInFull) {
        print_kept(inspection);
        print_pairs(inspection);
    } else {
        std::printf("\nMore than %d policies: layers and pairs of policies are in the files that --out writes.\n", kMostInFull);
    }
    print_full_cache(inspection);
}

void print_full_cache(const Inspection & inspection) {
    print_attention(inspection);
    print_model(inspection);
}

void print_texts(const std::vector<TextsRow> & rows) {
    const int width = policy_width(rows);
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
        "next token stays; deviation: of a head's tokens over texts; heads with less perturbation than under the base");
}

}  // namespace pith::app
