// on_devices.h - two servers of this machine, and models with layers on them and on what else ctest names.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "device/rpc_process.h"
#include "pith/model.h"

namespace pith::testing {

// Two servers; null where there is none here.
inline const std::vector<std::unique_ptr<RpcProcess>> & servers() {
    static const auto both = [] {
        std::vector<std::unique_ptr<RpcProcess>> made;
        for (int i = 0; i < 2; ++i) { made.push_back(std::make_unique<RpcProcess>()); }
        return made;
    }();
    return both;
}

// Why nothing can be tested; empty: all is there.
inline std::string nothing_to_test() {
    for (const auto & server : servers()) {
        if (!server->answers()) { return "there is no ggml-rpc-server here (PITH_RPC_SERVER names one)"; }
    }
    const auto devices = list_devices({servers().front()->endpoint()});
    return devices.ok() ? "" : devices.status().message();
}

struct Where {
    std::string name;
    int n_servers = 1;
    int n_layers = -1;
    std::vector<float> split = {};
    bool kv_offload = false;
    std::vector<std::string> devices = {};  // empty: the servers'

    size_t n_devices() const { return devices.empty() ? static_cast<size_t>(n_servers) : devices.size(); }
    // Products of a GPU's: of quantised weights they are none of the CPU's, which rounds what it multiplies them by.
    bool multiplies_otherwise() const {
        return std::ranges::any_of(devices, [](const std::string & one) { return !one.starts_with("RPC"); });
    }
    bool is_vulkan() const {
        return std::ranges::any_of(devices, [](const std::string & one) { return one.starts_with("Vulkan"); });
    }
};
inline void PrintTo(const Where & where, std::ostream * out) {
    *out << where.name;
}

inline DeviceOptions options_of(const Where & where) {
    DeviceOptions options;
    for (int i = 0; i < where.n_servers; ++i) { options.rpc_servers.push_back(servers()[static_cast<size_t>(i)]->endpoint()); }
    options.names = where.devices;
    options.n_layers = where.n_layers;
    options.split = where.split;
    options.kv_offload = where.kv_offload;
    return options;
}

inline Result<Model> load(const std::string & path, const Where & where, ModelOptions options = {}) {
    options.devices = options_of(where);
    return Model::load(path, options);
}

// All layers on one server, and on two; keys and values here, and there.
inline std::vector<Where> all_layers_on_servers() {
    return {{"one"}, {"two", 2, -1, {1, 1}}, {"one_with_lanes", 1, -1, {}, true}, {"two_with_lanes", 2, -1, {1, 1}, true}};
}

// What ctest wants tested beside servers, or scripts/measure_gpu.
inline std::vector<Where> on_a_device() {
    const char * device = std::getenv("PITH_TEST_DEVICE");  // "Vulkan0", "CUDA0"
    if (device == nullptr) { return {}; }
    return {{.name = "alone", .n_servers = 0, .devices = {device}},
            {.name = "behind_a_server", .n_servers = 1, .split = {1, 1}, .devices = {"RPC0", device}},
            {.name = "alone_with_lanes", .n_servers = 0, .kv_offload = true, .devices = {device}},
            {.name = "behind_a_server_with_lanes",
             .n_servers = 1,
             .split = {1, 1},
             .kv_offload = true,
             .devices = {"RPC0", device}}};
}

}  // namespace pith::testing
