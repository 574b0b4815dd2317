// inspect_gates.h - `pith inspect --gate`: what gates keep of a text, for people, programs and eyes.
#pragma once

#include <string>
#include <vector>

#include "app/inspect/inspect_report.h"
#include "inspect/inspect_gates.h"
#include "pith/text.h"

namespace pith::app {

// Of one text: the table of lanes, and the text with a mark under each token. Of several: the table of their means.
void print_gates(const std::vector<GateInspection> & inspections, const Tokenizer & tokenizer);
Json gates_json(const std::vector<GateInspection> & inspections, const Tokenizer & tokenizer);

// gate_lanes.csv (a line a lane), gate_tokens.csv (a line a token, its retention probability in every lane); with an attention
// map gate_attention_HEAD.csv (query by key).
std::vector<NamedText> gates_csv(const GateInspection & inspection, const Tokenizer & tokenizer);
// The retention map in the manner of the paper's Figure 1, the lanes' shares, and the attention map.
std::string gates_svg(const GateInspection & inspection);

}  // namespace pith::app
