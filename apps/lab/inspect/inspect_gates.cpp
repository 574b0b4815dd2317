// inspect_gates.cpp - writes out what gates keep.
#include "app/inspect/inspect_gates.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/base/text_columns.h"
#include "core/interval.h"
#include "figures/svg.h"

namespace pith::app {
namespace {

constexpr int kMostMarked = 4000;  // tokens of a text that are printed
constexpr size_t kLineWidth = 100;

// Mean over texts of f(inspection).
template <class Get>
double mean(const std::vector<GateInspection> & inspections, Get get) {
    double sum = 0;
    for (const GateInspection & one : inspections) { sum += get(one); }
    return sum / static_cast<double>(inspections.size());
}

std::string form(const GateConfig & config) {
    std::string text = config.kind == GateKind::kLinear ? "linear gates"
                                                        : format("gates of %d heads of size %d%s", config.n_heads,
                                                                 config.head_dim, config.causal ? ", causal" : "");
    if (config.source == GateSource::kPrevious) { text += ", reading the layer before"; }
    return text + format(", tau %g, gamma %g, %d recent", static_cast<double>(config.tau), static_cast<double>(config.gamma),
                         config.n_recent);
}

void print_lanes(const std::vector<GateInspection> & inspections) {
    const GateInspection & first = inspections.front();
    std::printf("%-9s  %6s  %6s   %s\n", "", "kept", "mean p", "kept by KV head");
    for (int layer = 0; layer < first.n_layers; ++layer) {
        double kept = 0;
        double probability = 0;
        std::string heads;
        for (int h = 0; h < first.n_kv_heads; ++h) {
            const double share = mean(inspections, [&](const auto & one) { return one.kept_share(layer, h); });
            kept += share / first.n_kv_heads;
            probability +=
                mean(inspections, [&](const auto & one) { return one.mean_probability(layer, h); }) / first.n_kv_heads;
            heads += format(" %4.0f %%", 100 * share);
        }
        const int number = first.layer_numbers[static_cast<size_t>(layer)];
        if (!first.has_gate(layer)) {
            std::printf("layer %3d  no gate: keeps everything\n", number);
            continue;
        }
        std::printf("layer %3d  %4.0f %%  %6.3f  %s\n", number, 100 * kept, probability, heads.c_str());
    }
}

// What can stand on one line of a terminal.
std::string printable(const std::string & piece) {
    std::string text;
    for (const char c : piece) {
        const auto byte = static_cast<unsigned char>(c);
        text += byte < 0x20 || byte == 0x7f ? ' ' : c;
    }
    return text;
}

// Of UTF-8: bytes that begin a character.
size_t columns(const std::string & text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

char mark_of(double share) {
    if (share >= 1) { return '#'; }
    return share <= 0 ? '.' : static_cast<char>('0' + static_cast<int>(share * 10));
}

// The text, and under each token's first character how many lanes keep it.
void print_marked(const GateInspection & inspection, const Tokenizer & tokenizer) {
    std::puts("\nunder each token: tenths of the KV heads that keep it; # all, . none\n");
    std::string text;
    std::string marks;
    size_t width = 0;
    const auto flush = [&] {
        if (width > 0) { std::printf("%s\n%s\n\n", text.c_str(), marks.c_str()); }
        text.clear();
        marks.clear();
        width = 0;
    };
    const int n = std::min(inspection.n_tokens(), kMostMarked);
    for (int i = 0; i < n; ++i) {
        const std::string piece = tokenizer.piece(inspection.tokens[static_cast<size_t>(i)], true);
        const std::string shown = printable(piece);
        const size_t more = columns(shown);
        if (width + more > kLineWidth) { flush(); }
        text += shown;
        if (more > 0) { marks += mark_of(inspection.token_share(i)) + std::string(more - 1, ' '); }
        width += more;
        if (piece.find('\n') != std::string::npos) { flush(); }
    }
    flush();
    if (n < inspection.n_tokens()) {
        std::printf("(the first %d of %d tokens; --out writes all of them to gate_tokens.csv)\n", n, inspection.n_tokens());
    }
}

std::string lanes_csv(const GateInspection & inspection) {
    std::string text = "layer,kv_head,tokens,kept,mean_probability\n";
    for (int layer = 0; layer < inspection.n_layers; ++layer) {
        for (int h = 0; h < inspection.n_kv_heads; ++h) {
            text +=
                format("%d,%d,%d,%.0f,%.6g\n", inspection.layer_numbers[static_cast<size_t>(layer)], h, inspection.n_tokens(),
                       inspection.kept_share(layer, h) * inspection.n_tokens(), inspection.mean_probability(layer, h));
        }
    }
    return text;
}

std::string tokens_csv(const GateInspection & inspection, const Tokenizer & tokenizer) {
    std::string text = "position,token,text,kept_share";
    for (const int number : inspection.layer_numbers) {
        for (int h = 0; h < inspection.n_kv_heads; ++h) { text += format(",p_%d_%d", number, h); }
    }
    text += "\n";
    for (int i = 0; i < inspection.n_tokens(); ++i) {
        const int32_t token = inspection.tokens[static_cast<size_t>(i)];
        text +=
            format("%d,%d,", i, token) + quoted_cell(tokenizer.piece(token, true)) + format(",%.4g", inspection.token_share(i));
        for (int layer = 0; layer < inspection.n_layers; ++layer) {
            for (int h = 0; h < inspection.n_kv_heads; ++h) {
                text += format(",%.4g", static_cast<double>(inspection.probability_at(layer, i, h)));
            }
        }
        text += "\n";
    }
    return text;
}

// [query][key] of one head.
std::string attention_csv(const GateInspection & inspection, int head) {
    const auto n = static_cast<size_t>(inspection.n_tokens());
    const float * map = inspection.attention.data() + static_cast<size_t>(head) * n * n;
    std::string text = "query";
    for (size_t j = 0; j < n; ++j) { text += "," + std::to_string(j); }
    text += "\n";
    for (size_t i = 0; i < n; ++i) {
        text += std::to_string(i);
        for (size_t j = 0; j < n; ++j) { text += format(",%.3g", static_cast<double>(map[i * n + j])); }
        text += "\n";
    }
    return text;
}

int n_maps(const GateInspection & inspection) {
    return inspection.attention.empty() ? 0 : inspection.config.n_heads;
}

}  // namespace

void print_gates(const std::vector<GateInspection> & inspections, const Tokenizer & tokenizer) {
    const GateInspection & first = inspections.front();
    std::vector<double> retention;
    for (const GateInspection & one : inspections) { retention.push_back(one.retention()); }
    const double kept = mean(inspections, [](const auto & one) { return one.retention(); });
    if (inspections.size() == 1) {
        std::printf("%d tokens, %s: %.1f %% of the entries kept\n", first.n_tokens(), form(first.config).c_str(), 100 * kept);
    } else {
        const Interval interval = bootstrap_interval(retention);
        std::printf("%zu texts, %s: %.1f %% of the entries kept (95 %%: %.1f to %.1f)\n", inspections.size(),
                    form(first.config).c_str(), 100 * kept, 100 * interval.low, 100 * interval.high);
    }
    std::puts("");
    print_lanes(inspections);
    if (inspections.size() == 1) { print_marked(first, tokenizer); }
}

Json gates_json(const std::vector<GateInspection> & inspections, const Tokenizer & tokenizer) {
    const GateInspection & first = inspections.front();
    Json object;
    object["n_texts"] = inspections.size();
    object["n_tokens"] = first.n_tokens();
    object["retention"] = mean(inspections, [](const auto & one) { return one.retention(); });
    object["retention_of_texts"] = Json::array();
    for (const GateInspection & one : inspections) { object["retention_of_texts"].push_back(one.retention()); }
    object["tau"] = first.config.tau;
    object["first_layer"] = first.config.first_layer;
    object["layer_numbers"] = first.layer_numbers;
    object["layers"] = Json::array();
    for (int layer = 0; layer < first.n_layers; ++layer) {
        Json kept = Json::array();
        Json probability = Json::array();
        for (int h = 0; h < first.n_kv_heads; ++h) {
            kept.push_back(mean(inspections, [&](const auto & one) { return one.kept_share(layer, h); }));
            probability.push_back(mean(inspections, [&](const auto & one) { return one.mean_probability(layer, h); }));
        }
        object["layers"].push_back(
            {{"gate", first.has_gate(layer)}, {"kept", std::move(kept)}, {"mean_probability", std::move(probability)}});
    }
    if (inspections.size() > 1) { return object; }
    // Lane by lane: what the gate gave each token.
    for (int layer = 0; layer < first.n_layers; ++layer) {
        Json lanes = Json::array();
        for (int h = 0; h < first.n_kv_heads; ++h) {
            Json lane = Json::array();
            for (int i = 0; i < first.n_tokens(); ++i) { lane.push_back(first.probability_at(layer, i, h)); }
            lanes.push_back(std::move(lane));
        }
        object["layers"][static_cast<size_t>(layer)]["probability"] = std::move(lanes);
    }
    object["tokens"] = Json::array();
    for (int i = 0; i < first.n_tokens(); ++i) {
        const int32_t token = first.tokens[static_cast<size_t>(i)];
        object["tokens"].push_back(
            {{"token", token}, {"text", tokenizer.piece(token, true)}, {"kept_share", first.token_share(i)}});
    }
    return object;
}

std::vector<NamedText> gates_csv(const GateInspection & inspection, const Tokenizer & tokenizer) {
    std::vector<NamedText> files = {{"gate_lanes.csv", lanes_csv(inspection)},
                                    {"gate_tokens.csv", tokens_csv(inspection, tokenizer)}};
    for (int head = 0; head < n_maps(inspection); ++head) {
        files.push_back({"gate_attention_" + std::to_string(head) + ".csv", attention_csv(inspection, head)});
    }
    return files;
}

std::string gates_svg(const GateInspection & inspection) {
    report::SvgPage page(format("%d tokens, %.1f %% of the entries kept", inspection.n_tokens(), 100 * inspection.retention()));
    report::HeatMap tokens;
    tokens.title = "a strip for each KV head";
    tokens.row_label = "layer";
    tokens.column_label = "token";
    tokens.n_rows = inspection.n_layers * inspection.n_kv_heads;
    tokens.n_columns = inspection.n_tokens();
    tokens.strips = true;
    report::HeatMap lanes;
    lanes.row_label = "layer";
    lanes.column_label = "KV head";
    lanes.n_rows = inspection.n_layers;
    lanes.n_columns = inspection.n_kv_heads;
    for (int layer = 0; layer < inspection.n_layers; ++layer) {
        lanes.row_names.push_back(std::to_string(inspection.layer_numbers[static_cast<size_t>(layer)]));
        for (int h = 0; h < inspection.n_kv_heads; ++h) {
            lanes.values.push_back(inspection.kept_share(layer, h));
            tokens.row_names.push_back(lanes.row_names.back() + ", KV head " + std::to_string(h));
            for (int i = 0; i < inspection.n_tokens(); ++i) { tokens.values.push_back(inspection.keeps(layer, i, h) ? 1 : 0); }
        }
    }
    page.add(report::MapGroup{"Tokens kept and evicted", "share kept", {std::move(tokens)}, 0, 1});
    page.add(report::MapGroup{"Entries kept", "share kept", {std::move(lanes)}, 0, 1});
    report::MapGroup attention{
        format("Attention of the gate of layer %d", inspection.attention_layer), "share of a query's attention", {}, 0, 0};
    const auto n = static_cast<size_t>(inspection.n_tokens());
    for (int head = 0; head < n_maps(inspection); ++head) {
        const auto begin = inspection.attention.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(head) * n * n);
        attention.maps.push_back({format("head %d", head),
                                  "query",
                                  "key",
                                  inspection.n_tokens(),
                                  inspection.n_tokens(),
                                  {begin, begin + static_cast<ptrdiff_t>(n * n)},
                                  {},
                                  {}});
    }
    page.add(attention);
    return page.str();
}

}  // namespace pith::app
