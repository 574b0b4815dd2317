// inspect_attention.cpp - writes out maps of attention.
#include "app/inspect/inspect_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/parse_integer.h"
#include "figures/svg.h"

namespace pith::app {
namespace {

constexpr double kLeastWeight = 1e-6;  // what is less is drawn as this
constexpr double kMostDrawnCells = 40000;

std::string name_of(const AttentionMap & map) {
    return "attention_map_" + std::to_string(map.head.layer) + "_" + std::to_string(map.head.head) +
           (map.gated ? "_gated" : "");
}

// Cells of a side: a page of all maps together has so many at most that programs open it.
int drawn_cells(size_t n_maps) {
    const double side = std::sqrt(kMostDrawnCells / static_cast<double>(n_maps));
    return std::clamp(static_cast<int>(side), 16, report::SvgPage::kMostCells);
}

// Six digits: more would only make the file long.
double short_number(float value) {
    return std::strtod(csv_number(static_cast<double>(value)).c_str(), nullptr);
}

// Cells put together until they are few enough, and the logarithm of what one key gets from one query on average.
report::HeatMap drawn(const AttentionMap & map, int most_cells) {
    const int step = (map.n_cells + most_cells - 1) / most_cells;
    const int side = (map.n_cells + step - 1) / step;
    report::HeatMap out;
    out.title = "head " + std::to_string(map.head.head) + (map.gated ? ", gated" : "");
    const int tokens = step * map.cell;
    const std::string unit = tokens > 1 ? " (cells of " + std::to_string(tokens) + " tokens)" : "";
    out.row_label = "query" + unit;
    out.column_label = "key" + unit;
    out.n_rows = out.n_columns = side;
    for (int i = 0; i < side; ++i) { out.row_names.push_back(std::to_string(i * tokens)); }
    out.column_names = out.row_names;
    for (int row = 0; row < side; ++row) {
        for (int column = 0; column < side; ++column) {
            double sum = 0;
            int n_queries = 0;
            for (int r = row * step; r < std::min((row + 1) * step, map.n_cells); ++r) {
                const int n = map.n_rows[static_cast<size_t>(r)];
                n_queries += n;
                for (int c = column * step; c < std::min((column + 1) * step, map.n_cells); ++c) {
                    sum += n * static_cast<double>(map.at(r, c));
                }
            }
            const int n_keys = std::min((column + 1) * tokens, map.n_tokens) - column * tokens;
            const double weight = n_queries > 0 ? sum / n_queries / n_keys : 0;
            out.values.push_back(std::log10(std::max(weight, kLeastWeight)));
        }
    }
    return out;
}

std::string map_csv(const AttentionMap & map) {
    std::string text = "query";
    for (int c = 0; c < map.n_cells; ++c) { text += "," + std::to_string(c * map.cell); }
    text += "\n";
    for (int r = 0; r < map.n_cells; ++r) {
        text += std::to_string(r * map.cell);
        for (int c = 0; c < map.n_cells; ++c) { text += "," + csv_number(static_cast<double>(map.at(r, c))); }
        text += "\n";
    }
    return text;
}

// Mean over the map's queries of what they pay to the first cell, and to their own.
std::pair<double, double> first_and_own(const AttentionMap & map) {
    double first = 0;
    double own = 0;
    int n = 0;
    for (int r = 0; r < map.n_cells; ++r) {
        const int n_queries = map.n_rows[static_cast<size_t>(r)];
        first += n_queries * static_cast<double>(map.at(r, 0));
        own += n_queries * static_cast<double>(map.at(r, r));
        n += n_queries;
    }
    return {first / n, own / n};
}

Status bad_name(const std::string & name) {
    return {ErrorCode::kInvalidArgument, "--attention '" + name + "' is no head: give LAYER:HEAD, as 2:0, or 2:all"};
}

}  // namespace

Result<std::vector<MapHead>> parse_map_heads(const std::vector<std::string> & names, const ModelInfo & info) {
    std::vector<MapHead> heads;
    const auto add = [&heads](const MapHead & one) {
        if (std::ranges::find(heads, one) == heads.end()) { heads.push_back(one); }
    };
    for (const std::string & name : names) {
        const size_t colon = name.find(':');
        MapHead one;
        if (colon == std::string::npos || !parse_integer(std::string_view(name).substr(0, colon), one.layer)) {
            return bad_name(name);
        }
        const std::string_view head = std::string_view(name).substr(colon + 1);
        const bool all = head == "all";
        if (!all && !parse_integer(head, one.head)) { return bad_name(name); }
        if (one.layer < 0 || one.layer >= info.n_layers || one.head < 0 || one.head >= info.n_heads) {
            return {ErrorCode::kInvalidArgument, "--attention '" + name + "': the model has layers 0 to " +
                                                     std::to_string(info.n_layers - 1) + " of heads 0 to " +
                                                     std::to_string(info.n_heads - 1)};
        }
        if (!all) {
            add(one);
            continue;
        }
        for (int g = 0; g < info.n_heads; ++g) { add({one.layer, g}); }
    }
    return heads;
}

std::vector<NamedText> attention_maps_csv(const std::vector<AttentionMap> & maps) {
    std::vector<NamedText> files;
    for (const AttentionMap & map : maps) { files.push_back({name_of(map) + ".csv", map_csv(map)}); }
    return files;
}

Json attention_maps_json(const std::vector<AttentionMap> & maps) {
    Json object;
    object["n_tokens"] = maps.front().n_tokens;
    object["cell"] = maps.front().cell;
    object["n_cells"] = maps.front().n_cells;
    object["maps"] = Json::array();
    for (const AttentionMap & map : maps) {
        Json rows = Json::array();
        for (int r = 0; r < map.n_cells; ++r) {
            Json row = Json::array();
            for (int c = 0; c < map.n_cells; ++c) { row.push_back(short_number(map.at(r, c))); }
            rows.push_back(std::move(row));
        }
        object["maps"].push_back({{"layer", map.head.layer},
                                  {"head", map.head.head},
                                  {"gated", map.gated},
                                  {"n_queries", map.n_rows},
                                  {"values", std::move(rows)}});
    }
    return object;
}

std::string attention_maps_svg(const std::vector<AttentionMap> & maps) {
    report::SvgPage page("What heads attend to",
                         std::to_string(maps.front().n_tokens) + " tokens; queries downwards, keys to the right");
    std::vector<int> layers;
    for (const AttentionMap & map : maps) {
        if (std::ranges::find(layers, map.head.layer) == layers.end()) { layers.push_back(map.head.layer); }
    }
    for (const int layer : layers) {
        report::MapGroup group{"Layer " + std::to_string(layer), "log10 of a query's mean attention to a key", {}, 0, 0};
        for (const AttentionMap & map : maps) {
            if (map.head.layer == layer) { group.maps.push_back(drawn(map, drawn_cells(maps.size()))); }
        }
        page.add(group);
    }
    return page.str();
}

void print_attention_maps(const std::vector<AttentionMap> & maps) {
    const int cell = maps.front().cell;
    std::printf("%d tokens in cells of %d; of their attention, queries pay\n", maps.front().n_tokens, cell);
    for (const AttentionMap & map : maps) {
        const auto [first, own] = first_and_own(map);
        std::printf("layer %3d  head %3d%s  %5.1f %% to the first cell, %5.1f %% to their own\n", map.head.layer, map.head.head,
                    map.gated ? "  gated" : "", 100 * first, 100 * own);
    }
}

}  // namespace pith::app
