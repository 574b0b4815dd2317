// llama_log.cpp - routes libllama's log. Stage: text.
#include "text/llama_log.h"

#include <llama.h>

#include <mutex>
#include <string>

#include "core/log_pieces.h"

namespace pith {
namespace {

thread_local LlamaErrorCapture * current_capture = nullptr;

}  // namespace

void remember_llama_error(const std::string & line) {
    if (current_capture != nullptr && current_capture->first_error_.empty()) { current_capture->first_error_ = line; }
}

namespace {

void on_llama_log(ggml_log_level level, const char * text, void *) {
    static_assert(GGML_LOG_LEVEL_ERROR == 4 && GGML_LOG_LEVEL_CONT == 5, "core/log_pieces.h counts on ggml's numbers");
    thread_local LogPieces pieces;
    pieces.add(level, text, [](LogLevel line_level, const std::string & line) {
        if (line_level == LogLevel::kError) { remember_llama_error(line); }
        log_line(line_level, line);
    });
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
