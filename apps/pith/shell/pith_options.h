// pith_options.h - the options of pith's own commands whose value is no file, for completion.
#pragma once

#include "common/shell/option_values.h"

namespace pith::app {

OwnOptions pith_options();

}  // namespace pith::app
