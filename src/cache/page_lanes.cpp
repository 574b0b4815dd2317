// page_lanes.cpp - pages of lanes: touched, copied, given back.
#include "cache/page_lanes.h"

#include <algorithm>
#include <array>
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
    : LaneStore(rows, capacity),
      row_bytes_k_(rows.bytes_k()),
      row_bytes_v_(rows.bytes_v()),
      pages_k_(static_cast<size_t>(rows.n_lanes)),
      pages_v_(static_cast<size_t>(rows.n_lanes)) {}

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
    uint8_t * values = memory_.data() + static_cast<size_t>(cells) * row_bytes_k_;
    if (ggml_backend_tensor_alloc(buffer_, k_, memory_.data()) != GGML_STATUS_SUCCESS ||
        ggml_backend_tensor_alloc(buffer_, v_, values) != GGML_STATUS_SUCCESS) {
        return {ErrorCode::kInternal, "the KV cache's tensors do not fit their region"};
    }
    return {};
}

Result<std::unique_ptr<LaneStore>> PageLanes::make(const LaneRows & rows, int64_t capacity, Use use,
                                                   std::shared_ptr<PageFile> & file) {
    std::unique_ptr<PageLanes> store(new PageLanes(rows, round_capacity(rows, capacity)));
    const size_t needed = static_cast<size_t>(store->capacity() * rows.n_lanes) * rows.bytes();
    const size_t size = std::max(needed, page_size_bytes());  // a layer without lanes has tensors, too
    PITH_ASSIGN_OR_RETURN(store->memory_,
                          use == Use::kToFork ? PageMemory::reserve_to_fork(size, file) : PageMemory::reserve(size));
    PITH_RETURN_IF_ERROR(store->add_tensors());
    return std::unique_ptr<LaneStore>(std::move(store));
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

int64_t PageLanes::n_shared(int lane) const noexcept {
    const auto l = static_cast<size_t>(lane);
    return static_cast<int64_t>(std::min(pages_k_[l].shared / row_bytes_k_, pages_v_[l].shared / row_bytes_v_));
}

uint8_t * PageLanes::row_k(int lane, int64_t i) const {
    return static_cast<uint8_t *>(k_->data) + static_cast<size_t>(cell(lane, i)) * row_bytes_k_;
}
uint8_t * PageLanes::row_v(int lane, int64_t i) const {
    return static_cast<uint8_t *>(v_->data) + static_cast<size_t>(cell(lane, i)) * row_bytes_v_;
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
    make_own(pages_k_[static_cast<size_t>(lane)], page_of(row_bytes_k_));
    make_own(pages_v_[static_cast<size_t>(lane)], page_of(row_bytes_v_));
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
    set_used(pages_k_[static_cast<size_t>(lane)], row_k(lane, 0), n * row_bytes_k_, frees);
    set_used(pages_v_[static_cast<size_t>(lane)], row_v(lane, 0), n * row_bytes_v_, frees);
}

void PageLanes::move(int lane, int64_t from, int64_t to, int64_t n) noexcept {
    std::memmove(row_k(lane, to), row_k(lane, from), static_cast<size_t>(n) * row_bytes_k_);
    std::memmove(row_v(lane, to), row_v(lane, from), static_cast<size_t>(n) * row_bytes_v_);
}

void PageLanes::write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept {
    memory_.make_ready(row_k(lane, first), static_cast<size_t>(n) * row_bytes_k_);
    std::copy_n(k, static_cast<size_t>(n) * row_bytes_k_, row_k(lane, first));
    if (v == nullptr) { return; }
    memory_.make_ready(row_v(lane, first), static_cast<size_t>(n) * row_bytes_v_);
    std::copy_n(v, static_cast<size_t>(n) * row_bytes_v_, row_v(lane, first));
}

void PageLanes::read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept {
    std::copy_n(row_k(lane, first), static_cast<size_t>(n) * row_bytes_k_, k);
    if (v != nullptr) { std::copy_n(row_v(lane, first), static_cast<size_t>(n) * row_bytes_v_, v); }
}

void PageLanes::copy_from(const LaneStore & other, std::span<const int64_t> lengths) noexcept {
    const auto & from = static_cast<const PageLanes &>(other);
    for (int lane = 0; lane < rows().n_lanes; ++lane) {
        const int64_t n = lengths[static_cast<size_t>(lane)];
        write(lane, 0, n, from.row_k(lane, 0), from.row_v(lane, 0));
        set_length(lane, n, /*frees=*/false);
    }
}

// Pages of a lane from its beginning on that nobody will read again; `begin` of them are gone already.
void PageLanes::free_front(const Pages & pages, const uint8_t * lane, size_t begin, size_t end) noexcept {
    if (begin == end) { return; }
    const auto start = static_cast<size_t>(lane - memory_.data());
    memory_.release(start + begin, start + end);
    const auto n_shared = [&pages](size_t n) { return std::min(n, pages.shared); };
    const size_t shared = n_shared(end) - n_shared(begin);
    shared_bytes_ -= shared;
    allocated_bytes_ -= end - begin - shared;
}

// A piece after the other goes through a buffer of its own, and its pages are given back before others are written: what both
// lanes hold together is never more than one of them does before or afterwards.
size_t PageLanes::take_region(LaneRegion to, PageLanes & other, LaneRegion from, size_t size) noexcept {
    constexpr size_t kPiece = size_t{32} << 10U;
    std::array<uint8_t, kPiece> piece;
    other.set_used(from.pages, from.rows, size, /*frees=*/true);
    size_t most = allocated_bytes() + other.allocated_bytes();
    size_t n_freed = 0;
    for (size_t done = 0; done < size;) {
        const size_t n = std::min(kPiece, size - done);
        std::copy_n(from.rows + done, n, piece.data());
        done += n;
        const size_t whole = done == size ? page_ceil(size) : done / page_size_bytes() * page_size_bytes();
        other.free_front(from.pages, from.rows, std::exchange(n_freed, whole), whole);
        std::copy_n(piece.data(), n, to.rows + done - n);
        set_used(to.pages, to.rows, done, /*frees=*/false);
        most = std::max(most, allocated_bytes() + other.allocated_bytes());
    }
    from.pages = {};
    return most;
}

size_t PageLanes::take_from(LaneStore & other, std::span<const int64_t> lengths) noexcept {
    auto & from = static_cast<PageLanes &>(other);
    size_t most = 0;
    for (int lane = 0; lane < rows().n_lanes; ++lane) {
        const auto l = static_cast<size_t>(lane);
        const auto n = static_cast<size_t>(lengths[l]);
        most = std::max(
            most, take_region({pages_k_[l], row_k(lane, 0)}, from, {from.pages_k_[l], from.row_k(lane, 0)}, n * row_bytes_k_));
        most = std::max(
            most, take_region({pages_v_[l], row_v(lane, 0)}, from, {from.pages_v_[l], from.row_v(lane, 0)}, n * row_bytes_v_));
    }
    return most;
}

}  // namespace pith
