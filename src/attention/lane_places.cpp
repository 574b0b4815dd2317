// lane_places.cpp - each placed layer asked whether its device takes its lanes.
#include "attention/lane_places.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/bucket_attention.h"
#include "device/device_work.h"

namespace pith {
namespace {

void tell_stays_here(DeviceUse & use, const std::string & why) {
    ++use.n_kv_layers_here;
    if (use.kv_here_because.find(why) != std::string::npos) { return; }
    use.kv_here_because += (use.kv_here_because.empty() ? "" : "; ") + why;
}

}  // namespace

Result<std::vector<std::shared_ptr<LaneDevice>>> lane_devices(const Placement & placement) {
    std::vector<std::shared_ptr<LaneDevice>> devices;
    for (const Device & one : placement.devices) {
        PITH_ASSIGN_OR_RETURN(auto device, LaneDevice::make(one.handle));
        devices.push_back(std::move(device));
    }
    return devices;
}

Status place_lanes(const Placement & placement, std::span<const std::shared_ptr<LaneDevice>> devices, CacheLayout & layout,
                   std::span<DeviceUse> uses) {
    std::vector<std::shared_ptr<LaneDevice>> of_layer(static_cast<size_t>(layout.n_layers()));
    for (int l = 0; l < layout.n_layers(); ++l) {
        const int at = placement.of_layer[static_cast<size_t>(l)];
        if (at == Placement::kCpu || !layout.has_lanes(l)) { continue; }
        DeviceUse & use = uses[static_cast<size_t>(at)];
        const auto & device = devices[static_cast<size_t>(at)];
        const Status fits = on_devices([&] { return can_attend_in_buckets(*device, layout, l); });
        if (fits.ok()) {
            of_layer[static_cast<size_t>(l)] = device;
            ++use.n_kv_layers;
            continue;
        }
        if (fits.code() != ErrorCode::kUnsupported) { return fits; }
        tell_stays_here(use, fits.message());
    }
    layout.devices = std::move(of_layer);
    return {};
}

void keep_lanes_here(const Placement & placement, const CacheLayout & layout, const std::string & why,
                     std::span<DeviceUse> uses) {
    for (int l = 0; l < layout.n_layers(); ++l) {
        const int at = placement.of_layer[static_cast<size_t>(l)];
        if (at != Placement::kCpu && layout.has_lanes(l)) { tell_stays_here(uses[static_cast<size_t>(at)], why); }
    }
}

}  // namespace pith
