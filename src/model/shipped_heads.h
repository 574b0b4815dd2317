// shipped_heads.h - head importances that come with Pith, for models that people use, found by the model's identity. Stage:
// engine.
//
// models/heads/NAME.json, as `pith calibrate heads` writes them (scripts/calibrate_models), are part of the library. A model is
// known by its shape (architecture, layers, heads, KV heads, their size, width) and by norms_hash(), which its quantisations
// share. Number of parameters and vocabulary do not count: quantised files may have an output matrix of their own, or tokens
// added.
// Differs: a fine-tune that leaves every norm as it was, which some LoRA adapters that were merged do, passes for its base.
// Heads that retrieve are pretraining's, and the base's serve there, too (Retrieval Head, Wu et al., 2024).
// Threads: const-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "model/model_file.h"
#include "pith/head_importance.h"

namespace pith {

struct ShippedHeads {
    std::string_view name;  // "SmolLM2-135M-Instruct"
    std::string_view text;
};

// All of them, in the order of their names.
std::span<const ShippedHeads> all_shipped_heads();

struct ShippedMatch {
    enum class Kind {
        kNone,          // none is for a model of this shape
        kSame,          // these are for this model
        kOtherWeights,  // these are for a model of this shape whose norms are others: a fine-tune of it, or its base
        kAdapted,       // these are for this model without its LoRA adapter
        kDamaged,       // these are for this model, and cannot be read
    };
    Kind kind = Kind::kNone;
    std::string name;
    std::string made;                             // "60 probes of up to 1024 tokens on SmolLM2-135M-Instruct.Q4_1.gguf"
    std::string problem;                          // kDamaged: one line
    std::shared_ptr<const HeadImportance> heads;  // kSame
    std::string_view text;                        // of all kinds but kNone, as it comes with Pith

    // Why they are not used, as a part of a message: "those that come with Pith …"; empty: there are none, or they are used.
    std::string why_not() const;
};

// What cannot be told which model it is for is passed over, with a line in the log.   Cost: reads the norms.
ShippedMatch match_shipped_heads(const ModelFile & file, std::span<const ShippedHeads> all = all_shipped_heads());

}  // namespace pith
