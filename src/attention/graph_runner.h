// graph_runner.h - builds, allocates and runs one small ggml graph after another, reusing their memory. Stage: attention,
// engine.
//
// Inputs are filled after allocation and before the run: the builder registers them with on_alloc().
// Errors: kOutOfMemory (graph memory), kInternal (ggml's status).   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attention/cpu_workspace.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "pith/status.h"

namespace pith {

class GraphRunner;

// One graph under construction. Valid until the next GraphRunner::begin().
class GraphBuild {
public:
    ggml_context * ctx() const { return ctx_; }
    ggml_cgraph * graph() const { return graph_; }
    bool custom_operations() const { return custom_operations_; }  // see GraphRunner

    // A new input tensor; `fill` gets its bytes once it has memory.
    template <class T>
    ggml_tensor * input(ggml_type type, int64_t ne0, int64_t ne1, std::function<void(std::span<T>)> fill) {
        ggml_tensor * tensor = ggml_new_tensor_2d(ctx_, type, ne0, ne1);
        ggml_set_input(tensor);
        fills_.push_back([tensor, fill = std::move(fill)](std::vector<uint8_t> & scratch) {
            scratch.resize(ggml_nbytes(tensor));
            fill({reinterpret_cast<T *>(scratch.data()), scratch.size() / sizeof(T)});
            ggml_backend_tensor_set(tensor, scratch.data(), 0, scratch.size());
        });
        return tensor;
    }
    // An input copied from `data`, which must live until run().
    template <class T>
    ggml_tensor * input(ggml_type type, int64_t ne0, int64_t ne1, const T * data) {
        ggml_tensor * tensor = ggml_new_tensor_2d(ctx_, type, ne0, ne1);
        ggml_set_input(tensor);
        fills_.push_back(
            [tensor, data](std::vector<uint8_t> &) { ggml_backend_tensor_set(tensor, data, 0, ggml_nbytes(tensor)); });
        return tensor;
    }
    // A tensor whose data is copied to `to` [nbytes] after the run.
    void output(ggml_tensor * tensor, float * to) {
        ggml_set_output(tensor);
        ggml_build_forward_expand(graph_, tensor);
        reads_.push_back([tensor, to] { ggml_backend_tensor_get(tensor, to, 0, ggml_nbytes(tensor)); });
    }
    // The same for a contiguous tensor of rows of row_length elements: row r goes to to + r · stride.
    void output_rows(ggml_tensor * tensor, int64_t row_length, float * to, size_t stride) {
        ggml_set_output(tensor);
        ggml_build_forward_expand(graph_, tensor);
        reads_.push_back([tensor, row_length, to, stride] {
            const size_t bytes = static_cast<size_t>(row_length) * sizeof(float);
            const auto n_rows = static_cast<size_t>(ggml_nelements(tensor) / row_length);
            for (size_t r = 0; r < n_rows; ++r) { ggml_backend_tensor_get(tensor, to + r * stride, r * bytes, bytes); }
        });
    }

    // Called once the tensors have memory, before the run.
    void before_run(std::function<void()> prepare) {
        fills_.push_back([prepare = std::move(prepare)](std::vector<uint8_t> &) { prepare(); });
    }
    // What Pith's own operations keep from graph to graph.
    CpuWorkspace & workspace() const { return *workspace_; }

private:
    friend class GraphRunner;
    ggml_context * ctx_ = nullptr;
    ggml_cgraph * graph_ = nullptr;
    bool custom_operations_ = false;
    std::vector<std::function<void(std::vector<uint8_t> &)>> fills_;
    std::vector<std::function<void()>> reads_;
    CpuWorkspace * workspace_ = nullptr;
};

class GraphRunner {
public:
    // The back end must outlive the runner.
    explicit GraphRunner(ggml_backend_t backend) : backend_(backend), custom_operations_(on_cpu()) {}
    ~GraphRunner();
    GraphRunner(const GraphRunner &) = delete;
    GraphRunner & operator=(const GraphRunner &) = delete;

    // Starts a graph of at most n_nodes operations; drops the one before.
    Result<GraphBuild *> begin(size_t n_nodes);
    // Allocates, fills the inputs, computes, reads the outputs.
    Status run();

    // Whether Pith's own operations may be in the graphs: on the CPU, unless a test or a measurement wants ggml's.
    bool custom_operations() const { return custom_operations_; }
    void set_custom_operations(bool wanted) { custom_operations_ = wanted && on_cpu(); }

    size_t buffer_bytes() const { return gallocr_ != nullptr ? ggml_gallocr_get_buffer_size(gallocr_, 0) : 0; }

private:
    bool on_cpu() const;

    ggml_backend_t backend_;
    bool custom_operations_;
    ggml_gallocr_t gallocr_ = nullptr;
    std::vector<uint8_t> meta_;  // tensor and graph structs
    std::vector<uint8_t> scratch_;
    CpuWorkspace workspace_;
    GraphBuild build_;
};

}  // namespace pith
