// log.h - where ggml's, libllama's and Pith's own log lines go. Pith never prints by itself.
#pragma once

#include <functional>
#include <string_view>

namespace pith {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Sets the sink for the whole process; an empty function drops everything (the default).
// Threads: call before the first model is loaded, or when nothing runs; the sink must be thread-safe.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;
void set_log_sink(LogSink sink);
void log_line(LogLevel level, std::string_view line) noexcept;  // what the sink throws ends there

}  // namespace pith
