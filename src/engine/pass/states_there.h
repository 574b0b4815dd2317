// states_there.h - hidden states between two layers of one device, of a prompt that is read layer by layer, or of a pass of
// several tokens: they stay in its memory. Stage: engine.
//
// They come back to this machine behind a device's last layer, and wherever somebody here reads them: gates, a tap, a layer
// whose attention is computed here. Where the device has no memory for them, they go through this machine's.
// Of a call that fails nothing is left but what release() gives back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device_rows.h"

namespace pith {

struct LiveSession;

// Which of a layer's rows are on its device, rows [first, first + n) of `rows`: those that it reads, and where its result goes.
struct RowsThere {
    const DeviceRows * rows = nullptr;
    int64_t first = 0;
    bool read = false;
    bool written = false;
};

class StatesThere {
public:
    // In front of the first chunk of layers [begin, end): from now on each chunk goes through them, of n rows in all. Layers
    // come in order. Errors: kIo.
    Status begin_layers(const LiveSession & session, int begin, int end, int64_t n);
    // Of a chunk that begins at row `first`. read_behind: somebody reads what the last layer makes of it.
    RowsThere rows(int layer, int64_t first, bool read_behind) const;

    void release() noexcept;
    size_t size_bytes(size_t device) const;
    size_t size_bytes() const;  // on all of them

private:
    Status hold(const LiveSession & session, size_t device, int64_t n);

    std::vector<bool> stay_behind_;                   // [layer]
    std::vector<int> of_layer_;                       // [layer + 1] device
    std::vector<std::unique_ptr<DeviceRows>> there_;  // [device] null: none
};

// Whether layers [begin, end), their lanes included, are all on devices, and nobody here looks at what goes between them.
bool are_there(const LiveSession & session, int begin, int end);

}  // namespace pith
