// inspect_attention.h - `pith inspect --attention`: maps of the model's own attention, for eyes and for programs.
#pragma once

#include <string>
#include <vector>

#include "app/inspect/inspect_report.h"
#include "inspect/attention_maps.h"

namespace pith::app {

// "2:0", or "2:all" for every head of a layer.   Errors: kInvalidArgument: another form; heads that the model lacks.
Result<std::vector<MapHead>> parse_map_heads(const std::vector<std::string> & names, const ModelInfo & info);

// One file a map: attention_map_LAYER_HEAD.csv; with `_gated` before the dot of what gates leave. A line a row of cells.
std::vector<NamedText> attention_maps_csv(const std::vector<AttentionMap> & maps);
Json attention_maps_json(const std::vector<AttentionMap> & maps);
// The logarithm of the mean weight that a key gets from a query, all maps of a layer on one scale.
std::string attention_maps_svg(const std::vector<AttentionMap> & maps);
void print_attention_maps(const std::vector<AttentionMap> & maps);

}  // namespace pith::app
