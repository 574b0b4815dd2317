// import_importance.cpp - a header in JSON, then the tensors' bytes; every length checked.
#include "engine/probe/import_importance.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/parts/model_parts.h"
#include "file/gguf_header.h"
#include "file/mapped_file.h"

namespace pith {
namespace {

using Json = nlohmann::json;

class Safetensors {
public:
    static Result<Safetensors> open(const std::string & path) {
        PITH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path, "importance"));
        const auto bytes = file.bytes();
        uint64_t n_header = 0;
        if (bytes.size() < sizeof n_header) { return bad(path, "is no safetensors file: it is too short"); }
        std::memcpy(&n_header, bytes.data(), sizeof n_header);
        if (n_header > bytes.size() - sizeof n_header) { return bad(path, "is no safetensors file, or cut off"); }
        const auto text = bytes.subspan(sizeof n_header, static_cast<size_t>(n_header));
        Json header = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
        if (!header.is_object()) { return bad(path, "is no safetensors file: its header is no JSON object"); }
        return Safetensors(path, std::move(file), std::move(header), sizeof n_header + static_cast<size_t>(n_header));
    }

    bool has(const std::string & name) const { return header_.contains(name); }
    size_t count() const { return header_.size() - (header_.contains("__metadata__") ? 1 : 0); }

    // shape: what it must be; rows of the last dimension.
    Result<std::vector<float>> read(const std::string & name, const std::vector<int64_t> & shape) const {
        PITH_ASSIGN_OR_RETURN(const std::vector<int64_t> found, shape_of(name));
        if (found != shape) {
            return {ErrorCode::kInvalidArgument, "importance '" + path_ + "' was made for another model: its tensor '" + name +
                                                     "' is " + shape_text(found) + ", here " + shape_text(shape) +
                                                     " is needed"};
        }
        size_t n = 1;
        for (const int64_t one : shape) { n *= static_cast<size_t>(one); }
        const Json & entry = header_[name];
        const std::string type = text_at(entry, "dtype");
        const size_t size = type == "F32" ? 4 : type == "F16" || type == "BF16" ? 2 : 0;
        if (size == 0) {
            return {ErrorCode::kUnsupported, "importance '" + path_ + "': tensor '" + name + "' is " +
                                                 (type.empty() ? "of no type" : type) + ": F32, F16 and BF16 are read"};
        }
        const auto offsets = numbers_at(entry, "data_offsets");
        const size_t n_data = file_.bytes().size() - begin_;
        if (!offsets || offsets->size() != 2 || (*offsets)[0] < 0 || (*offsets)[1] < (*offsets)[0] ||
            static_cast<uint64_t>((*offsets)[1]) > n_data || static_cast<size_t>((*offsets)[1] - (*offsets)[0]) != n * size) {
            return bad(path_, "is damaged: tensor '" + name + "' does not lie in it");
        }
        const uint8_t * data = file_.bytes().data() + begin_ + static_cast<size_t>((*offsets)[0]);
        std::vector<float> out(n);
        std::vector<uint16_t> halves(size == 2 ? n : 0);
        if (size == 4) {
            std::memcpy(out.data(), data, n * size);
        } else {
            std::memcpy(halves.data(), data, n * size);
        }
        if (type == "F16") { ggml_fp16_to_fp32_row(halves.data(), out.data(), static_cast<int64_t>(n)); }
        if (type == "BF16") {
            ggml_bf16_to_fp32_row(reinterpret_cast<const ggml_bf16_t *>(halves.data()), out.data(), static_cast<int64_t>(n));
        }
        if (!std::ranges::all_of(out, [](float x) { return std::isfinite(x); })) {
            return bad(path_, "has a number that is not finite in tensor '" + name + "'");
        }
        return out;
    }

