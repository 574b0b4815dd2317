// loaded_model.cpp - found, loaded, and given its template.
#include "app/run/loaded_model.h"

#include <utility>

#include "common/base/errors.h"

namespace pith::app {

int load_model(ModelFlags & flags, ChatTemplateFlags & chat_template, std::optional<LoadedModel> & to,
               const std::string & saved_template) {
    if (const Status found = flags.find(); !found.ok()) { return fail_or_usage(found); }
    auto model = flags.load();
    if (!model.ok()) { return fail(model.status()); }
    auto tokenizer = Tokenizer::load(flags.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    chat_template.stay_with(saved_template, *tokenizer);
    if (const Status given = chat_template.give(*tokenizer); !given.ok()) { return fail(given); }
    to.emplace(LoadedModel{std::move(*model), std::move(*tokenizer)});
    return kExitOk;
}

}  // namespace pith::app
