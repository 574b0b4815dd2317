// page_lanes.cpp - pages of lanes: touched, copied, given back.
#include "cache/page_lanes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "device/backend.h"
#include "ggml-backend.h"

namespace pith {
namespace {

int64_t round_capacity(const LaneRows & rows, int64_t capacity) {
    const auto page = static_cast<int64_t>(page_size_bytes());
    const auto multiple = [page](size_t row) { return page / std::gcd(page, static_cast<int64_t>(row)); };
    const int64_t unit = std::lcm(multiple(rows.bytes_k()), multiple(rows.bytes_v()));
    return (std::max<int64_t>(capacity, 1) + unit - 1) / unit * unit;
}

}  // namespace

PageLanes::PageLanes(const LaneRows & rows, int64_t capacity)
    : LaneStore(rows, capacity), pages_k_(static_cast<size_t>(rows.n_lanes)), pages_v_(static_cast<size_t>(rows.n_lanes)) {}

PageLanes::~PageLanes() {
    if (buffer_ != nullptr) { ggml_backend_buffer_free(buffer_); }
    if (context_ != nullptr) { ggml_free(context_); }
}

// Both tensors over the memory that is there.
Status PageLanes::add_tensors() {
    const int64_t cells = capacity() * rows().n_lanes;
    context_ = ggml_init({2 * ggml_tensor_overhead(), nullptr, true});
    buffer_ = cpu_buffer_from_ptr(memory_.data(), memory_.size_bytes());
    if (context_ == nullptr || buffer_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the KV cache's tensors"}; }
    k_ = ggml_new_tensor_2d(context_, rows().type_k, rows().head_dim_k, cells);
    v_ = ggml_new_tensor_2d(context_, rows().type_v, rows().head_dim_v, cells);
    uint8_t * values = memory_.data() + static_cast<size_t>(cells) * rows().bytes_k();
    if (ggml_backend_tensor_alloc(buffer_, k_, memory_.data()) != GGML_STATUS_SUCCESS ||
        ggml_backend_tensor_alloc(buffer_, v_, values) != GGML_STATUS_SUCCESS) {
        return {ErrorCode::kInternal, "the KV cache's tensors do not fit their region"};
    }
    return {};
}

Result<std::unique_ptr<LaneStore>> PageLanes::make(const LaneRows & rows, int64_t capacity, Use use) {
    std::unique_ptr<PageLanes> store(new PageLanes(rows, round_capacity(rows, capacity)));
    const size_t needed = static_cast<size_t>(store->capacity() * rows.n_lanes) * rows.bytes();
    const size_t size = std::max(needed, page_size_bytes());  // a layer without lanes has tensors, too
    PITH_ASSIGN_OR_RETURN(store->memory_, use == Use::kToFork ? PageMemory::reserve_to_fork(size) : PageMemory::reserve(size));
    PITH_RETURN_IF_ERROR(store->add_tensors());
    return std::unique_ptr<LaneStore>(std::move(store));
}

Result<std::unique_ptr<LaneStore>> PageLanes::another(int64_t capacity, Use use) const {
    return make(rows(), capacity, use);
}

Result<std::unique_ptr<LaneStore>> PageLanes::fork() const {
    std::unique_ptr<PageLanes> store(new PageLanes(rows(), capacity()));
    PITH_ASSIGN_OR_RETURN(store->memory_, memory_.fork());
    PITH_RETURN_IF_ERROR(store->add_tensors());
    const auto all_shared = [&](const std::vector<Pages> & from, std::vector<Pages> & to) {
        for (size_t i = 0; i < from.size(); ++i) {
            to[i] = {from[i].touched, from[i].touched};
            store->shared_bytes_ += from[i].touched;
        }
    };
    all_shared(pages_k_, store->pages_k_);
    all_shared(pages_v_, store->pages_v_);
    return std::unique_ptr<LaneStore>(std::move(store));
}

uint8_t * PageLanes::row_k(int lane, int64_t i) const {
    return static_cast<uint8_t *>(k_->data) + static_cast<size_t>(cell(lane, i)) * rows().bytes_k();
}
uint8_t * PageLanes::row_v(int lane, int64_t i) const {
    return static_cast<uint8_t *>(v_->data) + static_cast<size_t>(cell(lane, i)) * rows().bytes_v();
}

// begin: of the first page that is written.
void PageLanes::make_own(Pages & pages, size_t begin) noexcept {
    if (begin >= pages.shared) { return; }
    allocated_bytes_ += pages.shared - begin;
    shared_bytes_ -= pages.shared - begin;
    pages.shared = begin;
}

void PageLanes::make_own(int lane, int64_t first) noexcept {
    const auto page_of = [first](size_t row_bytes) {
        return static_cast<size_t>(first) * row_bytes / page_size_bytes() * page_size_bytes();
    };
    make_own(pages_k_[static_cast<size_t>(lane)], page_of(rows().bytes_k()));
    make_own(pages_v_[static_cast<size_t>(lane)], page_of(rows().bytes_v()));
}

void PageLanes::set_used(Pages & pages, const uint8_t * lane, size_t used, bool frees) noexcept {
    const size_t now = frees ? page_ceil(used) : std::max(page_ceil(used), pages.touched);
    if (now < pages.touched) {
        const auto start = static_cast<size_t>(lane - memory_.data());
        memory_.release(start + now, start + pages.touched);
    }
    const size_t still_shared = std::min(pages.shared, now);
    allocated_bytes_ = allocated_bytes_ - (pages.touched - pages.shared) + (now - still_shared);
    shared_bytes_ -= pages.shared - still_shared;
    pages = {now, still_shared};
}

void PageLanes::set_length(int lane, int64_t length, bool frees) noexcept {
    const auto n = static_cast<size_t>(length);
    set_used(pages_k_[static_cast<size_t>(lane)], row_k(lane, 0), n * rows().bytes_k(), frees);
    set_used(pages_v_[static_cast<size_t>(lane)], row_v(lane, 0), n * rows().bytes_v(), frees);
}

void PageLanes::move(int lane, int64_t from, int64_t to, int64_t n) noexcept {
    std::memmove(row_k(lane, to), row_k(lane, from), static_cast<size_t>(n) * rows().bytes_k());
    std::memmove(row_v(lane, to), row_v(lane, from), static_cast<size_t>(n) * rows().bytes_v());
}

void PageLanes::write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept {
    std::copy_n(k, static_cast<size_t>(n) * rows().bytes_k(), row_k(lane, first));
    std::copy_n(v, static_cast<size_t>(n) * rows().bytes_v(), row_v(lane, first));
}

void PageLanes::read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept {
    std::copy_n(row_k(lane, first), static_cast<size_t>(n) * rows().bytes_k(), k);
    std::copy_n(row_v(lane, first), static_cast<size_t>(n) * rows().bytes_v(), v);
}

void PageLanes::copy_from(const LaneStore & other, std::span<const int64_t> lengths) noexcept {
    const auto & from = static_cast<const PageLanes &>(other);
    for (int lane = 0; lane < rows().n_lanes; ++lane) {
        const int64_t n = lengths[static_cast<size_t>(lane)];
        write(lane, 0, n, from.row_k(lane, 0), from.row_v(lane, 0));
        set_length(lane, n, /*frees=*/false);
    }
}

}  // namespace pith
