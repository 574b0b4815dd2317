// generate_tokens.cpp - the loop. Stage: engine.
#include "engine/generate_tokens.h"

#include <utility>

namespace pith {

Result<GeneratedTokens> generate_tokens(Session & session, const GenerateRules & rules) {
    GeneratedTokens out;
    const auto end = [&out](GenerateEnd why) {
        out.end = why;
        return out;
    };
    for (int64_t n = 0; rules.n_predict < 0 || n < rules.n_predict; ++n) {
        if (rules.cancel != nullptr && rules.cancel->load()) { return end(GenerateEnd::kCancelled); }
        if (out.unfed >= 0) { PITH_RETURN_IF_ERROR(session.append(std::exchange(out.unfed, -1))); }
        const std::span<const float> logits = session.logits();
        if (logits.empty()) { return {ErrorCode::kInternal, "the session has no logits to go on from"}; }
        int32_t token = 0;
        if (rules.choose) {
            PITH_ASSIGN_OR_RETURN(token, rules.choose(logits));
        } else {
            token = likeliest_token(logits);
        }
        if (rules.feeds_last) { PITH_RETURN_IF_ERROR(session.append(token)); }
        if (rules.ends && rules.ends(token)) { return end(GenerateEnd::kEnded); }
        if (!rules.feeds_last) { out.unfed = token; }
        if (rules.say && !rules.say(token)) { return end(GenerateEnd::kSaid); }
    }
    return out;
}

}  // namespace pith
