// head_importance_file.h - head importances as JSON, tied to the model they were measured on. Stage: engine.
//
//   {"pith_heads": 1, "model": {…}, "probes": {…}, "copy": [[H numbers] × layers], "reason": [[…]]}
// "model" is its fingerprint (model/fingerprint.h) and, of newer files, "norms_hash" (ModelFile::norms_hash()).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/fingerprint.h"
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

// "models/a.gguf", ".heads.json" → "models/a.heads.json"; a split model's name goes without its part number.
std::string path_beside_model(const std::string & model_path, std::string_view end);
std::string default_heads_path(const std::string & model_path);

// Ok when `heads` has one number ≥ 0 for every query head in copy and in reason.
Status check_head_importance(const HeadImportance & heads, const Hparams & hparams);

// Errors: kNotFound, kBadFile (no JSON, a missing field, a wrong number of heads, a negative number; names it),
//         kInvalidArgument (made for another model: names the number that differs).
Result<std::shared_ptr<const HeadImportance>> load_head_importance(const std::string & path, const ModelFile & file);

// The same of a file's text, whichever model it was made for; `name` stands for its path in messages.
// Errors: kBadFile.
Result<std::shared_ptr<const HeadImportance>> parse_head_importance(const std::string & name, std::string_view text,
                                                                    const Hparams & hparams);

// What a file's text says of its model, "norms_hash" included, and of how it was made.   Errors: kBadFile.
struct HeadsOrigin {
    Fingerprint model;
    HeadProbes probes;
    std::string file;  // that was measured, without its folder; empty: an older text does not say
};
Result<HeadsOrigin> parse_heads_origin(const std::string & name, std::string_view text);

// Errors: kIo; no partial file.
Status save_head_importance(const std::string & path, const HeadImportance & heads, const HeadProbes & probes,
                            const ModelFile & file);

}  // namespace pith