    Result<std::vector<int64_t>> shape_of(const std::string & name) const {
        if (!has(name)) { return bad(path_, "lacks tensor '" + name + "'"); }
        const auto shape = numbers_at(header_[name], "shape");
        if (!shape || shape->size() > 4 || std::ranges::any_of(*shape, [](int64_t n) { return n < 1 || n > 1 << 24; })) {
            return bad(path_, "is damaged: tensor '" + name + "' has no shape");
        }
        return *shape;
    }

    static Status bad(const std::string & path, const std::string & what) {
        return {ErrorCode::kBadFile, "importance '" + path + "' " + what};
    }

private:
    Safetensors(std::string path, MappedFile file, Json header, size_t begin)
        : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)), begin_(begin) {}

    static std::string text_at(const Json & entry, const char * key) {
        return entry.is_object() && entry.contains(key) && entry[key].is_string() ? entry[key].get<std::string>() : "";
    }
    static std::optional<std::vector<int64_t>> numbers_at(const Json & entry, const char * key) {
        if (!entry.is_object() || !entry.contains(key) || !entry[key].is_array()) { return std::nullopt; }
        std::vector<int64_t> out;
        for (const Json & one : entry[key]) {
            if (!one.is_number_integer()) { return std::nullopt; }
            out.push_back(one.get<int64_t>());
        }
        return out;
    }
    std::string path_;
    MappedFile file_;
    Json header_;
    size_t begin_;  // of the data
};

}  // namespace

Result<ImportancePredictor> import_importance(const std::string & path, const Model & model) {
    PITH_ASSIGN_OR_RETURN(const Safetensors file, Safetensors::open(path));
    const Hparams & hp = file_of(model).hparams();
    const bool is_linear = file.has("layers.0.weight");
    if (!is_linear && !file.has("layers.0.0.weight")) {
        return {ErrorCode::kUnsupported, "importance '" + path + "' has neither 'layers.0.weight' nor 'layers.0.0.weight': " +
                                             "KVzap's linear predictors and its MLPs are read"};
    }
    ImportancePredictor out;
    out.config.purpose = GatePurpose::kRank;
    out.config.gamma = 0;
    out.config.kind = is_linear ? GateKind::kLinear : GateKind::kMlp;
    if (!is_linear) {
        PITH_ASSIGN_OR_RETURN(const std::vector<int64_t> hidden, file.shape_of("layers.0.0.weight"));
        out.config.n_hidden = static_cast<int>(hidden.front());
    }
    PITH_RETURN_IF_ERROR(check(out.config, hp));
    const size_t n_expected = static_cast<size_t>(hp.n_layers) * (is_linear ? 2 : 4);
    if (file.count() != n_expected) {
        return {ErrorCode::kInvalidArgument, "importance '" + path + "' was made for another model: it has " +
                                                 std::to_string(file.count()) + " tensors, and " + std::to_string(hp.n_layers) +
                                                 " layers have " + std::to_string(n_expected)};
    }
    for (const int layer : hp.governed_layers()) {
        const std::string from = "layers." + std::to_string(layer) + ".";
        const std::string to = "gate." + std::to_string(layer) + ".";
        const int64_t n_read = is_linear ? hp.n_embd : out.config.n_hidden;
        const auto take = [&](const std::string & source, const char * target, const std::vector<int64_t> & shape) -> Status {
            PITH_ASSIGN_OR_RETURN(out.tensors[to + target], file.read(from + source, shape));
            return {};
        };
        if (!is_linear) {
            PITH_RETURN_IF_ERROR(take("0.weight", "hidden.weight", {n_read, hp.n_embd}));
            PITH_RETURN_IF_ERROR(take("0.bias", "hidden.bias", {n_read}));
        }
        PITH_RETURN_IF_ERROR(take(is_linear ? "weight" : "2.weight", "out.weight", {hp.n_kv_heads, n_read}));
        PITH_RETURN_IF_ERROR(take(is_linear ? "bias" : "2.bias", "out.bias", {hp.n_kv_heads}));
    }
    return out;
}

}  // namespace pith
