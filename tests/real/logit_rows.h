// logit_rows.h - logits of a text's last positions, by libllama and by Pith, and how far two such sets are apart.
//
// Both engines multiply quantised weights by activations that they round to 8 bits, and a sum that is added up in another order
// rounds to another step now and then. So their logits differ by more than f32's rounding. What difference is allowed is
// measured, not chosen: the same weights, written out as f32, are multiplied by activations as they are, and libllama's
// distance from that is the noise that rounding activations makes.
#pragma once

#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "device/backend.h"
#include "pith/engine.h"

namespace pith::testing {

struct LogitRows {
    size_t width = 0;  // n_vocab
    std::vector<float> values;

    size_t size() const { return width == 0 ? 0 : values.size() / width; }
    std::span<const float> row(size_t i) const { return std::span(values).subspan(i * width, width); }
    void add(std::span<const float> row) {
        width = row.size();
        values.insert(values.end(), row.begin(), row.end());
    }
};

// A model of libllama's, flash attention off and f32 K and V.
class LlamaModel {
public:
    explicit LlamaModel(const std::string & path) {
        if (!load_backends().ok()) { return; }
        llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
        llama_model_params params = llama_model_default_params();
        params.n_gpu_layers = 0;
        model_.reset(llama_model_load_from_file(path.c_str(), params));
    }

    // Logits after tokens[first] and after each that follows. The text is read n_at_once tokens at a time; those whose logits
    // are kept one by one where one_by_one. Empty when libllama refuses.
    LogitRows rows(std::span<const int32_t> tokens, size_t first, bool one_by_one = false) const {
        LogitRows rows;
        llama_context_params params = llama_context_default_params();
        params.n_ctx = static_cast<uint32_t>(tokens.size());
        params.n_batch = params.n_ubatch = kAtOnce;
        params.n_threads = params.n_threads_batch = static_cast<int32_t>(std::thread::hardware_concurrency());
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        params.type_k = params.type_v = GGML_TYPE_F32;
        const Context context(model_ ? llama_init_from_model(model_.get(), params) : nullptr);
        const int n_vocab = context ? llama_vocab_n_tokens(llama_model_get_vocab(model_.get())) : 0;
        for (size_t at = 0; context && at < tokens.size();) {
            const size_t most = at < first ? std::min(kAtOnce, first - at) : one_by_one ? 1 : kAtOnce;
            const size_t n = std::min(most, tokens.size() - at);
            Batch batch(n);
            for (size_t i = 0; i < n; ++i) { batch.add(tokens[at + i], static_cast<llama_pos>(at + i), at >= first); }
            if (llama_decode(context.get(), batch.get()) != 0) { return {}; }
            for (size_t i = 0; at >= first && i < n; ++i) {
                const float * logits = llama_get_logits_ith(context.get(), static_cast<int32_t>(i));
                rows.add(std::span(logits, static_cast<size_t>(n_vocab)));
            }
            at += n;
        }
        return rows;
    }

private:
    static constexpr size_t kAtOnce = 256;
    template <auto kFree>
    struct Free {
        template <class T>
        void operator()(T * object) const {
            kFree(object);
        }
    };
    using Context = std::unique_ptr<llama_context, Free<llama_free>>;

    class Batch {
    public:
        explicit Batch(size_t n) : batch_(llama_batch_init(static_cast<int32_t>(n), 0, 1)) {}
        Batch(const Batch &) = delete;
        Batch & operator=(const Batch &) = delete;
        ~Batch() { llama_batch_free(batch_); }
        void add(int32_t token, llama_pos position, bool wanted) {
            const int i = batch_.n_tokens++;
            batch_.token[i] = token;
            batch_.pos[i] = position;
            batch_.n_seq_id[i] = 1;
            batch_.seq_id[i][0] = 0;
            batch_.logits[i] = wanted ? 1 : 0;
        }
        const llama_batch & get() const { return batch_; }

    private:
        llama_batch batch_;
    };

