// shared_row.h - a number for each entry of a lane, in a row that copies share. Stage: attention → evidence.
// Pure C++: no ggml, no I/O.
//
// A copy costs a pointer, however long the row is: so a call's way back, a snapshot, and sequences that go on from one another
// cost what changes. What is appended to a row that others share goes behind what they look at. What is added to all of it goes
// into a second buffer, and the one that the others share stays as it is: where a way back is held from token to token, the two
// buffers take turns. Anything else copies a row that is shared.
// Threads: all copies of a row one at a time; they may be dropped on other threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace pith {

class SharedRow {
public:
    SharedRow() = default;
    SharedRow(const SharedRow & other) noexcept : now_(other.now_), size_(other.size_) {}
    SharedRow & operator=(const SharedRow & other) noexcept;
    SharedRow(SharedRow &&) noexcept = default;
    SharedRow & operator=(SharedRow &&) noexcept = default;
    ~SharedRow() = default;

    size_t size() const { return size_; }
    std::span<const float> values() const {
        return now_ ? std::span<const float>(*now_).first(size_) : std::span<const float>();
    }

    explicit SharedRow(std::vector<float> values)
        : now_(std::make_shared<std::vector<float>>(std::move(values))), size_(now_->size()) {}

    void append(float value);
    void resize(size_t n, float otherwise);  // cuts it, or appends `otherwise`
    void make_room(size_t n);                // for appending so many

    // All of the row gets something added: where it lies, and where it goes, which may be the same place. What lies behind
    // n_before was 0. REQUIRES: `to` is written, all n of it, before anything else is asked of this row.
    struct Addition {
        const float * before = nullptr;
        size_t n_before = 0;
        float * to = nullptr;
    };
    Addition begin_add(size_t n);
    void prepare_add(size_t n);  // what begin_add(n) would allocate

    // Back to a copy that was made before, which may be gone afterwards.
    void go_back(const SharedRow & before) noexcept;

    // Keeps these of its numbers, ascending, and no others. Needs no memory after own(), and leaves none that it does not use.
    void keep(std::span<const int32_t> kept) noexcept;
    void own();  // nobody shares it then

    size_t size_bytes() const;  // its part, of what is shared

private:
    using Buffer = std::shared_ptr<std::vector<float>>;
    bool is_shared() const { return now_.use_count() > 1; }
    void need_spare(size_t n);

    Buffer now_;    // its first size_ numbers are the row; null: empty
    Buffer spare_;  // for what is added to a row that is shared; copies have their own
    size_t size_ = 0;
};

}  // namespace pith
