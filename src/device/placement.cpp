// placement.cpp - devices by name, shares by what is free.
#include "device/placement.h"

#include <ggml-backend.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "core/items.h"
#include "core/text.h"
#include "device/backend.h"
#include "device/device_work.h"

namespace pith {
namespace {

Device described(ggml_backend_dev_t handle, std::shared_ptr<const RpcServer> server) {
    Device device;
    device.handle = handle;
    device.info.name = ggml_backend_dev_name(handle);
    device.info.description = ggml_backend_dev_description(handle);
    if (server) { device.info.server = server->endpoint; }
    ggml_backend_dev_memory(handle, &device.info.free_bytes, &device.info.total_bytes);
    device.server = std::move(server);
    return device;
}

// Of one server. ggml says what has failed, and not where; open_rpc_server() says both.
Status add_devices_of(const std::string & server_text, std::vector<Device> & devices) {
    Status opened;
    const Status status = on_devices([&]() -> Status {
        const auto server = open_rpc_server(server_text);
        opened = server.status();
        if (!opened.ok()) { return {}; }
        for (ggml_backend_dev_t handle : (*server)->devices) { devices.push_back(described(handle, *server)); }
        return {};
    });
    PITH_RETURN_IF_ERROR(opened);
    return status.ok() ? Status() : Status(status.code(), server_text + ": " + status.wording());
}

bool is_gpu(ggml_backend_dev_t handle) {
    const auto type = ggml_backend_dev_type(handle);
    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

Status there_is_none(const DeviceOptions & options) {
    const Wording asked =
        options.n_layers > 0 ? item::kDeviceLayers + " " + std::to_string(options.n_layers) : Wording("a split of layers");
    return {ErrorCode::kNotFound, asked +
                                      " asks for a device, and ggml has found none here: its back end for yours is not "
                                      "installed (docs/devices.md); leave it out to run on the CPU"};
}

// Of all there are, those that are named, in that order.
Result<std::vector<Device>> chosen_devices(const DeviceOptions & options) {
    PITH_ASSIGN_OR_RETURN(std::vector<Device> all, find_devices(options.rpc_servers));
    if (options.names.empty()) {
        if (all.empty()) { return there_is_none(options); }
        return all;
    }
    std::vector<Device> chosen;
    for (const std::string & name : options.names) {
        const auto is_it = [&](const Device & one) { return one.info.name == name; };
        if (std::ranges::any_of(chosen, is_it)) {
            return {ErrorCode::kInvalidArgument, "device '" + name + "' is named twice in " + item::kDevices};
        }
        const auto found = std::ranges::find_if(all, is_it);
        if (found == all.end()) {
            std::vector<std::string> names;
            for (const Device & one : all) { names.push_back(one.info.name); }
            return {ErrorCode::kNotFound,
                    "there is no device '" + name + "'" +
                        (names.empty() ? ": ggml has found none here (docs/devices.md)" : ": there are " + join(names, ", "))};
        }
        chosen.push_back(*found);
    }
    return chosen;
}

Result<std::vector<double>> shares_of(const DeviceOptions & options, const std::vector<Device> & devices) {
    std::vector<double> shares(options.split.begin(), options.split.end());
    if (shares.empty()) {
        for (const Device & one : devices) { shares.push_back(static_cast<double>(one.info.free_bytes)); }
        // Nobody says how much is free: alike.
        if (std::accumulate(shares.begin(), shares.end(), 0.0) == 0) { std::ranges::fill(shares, 1.0); }
        return shares;
    }
    if (shares.size() > devices.size()) {
        return {ErrorCode::kInvalidArgument, item::kTensorSplit + " has " + std::to_string(shares.size()) + " shares for " +
                                                 std::to_string(devices.size()) + " devices: give one for each"};
    }
    const bool sane = std::ranges::all_of(shares, [](double share) { return std::isfinite(share) && share >= 0; });
    if (!sane || std::accumulate(shares.begin(), shares.end(), 0.0) == 0) {
        return {ErrorCode::kInvalidArgument,
                item::kTensorSplit + " wants a number of 0 or more for each device, and one above 0"};
    }
    shares.resize(devices.size(), 0.0);
    return shares;
}

}  // namespace

Result<std::vector<Device>> find_devices(const std::vector<std::string> & rpc_servers) {
    PITH_RETURN_IF_ERROR(load_backends());
    std::vector<Device> devices;
    const Status found = on_devices([&]() -> Status {
        for (const std::string & text : rpc_servers) { PITH_RETURN_IF_ERROR(add_devices_of(text, devices)); }
        for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
            ggml_backend_dev_t handle = ggml_backend_dev_get(i);
            if (is_gpu(handle)) { devices.push_back(described(handle, nullptr)); }
        }
        return {};
    });
    PITH_RETURN_IF_ERROR(found);
    return devices;
}

Result<std::vector<DeviceInfo>> list_devices(const std::vector<std::string> & rpc_servers) {
    PITH_ASSIGN_OR_RETURN(const std::vector<Device> devices, find_devices(rpc_servers));
    std::vector<DeviceInfo> infos;
    for (const Device & one : devices) { infos.push_back(one.info); }
    return infos;
}

Result<DeviceOptions> parse_devices(const std::string & rpc_servers, const std::string & names,
                                    const std::string & split_text) {
    DeviceOptions options;
    // Of what stands between commas.
    const auto add_all = [](Item item, const std::string & text, const auto & add) -> Status {
        if (text.empty()) { return {}; }
        for (const std::string_view piece : split(text, ',')) {
            if (trim(piece).empty()) {
                return {ErrorCode::kInvalidArgument, item + " " + text + ": there is nothing between two commas"};
            }
            PITH_RETURN_IF_ERROR(add(std::string(trim(piece))));
        }
        return {};
    };
    const Status servers = add_all(item::kRpcServers, rpc_servers, [&](std::string server) -> Status {
        PITH_RETURN_IF_ERROR(RpcEndpoint::parse(server).status());
        options.rpc_servers.push_back(std::move(server));
        return {};
    });
    PITH_RETURN_IF_ERROR(servers);
    PITH_RETURN_IF_ERROR(add_all(item::kDevices, names, [&](std::string name) -> Status {
        options.names.push_back(std::move(name));
        return {};
    }));
    PITH_RETURN_IF_ERROR(add_all(item::kTensorSplit, split_text, [&](const std::string & share) -> Status {
        char * end = nullptr;
        options.split.push_back(std::strtof(share.c_str(), &end));
        if (*end == '\0') { return {}; }
        return {ErrorCode::kInvalidArgument, item::kTensorSplit + " " + split_text + ": '" + share +
                                                 "' is no number; give each device's share of the layers, as in 3,1"};
    }));
    return options;
}

std::vector<int> divide_layers(int n_layers, int n_placed, const std::vector<double> & shares) {
    const int n = n_layers + 1;
    n_placed = std::min(n_placed, n);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::vector<int> of_layer(static_cast<size_t>(n), Placement::kCpu);
    for (int i = 0; i < n_placed; ++i) {
        const double at = sum * i / n_placed;
        double end = 0;
        int device = 0;
        int last = 0;  // of those with a share, should rounding leave the sum behind
        for (size_t d = 0; d < shares.size(); ++d) {
            end += shares[d];
            if (shares[d] > 0) { last = static_cast<int>(d); }
            if (end <= at) { device = static_cast<int>(d) + 1; }
        }
        of_layer[static_cast<size_t>(n - n_placed + i)] = std::min(device, last);
    }
    return of_layer;
}

Result<std::shared_ptr<Placement>> place_layers(const DeviceOptions & options, int n_layers) {
    if (options.n_layers < -1) {
        return {ErrorCode::kInvalidArgument,
                "the number of layers on devices is " + std::to_string(options.n_layers) + ": give 0 or more, or -1 for all"};
    }
    PITH_ASSIGN_OR_RETURN(std::vector<Device> devices, chosen_devices(options));
    PITH_ASSIGN_OR_RETURN(const std::vector<double> shares, shares_of(options, devices));
    const int n_placed = options.n_layers < 0 ? n_layers + 1 : options.n_layers;
    auto placement = std::make_shared<Placement>();
    placement->of_layer = divide_layers(n_layers, n_placed, shares);
    // A device that nothing falls to is left in peace.
    std::vector<int> number(devices.size(), Placement::kCpu);
    for (int & of : placement->of_layer) {
        if (of == Placement::kCpu) { continue; }
        int & renumbered = number[static_cast<size_t>(of)];
        if (renumbered == Placement::kCpu) {
            renumbered = static_cast<int>(placement->devices.size());
            placement->devices.push_back(std::move(devices[static_cast<size_t>(of)]));
        }
        of = renumbered;
    }
    if (placement->devices.size() > Placement::kMostDevices) {
        return {ErrorCode::kInvalidArgument, "the layers would lie on " + std::to_string(placement->devices.size()) +
                                                 " devices: name " + std::to_string(Placement::kMostDevices) + " at most"};
    }
    placement->n_weight_bytes.resize(placement->devices.size());
    placement->kv_offload = options.kv_offload;
    return placement;
}

std::string Placement::names() const {
    std::vector<std::string> names;
    for (const Device & one : devices) {
        names.push_back(one.info.name + (one.info.server.empty() ? "" : " (" + one.info.server + ")"));
    }
    return join(names, ", ");
}

size_t Placement::weight_bytes() const {
    return std::accumulate(n_weight_bytes.begin(), n_weight_bytes.end(), size_t{0});
}

std::vector<DeviceUse> Placement::uses() const {
    std::vector<DeviceUse> uses;
    const auto n_layers = of_layer.size() - 1;
    for (size_t d = 0; d < devices.size(); ++d) {
        DeviceUse & use = uses.emplace_back();
        use.name = devices[d].info.name;
        use.server = devices[d].info.server;
        use.weight_bytes = n_weight_bytes[d];
        use.has_output = of_output() == static_cast<int>(d);
        for (size_t l = 0; l < n_layers; ++l) {
            if (of_layer[l] != static_cast<int>(d)) { continue; }
            if (use.n_layers++ == 0) { use.first_layer = static_cast<int>(l); }
        }
    }
    return uses;
}

}  // namespace pith
