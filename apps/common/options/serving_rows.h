// serving_rows.h - options of `pith serve` that messages, completion or llama.cpp's users know by more than their type.
#pragma once

#include <array>

#include "common/options/option_row.h"
#include "core/items.h"

namespace pith::app {

inline constexpr auto kServingRows = std::to_array<OptionRow>({
    {.names = "--host",
     .help = "Address to listen at; 0.0.0.0: every one of this machine",
     .kind = ValueKind::kFile,
     .item = item::kHost},
    {.names = "--port", .help = "Port to listen at; 0: one that is free", .kind = ValueKind::kText, .item = item::kPort},
    {.names = "--kv-budget",
     .help = "Ceiling of all KV caches together: bytes (4G), auto: what memory allows, or none",
     .kind = ValueKind::kFile,
     .item = item::kCeiling},
    {.names = "--cache-dir",
     .help = "Folder of states: a prompt that begins as an earlier one goes on from there, after a restart, too",
     .kind = ValueKind::kFolder},
    {.names = "--cache-size",
     .help = "What all states in it may take (8G, 500M); the least recently used goes first",
     .kind = ValueKind::kText},
    {.names = "--cache-ram",
     .help = "MiB of states in memory, all that they hold, inside --kv-budget, where they go before anybody waits; 0: none, "
             "-1: as many as fit",
     .kind = ValueKind::kText,
     .llama_names = "-cram",
     .llama_in = "serve"},
    {.names = "--timeout",
     .help = "Seconds for a request to arrive, and for a client to take what is written",
     .kind = ValueKind::kText,
     .llama_names = "-to",
     .llama_in = "serve"},
    {.names = "--cors-origin",
     .help = "Web page whose scripts may call, or *; none, or empty: no page but the server's own",
     .kind = ValueKind::kText,
     .may_be_empty = true},
});

}  // namespace pith::app
