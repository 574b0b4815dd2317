// log_pieces.h - ggml and libllama hand their log out in pieces of lines; here they become lines. Stage: core.
//
// Levels by ggml's numbers (enum ggml_log_level): 1 debug, 2 info, 3 warning, 4 error, 5 goes on with the line before.
// Threads: one object per thread.
#pragma once

#include <string>
#include <string_view>

#include "pith/log.h"

namespace pith {

class LogPieces {
public:
    // Calls emit(LogLevel, const std::string & line) for every line that `text` ends; empty lines are dropped.
    template <class Emit>
    void add(int ggml_level, std::string_view text, const Emit & emit) {
        if (ggml_level != kContinued) { level_ = level_of(ggml_level); }
        for (const char c : text) {
            if (c != '\n') {
                line_ += c;
                continue;
            }
            if (!line_.empty()) { emit(level_, line_); }
            line_.clear();
        }
    }

private:
    static constexpr int kContinued = 5;
    static LogLevel level_of(int ggml_level) {
        switch (ggml_level) {
            case 4:
                return LogLevel::kError;
            case 3:
                return LogLevel::kWarning;
            case 2:
                return LogLevel::kInfo;
            default:
                return LogLevel::kDebug;
        }
    }

    std::string line_;
    LogLevel level_ = LogLevel::kDebug;
};

}  // namespace pith
