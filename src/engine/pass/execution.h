// execution.h - the threads and graphs that run a model's passes: of one session, or of all sequences of an engine. Stage:
// engine.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "device/backend.h"
#include "device/lane_device.h"
#include "engine/pass/forward.h"
#include "model/model_file.h"
#include "pith/model.h"

namespace pith {

struct Execution {
    // n_threads 0: as many as the model is worth.
    static Result<std::shared_ptr<Execution>> make(std::shared_ptr<const ModelFile> file, int n_threads);

    Execution(std::shared_ptr<const ModelFile> file, OwnedBackend cpu, std::vector<OwnedBackend> on);

    OwnedBackend backend;
    std::vector<OwnedBackend> devices;                      // of the model's placement
    std::vector<std::shared_ptr<LaneDevice>> lane_devices;  // the same, where lanes lie there; empty: they do not
    Forward forward;
};

// The same, of a loaded model.
Result<std::shared_ptr<Execution>> make_execution(const Model & model, int n_threads);

}  // namespace pith
