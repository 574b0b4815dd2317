// gathered_reads.h - what operations of this machine read of a layer on a device, in one journey. Stage: device.
//
// ggml's scheduler asks a device for each tensor by itself and waits for the answer, and asks it to compute anew behind each
// operation of this machine. Queries, keys and values would be three journeys there and back for each layer and token, where
// one will do.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "device/graph_runner.h"

namespace pith {

inline constexpr size_t kGatherNodes = 12;  // of three tensors, at most

// tensors: f32, computed on a device, about to be read by operations of the CPU; null ones are left alone.
// Of a few tokens, whose bytes are nothing beside the journey, all become views of one tensor that lies here. Of more, they are
// only computed one behind the other. Values stay as they are.
void read_together(GraphBuild & build, std::initializer_list<ggml_tensor **> tensors);

}  // namespace pith
