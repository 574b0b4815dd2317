// prompt_rows.h - what a model is given to read, and how its answer comes.
#pragma once

#include <array>

#include "common/options/option_row.h"
#include "core/items.h"

namespace pith::app {

inline constexpr auto kPromptRows = std::to_array<OptionRow>({
    {.names = "-p,--prompt",
     .help = "Prompt, or a question on the context; may be repeated. What is piped in is the context, without -p the prompt",
     .kind = ValueKind::kText,
     .may_be_empty = true,
     .item = item::kPrompt,
     .item_shown = "-p or -f"},
    {.names = "-f,--file", .help = "Text to read first: the context ('-': standard input)", .kind = ValueKind::kFile},
    {.names = "--token-ids",
     .help = "Token ids as the whole prompt, instead of text: a file of numbers ('-': standard input)",
     .kind = ValueKind::kFile},
    {.names = "--system-prompt",
     .help = "System prompt (-sys)",
     .kind = ValueKind::kText,
     .may_be_empty = true,
     .llama_names = "-sys"},
    {.names = "--system-prompt-file",
     .help = "The same, from a file (-sysf)",
     .kind = ValueKind::kFile,
     .llama_names = "-sysf"},
    {.names = "--pin-system", .help = "Never evict the system prompt"},
    {.names = "--in-prefix",
     .help = "Put in front of every message, inside the chat template",
     .kind = ValueKind::kText,
     .may_be_empty = true},
    {.names = "--in-suffix", .help = "The same behind it", .kind = ValueKind::kText, .may_be_empty = true},
    {.names = "-r,--reverse-prompt",
     .help = "An answer ends where the model says this text; may be repeated",
     .kind = ValueKind::kText,
     .may_be_empty = true},
    {.names = "-e,--escape", .help = "\\n in -p, --prompts, -r and --system-prompt is a line break, \\t a tab, \\x41 a byte"},
    {.names = "-n,--n-predict,--predict",
     .help = "Tokens to generate at most; -1: until the model ends",
     .kind = ValueKind::kText,
     .item = item::kNewTokens},
    {.names = "--parallel",
     .help = "Answers at a time, together through each pass over the weights (-np); 1: one after the other",
     .kind = ValueKind::kText,
     .llama_names = "-np",
     .llama_in = "run serve"},
    {.names = "--json", .help = "One JSON object on standard output"},
    {.names = "-q,--quiet", .help = "Say nothing of tokens, bytes and times when it is done"},
    {.names = "--verbose",
     .help = "Print the libraries' log lines on stderr",
     .llama_names = "-v --log-verbose",
     .llama_in = "run chat serve"},
});

}  // namespace pith::app
