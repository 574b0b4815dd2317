// embedded.h - tokens as the first layer reads them. Stage: model graph.
#pragma once

#include <cstdint>

#include "device/graph_runner.h"
#include "model/model_file.h"

namespace pith {

// tokens i32 [n], which `input` is copied from: their rows [D, n] of the embedding. Of a first layer on a device they are
// looked up here and sent, at every run: the table of rows would take memory there, and not every back end reads every type.
ggml_tensor * embedded(GraphBuild & build, const ModelFile & file, const int32_t * tokens, ggml_tensor * input);

}  // namespace pith
