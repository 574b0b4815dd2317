// architecture.h - the architectures that run, each in a file of its own. Stage: model.
// To add one: a file here, a line in architectures.def, and a case in tests/model/architecture_files.h (CONTRIBUTING.md).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/arch/hparams.h"
#include "model/arch/key_reader.h"
#include "pith/status.h"

namespace pith {

struct Architecture {
    std::string_view name;  // general.architecture, and what its keys begin with
    LayerForm form;
    // Reads the file's keys that only this architecture has, after those that all have (read_hparams.h). May be null.
    Status (*read)(const KeyReader & keys, Hparams & hp) = nullptr;
};

std::span<const Architecture> architectures();

// Finds one by its name, or by a name that other converters give it. nullptr: there is none of that name.
const Architecture * find_architecture(std::string_view name);

// "llama, qwen2", for messages.
std::string architecture_names();

}  // namespace pith
