// inspect_json.cpp - an inspection as JSON.
#include <array>
#include <cstdio>
#include <cstdlib>

#include "app/inspect/inspect_report.h"

namespace pith::app {
namespace {

Json spread_json(const Spread & spread) {
    return {{"mean", spread.mean},     {"deviation", spread.deviation}, {"min", spread.least},  {"q1", spread.low_quarter},
            {"median", spread.median}, {"q3", spread.high_quarter},     {"max", spread.largest}};
}

// The shortest decimal number that reads back as this float, not the twice as long one of the double it becomes.
double short_number(float value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", static_cast<double>(value));
    return std::strtod(text.data(), nullptr);
}

// [layer][kv_head][token]
Json lanes_json(const std::vector<Ragged<float>> & layers) {
    Json out = Json::array();
    for (const Ragged<float> & layer : layers) {
        Json lanes = Json::array();
        for (int h = 0; h < layer.n_rows(); ++h) {
            Json lane = Json::array();
            for (const float value : layer.row(h)) { lane.push_back(short_number(value)); }
            lanes.push_back(std::move(lane));
        }
        out.push_back(std::move(lanes));
    }
    return out;
}

Json scores_json(const InspectScores & one) {
    Json object;
    object["policy"] = one.policy;
    object["scores"] = lanes_json(one.base);
    if (one.has_refiner) { object["refined_scores"] = lanes_json(one.refined); }
    return object;
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
    const CaseSpreads spreads = spreads_of(one);
    object["spread"] = {{"kept", spread_json(spreads.kept)},
                        {"mass", spread_json(spreads.mass)},
                        {"sigma", spread_json(spreads.sigma)},
                        {"perturbation", spread_json(spreads.perturbation)},
                        {"relative_perturbation", spread_json(spreads.relative)},
                        {"cosine", spread_json(spreads.cosine)}};
    Json layers = Json::array();
    const size_t n_heads = one.heads.size() / one.layers.size();
    for (size_t l = 0; l < one.layers.size(); ++l) {
        Json layer;
        layer["cosine"] = one.layers[l].cosine;
        layer["hidden_error"] = one.layers[l].hidden_error;
        layer["kept"] = Json::array();
        layer["positions"] = Json::array();
        for (int h = 0; h < one.kept[l].n_rows(); ++h) {
            layer["kept"].push_back(one.kept[l].length(h));
            layer["positions"].push_back(one.kept[l].row(h));
        }
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

}  // namespace

Json full_cache_json(const Inspection & inspection) {
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

Json distance_json(const Inspection & inspection) {
    const size_t n = inspection.heads.size();
    Json rows = Json::array();
    for (size_t i = 0; i < n; ++i) {
        const auto row = inspection.distance.begin() + static_cast<std::ptrdiff_t>(i * n);
        rows.push_back(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(n)));
    }
    return rows;
}

Json inspection_json(const Inspection & inspection, const Tokenizer & tokenizer) {
    Json object;
    object["n_tokens"] = inspection.n_tokens;
    object["perplexity"] = inspection.perplexity;
    object["type_k"] = to_string(inspection.type_k);
    object["type_v"] = to_string(inspection.type_v);
    object["tokens"] = inspection.tokens;
    object["pieces"] = Json::array();
    for (const int32_t token : inspection.tokens) { object["pieces"].push_back(tokenizer.piece(token, true)); }
    object["next_token"] = inspection.next_token;
    object["n_layers"] = inspection.shape.n_layers;
    object["n_model_layers"] = inspection.n_model_layers;
    object["layer_numbers"] = inspection.layer_numbers;
    object["n_heads"] = inspection.shape.n_heads();
    object["n_kv_heads"] = inspection.shape.n_kv_heads;
    object["cases"] = Json::array();
    for (const InspectCase & one : inspection.cases) { object["cases"].push_back(case_json(one)); }
    object["scores"] = Json::array();
    for (const InspectScores & one : inspection.scores) { object["scores"].push_back(scores_json(one)); }
    object["pairs"] = Json::array();
    for (const InspectPair & pair : inspection.pairs) {
        object["pairs"].push_back({{"first", pair.first},
                                   {"second", pair.second},
                                   {"budget", pair.budget},
                                   {"spearman", pair.spearman},
                                   {"overlap", pair.jaccard}});
    }
    object["full_cache"] = full_cache_json(inspection);
    object["distance_by"] = inspection.distance_by;
    object["distance"] = distance_json(inspection);
    return object;
}

}  // namespace pith::app
