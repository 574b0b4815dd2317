// parity.h - one text read by Pith and by libllama, as the file has its weights and as f32, and what must hold of the four.
#pragma once

#include <iostream>
#include <optional>

#include "engine/tiny_model.h"
#include "real/logit_rows.h"
#include "real/real_model.h"

namespace pith::testing {

struct Parity {
    LogitRows pith;
    LogitRows llama;
    LogitRows pith_f32;
    LogitRows llama_f32;
    double noise = 0;  // of rounded activations: libllama's distance from f32
};

// f32: the same file written out as f32, loaded.
inline Parity read_both(const Model & model, const Model & f32, const std::vector<int32_t> & tokens, size_t first) {
    Parity all;
    all.llama = LlamaModel(model.info().path).rows(tokens, first);
    all.llama_f32 = LlamaModel(f32.info().path).rows(tokens, first);
    all.pith = pith_rows(model, tokens, first);
    all.pith_f32 = pith_rows(f32, tokens, first);
    all.noise = distance(all.llama, all.llama_f32).rms;
    return all;
}

inline void report(const char * what, const Distance & distance) {
    std::cout << what << ": " << ::testing::PrintToString(distance) << "\n";
}

// Without rounded activations there is nothing that two engines may differ in but the order of sums.
inline constexpr double kSummation = 5e-5;
inline void expect_f32_logits_equal(const Parity & all, double most = kSummation) {
    const Distance d = distance(all.pith_f32, all.llama_f32);
    report("f32 weights, Pith from libllama", d);
    EXPECT_LE(d.largest, most);
    EXPECT_LE(d.widest_gap, most);
}

// Two that round independently are √2 times as far from each other as each is from f32; no more, unless one of them is wrong.
inline constexpr double kTwoNoises = 1.55;
inline void expect_inside_noise(const Distance & d, double noise) {
    EXPECT_GT(noise, 0.0);
    EXPECT_LE(d.rms, kTwoNoises * noise);
    EXPECT_LE(d.widest_gap, 4 * noise);
}
inline void expect_logits_inside_noise(const Parity & all) {
    const Distance d = distance(all.pith, all.llama);
    const Distance from_f32 = distance(all.llama, all.llama_f32);
    report("the file's weights, Pith from libllama", d);
    report("libllama from f32", from_f32);
    expect_inside_noise(d, all.noise);
    EXPECT_LE(d.n_best_differ, 2 * from_f32.n_best_differ + 2);
}

// Mean divergence from f32's distribution; the margin is what two sets of roundings differ by on so few positions.
inline void expect_no_further_from_f32_than_llama(const Parity & all) {
    constexpr double kMargin = 1.2;
    const Distance ours = distance(all.pith, all.llama_f32);
    const Distance theirs = distance(all.llama, all.llama_f32);
    report("Pith from f32", ours);
    report("libllama from f32", theirs);
    EXPECT_LE(ours.divergence, kMargin * theirs.divergence);
    EXPECT_LE(ours.rms, kMargin * theirs.rms);
}

// Greedy: n tokens behind the prompt. libllama, shown the same tokens one by one, prefers its own best to each of them by no
// more than `most` of its logits' standard deviations.
inline void expect_greedy_text_of(const Model & model, const LlamaModel & llama, std::vector<int32_t> tokens, int n,
                                  double most) {
    const size_t n_prompt = tokens.size();
    auto session = model.session(full_f32_options());
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->prefill(tokens).ok());
    for (int i = 0; i < n; ++i) {
        const auto next = session->decode();
        ASSERT_TRUE(next.ok()) << next.status().message();
        tokens.push_back(*next);
    }
    const LogitRows reference = llama.rows(tokens, n_prompt - 1, /*one_by_one=*/true);
    ASSERT_EQ(reference.size(), static_cast<size_t>(n) + 1);
    int n_other = 0;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        const auto said = static_cast<size_t>(tokens[n_prompt + i]);
        n_other += said != best_of(reference.row(i)) ? 1 : 0;
        EXPECT_LE(gap_to(reference.row(i), said), most) << "token " << i;
    }
    std::cout << "greedy text: libllama prefers another token at " << n_other << " of " << n << "\n";
}

// Tests on a model that is small enough to be held as f32, too.
template <const RealModelFile & kFile>
class BesideF32 : public OnRealModel<kFile> {
protected:
    static const Model & f32() {
        static const Model model = [] {
            const std::string copy = scratch_file("f32.gguf");
            if (!write_f32_copy(OnRealModel<kFile>::path(), copy)) { throw std::runtime_error("cannot write " + copy); }
            return needed(Model::load(copy));
        }();
        return model;
    }
};

}  // namespace pith::testing
