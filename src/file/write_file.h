// write_file.h - a file written in one call, whole or not at all (new_file.h). Stage: file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "pith/status.h"

struct gguf_context;

namespace pith {

// A failure leaves what was there. Errors: kIo (path and reason), here and below.
Status write_file(const std::string & path, std::string_view bytes);

// A model, an adapter, gates: what `gguf` says of itself, and the bytes of its tensors, in its order.
Status write_gguf(const std::string & path, const gguf_context * gguf, std::span<const void * const> tensors);

}  // namespace pith
