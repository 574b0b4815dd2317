// qwen.h - Qwen2.5-Coder-Instruct, 1.5 billion parameters.
#pragma once

#include "real/real_model.h"

namespace pith::testing {

class Qwen : public OnRealModel<kQwenCoder> {};

}  // namespace pith::testing
