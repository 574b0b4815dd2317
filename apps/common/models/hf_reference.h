// hf_reference.h - "user/repo:quant", as `-hf` takes it.
// Pure C++: no I/O.
#pragma once

#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith::app {

struct HfReference {
    std::string repo;   // "user/repo"
    std::string quant;  // "Q4_K_M"; empty: as choose_model() has it

    std::string text() const { return quant.empty() ? repo : repo + ":" + quant; }
};

// An address of the hub ("https://huggingface.co/user/repo", "hf.co/user/repo") may stand for the name.
// Errors: kInvalidArgument: something else.
Result<HfReference> parse_hf_reference(std::string_view text);

}  // namespace pith::app
