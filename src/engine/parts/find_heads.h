// find_heads.h - where the head importances of a session come from: given, beside the model, with Pith. Stage: engine.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "model/model_file.h"
#include "model/shipped_heads.h"
#include "pith/session.h"
#include "pith/status.h"
#include "policy/auto_policy.h"
#include "policy/policy.h"

namespace pith {

// SessionOptions::heads_file where none are to be looked for.
inline constexpr std::string_view kNoHeads = "none";

// What comes with Pith for one model, looked up once.   Threads: safe.
class ModelHeads {
public:
    // all: must outlive it.
    explicit ModelHeads(std::shared_ptr<const ModelFile> file, std::span<const ShippedHeads> all = all_shipped_heads())
        : file_(std::move(file)), all_(all) {}
    const ModelFile & file() const { return *file_; }
    const ShippedMatch & shipped() const;

private:
    std::shared_ptr<const ModelFile> file_;
    std::span<const ShippedHeads> all_;
    mutable std::once_flag looked_up_;
    mutable ShippedMatch shipped_;
};

// Sets options.heads for a policy that wants them: those given, else the file beside the model, else those that come with Pith.
// No file is read for a policy that has no use for it.
// Errors: kInvalidArgument (there are none, or they do not fit the model); those of load_head_importance().
Status find_heads(const ModelHeads & heads, const Policy & policy, SessionOptions & options);

// The same for `auto`, which does without: what is given must fit, what lies beside the model is passed over where it does not.
Result<KnownHeads> find_heads_for_auto(const ModelHeads & heads, SessionOptions & options);

}  // namespace pith
