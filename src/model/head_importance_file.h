// head_importance_file.h - head importances as JSON, tied to the model they were measured on. Stage: engine.
//
//   {"pith_heads": 1, "model": {…}, "probes": {…}, "copy": [[H numbers] × layers], "reason": [[…]]}
// "model" is its fingerprint (model/fingerprint.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/model_file.h"
#include "pith/head_importance.h"
#include "pith/status.h"

namespace pith {

// How the importances were measured.
struct HeadProbes {
    int count = 0;
    std::vector<int> lengths;  // tokens of a probe at most
    uint64_t seed = 0;
};

// "models/a.gguf" → "models/a.heads.json"; a split model's name goes without its part number.
std::string default_heads_path(const std::string & model_path);

// Ok when `heads` has one number ≥ 0 for every query head in copy and in reason.
Status check_head_importance(const HeadImportance & heads, const Hparams & hparams);

// Errors: kNotFound, kBadFile (no JSON, a missing field, a wrong number of heads, a negative number; names it),
//         kInvalidArgument (made for another model: names the number that differs).
Result<std::shared_ptr<const HeadImportance>> load_head_importance(const std::string & path, const ModelFile & file);

// Errors: kIo; no partial file.
Status save_head_importance(const std::string & path, const HeadImportance & heads, const HeadProbes & probes,
                            const ModelFile & file);

}  // namespace pith
