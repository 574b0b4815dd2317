// read_gguf_headers.cpp - see read_gguf_headers.h.
#include "fuzz/read_gguf_headers.h"

#include <algorithm>

#include "gate/gate_file.h"
#include "model/lora_file.h"
#include "model/model_file.h"

namespace pith::testing {

std::string fault(const Status & status) {
    if (status.ok()) { return {}; }
    const std::string & line = status.message();
    if (line.size() < 8) { return "an error without a message"; }
    if (line.size() > Status::kMostMessageBytes) { return "an error of " + std::to_string(line.size()) + " bytes"; }
    if (std::ranges::any_of(line, [](char c) { return static_cast<unsigned char>(c) < 0x20; })) {
        return "not one line: " + line;
    }
    // Nothing of a stranger's file may be a fault of Pith's own, except that weights say nothing.
    return status.code() == ErrorCode::kInternal && line.find("is not a number") == std::string::npos
               ? "an internal error: " + line
               : "";
}

std::string read_gguf_headers(const std::string & path) {
    std::string fault_of_all;
    const auto look = [&](const char * as, const Status & status) {
        if (const std::string text = fault(status); !text.empty()) { fault_of_all += std::string(as) + ": " + text + "; "; }
    };
    look("as a model", ModelFile::check(path).status());
    look("as an adapter", read_lora_info(path).status());
    look("as gates", read_gate_info(path).status());
    return fault_of_all;
}

}  // namespace pith::testing
