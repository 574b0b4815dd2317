// read_hparams.h - GGUF metadata → hyper-parameters, checked. Stage: model.
#pragma once

#include <string>

#include "file/gguf_header.h"
#include "model/arch/hparams.h"
#include "pith/status.h"

namespace pith {

// What is taken from the metadata is within limits that make later int arithmetic safe.
// Errors: kUnsupported (architecture, RoPE scaling, per-layer head counts), kBadFile (a key missing, of the wrong type, out of
//         range); both name the key, its value and the limit.
Result<Hparams> read_hparams(const GgufHeader & header, const std::string & path);

}  // namespace pith
