// log_once.h - lines that the log has once, however often there is cause for them. Stage: core.
// Threads: safe. Memory: the first thousand lines are remembered; later ones are said each time.
#pragma once

#include <string>

#include "pith/log.h"

namespace pith {

void log_once(LogLevel level, const std::string & line) noexcept;

}  // namespace pith
