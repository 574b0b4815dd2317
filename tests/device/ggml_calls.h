// ggml_calls.h - what this program asks of ggml's devices, counted: its calls stand in front of ggml's own (ggml_calls.cpp), so
// those of ggml's scheduler count, too. Which device it is makes no difference: a GPU is asked for what a server is asked for.
#pragma once

#include <cstdint>
#include <string>

namespace pith::testing {

struct GgmlCalls {
    int64_t graphs = 0;            // that were computed, in one place or over several
    int64_t splits = 0;            // of them, pieces that run in one place each
    int64_t copies = 0;            // tensors from one place to another
    int64_t uploads = 0;           // tensors set on a device, but for copies
    int64_t downloads = 0;         // tensors read from a device, but for copies
    int64_t synchronisations = 0;  // waiting for a back end
    int64_t allocations = 0;       // buffers of devices
    int64_t bytes_up = 0;          // of uploads and of copies to devices
    int64_t bytes_down = 0;        // of downloads and of copies from devices
    int64_t operations = 0;        // of graphs: what a GPU is told to start; views compute nothing, and do not count
    int64_t attentions = 0;        // of these, flash attentions
    int64_t row_writes = 0;        // of these, set_rows

    int64_t crossings() const { return copies + uploads + downloads; }
    GgmlCalls operator-(const GgmlCalls & before) const;
    GgmlCalls operator/(int64_t n) const;  // rounded up: what is not the same every time counts in full
    std::string text() const;
};

// Once as many buffers of devices have been made, ggml gives up at the next, as where a driver fails; < 0: not.
void fail_allocation(int n_before);
// The same buffer is not to be had, as where memory ends.
void refuse_allocation(int n_before);
// From now on devices say that so many bytes of their memory are free; < 0: what they are.
void tell_free_memory(int64_t n_bytes);

// Since the program began, of all threads.
GgmlCalls ggml_calls();

}  // namespace pith::testing
