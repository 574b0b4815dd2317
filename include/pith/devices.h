// devices.h - ggml's devices, those of other machines included, and what of a model lies on them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pith/status.h"

namespace pith {

// Which layers' weights go to which devices. By default none do: all is computed on the CPU.
//
// The output counts as a layer behind the last. Layers go to the devices in order, the last ones first to leave the CPU, as
// llama.cpp has it. Keys and values, attention and evidence stay in this machine's memory, so that only hidden states, queries,
// keys and values cross; or, with kv_offload, they lie on the device of their layer, too, and only hidden states and
// what evidence comes to cross. Every policy, file and snapshot is as without devices, either way.
struct DeviceOptions {
    std::vector<std::string> rpc_servers;  // "host:port" of ggml-rpc-servers, whose devices count with this machine's
    std::vector<std::string> names;        // as list_devices() has them, in this order; "none" alone: no device;
                                           // empty: the servers', then this machine's GPUs
    int n_layers = -1;                     // the last so many; -1: all
    std::vector<float> split;              // each device's share of them; empty: by the memory that is free
    bool kv_offload = false;               // keys and values lie with the layers' weights

    bool any() const {
        const bool none = n_layers == 0 || (names.size() == 1 && names.front() == "none");
        return !none && (!rpc_servers.empty() || !names.empty() || n_layers > 0 || !split.empty());
    }
};

// Options from texts as the command line has them: "host:port,host:port", "RPC0,CUDA0", "3,1"; empty: not given.
// Errors: kInvalidArgument: names the item, the value and what to give.
Result<DeviceOptions> parse_devices(const std::string & rpc_servers, const std::string & names, const std::string & split);

struct DeviceInfo {
    std::string name;         // "CUDA0", "Vulkan0", "RPC0"
    std::string description;  // what it calls itself
    std::string server;       // "host:port"; empty: of this machine
    size_t free_bytes = 0;
    size_t total_bytes = 0;
};

// The devices that layers can be placed on: those of the servers, in order, then this machine's GPUs.
// Errors: kInvalidArgument (not "host:port"), kIo (a server cannot be reached, or does not answer), kUnsupported (it speaks
// another version; this ggml has no RPC back end), kNotFound (ggml has no back ends).   Cost: some messages for each server.
Result<std::vector<DeviceInfo>> list_devices(const std::vector<std::string> & rpc_servers = {});

// What of a model lies on one device, and of a session.
struct DeviceUse {
    std::string name;
    std::string server;   // as DeviceInfo has it
    int first_layer = 0;  // of n_layers
    int n_layers = 0;
    bool has_output = false;  // the output projection, too
    size_t weight_bytes = 0;
    int n_kv_layers = 0;          // of these layers: whose keys and values lie there
    size_t kv_bytes = 0;          // that the device holds for them now, in whole buffers
    size_t graph_bytes = 0;       // that graphs hold there now: a token's, or while a prompt is read its chunks'
    int n_kv_layers_here = 0;     // of these layers, with kv_offload: whose keys and values do not
    std::string kv_here_because;  // and why
};

}  // namespace pith
