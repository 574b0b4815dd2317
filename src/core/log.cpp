// log.cpp - the process's log sink.
#include "pith/log.h"

#include <mutex>
#include <utility>

namespace pith {
namespace {

std::mutex & sink_mutex() {
    static std::mutex mutex;
    return mutex;
}

LogSink & sink() {
    static LogSink the_sink;
    return the_sink;
}

}  // namespace

void set_log_sink(LogSink new_sink) {
    const std::lock_guard lock(sink_mutex());
    sink() = std::move(new_sink);
}

void log_line(LogLevel level, std::string_view line) noexcept {
    try {
        LogSink copy;
        {
            const std::lock_guard lock(sink_mutex());
            copy = sink();
        }
        if (copy) { copy(level, line); }
    } catch (...) {  // a line is lost, and nothing else: who writes it has work under way
    }
}

}  // namespace pith
