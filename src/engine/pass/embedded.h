// embedded.h - tokens as the first layer reads them. Stage: model graph.
#pragma once

#include <cstdint>
#include <span>

#include "device/graph_runner.h"
#include "model/model_file.h"
#include "pith/status.h"

namespace pith {

// Whether the embedding has a row for each of the tokens: embedded() does not look, and would read elsewhere.
// Errors: kInvalidArgument.
Status check_rows(const ModelFile & file, std::span<const int32_t> tokens);

// tokens i32 [n], which `input` is copied from and of which check_rows() is true at every run: their rows [D, n] of the
// embedding. Of a first layer on a device they are looked up here and sent, at every run: the table of rows would take memory
// there, and not every back end reads every type.
ggml_tensor * embedded(GraphBuild & build, const ModelFile & file, const int32_t * tokens, ggml_tensor * input);

}  // namespace pith
