// copy_on_write.h - a value that copies share until one of them changes it. Stage: core.
// Pure C++: no ggml, no I/O.
//
// Threads: one at a time, as for a plain value; copies may be dropped on other threads.
#pragma once

#include <memory>

namespace pith {

template <class T>
class CopyOnWrite {
public:
    const T & operator*() const noexcept {
        static const T empty;
        return value_ ? *value_ : empty;
    }
    const T * operator->() const noexcept { return &**this; }

    // To change it. Copies it first where others share it; then alone, it allocates nothing until it is copied again.
    // Throws std::bad_alloc: nothing has changed then.
    T & own() {
        if (!value_) {
            value_ = std::make_shared<T>();
        } else if (value_.use_count() > 1) {
            value_ = std::make_shared<T>(*value_);
        }
        return *value_;
    }

private:
    std::shared_ptr<T> value_;  // null: empty
};

}  // namespace pith
