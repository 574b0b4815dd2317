// kv_pages.h - pages that a thread's KV caches hold, as the system has them: what ledgers say is compared with that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/fail_at.h"

namespace pith::testing {

// From its beginning to its end it counts regions that this thread reserves.
class KvPages : public RegionWatch {
public:
    KvPages();
    ~KvPages() override;
    KvPages(const KvPages &) = delete;
    KvPages & operator=(const KvPages &) = delete;

    bool works() const { return works_; }  // false: the system does not tell
    size_t bytes() noexcept;               // now; of pages that a fork reads and has not written, none
    // The most that there was at bytes(), or before pages were given back while watch_peaks(true).
    size_t most_bytes() const { return most_; }
    void watch_peaks(bool watches) { watches_peaks_ = watches; }

    void mapped(void * begin, size_t size, bool reads_file) noexcept override;
    void unmapped(void * begin) noexcept override;
    void gives_back() noexcept override;

private:
    struct Region {
        uintptr_t begin = 0;
        size_t size = 0;
        bool reads_file = false;
    };
    size_t bytes_of(const Region & region) noexcept;

    std::vector<Region> regions_;
    std::vector<uint64_t> pages_;  // what the system says of some
    int file_ = -1;
    bool works_ = false;
    bool watches_peaks_ = false;
    int n_given_back_ = 0;
    size_t most_ = 0;
};

}  // namespace pith::testing
