// chat_template_flags.h - which chat template, what it is given, and what becomes of a model's thoughts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pith/text.h"
#include "text/reasoning.h"

namespace pith::app {

struct ChatTemplateFlags {
    std::string name_or_text;
    std::string file;
    std::string variables;  // JSON
    std::string tools;      // a file
    std::string reasoning = "auto";
    std::string reasoning_format = "auto";

    void add_to(CLI::App & command);
    void add_template_to(CLI::App & command);  // of them the template alone
    bool any() const;                          // that need a template
    // Behind a saved text its template goes on, unless another is named. Empty: what it was is not known.
    void stay_with(const std::string & saved_template, const Tokenizer & tokenizer);
    ChatOptions options() const;  // variables and reasoning
    // Gives the tokenizer the template and what it is rendered with.
    // Errors: kInvalidArgument: names the option; kNotFound, kIo; kUnsupported: tools that the template does not show.
    Status give(Tokenizer & tokenizer) const;
    // By which an answer is told apart; none where the template marks no thoughts, or --reasoning-format none.
    ReasoningMarks marks(const Tokenizer & tokenizer) const;
    bool hides_reasoning() const { return reasoning_format == "hide"; }
};

}  // namespace pith::app
