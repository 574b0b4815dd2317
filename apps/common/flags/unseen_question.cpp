// unseen_question.cpp - what is known of the model, and the line.
#include "common/flags/unseen_question.h"

#include <utility>

#include "common/base/errors.h"
#include "engine/find_heads.h"
#include "engine/model_parts.h"
#include "policy/auto_policy.h"

namespace pith::app {

void warn_of_unseen_question(std::span<const std::string> policies, const Model & model, const std::string & heads_file,
                             const std::string & remedy) {
    static bool told = false;
    AutoFacts facts;
    facts.has_gates = model.info().has_gates;
    SessionOptions options;
    options.heads_file = heads_file;
    if (const auto known = find_heads_for_auto(heads_of(model), options); known.ok()) { facts.heads = *known; }
    const auto text = unseen_question_text(policies, facts);
    if (!text.ok() || text->empty() || std::exchange(told, true)) { return; }  // a name that is none is refused elsewhere
    warn(*text + "; or " + remedy);
}

}  // namespace pith::app