    std::unique_ptr<llama_model, Free<llama_model_free>> model_;
};

// The same of a session that holds all, in f32.
inline SessionOptions full_f32_options() {
    SessionOptions options;
    options.policy = "full";
    options.type_k = options.type_v = KvType::kF32;
    return options;
}
inline LogitRows pith_rows(const Model & model, std::span<const int32_t> tokens, size_t first) {
    LogitRows rows;
    auto session = model.session(full_f32_options());
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) { return rows; }
    RunHooks hooks;
    hooks.on_logits = [&rows](int64_t, std::span<const float> row) { rows.add(row); };
    const Status before = session->prefill(tokens.first(first));
    EXPECT_TRUE(before.ok()) << before.message();
    const Status rest = session->prefill(tokens.subspan(first), hooks);
    EXPECT_TRUE(rest.ok()) << rest.message();
    return rows;
}

// The file's weights as f32: what its blocks stand for, to the bit.
inline bool write_f32_copy(const std::string & from, const std::string & to) {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype = LLAMA_FTYPE_ALL_F32;
    params.allow_requantize = true;
    return load_backends().ok() && llama_model_quantize(from.c_str(), to.c_str(), &params) == 0;
}

// --- distances ---

inline double spread(std::span<const float> row) {
    double sum = 0;
    double squares = 0;
    for (const float x : row) {
        sum += x;
        squares += double{x} * x;
    }
    const auto n = static_cast<double>(row.size());
    return std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
}

// Root of the mean square of the difference, over the standard deviation of `reference`.
inline double relative_rms(std::span<const float> got, std::span<const float> reference) {
    double squares = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
        const double d = double{got[i]} - reference[i];
        squares += d * d;
    }
    return std::sqrt(squares / static_cast<double>(reference.size())) / spread(reference);
}

// Σ p·log(p/q) of the two softmaxes, p the reference's; in nats.
inline double divergence(std::span<const float> got, std::span<const float> reference) {
    const auto log_sum = [](std::span<const float> row) {
        const double most = std::ranges::max(row);
        double sum = 0;
        for (const float x : row) { sum += std::exp(x - most); }
        return most + std::log(sum);
    };
    const double of_reference = log_sum(reference);
    const double of_got = log_sum(got);
    double sum = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
        const double log_p = reference[i] - of_reference;
        sum += std::exp(log_p) * (log_p - (got[i] - of_got));
    }
    return sum;
}

// By how much the reference prefers its own best token to `token`, in its standard deviations.
inline double gap_to(std::span<const float> reference, size_t token) {
    return (double{std::ranges::max(reference)} - reference[token]) / spread(reference);
}

inline size_t best_of(std::span<const float> row) {
    return static_cast<size_t>(std::ranges::max_element(row) - row.begin());
}

struct Distance {
    double rms = 0;         // mean of relative_rms() over the rows
    double largest = 0;     // of all rows
    double divergence = 0;  // mean
    int n_best_differ = 0;
    double widest_gap = 0;  // of the rows whose best differ
};

inline Distance distance(const LogitRows & got, const LogitRows & reference) {
    Distance all;
    EXPECT_EQ(got.values.size(), reference.values.size());
    EXPECT_GT(reference.size(), 0U);
    if (got.values.size() != reference.values.size() || reference.size() == 0) { return {INFINITY, INFINITY, INFINITY, 0, 0}; }
    for (size_t i = 0; i < reference.size(); ++i) {
        const double rms = relative_rms(got.row(i), reference.row(i));
        all.rms += rms;
        all.largest = std::max(all.largest, rms);
        all.divergence += divergence(got.row(i), reference.row(i));
        const size_t best = best_of(got.row(i));
        all.n_best_differ += best != best_of(reference.row(i)) ? 1 : 0;
        all.widest_gap = std::max(all.widest_gap, gap_to(reference.row(i), best));
    }
    const auto n = static_cast<double>(reference.size());
    all.rms /= n;
    all.divergence /= n;
    return all;
}

inline void PrintTo(const Distance & d, std::ostream * out) {
    *out << "rms " << d.rms << " (largest " << d.largest << "), divergence " << d.divergence << ", " << d.n_best_differ
         << " best differ (gap " << d.widest_gap << ")";
}

}  // namespace pith::testing
