// loaded_model.h - the model that a command names, and the tokenizer with its chat template.
#pragma once

#include <optional>
#include <string>

#include "common/flags/chat_template_flags.h"
#include "common/flags/engine_flags.h"
#include "pith/model.h"
#include "pith/text.h"

namespace pith::app {

struct LoadedModel {
    Model model;
    Tokenizer tokenizer;
};

// kExitOk, and `to` holds it; or how the command ends, once stderr says why.   saved_template: of a text that was saved, which
// goes on in it unless another is named; empty: there is none.
int load_model(ModelFlags & flags, ChatTemplateFlags & chat_template, std::optional<LoadedModel> & to,
               const std::string & saved_template = "");

}  // namespace pith::app
