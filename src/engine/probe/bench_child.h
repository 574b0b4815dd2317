// bench_child.h - what every measurement in processes of their own needs. Stage: probe.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/probe/bench.h"

namespace pith {

// What `body` measures in a child process. name: of the measurement, for errors.
Result<nlohmann::json> measure_in_child(const std::string & name, const std::function<Result<nlohmann::json>()> & body);

// How a program of llama.cpp's starts on the same file, with as many threads and the same K/V types.
std::vector<std::string> llama_command(const LlamaBench & program, const std::string & model_path,
                                       const SessionOptions & session);

}  // namespace pith
