// smollm2.h - SmolLM2, 135 million parameters: the file as it is, its weights in f32, and what both engines say of one text.
#pragma once

#include "real/parity.h"
#include "real/real_model.h"
#include "real/story.h"

namespace pith::testing {

class SmolLM2 : public OnRealModel<kSmolLM2> {
protected:
    static const Model & f32() {
        static const Model model = Model::load(f32_copy_of(path())).value();
        return model;
    }
    static std::vector<int32_t> story(size_t n_tokens) {
        auto tokens = encode(kStory);
        EXPECT_GE(tokens.size(), n_tokens);
        tokens.resize(n_tokens);
        return tokens;
    }
    static const Parity & both() {
        static const Parity all = read_both(model(), f32(), story(320), 64);
        return all;
    }
};

}  // namespace pith::testing
