// log_once.h - lines that the log has once, however often there is cause for them. Stage: core.
// Threads: safe. Memory: a thousand lines, each cut at 300 bytes; later ones are not said.
#pragma once

#include <string>

#include "pith/log.h"

namespace pith {

void log_once(LogLevel level, const std::string & line) noexcept;

}  // namespace pith
