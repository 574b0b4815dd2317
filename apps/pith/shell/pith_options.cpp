// pith_options.cpp - the table, and the lists that choices come from.
#include "app/shell/pith_options.h"

#include <sstream>
#include <string>

#include "model/random/random_model.h"

namespace pith::app {
namespace {

Words shapes_there_are() {
    Words words;
    std::istringstream names(shape_names());  // "0.5b, 1b"
    for (std::string name; names >> name;) { add_once(words, name.substr(0, name.find(','))); }
    return words;
}

}  // namespace

OwnOptions pith_options() {
    return {
        {"pith demo", "--policy", ValueKind::kPolicies, policies_or_all},
        {"pith demo", "--task", ValueKind::kListOf, demo_tasks},
        {"pith make-model", "shape", ValueKind::kOneOf, shapes_there_are},
        {"pith make-model", "--type", ValueKind::kOneOf, these({"f32", "f16", "bf16", "q8_0", "q4_0", "q4_K_M", "mxfp4_moe"})},
        {"pith completion", "SHELL", ValueKind::kOneOf, these({"bash", "zsh", "fish"})},
        {"pith man", "COMMAND", ValueKind::kText},
        {"pith run", "PROMPT", ValueKind::kText},
        {"pith ask", "PROMPT", ValueKind::kText},
        {"pith cache list", "FOLDER", ValueKind::kFolder},
        {"pith cache prune", "FOLDER", ValueKind::kFolder},
        {"pith cache prune", "--size", ValueKind::kText},
    };
}

}  // namespace pith::app
