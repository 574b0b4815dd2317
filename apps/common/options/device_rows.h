// device_rows.h - which layers are computed on which devices: llama.cpp's names.
#pragma once

#include <array>

#include "common/options/option_row.h"
#include "core/items.h"

namespace pith::app {

inline constexpr auto kDeviceRows = std::to_array<OptionRow>({
    {.names = "--rpc",
     .help = "Servers (ggml-rpc-server) whose devices compute layers: host:port, several between commas",
     .kind = ValueKind::kText,
     .item = item::kRpcServers},
    {.names = "--device",
     .help = "Devices to use, in this order, between commas (-dev); none: the CPU alone (default: the servers', then GPUs)",
     .kind = ValueKind::kText,
     .llama_names = "-dev",
     .item = item::kDevices},
    {.names = "--n-gpu-layers",
     .help = "Layers on devices: the last so many, the output counted as one; all; 0: none (-ngl; default: all with --rpc, "
             "--device or --tensor-split, else none)",
     .kind = ValueKind::kText,
     .llama_names = "-ngl --gpu-layers",
     .item = item::kDeviceLayers,
     .item_shown = "-ngl"},
    {.names = "--tensor-split",
     .help = "Each device's share of these layers, as in 3,1 (-ts; default: by their free memory)",
     .kind = ValueKind::kText,
     .llama_names = "-ts",
     .item = item::kTensorSplit},
    {.names = "--kv-offload",
     .help = "Keys, values and attention on the devices of their layers (-kvo)",
     .llama_names = "-kvo"},
    {.names = "--no-kv-offload",
     .help = "Keys, values and attention on this machine's CPU (-nkvo; the default)",
     .llama_names = "-nkvo",
     .item = item::kKvOffload},
});

}  // namespace pith::app
