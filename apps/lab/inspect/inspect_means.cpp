// inspect_means.cpp - inspections of several texts as tables and JSON: means, with their standard deviations beside them.
#include <cstdio>
#include <utility>

#include "app/inspect/inspect_report.h"

namespace pith::app {
namespace {

// ",mean,standard deviation".
std::string pair_of(double mean, double deviation) {
    return "," + csv_number(mean) + "," + csv_number(deviation);
}

template <class Part>
std::string cells(const Part & mean, const Part & deviation, std::initializer_list<double Part::*> measures) {
    std::string text;
    for (const auto measure : measures) { text += pair_of(mean.*measure, deviation.*measure); }
    return text;
}

// "a,a_sd,b,b_sd".
std::string header(std::initializer_list<const char *> measures) {
    std::string text;
    for (const std::string measure : measures) { text += "," + measure + "," + measure + "_sd"; }
    return text + "\n";
}

// Calls f(case's mean, its deviation, "policy,budget,", ",number of texts") for each that some text could hold.
template <class F>
void for_each_case(const InspectAverage & average, F f) {
    for (size_t i = 0; i < average.mean.cases.size(); ++i) {
        const InspectCase & one = average.mean.cases[i];
        if (!one.refused.empty()) { continue; }
        f(one, average.deviation.cases[i], one.policy + "," + one.budget + ",", "," + std::to_string(average.n_of_case[i]));
    }
}

std::string summary_csv(const InspectMeans & means) {
    std::string text =
        "policy,budget,texts,cosine,cosine_low,cosine_high,relative_perturbation,relative_perturbation_low,"
        "relative_perturbation_high,hidden_error,mass,sigma_above_half,same_choice,kept_deviation,base,heads_below_base\n";
    for (const TextsRow & row : means.rows) {
        if (row.n_texts == 0) { continue; }
        text += row.policy + "," + row.budget + "," + std::to_string(row.n_texts);
        for (const double value : {row.cosine, row.cosine_interval.low, row.cosine_interval.high, row.relative_perturbation,
                                   row.perturbation_interval.low, row.perturbation_interval.high, row.hidden_error, row.mass,
                                   row.sigma_share, row.same_choice, row.kept_deviation}) {
            text += "," + csv_number(value);
        }
        text += "," + row.base + "," + (row.base.empty() ? "" : csv_number(row.heads_below_base)) + "\n";
    }
    return text;
}

std::string layers_csv(const InspectAverage & average) {
    std::string text = "policy,budget,layer,texts" + header({"cosine", "hidden_error"});
    for_each_case(average, [&](const InspectCase & mean, const InspectCase & deviation, const std::string & name,
                               const std::string & n_texts) {
        for (size_t l = 0; l < mean.layers.size(); ++l) {
            text += name + std::to_string(average.mean.layer_numbers[l]) + n_texts +
                    cells(mean.layers[l], deviation.layers[l], {&LayerFidelity::cosine, &LayerFidelity::hidden_error}) + "\n";
        }
    });
    return text;
}

std::string heads_csv(const InspectAverage & average) {
    std::string text =
        "policy,budget,layer,head,texts" + header({"mass", "sigma", "perturbation", "relative_perturbation", "output_error"});
    const auto n_heads = static_cast<size_t>(average.mean.shape.n_heads());
    for_each_case(average, [&](const InspectCase & mean, const InspectCase & deviation, const std::string & name,
                               const std::string & n_texts) {
        for (size_t i = 0; i < mean.heads.size(); ++i) {
            text += name + std::to_string(average.mean.layer_numbers[i / n_heads]) + "," + std::to_string(i % n_heads) +
                    n_texts +
                    cells(mean.heads[i], deviation.heads[i],
                          {&HeadFidelity::mass, &HeadFidelity::sigma, &HeadFidelity::perturbation,
                           &HeadFidelity::relative_perturbation, &HeadFidelity::output_error}) +
                    "\n";
        }
    });
    return text;
}

std::string lanes_csv(const InspectAverage & average) {
    std::string text = "policy,budget,layer,kv_head,texts" + header({"kept"});
    const auto n_lanes = static_cast<size_t>(average.mean.shape.n_kv_heads);  // of a layer
    for_each_case(average, [&](const InspectCase & mean, const InspectCase & deviation, const std::string & name,
                               const std::string & n_texts) {
        for (size_t i = 0; i < mean.kept_mean.size(); ++i) {
            text += name + std::to_string(average.mean.layer_numbers[i / n_lanes]) + "," + std::to_string(i % n_lanes) +
                    n_texts + pair_of(mean.kept_mean[i], deviation.kept_mean[i]) + "\n";
        }
    });
    return text;
}

std::string pairs_csv(const InspectAverage & average) {
    std::string text = "first,second,budget,layer,texts" + header({"spearman", "overlap"});
    for (size_t i = 0; i < average.mean.pairs.size(); ++i) {
        const InspectPair & mean = average.mean.pairs[i];
        const InspectPair & deviation = average.deviation.pairs[i];
        for (size_t l = 0; l < mean.spearman.size(); ++l) {
            text += mean.first + "," + mean.second + "," + mean.budget + "," + std::to_string(average.mean.layer_numbers[l]) +
                    "," + std::to_string(average.n_of_pair[i]) + pair_of(mean.spearman[l], deviation.spearman[l]) +
                    pair_of(mean.jaccard[l], deviation.jaccard[l]) + "\n";
        }
    }
    return text;
}

std::string list_cell(const std::vector<double> & values) {
    std::string text;
    for (const double value : values) { text += (text.empty() ? "" : " ") + csv_number(value); }
    return text;
}

std::string model_csv(const InspectAverage & average) {
    std::string text = "layer" + header({"attention_mean", "attention_max", "value_output_mean", "value_output_max",
                                         "attention_value_output_rank", "ir", "td", "hd"});
    for (size_t l = 0; l < average.mean.layers.size(); ++l) {
        const LayerSummary & mean = average.mean.layers[l];
        const LayerSummary & deviation = average.deviation.layers[l];
        text += std::to_string(average.mean.layer_numbers[l]) +
                cells(mean, deviation,
                      {&LayerSummary::attention_mean, &LayerSummary::attention_max, &LayerSummary::output_mean,
                       &LayerSummary::output_max, &LayerSummary::attention_output_rank, &LayerSummary::within,
                       &LayerSummary::temporal}) +
                "," + list_cell(mean.head_distance) + "," + list_cell(deviation.head_distance) + "\n";
    }
    return text;
}

std::string attention_csv(const InspectAverage & average) {
    std::string text = "layer,head" + header({"entropy", "strongest", "sinks", "recent"});
    const auto n_heads = static_cast<size_t>(average.mean.shape.n_heads());
    for (size_t i = 0; i < average.mean.heads.size(); ++i) {
        text += std::to_string(average.mean.layer_numbers[i / n_heads]) + "," + std::to_string(i % n_heads) +
                cells(average.mean.heads[i], average.deviation.heads[i],
                      {&HeadSummary::entropy, &HeadSummary::strongest, &HeadSummary::sinks, &HeadSummary::recent}) +
                "\n";
    }
    return text;
}

// One of the two halves of an average, in the shape of a single text's JSON. counts: of the texts, by case and pair.
Json half_json(const Inspection & half, const InspectAverage & average) {
    Json object;
    object["cases"] = Json::array();
    const auto n_heads = static_cast<size_t>(half.shape.n_heads());
    const auto n_lanes = static_cast<size_t>(half.shape.n_kv_heads);
    for (size_t i = 0; i < half.cases.size(); ++i) {
        const InspectCase & one = half.cases[i];
        Json out = {{"policy", one.policy}, {"budget", one.budget}, {"n_texts", average.n_of_case[i]}};
        if (!one.refused.empty()) {
            out["refused"] = one.refused;
            object["cases"].push_back(std::move(out));
            continue;
        }
        out["logit_error"] = one.logit_error;
        out["layers"] = Json::array();
        for (size_t l = 0; l < one.layers.size(); ++l) {
            Json layer = {{"cosine", one.layers[l].cosine}, {"hidden_error", one.layers[l].hidden_error}};
            for (size_t h = 0; h < n_lanes; ++h) { layer["kept"].push_back(one.kept_mean[l * n_lanes + h]); }
            for (size_t g = l * n_heads; g < (l + 1) * n_heads; ++g) {
                layer["mass"].push_back(one.heads[g].mass);
                layer["sigma"].push_back(one.heads[g].sigma);
                layer["perturbation"].push_back(one.heads[g].perturbation);
                layer["relative_perturbation"].push_back(one.heads[g].relative_perturbation);
                layer["output_error"].push_back(one.heads[g].output_error);
            }
            out["layers"].push_back(std::move(layer));
        }
        object["cases"].push_back(std::move(out));
    }
    object["pairs"] = Json::array();
    for (size_t i = 0; i < half.pairs.size(); ++i) {
        const InspectPair & pair = half.pairs[i];
        object["pairs"].push_back({{"first", pair.first},
                                   {"second", pair.second},
                                   {"budget", pair.budget},
                                   {"n_texts", average.n_of_pair[i]},
                                   {"spearman", pair.spearman},
                                   {"overlap", pair.jaccard}});
    }
    object["full_cache"] = full_cache_json(half);
    object["distance"] = distance_json(half);
    return object;
}

}  // namespace

std::vector<NamedText> means_csv(const InspectMeans & means) {
    const InspectAverage & average = means.average;
    return {{"summary.csv", summary_csv(means)},
            {"layers.csv", layers_csv(average)},
            {"heads.csv", heads_csv(average)},
            {"lanes.csv", lanes_csv(average)},
            {"pairs.csv", pairs_csv(average)},
            {"model.csv", model_csv(average)},
            {"attention.csv", attention_csv(average)},
            {"distances.csv", distances_table(average.mean.distance, average.mean)},
            {"distances_sd.csv", distances_table(average.deviation.distance, average.mean)}};
}

Json means_json(const InspectMeans & means) {
    const InspectAverage & average = means.average;
    Json object = texts_json(means.rows);
    object["n_texts"] = average.n_texts;
    object["n_left_out"] = means.n_left_out;
    object["n_tokens"] = average.n_tokens;
    object["n_tokens_deviation"] = average.n_tokens_deviation;
    object["perplexity"] = average.mean.perplexity;
    object["perplexity_deviation"] = average.deviation.perplexity;
    object["type_k"] = to_string(average.mean.type_k);
    object["type_v"] = to_string(average.mean.type_v);
    object["n_layers"] = average.mean.shape.n_layers;
    object["n_model_layers"] = average.mean.n_model_layers;
    object["layer_numbers"] = average.mean.layer_numbers;
    object["n_heads"] = average.mean.shape.n_heads();
    object["n_kv_heads"] = average.mean.shape.n_kv_heads;
    object["distance_by"] = average.mean.distance_by;
    object["mean"] = half_json(average.mean, average);
    object["deviation"] = half_json(average.deviation, average);
    return object;
}

void print_means(const InspectMeans & means) {
    const InspectAverage & average = means.average;
    std::printf("means over %d texts of %.0f tokens, %s of %d heads over %d KV heads\n\n", average.n_texts, average.n_tokens,
                inspected_layers(average.mean).c_str(), average.mean.shape.n_heads(), average.mean.shape.n_kv_heads);
    print_texts(means.rows);
    print_full_cache(average.mean);
}

}  // namespace pith::app
