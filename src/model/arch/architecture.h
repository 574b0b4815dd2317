// architecture.h - the architectures that run, each in a file of its own. Stage: model.
// One more is: a file here, a line in architectures.def, and a case in tests/model/architectures.h (CONTRIBUTING.md).
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
    // What its keys say beside those that all have (read_hparams.h), which have been read. May be null.
    Status (*read)(const KeyReader & keys, Hparams & hp) = nullptr;
};

std::span<const Architecture> architectures();

// By its name, or by one that other converters give it. nullptr: unknown.
const Architecture * find_architecture(std::string_view name);

// "llama, qwen2", for messages.
std::string architecture_names();

}  // namespace pith
