// random_keys.h - the metadata of a random model. Key names are those that libllama reads. Stage: model.
#pragma once

#include <gguf.h>

#include <memory>

#include "model/arch/hparams.h"
#include "model/random/random_model.h"
#include "pith/status.h"

namespace pith {

struct GgufFree {
    void operator()(gguf_context * gguf) const { gguf_free(gguf); }
};
using GgufPtr = std::unique_ptr<gguf_context, GgufFree>;

void set_random_keys(gguf_context * gguf, const RandomModelSpec & spec);
void set_random_vocab(gguf_context * gguf, const RandomModelSpec & spec);

// What a reader of these keys makes of them.   Errors: as read_hparams(), of keys that do not go together.
Result<Hparams> random_hparams(const RandomModelSpec & spec);

}  // namespace pith
