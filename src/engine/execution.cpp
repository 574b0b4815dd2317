// execution.cpp - a back end of its own.
#include "engine/execution.h"

#include <utility>

#include "device/cpu_count.h"

namespace pith {
namespace {

// One for each CPU that the process may use; a single one for models whose operations take microseconds: there threads mostly
// wait for each other, and on a busy machine for the scheduler.
int default_threads(size_t weight_bytes) {
    constexpr size_t kWorthThreads = size_t{32} << 20U;
    return weight_bytes < kWorthThreads ? 1 : available_cpus();
}

}  // namespace

Result<std::shared_ptr<Execution>> Execution::make(std::shared_ptr<const ModelFile> file, int n_threads) {
    const int n = n_threads > 0 ? n_threads : default_threads(file->weight_bytes());
    PITH_ASSIGN_OR_RETURN(ggml_backend_t backend, make_cpu_backend(n));
    return std::make_shared<Execution>(std::move(file), OwnedBackend(backend));
}

}  // namespace pith
