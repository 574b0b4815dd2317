// shared_row.cpp - two buffers, and who shares the first.
#include "evidence/shared_row.h"

#include <algorithm>
#include <utility>

namespace pith {
namespace {

// Twice as much, where there is no room: one at a time does not copy all of them every time.
void grow(std::vector<float> & values, size_t n) {
    if (values.capacity() < n) { values.reserve(std::max(n, 2 * values.size())); }
}

}  // namespace

SharedRow & SharedRow::operator=(const SharedRow & other) noexcept {
    now_ = other.now_;
    size_ = other.size_;
    return *this;
}

void SharedRow::append(float value) {
    resize(size_ + 1, value);
}

void SharedRow::resize(size_t n, float otherwise) {
    if (n > size_) {
        make_room(n - size_);
        now_->resize(n, otherwise);
    }
    size_ = n;
}

void SharedRow::make_room(size_t n) {
    if (!now_) { now_ = std::make_shared<std::vector<float>>(); }
    if (now_->size() > size_) { own(); }  // others may look at what lies behind
    grow(*now_, size_ + n);
}

void SharedRow::need_spare(size_t n) {
    if (spare_.use_count() != 1) { spare_ = std::make_shared<std::vector<float>>(); }
    grow(*spare_, n);
}

void SharedRow::prepare_add(size_t n) {
    if (is_shared()) {
        need_spare(n);
    } else if (n > size_) {
        make_room(n - size_);
    }
}

SharedRow::Addition SharedRow::begin_add(size_t n) {
    if (!is_shared()) {
        resize(n, 0.0F);
        return {n == 0 ? nullptr : now_->data(), n, n == 0 ? nullptr : now_->data()};
    }
    need_spare(n);
    spare_->resize(n);
    std::swap(now_, spare_);
    const size_t n_before = std::min(std::exchange(size_, n), n);
    return {spare_->data(), n_before, now_->data()};
}

void SharedRow::go_back(const SharedRow & before) noexcept {
    if (spare_ == before.now_) { std::swap(now_, spare_); }
    now_ = before.now_;
    size_ = before.size_;
}

void SharedRow::own() {
    if (!now_) { return; }
    if (is_shared()) {
        need_spare(size_);
        spare_->assign(now_->begin(), now_->begin() + static_cast<std::ptrdiff_t>(size_));
        std::swap(now_, spare_);
    }
    now_->resize(size_);
}

void SharedRow::keep(std::span<const int32_t> kept) noexcept {
    if (!now_) { return; }
    std::vector<float> & values = *now_;
    for (size_t j = 0; j < kept.size(); ++j) { values[j] = values[static_cast<size_t>(kept[j])]; }
    size_ = kept.size();
    values.resize(size_);
    if (values.capacity() <= 2 * size_) { return; }
    values.shrink_to_fit();  // of a whole prompt, perhaps
    spare_.reset();
}

size_t SharedRow::size_bytes() const {
    const auto bytes_of = [](const Buffer & buffer) {
        return buffer ? buffer->capacity() * sizeof(float) / static_cast<size_t>(buffer.use_count()) : 0;
    };
    return bytes_of(now_) + bytes_of(spare_);
}

}  // namespace pith
