// sampling_rows.h - how the next token is drawn: llama.cpp's names.
#pragma once

#include <array>

#include "common/options/option_row.h"
#include "core/items.h"

namespace pith::app {

inline constexpr auto kSamplingRows = std::to_array<OptionRow>({
    {.names = "--temp,--temperature",
     .help = "Temperature; 0: always the likeliest token",
     .kind = ValueKind::kText,
     .llama_names = "-temp"},
    {.names = "--dynatemp-range",
     .help = "The temperature moves so far to both sides, by the entropy; 0: it stays",
     .kind = ValueKind::kText},
    {.names = "--dynatemp-exp", .help = "Exponent of the entropy there", .kind = ValueKind::kText},
    {.names = "--top-k", .help = "Draw from so many likeliest tokens; 0: all", .kind = ValueKind::kText},
    {.names = "--top-p", .help = "Draw from the likeliest tokens that make up this share", .kind = ValueKind::kText},
    {.names = "--min-p", .help = "Leave out tokens below this share of the likeliest one's", .kind = ValueKind::kText},
    {.names = "--typical,--typical-p",
     .help = "Draw from the tokens whose surprise is nearest to the mean; 1: off",
     .kind = ValueKind::kText},
    {.names = "--top-nsigma,--top-n-sigma",
     .help = "Leave out logits so many deviations below the highest; below 0: off",
     .kind = ValueKind::kText},
    {.names = "--xtc-probability",
     .help = "How often the likeliest tokens are left out (XTC); 0: never",
     .kind = ValueKind::kText},
    {.names = "--xtc-threshold",
     .help = "Those above this probability, but for the least likely of them",
     .kind = ValueKind::kText},
    {.names = "--repeat-penalty", .help = "Divide the logits of recent tokens; 1: off", .kind = ValueKind::kText},
    {.names = "--repeat-last-n", .help = "How many are recent; 0: none, -1: all", .kind = ValueKind::kText},
    {.names = "--presence-penalty", .help = "Take this off the logits of recent tokens", .kind = ValueKind::kText},
    {.names = "--frequency-penalty", .help = "The same once for each time", .kind = ValueKind::kText},
    {.names = "--dry-multiplier", .help = "Penalise what would repeat a sequence (DRY); 0: off", .kind = ValueKind::kText},
    {.names = "--dry-base", .help = "The penalty grows by this with every token of the sequence", .kind = ValueKind::kText},
    {.names = "--dry-allowed-length", .help = "Sequences no longer than this may repeat", .kind = ValueKind::kText},
    {.names = "--dry-penalty-last-n",
     .help = "Look for sequences in so many tokens; 0: off, -1: all",
     .kind = ValueKind::kText},
    {.names = "--dry-sequence-breaker",
     .help = "A text at which sequences end, instead of line breaks, : \" and *; may be repeated; none: nothing ends them",
     .kind = ValueKind::kText},
    {.names = "--mirostat", .help = "Mirostat 1 or 2 instead of all but the temperature; 0: off", .kind = ValueKind::kText},
    {.names = "--mirostat-ent", .help = "The surprise that mirostat aims at", .kind = ValueKind::kText},
    {.names = "--mirostat-lr", .help = "How fast it goes there", .kind = ValueKind::kText},
    {.names = "-l,--logit-bias",
     .help = "TOKEN+BIAS or TOKEN-BIAS: added to the token's logit; may be repeated",
     .kind = ValueKind::kText},
    {.names = "--grammar",
     .help = "Say only what this grammar (GBNF) allows",
     .kind = ValueKind::kText,
     .item = item::kGrammar},
    {.names = "--grammar-file", .help = "The same, from a file", .kind = ValueKind::kFile},
    {.names = "-j,--json-schema", .help = "Say JSON that fits this schema; {}: any JSON", .kind = ValueKind::kText},
    {.names = "--json-schema-file", .help = "The same, from a file (-jf)", .kind = ValueKind::kFile, .llama_names = "-jf"},
    {.names = "--draft-ngram",
     .help = "Draft so many tokens at most, where n-grams of the text foretell them, and check them in one pass: the same "
             "answer, sooner where it repeats what was read; 0: none",
     .kind = ValueKind::kText,
     .llama_names = "--draft --draft-n --draft-max --spec-draft-n-max",
     .llama_in = "run ask chat serve",
     .item = item::kDraftNgram},
    {.names = "-s,--seed", .help = "Seed of the draw (default: random)", .kind = ValueKind::kText},
});

}  // namespace pith::app
