// llama_log.cpp - routes libllama's log. Stage: text.
#include "text/llama_log.h"

#include <llama.h>

#include <mutex>
#include <string>

#include "pith/log.h"

namespace pith {
namespace {

thread_local LlamaErrorCapture * current_capture = nullptr;

LogLevel level_of(ggml_log_level level) {
    switch (level) {
        case GGML_LOG_LEVEL_ERROR:
            return LogLevel::kError;
        case GGML_LOG_LEVEL_WARN:
            return LogLevel::kWarning;
        case GGML_LOG_LEVEL_INFO:
            return LogLevel::kInfo;
        default:
            return LogLevel::kDebug;
    }
}

}  // namespace

void remember_llama_error(const std::string & line) {
    if (current_capture != nullptr && current_capture->first_error_.empty()) { current_capture->first_error_ = line; }
}

namespace {

// libllama hands out pieces of lines: they are joined until the newline, one unfinished line per thread.
void on_llama_log(ggml_log_level level, const char * text, void *) {
    thread_local std::string line;
    thread_local LogLevel line_level = LogLevel::kDebug;
    if (level != GGML_LOG_LEVEL_CONT) { line_level = level_of(level); }
    for (const char * c = text; *c != '\0'; ++c) {
        if (*c != '\n') {
            line += *c;
            continue;
        }
        if (!line.empty()) {
            if (line_level == LogLevel::kError) { remember_llama_error(line); }
            log_line(line_level, line);
        }
        line.clear();
    }
}

}  // namespace

void route_llama_log() {
    static std::once_flag once;
    std::call_once(once, [] { llama_log_set(on_llama_log, nullptr); });
}

LlamaErrorCapture::LlamaErrorCapture() : outer_(current_capture) {
    current_capture = this;
}
LlamaErrorCapture::~LlamaErrorCapture() {
    current_capture = outer_;
}

}  // namespace pith
