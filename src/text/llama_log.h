// llama_log.h - libllama's log lines, on their way to the process's sink (pith/log.h). Stage: text.
// Threads: safe.
#pragma once

#include <string>

namespace pith {

// Sends libllama's and ggml's log lines to log_line() instead of stderr. Once per process; later calls do nothing.
void route_llama_log();

// While it lives, remembers this thread's last error line: libllama says why a file was refused only in its log.
class LlamaErrorCapture {
public:
    LlamaErrorCapture();
    ~LlamaErrorCapture();
    LlamaErrorCapture(const LlamaErrorCapture &) = delete;
    LlamaErrorCapture & operator=(const LlamaErrorCapture &) = delete;
    // The first error line seen, empty when there was none: later ones only repeat that loading failed.
    const std::string & first_error() const { return first_error_; }

private:
    friend void remember_llama_error(const std::string & line);
    std::string first_error_;
    LlamaErrorCapture * outer_ = nullptr;
};

}  // namespace pith
