// progress.cpp - draws the progress line.
#include "common/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/base/ledger_report.h"
#include "core/text.h"

namespace pith::app {

ProgressLine::ProgressLine(std::string label)
    : label_(std::move(label)), visible_(isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
    if (width_ > 0) { std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), ""); }
}

// In a log every line stays: few, and none for what is soon done.
constexpr std::chrono::seconds kBetweenLines(30);

bool ProgressLine::due() {
    const auto now = std::chrono::steady_clock::now();
    if (!visible_ || now - last_ < std::chrono::milliseconds(100)) { return false; }
    last_ = now;
    return true;
}

void ProgressLine::write(const std::string & text) {
    const std::string line = without_controls(label_ + " " + text);
    if (!visible_) {
        std::fprintf(stderr, "%s\n", line.c_str());
        return;
    }
    std::fprintf(stderr, "\r%-*s", static_cast<int>(width_), line.c_str());
    std::fflush(stderr);
    width_ = std::max(width_, line.size());
}

void ProgressLine::show_fraction(double fraction) {
    if (due()) { write(std::to_string(static_cast<int>(fraction * 100)) + " %"); }
}

bool ProgressLine::line_due() {
    const auto now = std::chrono::steady_clock::now();
    if (visible_ || now - std::max(start_, last_) < kBetweenLines) { return false; }
    last_ = now;
    return true;
}

void ProgressLine::show_tokens(int64_t n_done, int64_t n_total) {
    if (n_done <= 0 || n_done >= n_total) { return; }
    if (!due() && !line_due()) { return; }
    const double rate = seconds() > 0 ? static_cast<double>(n_done) / seconds() : 0;
    const double left = rate > 0 ? static_cast<double>(n_total - n_done) / rate : 0;
    char text[96];
    std::snprintf(text, sizeof text, "%lld / %lld tokens, %.0f t/s, %.0f s left", static_cast<long long>(n_done),
                  static_cast<long long>(n_total), rate, left);
    write(text);
}

void ProgressLine::show_bytes(uint64_t n_done, uint64_t n_total, uint64_t n_before) {
    if (n_done >= n_total) { return; }
    if (!due() && !line_due()) { return; }
    const double rate = seconds() > 0 ? static_cast<double>(n_done - n_before) / seconds() : 0;
    std::string text = bytes_text(n_done) + " / " + bytes_text(n_total);
    if (rate >= 1) {
        text += ", " + bytes_text(static_cast<size_t>(rate)) + "/s, " +
                std::to_string(static_cast<int64_t>(static_cast<double>(n_total - n_done) / rate)) + " s left";
    }
    write(text);
}

void ProgressLine::show_text(const std::string & text) {
    if (due() || line_due()) { write(text); }
}

}  // namespace pith::app
