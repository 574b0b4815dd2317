// layer_tap.h - what a layer shows to probes while it runs. Stage: engine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "pith/status.h"

namespace pith {

// What each layer made of the newest token, for probes that compare caches.
//   attention  f32 [H·dv]  the heads' outputs side by side, before the output projection
//   hidden     f32 [D]     the hidden state after the layer
// Called once a layer and run, in order; the spans are valid during the call.
using LayerTap = std::function<void(int layer, std::span<const float> attention, std::span<const float> hidden)>;

// All queries [n][H][d] of a run, after the evidence: measures what policies would pay. What it returns is what the run
// returns.
using QueryObserver = std::function<Status(int layer, std::span<const float> queries, int n, int32_t first_position)>;

// The normalised input of a layer's attention, all of a run's rows [n][D]: what gates read. After the layer has run.
using InputObserver = std::function<Status(int layer, std::span<const float> inputs, int n, int32_t first_position)>;

}  // namespace pith
