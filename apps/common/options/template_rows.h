// template_rows.h - which chat template, what it is given, and what becomes of a model's thoughts.
#pragma once

#include <array>

#include "common/options/option_row.h"
#include "core/items.h"

namespace pith::app {

inline constexpr auto kTemplateRows = std::to_array<OptionRow>({
    {.names = "--chat-template",
     .help = "Chat template in place of the model's own: Jinja, or a name that libllama knows (chatml, …)",
     .kind = ValueKind::kText,
     .item = item::kChatTemplate,
     .item_shown = "--chat-template NAME"},
    {.names = "--chat-template-file", .help = "The same, from a file of Jinja", .kind = ValueKind::kFile},
    {.names = "--chat-template-kwargs",
     .help = "JSON object of more that the template reads: {\"enable_thinking\": false}",
     .kind = ValueKind::kText},
    {.names = "--tools",
     .help = "File of a JSON array of tools, as OpenAI's, that the template shows the model ('-': standard input)",
     .kind = ValueKind::kFile},
    {.names = "--reasoning",
     .help = "Whether the model thinks before it answers, where its template has a say (-rea)",
     .kind = ValueKind::kOneOf,
     .choices = "on off auto",
     .llama_names = "-rea"},
    {.names = "--reasoning-format",
     .help = "What becomes of marked thoughts: auto (told apart, on stderr), hide, none (part of the answer, as written)",
     .kind = ValueKind::kOneOf,
     .choices = "auto hide none"},
    {.names = "--raw",
     .help = "Leave out the model's chat template",
     .llama_names = "-no-cnv --no-conversation",
     .llama_in = "run compress",  // there, too, it means: without the chat template
     .item = item::kRaw},
});

}  // namespace pith::app
