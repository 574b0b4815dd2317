// shipped_heads.cpp - compares what a model is with what the importances that come with Pith were made for.
#include "model/shipped_heads.h"

#include <algorithm>

#include "model/head_importance_file.h"
#include "pith/log.h"

namespace pith {
namespace {

bool has(const Fingerprint & all, const Fingerprint::value_type & one) {
    return std::ranges::find(all, one) != all.end();
}

std::string describe(const HeadsOrigin & origin) {
    std::string text = std::to_string(origin.probes.count) + " probes";
    if (!origin.probes.lengths.empty()) {
        text += " of up to " + std::to_string(std::ranges::max(origin.probes.lengths)) + " tokens";
    }
    return origin.file.empty() ? text : text + " on " + origin.file;
}

}  // namespace

std::string ShippedMatch::why_not() const {
    switch (kind) {
        case Kind::kNone:
        case Kind::kSame:
            return "";
        case Kind::kOtherWeights:
            return "those that come with Pith for " + name +
                   " are not for this model: the shape is the same, the norms are not";
        case Kind::kAdapted:
            return "those that come with Pith for " + name + " are not for a model with a LoRA adapter";
        case Kind::kDamaged:
            return "those that come with Pith for " + name + " are damaged (" + problem + ")";
    }
    return "";
}

ShippedMatch match_shipped_heads(const ModelFile & file, std::span<const ShippedHeads> all) {
    const Fingerprint shape = shape_of(file);
    std::string norms;
    ShippedMatch match;
    for (const ShippedHeads & one : all) {
        const std::string name(one.name);
        const auto origin = parse_heads_origin(name, one.text);
        if (!origin.ok()) {
            log_line(LogLevel::kWarning, "head importances that come with Pith: " + origin.status().message());
            continue;
        }
        if (!std::ranges::all_of(shape, [&](const auto & item) { return has(origin->model, item); })) { continue; }
        if (norms.empty()) { norms = file.norms_hash(); }
        const bool same = has(origin->model, {"norms_hash", norms});
        if (!same && match.kind != ShippedMatch::Kind::kNone) { continue; }  // the first of this shape is named
        match = {ShippedMatch::Kind::kOtherWeights, name, describe(*origin), "", nullptr, one.text};
        if (!same) { continue; }
        const ModelFile::Adapter adapter = file.adapter();
        if (!adapter.path.empty() && adapter.scale != 0.0F) {
            match.kind = ShippedMatch::Kind::kAdapted;
            return match;
        }
        auto heads = parse_head_importance(name, one.text, file.hparams());
        match.kind = heads.ok() ? ShippedMatch::Kind::kSame : ShippedMatch::Kind::kDamaged;
        if (heads.ok()) {
            match.heads = std::move(*heads);
        } else {
            match.problem = heads.status().message();
        }
        return match;
    }
    return match;
}

}  // namespace pith
