// execution.cpp - a back end of its own.
#include "engine/pass/execution.h"

#include <utility>

#include "attention/lane_places.h"
#include "device/cpu_count.h"
#include "device/device_work.h"
#include "engine/parts/model_parts.h"

namespace pith {
namespace {

// One for each CPU that the process may use; a single one for models whose operations take microseconds: there threads mostly
// wait for each other, and on a busy machine for the scheduler.
int default_threads(size_t weight_bytes) {
    constexpr size_t kWorthThreads = size_t{32} << 20U;
    return weight_bytes < kWorthThreads ? 1 : available_cpus();
}

std::vector<ggml_backend_t> borrowed(const std::vector<OwnedBackend> & owned) {
    std::vector<ggml_backend_t> all;
    for (const OwnedBackend & one : owned) { all.push_back(one.get()); }
    return all;
}

}  // namespace

Execution::Execution(std::shared_ptr<const ModelFile> file, OwnedBackend cpu, std::vector<OwnedBackend> on)
    : backend(std::move(cpu)), devices(std::move(on)), forward(std::move(file), backend.get(), borrowed(devices)) {}

Result<std::shared_ptr<Execution>> Execution::make(std::shared_ptr<const ModelFile> file, int n_threads) {
    const int n = n_threads > 0 ? n_threads : default_threads(file->weight_bytes());
    PITH_ASSIGN_OR_RETURN(ggml_backend_t backend, make_cpu_backend(n));
    OwnedBackend cpu(backend);
    std::vector<OwnedBackend> devices;
    if (const Placement * placement = file->placement(); placement != nullptr) {
        PITH_RETURN_IF_ERROR(on_devices([&]() -> Status {
            for (const Device & one : placement->devices) {
                PITH_ASSIGN_OR_RETURN(ggml_backend_t device, make_device_backend(one.handle));
                devices.emplace_back(device);
            }
            return {};
        }));
    }
    std::vector<std::shared_ptr<LaneDevice>> for_lanes;
    if (const Placement * placement = file->placement(); placement != nullptr && placement->kv_offload) {
        PITH_ASSIGN_OR_RETURN(for_lanes, pith::lane_devices(*placement));
    }
    auto made = std::make_shared<Execution>(std::move(file), std::move(cpu), std::move(devices));
    made->lane_devices = std::move(for_lanes);
    return made;
}

Result<std::shared_ptr<Execution>> make_execution(const Model & model, int n_threads) {
    return Execution::make(parts_of(model).file, n_threads);
}

}  // namespace pith
