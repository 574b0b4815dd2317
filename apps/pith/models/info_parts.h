// info_parts.h - `pith info` on what goes with a model: gates and LoRA adapters.
#pragma once

#include <optional>
#include <string>

#include "common/base/ledger_report.h"
#include "pith/status.h"

namespace pith::app {

enum class FileKind { kModel, kGate, kAdapter };
// By the metadata of the GGUF. Errors: kNotFound, kBadFile.
Result<FileKind> kind_of_file(const std::string & path);

// Errors: of read_gate_info and read_lora_info.
Result<Json> describe_gate(const std::string & path);
Result<Json> describe_adapter(const std::string & path);
void print_gate(const Json & gate);
void print_adapter(const Json & adapter);

}  // namespace pith::app
