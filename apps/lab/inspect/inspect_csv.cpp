// inspect_csv.cpp - an inspection as tables for programs, one a file.
#include <array>
#include <cstdio>

#include "app/inspect/inspect_report.h"

namespace pith::app {
namespace {

std::string number(double value) {
    return csv_number(value);
}

// The model's number of a layer.
std::string layer_name(const Inspection & inspection, size_t layer) {
    return std::to_string(inspection.layer_numbers[layer]);
}

std::string cases_csv(const Inspection & inspection) {
    std::string text =
        "policy,budget,budget_entries,kept_per_lane,shortest,longest,mass,sigma_above_half,cosine,lowest_cosine,"
        "perturbation,relative_perturbation,hidden_error,logit_error,same_choice";
    for (const char * measure : {"kept", "mass", "sigma", "perturbation", "relative_perturbation", "cosine"}) {
        for (const char * statistic : {"sd", "min", "q1", "median", "q3", "max"}) {
            text += std::string(",") + measure + "_" + statistic;
        }
    }
    text += "\n";
    for (const InspectCase & one : inspection.cases) {
        if (!one.refused.empty()) { continue; }
        const CaseMeans means = means_of(one);
        text += one.policy + "," + one.budget + "," + std::to_string(one.budget_entries) + "," + number(means.kept) + "," +
                std::to_string(means.shortest) + "," + std::to_string(means.longest);
        for (const double value : {means.mass, means.sigma_share, means.cosine, means.lowest_cosine, means.perturbation,
                                   means.relative, means.hidden_error, one.logit_error}) {
            text += "," + number(value);
        }
        text += one.same_choice ? ",1" : ",0";
        const CaseSpreads spreads = spreads_of(one);
        for (const Spread & spread :
             {spreads.kept, spreads.mass, spreads.sigma, spreads.perturbation, spreads.relative, spreads.cosine}) {
            for (const double value :
                 {spread.deviation, spread.least, spread.low_quarter, spread.median, spread.high_quarter, spread.largest}) {
                text += "," + number(value);
            }
        }
        text += "\n";
    }
    return text;
}

std::string layers_csv(const Inspection & inspection) {
    std::string text = "policy,budget,layer,kept,cosine,hidden_error\n";
    for (const InspectCase & one : inspection.cases) {
        for (size_t l = 0; l < one.layers.size(); ++l) {
            text += one.policy + "," + one.budget + "," + layer_name(inspection, l) + "," + std::to_string(one.kept[l].size()) +
                    "," + number(one.layers[l].cosine) + "," + number(one.layers[l].hidden_error) + "\n";
        }
    }
    return text;
}

std::string heads_csv(const Inspection & inspection) {
    std::string text = "policy,budget,layer,head,mass,sigma,perturbation,relative_perturbation,output_error\n";
    const size_t n_heads = inspection.heads.size() / inspection.layers.size();
    for (const InspectCase & one : inspection.cases) {
        for (size_t i = 0; i < one.heads.size(); ++i) {
            const HeadFidelity & head = one.heads[i];
            text +=
                one.policy + "," + one.budget + "," + layer_name(inspection, i / n_heads) + "," + std::to_string(i % n_heads);
            for (const double value :
                 {head.mass, head.sigma, head.perturbation, head.relative_perturbation, head.output_error}) {
                text += "," + number(value);
            }
            text += "\n";
        }
    }
    return text;
}

std::string lanes_csv(const Inspection & inspection) {
    std::string text = "policy,budget,layer,kv_head,length,kept\n";
    for (const InspectCase & one : inspection.cases) {
        for (size_t l = 0; l < one.kept.size(); ++l) {
            for (int h = 0; h < one.kept[l].n_rows(); ++h) {
                text += one.policy + "," + one.budget + "," + layer_name(inspection, l) + "," + std::to_string(h) + "," +
                        std::to_string(inspection.n_tokens) + "," + std::to_string(one.kept[l].length(h)) + "\n";
            }
        }
    }
    return text;
}

// One line a lane: the positions kept, separated by blanks.
std::string kept_csv(const Inspection & inspection) {
    std::string text = "policy,budget,layer,kv_head,positions\n";
    for (const InspectCase & one : inspection.cases) {
        for (size_t l = 0; l < one.kept.size(); ++l) {
            for (int h = 0; h < one.kept[l].n_rows(); ++h) {
                text += one.policy + "," + one.budget + "," + layer_name(inspection, l) + "," + std::to_string(h) + ",";
                bool first = true;
                for (const int32_t position : one.kept[l].row(h)) {
                    text += (first ? "" : " ") + std::to_string(position);
                    first = false;
                }
                text += "\n";
            }
        }
    }
    return text;
}

std::string tokens_csv(const Inspection & inspection, const Tokenizer & tokenizer) {
    std::string text = "position,token,piece\n";
    for (size_t i = 0; i < inspection.tokens.size(); ++i) {
        const int32_t token = inspection.tokens[i];
        text += std::to_string(i) + "," + std::to_string(token) + "," + quoted_cell(tokenizer.piece(token, true)) + "\n";
    }
    return text;
}

// One line an entry: enough digits to read back the same f32.
std::string scores_csv(const Inspection & inspection) {
    std::string text = "policy,layer,kv_head,position,token,score,refined_score\n";
    std::array<char, 64> numbers{};
    for (const InspectScores & one : inspection.scores) {
        for (size_t l = 0; l < one.base.size(); ++l) {
            for (int h = 0; h < one.base[l].n_rows(); ++h) {
                const std::string lane = one.policy + "," + layer_name(inspection, l) + "," + std::to_string(h) + ",";
                const auto base = one.base[l].row(h);
                const auto refined = one.refined[l].row(h);
                for (size_t j = 0; j < base.size(); ++j) {
                    std::snprintf(numbers.data(), numbers.size(), ",%.9g,%.9g\n", static_cast<double>(base[j]),
                                  static_cast<double>(refined[j]));
                    text += lane + std::to_string(j) + "," + std::to_string(inspection.tokens[j]) + numbers.data();
                }
            }
        }
    }
    return text;
}

std::string pairs_csv(const Inspection & inspection) {
    std::string text = "first,second,budget,layer,spearman,overlap\n";
    for (const InspectPair & pair : inspection.pairs) {
        for (size_t l = 0; l < pair.spearman.size(); ++l) {
            text += pair.first + "," + pair.second + "," + pair.budget + "," + layer_name(inspection, l) + "," +
                    number(pair.spearman[l]) + "," + number(pair.jaccard[l]) + "\n";
        }
    }
    return text;
}

std::string model_csv(const Inspection & inspection) {
    std::string text =
        "layer,attention_mean,attention_max,value_output_mean,value_output_max,attention_value_output_rank,ir,td,hd\n";
    for (size_t l = 0; l < inspection.layers.size(); ++l) {
        const LayerSummary & layer = inspection.layers[l];
        text += layer_name(inspection, l);
        for (const double value : {layer.attention_mean, layer.attention_max, layer.output_mean, layer.output_max,
                                   layer.attention_output_rank, layer.within, layer.temporal}) {
            text += "," + number(value);
        }
        text += ",";
        for (size_t h = 0; h < layer.head_distance.size(); ++h) { text += (h > 0 ? " " : "") + number(layer.head_distance[h]); }
        text += "\n";
    }
    return text;
}

// The last query's attention with the full cache, head by head.
std::string attention_csv(const Inspection & inspection) {
    std::string text = "layer,head,entropy,strongest,sinks,recent\n";
    const size_t n_heads = inspection.heads.size() / inspection.layers.size();
    for (size_t i = 0; i < inspection.heads.size(); ++i) {
        const HeadSummary & head = inspection.heads[i];
        text += layer_name(inspection, i / n_heads) + "," + std::to_string(i % n_heads);
        for (const double value : {head.entropy, head.strongest, head.sinks, head.recent}) { text += "," + number(value); }
        text += "\n";
    }
    return text;
}

}  // namespace

std::string csv_number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", value);
    return text.data();
}

