// placement.h - which layer's weights lie on which device. The layer is the unit: only what goes from one to the next crosses.
// Stage: device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/rpc_server.h"
#include "pith/devices.h"

typedef struct ggml_backend_device * ggml_backend_dev_t;

namespace pith {

struct Device {
    ggml_backend_dev_t handle = nullptr;
    DeviceInfo info;
    std::shared_ptr<const RpcServer> server;  // null: of this machine
};

// The servers' devices, in order, then this machine's GPUs.   Errors: those of list_devices().
Result<std::vector<Device>> find_devices(const std::vector<std::string> & rpc_servers);

struct Placement {
    static constexpr int kCpu = -1;
    static constexpr size_t kMostDevices = 15;  // ggml's scheduler takes 16 back ends, the CPU among them

    std::vector<Device> devices;         // those that hold something
    std::vector<int> of_layer;           // [layers + 1] of `devices`, or kCpu; the last one: the output
    std::vector<size_t> n_weight_bytes;  // [devices]
    bool kv_offload = false;             // the layers' keys and values are to lie there, too

    int of_output() const { return of_layer.back(); }
    size_t weight_bytes() const;
    std::string names() const;  // "RPC0 (host:port), CUDA0"
    std::vector<DeviceUse> uses() const;
};

// Which of [0, n_layers] goes where: `n_placed` of them, the last ones, divided by `shares`, as llama.cpp divides them.
// REQUIRES: a share above 0, none below. Pure: no device is asked.
std::vector<int> divide_layers(int n_layers, int n_placed, const std::vector<double> & shares);

// Finds the devices that are asked for, and divides the layers.   REQUIRES: options.any().
// Errors: those of list_devices(); kNotFound: a name that no device has, or there is no device; kInvalidArgument: shares that
// are none, or more than devices; a name twice; a number of layers below -1.
Result<std::shared_ptr<Placement>> place_layers(const DeviceOptions & options, int n_layers);

}  // namespace pith
