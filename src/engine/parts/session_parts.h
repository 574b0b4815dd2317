// session_parts.h - what a session is made of, and keeps as long as it lives. Stage: engine.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cache/ragged_cache.h"
#include "evidence/output_matrices.h"
#include "model/model_file.h"
#include "pith/model.h"
#include "pith/session.h"
#include "policy/auto_policy.h"
#include "policy/eviction.h"

namespace pith {

class Forward;
struct Execution;

struct SessionParts {
    std::optional<Model> model;  // set, once it is made
    std::shared_ptr<const ModelFile> file;
    SessionOptions options;  // policy and budget: of the beginning; those in force are the sequence's
    KnownHeads known_heads = KnownHeads::kNone;
    std::shared_ptr<OutputMatrices> output;  // of the model: all its sessions share them
    CacheLayout layout;
    std::shared_ptr<Execution> execution;
    std::shared_ptr<Forward> forward;                      // its, with its threads; an engine's sequences share them
    std::vector<EvidenceNeeds> observed;                   // of options.observe
    std::vector<int> governed;                             // [governed layer]: which of the model it is
    std::shared_ptr<const HeadImportance> governed_heads;  // of options.heads, those that policies govern

    const CacheShape & shape() const { return layout.shape; }  // of what policies govern
    int n_layers() const { return layout.n_layers(); }         // of the model
    // Policies count governed layers alone, from 0; everybody else counts all.
    int governed_index(int layer) const {
        return static_cast<int>(std::ranges::lower_bound(governed, layer) - governed.begin());
    }
    std::vector<LayerPlan> of_model(std::vector<LayerPlan> plans) const {
        for (LayerPlan & one : plans) { one.layer = governed[static_cast<size_t>(one.layer)]; }
        return plans;
    }
};

}  // namespace pith
