// graph_runner.h - builds, plans and runs one small ggml graph after another, or one of them many times. Stage: device.
//
// A graph's memory is planned once, at its first run, and the plan is this graph's alone: ggml's allocator would reuse the last
// plan for any graph with as many nodes that fit, and overwrite tensors that are still needed when their lifetimes differ.
// Every run writes all inputs first: an input's memory serves other tensors once its last reader is done. So a graph may run
// again as long as what it was built around stays: the addresses its inputs are copied from and its outputs go to, and the
// tensors of others that it reads.
// A graph that reads what lies on devices is run by one of them if that has all of it (device_graph.h), or else over them and
// the CPU (scheduled_graph.h); any other as if there were none.
// Errors: kOutOfMemory (graph memory), kCancelled, kInternal (ggml's status), kIo (a device failed).   Threads: one at a time.
// Cost:   of another run: its inputs, no allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/stopwatch.h"
#include "device/device_graph.h"
#include "device/graph_ends.h"
#include "device/graph_profile.h"
#include "device/graph_workspace.h"
#include "device/scheduled_graph.h"
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
        return input({ggml_new_tensor_2d(ctx_, type, ne0, ne1), nullptr, [fill = std::move(fill)](std::span<uint8_t> bytes) {
                          fill({reinterpret_cast<T *>(bytes.data()), bytes.size() / sizeof(T)});
                      }});
    }
    // An input copied from `data` at every run(): it must live until the last.
    template <class T>
    ggml_tensor * input(ggml_type type, int64_t ne0, int64_t ne1, const T * data) {
        return input({ggml_new_tensor_2d(ctx_, type, ne0, ne1), data});
    }
    // A tensor whose data is copied to `to` [nbytes] after the run.
    void output(ggml_tensor * tensor, float * to) {
        keep(tensor);
        outputs_.push_back({tensor, ggml_nbytes(tensor), [to](size_t) { return to; }});
    }
    // The same for a contiguous tensor of rows of row_length elements: row r goes to to + r · stride.
    void output_rows(ggml_tensor * tensor, int64_t row_length, float * to, size_t stride) {
        output_rows(tensor, row_length, [to, stride](size_t r) { return to + r * stride; });
    }
    // Row r goes to to(r), which is asked after every run.
    void output_rows(ggml_tensor * tensor, int64_t row_length, std::function<float *(size_t row)> to) {
        keep(tensor);
        outputs_.push_back({tensor, static_cast<size_t>(row_length) * sizeof(float), std::move(to)});
    }

    // A tensor that keeps its value after the run, for whoever reads it then. Of a view ggml would give the memory to others.
    void keep(ggml_tensor * tensor) {
        ggml_set_output(tensor);
        if (tensor->view_src != nullptr) { ggml_set_output(tensor->view_src); }
        ggml_build_forward_expand(graph_, tensor);
    }

    // Graphs like this one follow, and grow by so much: of several such, by all of it. Where one device runs them all, the
    // first takes memory for the last.
    void expect_growth(size_t n_between, size_t n_inputs) {
        growth_.n_between += n_between;
        growth_.n_inputs += n_inputs;
    }

    // What the runner's set_cancel() was given last.
    const std::atomic<bool> * cancel() const { return *cancel_; }

    // Called before every run, when the tensors have memory.
    void before_run(std::function<void()> prepare) {
        inputs_.push_back({nullptr, nullptr, [prepare = std::move(prepare)](std::span<uint8_t>) { prepare(); }});
    }
    // What Pith's own operations keep from graph to graph; made when one first asks. REQUIRES: one kind a runner.
    template <class Workspace>
    Workspace & workspace() const {
        if (*workspace_ == nullptr) { *workspace_ = std::make_unique<Workspace>(); }
        return static_cast<Workspace &>(**workspace_);
    }

private:
    friend class GraphRunner;
    ggml_tensor * input(GraphInput input) {
        ggml_set_input(input.tensor);
        inputs_.push_back(std::move(input));
        return inputs_.back().tensor;
    }
    ggml_context * ctx_ = nullptr;
    ggml_cgraph * graph_ = nullptr;
    bool custom_operations_ = false;
    std::vector<GraphInput> inputs_;
    std::vector<GraphOutput> outputs_;
    GraphGrowth growth_;
    std::unique_ptr<GraphWorkspace> * workspace_ = nullptr;  // the runner's
    const std::atomic<bool> * const * cancel_ = nullptr;     // the runner's
};

