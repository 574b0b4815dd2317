// tap.h - shown what each layer made of the newest token, for probes that compare caches. Stage: engine.
#pragma once

#include <functional>
#include <span>

namespace pith {

//   attention  f32 [H·dv]  the heads' outputs side by side, before the output projection
//   hidden     f32 [D]     the hidden state after the layer
// Called once a layer and run, in order; the spans are valid during the call.
using LayerTap = std::function<void(int layer, std::span<const float> attention, std::span<const float> hidden)>;

}  // namespace pith
