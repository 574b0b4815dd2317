// lab_options.h - the options of the laboratory's commands whose value is no file, for completion.
#pragma once

#include "common/shell/option_values.h"

namespace pith::app {

OwnOptions lab_options();

}  // namespace pith::app