std::string distances_table(const std::vector<double> & distance, const Inspection & of) {
    const size_t n_heads = of.heads.size() / of.layers.size();
    size_t n = 0;
    while (n * n < distance.size()) { ++n; }
    const auto name = [&](size_t i) { return layer_name(of, i / n_heads) + "." + std::to_string(i % n_heads); };
    std::string text = "layer.head";
    for (size_t i = 0; i < n; ++i) { text += "," + name(i); }
    text += "\n";
    for (size_t i = 0; i < n; ++i) {
        text += name(i);
        for (size_t j = 0; j < n; ++j) { text += "," + number(distance[i * n + j]); }
        text += "\n";
    }
    return text;
}

std::string quoted_cell(const std::string & text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"') { out += '"'; }
        if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else {
            out += c;
        }
    }
    return out + "\"";
}

std::vector<NamedText> inspection_csv(const Inspection & inspection, const Tokenizer & tokenizer) {
    return {{"summary.csv", cases_csv(inspection)},
            {"layers.csv", layers_csv(inspection)},
            {"heads.csv", heads_csv(inspection)},
            {"lanes.csv", lanes_csv(inspection)},
            {"kept.csv", kept_csv(inspection)},
            {"tokens.csv", tokens_csv(inspection, tokenizer)},
            {"scores.csv", scores_csv(inspection)},
            {"pairs.csv", pairs_csv(inspection)},
            {"model.csv", model_csv(inspection)},
            {"attention.csv", attention_csv(inspection)},
            {"distances.csv", distances_table(inspection.distance, inspection)}};
}

}  // namespace pith::app
