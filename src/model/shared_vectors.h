// shared_vectors.h - vectors that layers on devices share with each other and with this machine. Stage: model.
#pragma once

#include "device/placement.h"
#include "model/weight_store.h"
#include "model/weights.h"
#include "pith/status.h"

namespace pith {

// Copies the factors of frequencies to each device that has a layer which reads them, and the last norm to the output's: a few
// kilobytes, for which every layer would cross otherwise.   Errors: kOutOfMemory, and those of on_devices().
Status copy_shared_vectors(const Placement & placement, WeightStore & store, Weights & weights);

}  // namespace pith
