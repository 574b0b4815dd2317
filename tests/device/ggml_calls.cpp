// ggml_calls.cpp - ggml's public calls, counted and passed on. ggml must be a shared library, as for other tests whose calls
// stand in front of its own.
#include "device/ggml_calls.h"

#include <dlfcn.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <atomic>
#include <iterator>
#include <utility>

#include "device/device_work.h"

namespace {

using pith::testing::GgmlCalls;

constexpr int64_t GgmlCalls::*kCounts[] = {&GgmlCalls::graphs,      &GgmlCalls::splits,     &GgmlCalls::copies,
                                           &GgmlCalls::uploads,     &GgmlCalls::downloads,  &GgmlCalls::synchronisations,
                                           &GgmlCalls::allocations, &GgmlCalls::bytes_up,   &GgmlCalls::bytes_down,
                                           &GgmlCalls::operations,  &GgmlCalls::attentions, &GgmlCalls::row_writes};
constexpr const char * kNames[] = {"graphs",      "splits",   "copies",     "uploads",    "downloads",  "synchronisations",
                                   "allocations", "bytes up", "bytes down", "operations", "attentions", "row writes"};
static_assert(std::size(kCounts) == std::size(kNames));

std::atomic<int> allocations_until_failure{-1};
std::atomic<int> allocations_until_refusal{-1};
std::atomic<int64_t> told_free_memory{-1};
std::atomic<int64_t> counted[std::size(kCounts)];
// A call of ggml's that another of these makes is a part of that one.
thread_local int depth = 0;
thread_local bool in_schedule = false;

struct Inside {
    Inside() { ++depth; }
    ~Inside() { --depth; }
};

void add(int64_t GgmlCalls::*count, int64_t n = 1) {
    for (size_t i = 0; i < std::size(kCounts); ++i) {
        if (kCounts[i] == count) { counted[i] += n; }
    }
}

void add_graph(ggml_cgraph * graph, int64_t n_splits) {
    add(&GgmlCalls::graphs);
    add(&GgmlCalls::splits, n_splits);
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        if (pith::is_only_a_view(node)) { continue; }
        add(&GgmlCalls::operations);
        if (node->op == GGML_OP_FLASH_ATTN_EXT) { add(&GgmlCalls::attentions); }
        if (node->op == GGML_OP_SET_ROWS) { add(&GgmlCalls::row_writes); }
    }
}

bool is_there(const ggml_tensor * tensor) {
    ggml_backend_buffer_t buffer = tensor->view_src != nullptr ? tensor->view_src->buffer : tensor->buffer;
    return buffer != nullptr && !ggml_backend_buffer_is_host(buffer);
}

void add_copy(const ggml_tensor * from, const ggml_tensor * to) {
    const auto n_bytes = static_cast<int64_t>(ggml_nbytes(from));
    add(&GgmlCalls::copies);
    if (is_there(to)) { add(&GgmlCalls::bytes_up, n_bytes); }
    if (is_there(from)) { add(&GgmlCalls::bytes_down, n_bytes); }
}
void add_upload(const ggml_tensor * to, size_t n_bytes) {
    if (depth > 0 || !is_there(to)) { return; }
    add(&GgmlCalls::uploads);
    add(&GgmlCalls::bytes_up, static_cast<int64_t>(n_bytes));
}
void add_download(const ggml_tensor * from, size_t n_bytes) {
    if (depth > 0 || !is_there(from)) { return; }
    add(&GgmlCalls::downloads);
    add(&GgmlCalls::bytes_down, static_cast<int64_t>(n_bytes));
}

}  // namespace

// Passes a call on to ggml's function of the same name.
#define PITH_NEXT(name) (reinterpret_cast<decltype(&(name))>(next_of(#name)))
namespace {
void * next_of(const char * name) {
    return dlsym(RTLD_NEXT, name);
}
}  // namespace

