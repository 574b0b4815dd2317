// head_importance.h - the public struct, by its name inside. Stage: allocate.
// Pure C++: no ggml, no I/O.
#pragma once

#include "pith/head_importance.h"
