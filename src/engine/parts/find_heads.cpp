// find_heads.cpp - looks in one place after the other, and says in the log where.
#include "engine/parts/find_heads.h"

#include <filesystem>
#include <string>
#include <utility>

#include "core/items.h"
#include "model/head_importance_file.h"
#include "pith/log.h"

namespace pith {
namespace {

bool exists(const std::string & path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
}

// The importances given, or those of the file given. false: neither was.
Result<bool> take_given_heads(const ModelFile & file, SessionOptions & options) {
    if (!options.heads && (options.heads_file.empty() || options.heads_file == kNoHeads)) { return false; }
    if (!options.heads) { PITH_ASSIGN_OR_RETURN(options.heads, load_head_importance(options.heads_file, file)); }
    PITH_RETURN_IF_ERROR(check_head_importance(*options.heads, file.hparams()));
    return true;
}

// Those that come with Pith; false: there are none for this model.
bool take_shipped_heads(const ShippedMatch & shipped, SessionOptions & options) {
    if (shipped.kind != ShippedMatch::Kind::kSame) { return false; }
    log_line(LogLevel::kInfo, "head importances that come with Pith for " + shipped.name + ": " + shipped.made);
    options.heads = shipped.heads;
    return true;
}

}  // namespace

const ShippedMatch & ModelHeads::shipped() const {
    std::call_once(looked_up_, [this] { shipped_ = match_shipped_heads(*file_, all_); });
    return shipped_;
}

Status find_heads(const ModelHeads & heads, const Policy & policy, SessionOptions & options) {
    const ModelFile & file = heads.file();
    if (!policy.wants_importance()) { return options.heads ? check_head_importance(*options.heads, file.hparams()) : Status(); }
    PITH_ASSIGN_OR_RETURN(const bool given, take_given_heads(file, options));
    if (given) { return {}; }
    const Wording make =
        ": make them with `pith calibrate heads -m MODEL -o heads.json` and give " + item::kHeads + " heads.json";
    if (options.heads_file == kNoHeads) {
        return {ErrorCode::kInvalidArgument,
                "policy '" + policy.name() + "' needs head importances, and " + item::kHeads + " none looks for none" + make};
    }
    const std::string path = default_heads_path(file.path());
    if (exists(path)) {
        log_line(LogLevel::kInfo, "head importances from '" + path + "'");
        PITH_ASSIGN_OR_RETURN(options.heads, load_head_importance(path, file));
        return {};
    }
    if (take_shipped_heads(heads.shipped(), options)) { return {}; }
    const std::string why = heads.shipped().why_not();
    return {ErrorCode::kInvalidArgument,
            "policy '" + policy.name() + "' needs head importances" + (why.empty() ? "" : "; " + why) + make};
}

Result<KnownHeads> find_heads_for_auto(const ModelHeads & heads, SessionOptions & options) {
    const ModelFile & file = heads.file();
    PITH_ASSIGN_OR_RETURN(const bool given, take_given_heads(file, options));
    if (given) { return KnownHeads::kGiven; }
    if (options.heads_file == kNoHeads) { return KnownHeads::kNone; }
    const std::string without = "policy auto does without head importances: ";
    KnownHeads known = KnownHeads::kNone;
    if (const std::string path = default_heads_path(file.path()); exists(path)) {
        auto found = load_head_importance(path, file);
        if (found.ok()) {
            log_line(LogLevel::kInfo, "head importances from '" + path + "'");
            options.heads = std::move(*found);
            return KnownHeads::kBesideModel;
        }
        log_line(LogLevel::kWarning,
                 "policy auto does without the head importances beside the model: " + found.status().message());
        known = KnownHeads::kUnfit;
    }
    const ShippedMatch & shipped = heads.shipped();
    if (take_shipped_heads(shipped, options)) { return KnownHeads::kShipped; }
    if (const std::string why = shipped.why_not(); !why.empty()) {
        const bool damaged = shipped.kind == ShippedMatch::Kind::kDamaged;
        log_line(damaged ? LogLevel::kWarning : LogLevel::kInfo, without + why);
        if (known == KnownHeads::kNone && !damaged) { known = KnownHeads::kOthers; }
    }
    return known;
}

}  // namespace pith
