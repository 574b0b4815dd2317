// random_model.cpp - see random_model.h. Key and tensor names are those that libllama reads.
#include "model/random/random_model.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>

#include "file/new_file.h"
#include "model/arch/architecture.h"
#include "model/random/random_tensors.h"
#include "model/random/random_vocab.h"
#include "model/random/random_weights.h"

namespace pith {
namespace {

constexpr float kNormEps = 1e-5F;

struct GgufFree {
    void operator()(gguf_context * gguf) const { gguf_free(gguf); }
};
struct GgmlFree {
    void operator()(ggml_context * ctx) const { ggml_free(ctx); }
};
using GgufPtr = std::unique_ptr<gguf_context, GgufFree>;
using GgmlPtr = std::unique_ptr<ggml_context, GgmlFree>;

void set_rope(gguf_context * gguf, const RandomModelSpec & spec) {
    const std::string rope = spec.arch + ".rope.";
    gguf_set_val_u32(gguf, (rope + "dimension_count").c_str(), spec.head_dim);
    gguf_set_val_f32(gguf, (rope + "freq_base").c_str(), spec.rope_base);
    if (spec.rope_scaling == RopeScaling::kNone) { return; }
    const int n_ctx_orig = spec.rope_n_ctx_orig > 0
                               ? spec.rope_n_ctx_orig
                               : std::max(1, static_cast<int>(static_cast<float>(spec.n_ctx_train) / spec.rope_factor));
    gguf_set_val_str(gguf, (rope + "scaling.type").c_str(), spec.rope_scaling == RopeScaling::kYarn ? "yarn" : "linear");
    gguf_set_val_f32(gguf, (rope + "scaling.factor").c_str(), spec.rope_factor);
    gguf_set_val_u32(gguf, (rope + "scaling.original_context_length").c_str(), n_ctx_orig);
}

void set_shape(gguf_context * gguf, const RandomModelSpec & spec) {
    const auto u32 = [&](const char * key, int value) { gguf_set_val_u32(gguf, (spec.arch + key).c_str(), value); };
    const bool experts = spec.n_experts > 0;
    const Experts form = find_architecture(spec.arch)->form.experts;
    const bool is_rms = find_architecture(spec.arch)->form.norm == NormKind::kRms;
    gguf_set_val_str(gguf, "general.architecture", spec.arch.c_str());
    gguf_set_val_str(gguf, "general.type", "model");
    gguf_set_val_str(gguf, "general.name", spec.name.c_str());
    gguf_set_val_u32(gguf, "general.quantization_version", GGML_QNT_VERSION);
    u32(".block_count", spec.n_layers);
    u32(".context_length", spec.n_ctx_train);
    u32(".embedding_length", spec.n_embd);
    // Mixtral's experts are as wide as its feed-forward length says; others have a key of their own.
    u32(".feed_forward_length", experts && (form == Experts::kLikeMixtral || spec.n_ff == 0) ? spec.n_ff_expert : spec.n_ff);
    u32(".attention.head_count", spec.n_heads);
    u32(".attention.head_count_kv", spec.n_kv_heads);
    u32(".attention.key_length", spec.head_dim);
    u32(".attention.value_length", spec.head_dim);
    u32(".vocab_size", spec.n_vocab);
    const char * epsilon = is_rms ? ".attention.layer_norm_rms_epsilon" : ".attention.layer_norm_epsilon";
    gguf_set_val_f32(gguf, (spec.arch + epsilon).c_str(), kNormEps);
    if (spec.window > 0) { u32(".attention.sliding_window", spec.window); }
    set_rope(gguf, spec);
    if (experts) {
        u32(".expert_count", spec.n_experts);
        u32(".expert_used_count", spec.n_experts_used);
        if (form == Experts::kAlways) { u32(".expert_feed_forward_length", spec.n_ff_expert); }
    }
}

void set_vocab(gguf_context * gguf, const RandomModelSpec & spec) {
    const RandomVocab vocab = make_random_vocab(spec.n_vocab, spec.byte_tokens);
    std::vector<const char *> pieces;
    pieces.reserve(vocab.pieces.size());
    for (const std::string & piece : vocab.pieces) { pieces.push_back(piece.c_str()); }
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "llama");
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", "default");
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pieces.data(), pieces.size());
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, vocab.scores.data(), vocab.scores.size());
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocab.types.data(), vocab.types.size());
    gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", true);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_eos_token", false);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", true);
}

struct Progress {
    const std::function<bool(double)> & callback;
    size_t total_bytes;
    size_t done_bytes = 0;
    Status step(size_t size_bytes) {
        done_bytes += size_bytes;
        const double fraction = static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
        if (callback && !callback(fraction)) { return {ErrorCode::kCancelled, "writing the random model was cancelled"}; }
        return {};
    }
};