class GraphRunner {
public:
    // The back ends must outlive the runner. devices: what else graphs may run on, beside a back end of the CPU.
    explicit GraphRunner(ggml_backend_t backend, std::span<const ggml_backend_t> devices = {});
    ~GraphRunner();
    GraphRunner(const GraphRunner &) = delete;
    GraphRunner & operator=(const GraphRunner &) = delete;

    // Starts a graph of at most n_nodes operations; drops the one before.
    Result<GraphBuild *> begin(size_t n_nodes);
    // Plans the graph's memory unless it has run before, fills the inputs, computes, reads the outputs.
    Status run();
    // Whether the graph may run once more, over devices: others may have had them in between (sent_graphs.h).
    bool may_run_again() const { return planned_ && (!scheduled_.planned() || scheduled_.may_run_again()); }

    // Whether Pith's own operations may be in the graphs: on the CPU, unless a test or a measurement wants ggml's.
    bool custom_operations() const { return custom_operations_; }
    void set_custom_operations(bool wanted) { custom_operations_ = wanted && on_cpu(); }

    // From now on a run that finds it set ends with kCancelled, at its beginning, between two operations, or inside those of
    // Pith's own; where one device runs the graph, in front of it or behind it alone; nullptr: none. What such a run should
    // have read or written is not to be relied on.
    void set_cancel(const std::atomic<bool> * cancel) { cancel_ = cancel; }
    const std::atomic<bool> * cancel() const { return cancel_; }
    bool is_cancelled() const { return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed); }

    // From now on every run is timed part by part into `profile`, which must outlive the runner or the next call; nullptr: no
    // more.
    void set_profile(GraphProfile * profile) { profile_ = profile; }

    // Until it is said otherwise: a graph that no device runs alone fails with kUnsupported before anything of it is computed.
    // For whoever runs one beside other work on this machine's threads.
    void set_whole_only(bool on) { whole_only_ = on; }
    // Until it is said otherwise: called in front of every run of a graph that no device runs alone. For whoever does other
    // work on this machine's threads meanwhile, to be done with it by then. Empty: nobody.
    void set_before_here(std::function<void()> wait) { before_here_ = std::move(wait); }

    // Of the last graph, pieces that run in one place each; 0: it ran here, as one.
    int n_pieces() const { return whole_ != nullptr ? 1 : scheduled_.n_pieces(); }

    // What graphs compute in, and what describes them; of this machine's memory, where there are devices.
    size_t buffer_bytes() const;
    // And of the memory of device `device`, in the constructor's order.
    size_t device_bytes(size_t device) const;
    // Gives that of all devices back, and with it the last graph, if it ran there: begin() is next.
    void release_devices();

private:
    bool on_cpu() const;
    Status plan();
    bool over_devices() const { return whole_ != nullptr || scheduled_.planned(); }
    Status run_planned(const Stopwatch & watch);
    void fill_inputs();
    ggml_status compute();
    void read_outputs() const;
    std::string device_names() const;

    ggml_backend_t backend_;
    std::vector<ggml_backend_t> devices_;
    bool custom_operations_;
    ggml_gallocr_t gallocr_ = nullptr;
    std::vector<uint8_t> meta_;  // tensor and graph structs
    std::vector<uint8_t> scratch_;
    std::unique_ptr<GraphWorkspace> workspace_;  // null until an operation asks
    GraphBuild build_;
    std::vector<std::unique_ptr<DeviceGraph>> of_devices_;
    bool whole_only_ = false;
    std::function<void()> before_here_;
    DeviceGraph * whole_ = nullptr;  // of these, the one that runs the graph; null: none runs all of it
    ScheduledGraph scheduled_;       // of graphs over several places
    bool planned_ = false;
    const std::atomic<bool> * cancel_ = nullptr;
    GraphProfile * profile_ = nullptr;
    GraphPieces pieces_;  // of the graph, once it was profiled
    Stopwatch begun_;     // at begin()
};

}  // namespace pith
