// lane_places.h - which layers' lanes lie on the devices that their weights lie on. Stage: set-up.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/ragged_cache.h"
#include "device/placement.h"
#include "pith/devices.h"

namespace pith {

// Of a placement's devices, in order.   Errors: kInternal, kIo: one cannot be started.
Result<std::vector<std::shared_ptr<LaneDevice>>> lane_devices(const Placement & placement);

// Puts the lanes of every placed layer on its device, where they can be: CacheLayout::devices. uses: of the placement, as
// Placement::uses() has them; told how many layers' lanes there are, and why others of the device's layers stay here.
// Errors: kIo: a device failed.   REQUIRES: as many `devices` and `uses` as the placement has devices.
Status place_lanes(const Placement & placement, std::span<const std::shared_ptr<LaneDevice>> devices, CacheLayout & layout,
                   std::span<DeviceUse> uses);

// Where none of them may: uses are told of them, and why.
void keep_lanes_here(const Placement & placement, const CacheLayout & layout, const std::string & why,
                     std::span<DeviceUse> uses);

}  // namespace pith