// Tensors [begin, end) as one file: header with their infos, then their data, each padded to the alignment.
Status write_part(gguf_context * gguf, std::span<const RandomTensorSpec> tensors, const RandomWeights & weights, NewFile & file,
                  Progress & progress) {
    const GgmlPtr ctx(ggml_init({ggml_tensor_overhead() * (tensors.size() + 1), nullptr, true}));
    if (ctx == nullptr) { return {ErrorCode::kOutOfMemory, "out of memory for the tensor list of a random model"}; }
    for (const RandomTensorSpec & tensor : tensors) {
        ggml_tensor * info = ggml_new_tensor(ctx.get(), tensor.type, tensor.n_dims, tensor.ne.data());
        ggml_set_name(info, tensor.name.c_str());
        gguf_add_tensor(gguf, info);
    }
    std::vector<char> meta(gguf_get_meta_size(gguf));
    gguf_get_meta_data(gguf, meta.data());
    PITH_RETURN_IF_ERROR(file.write(meta.data(), meta.size()));
    const size_t alignment = gguf_get_alignment(gguf);
    const std::vector<char> zeros(alignment, 0);
    const auto sink = [&](const void * data, size_t size_bytes) {
        PITH_RETURN_IF_ERROR(file.write(data, size_bytes));
        return progress.step(size_bytes);
    };
    for (const RandomTensorSpec & tensor : tensors) {
        if (tensor.values.empty()) {
            PITH_RETURN_IF_ERROR(weights.write({.name = tensor.name,
                                                .n_per_row = tensor.ne[0],
                                                .n_rows = tensor.ne[1] * tensor.ne[2],
                                                .mean = tensor.mean,
                                                .std_dev = tensor.std_dev,
                                                .ggml_type = tensor.type},
                                               sink));
        } else {
            PITH_RETURN_IF_ERROR(sink(tensor.values.data(), tensor.size_bytes()));
        }
        PITH_RETURN_IF_ERROR(file.write(zeros.data(), (alignment - tensor.size_bytes() % alignment) % alignment));
    }
    return file.close();
}

}  // namespace

Result<RandomModelSpec> shape_preset(std::string_view name) {
    RandomModelSpec spec;
    spec.name = "random-" + std::string(name);
    spec.n_ctx_train = 131072;
    spec.n_vocab = 128256;
    spec.rope_base = 500000.0F;
    const auto shape = [&](int n_layers, int n_embd, int n_heads, int n_kv_heads, int head_dim, int n_ff) {
        spec.n_layers = n_layers;
        spec.n_embd = n_embd;
        spec.n_heads = n_heads;
        spec.n_kv_heads = n_kv_heads;
        spec.head_dim = head_dim;
        spec.n_ff = n_ff;
    };
    const auto llama3 = [&](float factor, bool tied) {
        spec.llama3_freqs = true;
        spec.rope_factor = factor;
        spec.rope_n_ctx_orig = 8192;
        spec.tied = tied;
    };
    if (name == "0.5b") {
        spec.arch = "qwen2";
        spec.n_ctx_train = 32768;
        spec.n_vocab = 151936;
        spec.rope_base = 1000000.0F;
        spec.tied = true;
        shape(24, 896, 14, 2, 64, 4864);
    } else if (name == "1b") {
        shape(16, 2048, 32, 8, 64, 8192);
        llama3(32.0F, true);
    } else if (name == "3b") {
        shape(28, 3072, 24, 8, 128, 8192);
        llama3(32.0F, true);
    } else if (name == "8b") {
        shape(32, 4096, 32, 8, 128, 14336);
        llama3(8.0F, false);
    } else {
        return {ErrorCode::kInvalidArgument,
                "random model: unknown shape '" + std::string(name) + "'; known are 0.5b, 1b, 3b, 8b"};
    }
    return spec;
}

std::vector<std::string> random_model_files(const RandomModelSpec & spec, const std::string & path) {
    if (spec.n_splits <= 1) { return {path}; }
    constexpr std::string_view kSuffix = ".gguf";
    const std::string stem = path.ends_with(kSuffix) ? path.substr(0, path.size() - kSuffix.size()) : path;
    std::vector<std::string> files;
    for (int i = 0; i < spec.n_splits; ++i) {
        char number[40];
        std::snprintf(number, sizeof number, "-%05d-of-%05d.gguf", i + 1, spec.n_splits);
        files.push_back(stem + number);
    }
    return files;
}

Status write_random_model(const RandomModelSpec & spec, const std::string & path,
                          const std::function<bool(double fraction)> & progress_callback) {
    PITH_ASSIGN_OR_RETURN(const std::vector<RandomTensorSpec> tensors, list_random_tensors(spec));
    Progress progress{progress_callback, 0};
    for (const RandomTensorSpec & tensor : tensors) { progress.total_bytes += tensor.size_bytes(); }
    const RandomWeights weights(spec.seed);

    const std::vector<std::string> paths = random_model_files(spec, path);
    std::vector<NewFile> files;
    for (size_t part = 0; part < paths.size(); ++part) {
        const size_t begin = tensors.size() * part / paths.size();
        const size_t end = tensors.size() * (part + 1) / paths.size();
        const GgufPtr gguf(gguf_init_empty());
        if (part == 0) {  // the first file of a split one carries the model's metadata
            set_shape(gguf.get(), spec);
            set_vocab(gguf.get(), spec);
        }
        if (paths.size() > 1) {
            gguf_set_val_u16(gguf.get(), "split.no", static_cast<uint16_t>(part));
            gguf_set_val_u16(gguf.get(), "split.count", static_cast<uint16_t>(paths.size()));
            gguf_set_val_i32(gguf.get(), "split.tensors.count", static_cast<int32_t>(tensors.size()));
        }
        PITH_ASSIGN_OR_RETURN(NewFile file, NewFile::create(paths[part]));
        files.push_back(std::move(file));
        PITH_RETURN_IF_ERROR(
            write_part(gguf.get(), std::span(tensors).subspan(begin, end - begin), weights, files.back(), progress));
    }
    for (size_t part = 0; part < files.size(); ++part) {
        Status published = files[part].publish();
        if (published.ok()) { continue; }
        for (size_t done = 0; done < part; ++done) { std::remove(paths[done].c_str()); }  // a model of some parts is none
        return published;
    }
    return {};
}

}  // namespace pith
