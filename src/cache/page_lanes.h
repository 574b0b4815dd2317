// page_lanes.h - lanes in the host's memory, page by page. Stage: cache.
//
// One reserved region for K and one for V. A lane owns capacity() rows of address space; only the pages that hold entries cost
// memory, and those behind the last entry go back to the system. A fork maps the same pages, which the processor copies when it
// writes to them.
#pragma once

#include <memory>
#include <vector>

#include "cache/lane_store.h"
#include "cache/page_memory.h"

struct ggml_backend_buffer;

namespace pith {

class PageLanes : public LaneStore {
public:
    // capacity is rounded up, so that every lane starts on a page, in K and in V. Errors: kOutOfMemory.
    // file: of Use::kToFork, what stores that are forked together lie in (page_memory.h).
    static Result<std::unique_ptr<LaneStore>> make(const LaneRows & rows, int64_t capacity, Use use,
                                                   std::shared_ptr<PageFile> & file);
    ~PageLanes() override;

    void make_own(int lane, int64_t first) noexcept override;
    void set_length(int lane, int64_t length, bool frees) noexcept override;
    void move(int lane, int64_t from, int64_t to, int64_t n) noexcept override;
    void write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept override;
    void copy_from(const LaneStore & other, std::span<const int64_t> lengths) noexcept override;
    size_t take_from(LaneStore & other, std::span<const int64_t> lengths) noexcept override;
    void read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept override;
    Result<std::unique_ptr<LaneStore>> fork() const override;
    int64_t n_shared(int lane) const noexcept override;

private:
    // What a lane takes of a region.
    struct Pages {
        size_t touched = 0;  // bytes, from the lane's beginning
        size_t shared = 0;   // of these, from the beginning on, still the base's
    };

    PageLanes(const LaneRows & rows, int64_t capacity);
    Status add_tensors();
    uint8_t * row_k(int lane, int64_t i) const;
    uint8_t * row_v(int lane, int64_t i) const;
    void make_own(Pages & pages, size_t begin) noexcept;
    void set_used(Pages & pages, const uint8_t * lane, size_t used, bool frees) noexcept;
    void free_front(const Pages & pages, const uint8_t * lane, size_t begin, size_t end) noexcept;
    // K or V of a lane, here and there.
    struct LaneRegion {
        Pages & pages;
        uint8_t * rows;
    };
    size_t take_region(LaneRegion to, PageLanes & other, LaneRegion from, size_t size) noexcept;

    const size_t row_bytes_k_;
    const size_t row_bytes_v_;
    PageMemory memory_;
    ggml_context * context_ = nullptr;
    ggml_backend_buffer * buffer_ = nullptr;
    std::vector<Pages> pages_k_;  // [lane]
    std::vector<Pages> pages_v_;
};

}  // namespace pith
