// fail_at.cpp - stands in front of the calls that may fail. A program's own definitions come before a library's.
#include "engine/fail_at.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "ggml-alloc.h"
#include "ggml-backend.h"

namespace pith::testing {
namespace {

struct Plan {
    bool armed = false;
    Fails what = Fails::kNew;
    int64_t n_left = 0;
    bool failed = false;
    int64_t n_after = 0;  // graphs
};
thread_local Plan plan;
std::atomic<bool> cancel{false};
thread_local RegionWatch * watch = nullptr;

bool fails_now(Fails what) {
    if (!plan.armed || plan.what != what || plan.failed) { return false; }
    plan.failed = --plan.n_left == 0;
    return plan.failed;
}

void count_graph() {
    if (!plan.armed || plan.what != Fails::kCancel) { return; }
    plan.n_after += plan.failed ? 1 : 0;
    if (fails_now(Fails::kCancel)) { cancel = true; }
}

template <class F>
F * next_of(const char * name) {
    return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

#if !defined(__SANITIZE_THREAD__)

// ggml, and libllama where C calls it, have no way to hand an exception on.
bool is_of_c_libraries(const void * caller) {
    plan.armed = false;  // what dladdr() may ask for
    Dl_info info{};
    const bool found = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
    const std::string_view path = found ? info.dli_fname : "";
    const std::string_view name = path.substr(path.rfind('/') + 1);
    plan.armed = true;
    return name.starts_with("libggml") || name.starts_with("libllama");
}

[[gnu::noinline]] void release(void * memory) noexcept {
    std::free(memory);
}

void * allocate(size_t size, size_t alignment, const void * caller) {
    if (plan.armed && plan.what == Fails::kNew && !is_of_c_libraries(caller) && fails_now(Fails::kNew)) { return nullptr; }
    const size_t rounded = (size == 0 ? 1 : size) + alignment - 1;
    return std::aligned_alloc(alignment, rounded / alignment * alignment);
}

void * allocate_or_throw(size_t size, size_t alignment, const void * caller) {
    void * memory = allocate(size, alignment, caller);
    if (memory == nullptr) { throw std::bad_alloc(); }
    return memory;
}

#endif

}  // namespace

void fail_at(Fails what, int64_t k) {
    // What a process of its own does fails there alone, and nobody here could tell.
    static const int disarmed_in_children = pthread_atfork(nullptr, nullptr, [] { plan.armed = false; });
    static_cast<void>(disarmed_in_children);
    plan = {true, what, k, false, 0};
}

bool stop_failing() {
    plan.armed = false;
    cancel = false;
    return plan.failed;
}

void watch_regions(RegionWatch * now) {
    watch = now;
}

const std::atomic<bool> & cancel_flag() {
    return cancel;
}

int64_t n_graphs_after_cancel() {
    return plan.n_after;
}

}  // namespace pith::testing

using pith::testing::count_graph;
using pith::testing::Fails;
using pith::testing::fails_now;
using pith::testing::next_of;
using pith::testing::watch;

#if !defined(__SANITIZE_THREAD__)  // which has its own, and runs before this program could
using pith::testing::allocate;
using pith::testing::allocate_or_throw;
using pith::testing::release;

void * operator new(size_t size) {
    return allocate_or_throw(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void * operator new(size_t size, std::align_val_t alignment) {
    return allocate_or_throw(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void * operator new(size_t size, const std::nothrow_t &) noexcept {
    return allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void operator delete(void * memory) noexcept {
    release(memory);
}
void operator delete(void * memory, size_t) noexcept {
    release(memory);
}
void operator delete(void * memory, std::align_val_t) noexcept {
    release(memory);
}
void operator delete(void * memory, size_t, std::align_val_t) noexcept {
    release(memory);
}

extern "C" void * mmap(void * address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
    if ((flags & MAP_NORESERVE) != 0 && fails_now(Fails::kPages)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if ((flags & MAP_NORESERVE) == 0 && file >= 0 && fails_now(Fails::kFiles)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void * made = reinterpret_cast<void *>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
    if (watch != nullptr && made != MAP_FAILED && (flags & MAP_NORESERVE) != 0) {
        watch->mapped(made, length, file >= 0 && (flags & MAP_PRIVATE) != 0);
    }
    return made;
}

extern "C" int munmap(void * address, size_t length) noexcept {
    if (watch != nullptr) { watch->unmapped(address); }
    return static_cast<int>(syscall(SYS_munmap, address, length));
}

extern "C" int madvise(void * address, size_t length, int advice) noexcept {
    if (watch != nullptr && (advice == MADV_DONTNEED || advice == MADV_REMOVE)) { watch->gives_back(); }
    return static_cast<int>(syscall(SYS_madvise, address, length, advice));
}
#endif

extern "C" {

int mkostemp(char * name, int flags) {
    if (fails_now(Fails::kFiles)) {
        errno = EACCES;
        return -1;
    }
    return next_of<int(char *, int)>("mkostemp")(name, flags);
}

int posix_fallocate(int file, off_t offset, off_t length) {
    if (fails_now(Fails::kFiles)) { return ENOSPC; }
    return next_of<int(int, off_t, off_t)>("posix_fallocate")(file, offset, length);
}

int memfd_create(const char * name, unsigned flags) noexcept {
    if (fails_now(Fails::kFiles)) {
        errno = EMFILE;
        return -1;
    }
    return next_of<int(const char *, unsigned)>("memfd_create")(name, flags);
}

int ftruncate(int file, off_t length) noexcept {
    if (fails_now(Fails::kFiles)) {
        errno = EFBIG;
        return -1;
    }
    return next_of<int(int, off_t)>("ftruncate")(file, length);
}

FILE * fopen(const char * path, const char * mode) {
    if (fails_now(Fails::kNamedFiles)) {
        errno = EMFILE;
        return nullptr;
    }
    return next_of<FILE *(const char *, const char *)>("fopen")(path, mode);
}

FILE * fdopen(int file, const char * mode) noexcept {
    if (fails_now(Fails::kNamedFiles)) {
        errno = ENOMEM;
        return nullptr;
    }
    return next_of<FILE *(int, const char *)>("fdopen")(file, mode);
}

// As on a full disk: half of it is there.
size_t fwrite(const void * data, size_t size, size_t n, FILE * file) {
    static auto * const next = next_of<size_t(const void *, size_t, size_t, FILE *)>("fwrite");
    if (n == 0 || !fails_now(Fails::kNamedFiles)) { return next(data, size, n, file); }
    const size_t written = next(data, size, n / 2, file);
    errno = ENOSPC;
    return written;
}

int fsync(int file) {
    if (fails_now(Fails::kNamedFiles)) {
        errno = EIO;
        return -1;
    }
    return next_of<int(int)>("fsync")(file);
}

int rename(const char * from, const char * to) noexcept {
    if (fails_now(Fails::kNamedFiles)) {
        errno = EACCES;
        return -1;
    }
    return next_of<int(const char *, const char *)>("rename")(from, to);
}

bool ggml_gallocr_alloc_graph(ggml_gallocr_t allocator, ggml_cgraph * graph) {
    if (fails_now(Fails::kBuffers)) { return false; }
    return next_of<bool(ggml_gallocr_t, ggml_cgraph *)>("ggml_gallocr_alloc_graph")(allocator, graph);
}

ggml_status ggml_backend_graph_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    if (fails_now(Fails::kGraphs)) { return GGML_STATUS_FAILED; }
    count_graph();
    return next_of<ggml_status(ggml_backend_t, ggml_cgraph *)>("ggml_backend_graph_compute")(backend, graph);
}

}  // extern "C"