extern "C" {

ggml_status ggml_backend_sched_graph_compute(ggml_backend_sched_t sched, ggml_cgraph * graph) {
    static auto * const next = PITH_NEXT(ggml_backend_sched_graph_compute);
    add_graph(graph, ggml_backend_sched_get_n_splits(sched));
    in_schedule = true;
    const ggml_status status = next(sched, graph);
    in_schedule = false;
    return status;
}

// Of the whole of a graph, and not of a scheduler's piece. ggml_backend_graph_compute() calls it, too.
ggml_status ggml_backend_graph_compute_async(ggml_backend_t backend, ggml_cgraph * graph) {
    static auto * const next = PITH_NEXT(ggml_backend_graph_compute_async);
    const bool is_there = ggml_backend_dev_type(ggml_backend_get_device(backend)) != GGML_BACKEND_DEVICE_TYPE_CPU;
    if (!in_schedule && is_there) { add_graph(graph, 1); }
    return next(backend, graph);
}

void ggml_backend_synchronize(ggml_backend_t backend) {
    static auto * const next = PITH_NEXT(ggml_backend_synchronize);
    add(&GgmlCalls::synchronisations);
    next(backend);
}

void ggml_backend_tensor_copy(const ggml_tensor * from, ggml_tensor * to) {
    static auto * const next = PITH_NEXT(ggml_backend_tensor_copy);
    if (depth == 0) { add_copy(from, to); }
    const Inside inside;
    next(from, to);
}
void ggml_backend_tensor_copy_async(ggml_backend_t of_from, ggml_backend_t of_to, const ggml_tensor * from, ggml_tensor * to) {
    static auto * const next = PITH_NEXT(ggml_backend_tensor_copy_async);
    if (depth == 0) { add_copy(from, to); }
    const Inside inside;
    next(of_from, of_to, from, to);
}

void ggml_backend_tensor_set(ggml_tensor * to, const void * data, size_t offset, size_t size) {
    static auto * const next = PITH_NEXT(ggml_backend_tensor_set);
    add_upload(to, size);
    const Inside inside;
    next(to, data, offset, size);
}
void ggml_backend_tensor_set_async(ggml_backend_t backend, ggml_tensor * to, const void * data, size_t offset, size_t size) {
    static auto * const next = PITH_NEXT(ggml_backend_tensor_set_async);
    add_upload(to, size);
    const Inside inside;
    next(backend, to, data, offset, size);
}

void ggml_backend_tensor_get(const ggml_tensor * from, void * data, size_t offset, size_t size) {
    static auto * const next = PITH_NEXT(ggml_backend_tensor_get);
    add_download(from, size);
    const Inside inside;
    next(from, data, offset, size);
}
void ggml_backend_tensor_get_async(ggml_backend_t backend, const ggml_tensor * from, void * data, size_t offset, size_t size) {
    static auto * const next = PITH_NEXT(ggml_backend_tensor_get_async);
    add_download(from, size);
    const Inside inside;
    next(backend, from, data, offset, size);
}

ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    static auto * const next = PITH_NEXT(ggml_backend_buft_alloc_buffer);
    if (!ggml_backend_buft_is_host(type)) {
        add(&GgmlCalls::allocations);
        if (allocations_until_failure >= 0 && allocations_until_failure-- == 0) {
            GGML_ABORT("a device that fails when asked for memory");
        }
        if (allocations_until_refusal >= 0 && allocations_until_refusal-- == 0) { return nullptr; }
    }
    return next(type, size);
}

void ggml_backend_dev_memory(ggml_backend_dev_t device, size_t * free, size_t * total) {
    static auto * const next = PITH_NEXT(ggml_backend_dev_memory);
    next(device, free, total);
    const int64_t told = told_free_memory;
    if (told >= 0 && ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU) { *free = static_cast<size_t>(told); }
}

}  // extern "C"

namespace pith::testing {

void tell_free_memory(int64_t n_bytes) {
    told_free_memory = n_bytes;
}

void fail_allocation(int n_before) {
    allocations_until_failure = n_before;
}

void refuse_allocation(int n_before) {
    allocations_until_refusal = n_before;
}

GgmlCalls ggml_calls() {
    GgmlCalls calls;
    for (size_t i = 0; i < std::size(kCounts); ++i) { calls.*kCounts[i] = counted[i]; }
    return calls;
}

GgmlCalls GgmlCalls::operator-(const GgmlCalls & before) const {
    GgmlCalls rest;
    for (int64_t GgmlCalls::*count : kCounts) { rest.*count = this->*count - before.*count; }
    return rest;
}

GgmlCalls GgmlCalls::operator/(int64_t n) const {
    GgmlCalls each;
    for (int64_t GgmlCalls::*count : kCounts) { each.*count = (this->*count + n - 1) / n; }
    return each;
}

std::string GgmlCalls::text() const {
    std::string text;
    for (size_t i = 0; i < std::size(kCounts); ++i) {
        text += (i > 0 ? ", " : "") + std::to_string(this->*kCounts[i]) + " " + kNames[i];
    }
    return text;
}

}  // namespace pith::testing
