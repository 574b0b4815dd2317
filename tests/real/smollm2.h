// smollm2.h - SmolLM2, 135 million parameters: the file as it is, its weights in f32, and what both engines say of one text.
#pragma once

#include "real/parity.h"

namespace pith::testing {

class SmolLM2 : public BesideF32<kSmolLM2> {
protected:
    static const Parity & both() {
        static const Parity all = read_both(model(), f32(), story(320), 64);
        return all;
    }
};

}  // namespace pith::testing
