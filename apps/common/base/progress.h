// progress.h - one line on stderr that is written over; where stderr is no terminal, all but fractions get a line of their own
// every half minute, and short runs none.
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace pith::app {

class ProgressLine {
public:
    explicit ProgressLine(std::string label);
    ~ProgressLine();  // clears the line
    ProgressLine(const ProgressLine &) = delete;
    ProgressLine & operator=(const ProgressLine &) = delete;

    bool visible() const { return visible_; }
    void show_fraction(double fraction);                // "loading 45 %"
    void show_tokens(int64_t n_done, int64_t n_total);  // "prefill 512 / 4096 tokens, 120 t/s, 30 s left"
    // "fetching model.gguf 1.2 GiB / 4.4 GiB, 35.0 MiB/s, 92 s left"; n_before: were there when it began, and count as no speed
    void show_bytes(uint64_t n_done, uint64_t n_total, uint64_t n_before);
    void show_text(const std::string & text);

private:
    bool due();                            // on a terminal, at most ten times a second
    bool line_due();                       // elsewhere, seldom
    void write(const std::string & text);  // over the line before; where stderr is no terminal, below it
    double seconds() const { return std::chrono::duration<double>(last_ - start_).count(); }  // to the last line

    std::string label_;
    bool visible_ = false;
    size_t width_ = 0;
    std::chrono::steady_clock::time_point start_;
    std::chrono::steady_clock::time_point last_;
};

}  // namespace pith::app
