// random_model.cpp - see random_model.h.
#include "model/random/random_model.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>

#include "file/new_file.h"
#include "model/random/random_keys.h"
#include "model/random/random_tensors.h"
#include "model/random/random_weights.h"

namespace pith {
namespace {

struct GgmlFree {
    void operator()(ggml_context * ctx) const { ggml_free(ctx); }
};
using GgmlPtr = std::unique_ptr<ggml_context, GgmlFree>;

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
            set_random_keys(gguf.get(), spec);
            set_random_vocab(gguf.get(), spec);
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
