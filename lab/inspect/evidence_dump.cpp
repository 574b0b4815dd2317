// evidence_dump.cpp - reads a text over the full cache, and writes down what went by and what it left.
#include "inspect/evidence_dump.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/text.h"
#include "engine/layer_probe.h"
#include "engine/parts/model_parts.h"
#include "file/new_file.h"
#include "pith/session.h"

namespace pith {
namespace {

constexpr size_t kHeaderStep = 8;  // data begins at a multiple of it

// What layers were shown while the text was read.
struct Seen {
    std::vector<float> queries;  // [w][H][d]
    std::vector<float> inputs;   // [n][D]
};

// Names, types and shapes, in the order in which the data follows.
class Header {
public:
    void add(const std::string & name, const char * type, const std::vector<int64_t> & shape) {
        int64_t n = 4;
        for (const int64_t size : shape) { n *= size; }
        entries_[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {end_, end_ + n}}};
        end_ += n;
    }
    void note(const std::string & key, const std::string & value) { entries_["__metadata__"][key] = value; }
    int64_t data_bytes() const { return end_; }

    Status write(NewFile & file) const {
        std::string text = entries_.dump();
        text.append((kHeaderStep - text.size() % kHeaderStep) % kHeaderStep, ' ');
        uint64_t size = text.size();
        PITH_RETURN_IF_ERROR(file.write(&size, sizeof size));
        return file.write(text.data(), text.size());
    }

private:
    nlohmann::ordered_json entries_;
    int64_t end_ = 0;
};

class Dumper {
public:
    Dumper(const Model & model, Session & session, std::span<const int32_t> tokens, const EvidenceDumpOptions & options)
        : model_(model),
          session_(session),
          layers_(session),
          tokens_(tokens),
          options_(options),
          seen_(static_cast<size_t>(model.info().n_layers)) {
        out_.n_tokens = std::ssize(tokens);
        out_.n_queries = static_cast<int>(std::min<int64_t>(options.n_queries, out_.n_tokens));
    }

    Status read() {
        layers_.set_query_observer([this](int layer, std::span<const float> queries, int n, int32_t first) -> Status {
            const int64_t skipped = std::clamp<int64_t>(out_.n_tokens - out_.n_queries - first, 0, n);
            const auto width = static_cast<int64_t>(queries.size()) / n;
            const auto rest = queries.subspan(static_cast<size_t>(skipped * width));
            auto & kept = seen_[static_cast<size_t>(layer)].queries;
            kept.insert(kept.end(), rest.begin(), rest.end());
            return {};
        });
        layers_.set_input_observer([this](int layer, std::span<const float> inputs, int, int32_t) -> Status {
            auto & kept = seen_[static_cast<size_t>(layer)].inputs;
            kept.insert(kept.end(), inputs.begin(), inputs.end());
            return {};
        });
        RunHooks hooks;
        hooks.cancel = options_.cancel;
        const Status status = session_.prefill(tokens_, hooks);
        layers_.set_query_observer({});
        layers_.set_input_observer({});
        return status;
    }

    Result<EvidenceDump> write(const std::string & path) {
        const RaggedCache & cache = layers_.cache();
        const CacheLayout & layout = cache.layout();
        const CacheShape & shape = layout.shape;
        Header header;
        header.note("model", model_.info().architecture);
        header.note("attention_scale", format_number(layout.attention_scale));
        header.note("attention_softcap", format_number(layout.attention_softcap));
        header.add("tokens", "I32", {out_.n_tokens});
        std::vector<int> numbers;
        for (int layer = 0; layer < layout.n_layers(); ++layer) {
            if (layout.governs(layer)) { numbers.push_back(layer); }
        }
        for (const int layer : numbers) {
            const std::string name = "layers." + std::to_string(layer) + ".";
            const auto width = static_cast<int64_t>(seen_[static_cast<size_t>(layer)].inputs.size()) / out_.n_tokens;
            header.add(name + "keys", "F32", {shape.n_kv_heads, out_.n_tokens, shape.head_dim});
            header.add(name + "values", "F32", {shape.n_kv_heads, out_.n_tokens, layout.head_dim_v});
            header.add(name + "queries", "F32", {out_.n_queries, shape.n_heads(), shape.head_dim});
            header.add(name + "attention", "F32", {shape.n_heads(), out_.n_tokens});
            header.add(name + "inputs", "F32", {out_.n_tokens, width});
        }
        PITH_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
        PITH_RETURN_IF_ERROR(header.write(file));
        PITH_RETURN_IF_ERROR(file.write(tokens_.data(), tokens_.size_bytes()));
        for (const int layer : numbers) {
            if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
            PITH_RETURN_IF_ERROR(write_layer(cache, layer, file));
        }
        PITH_RETURN_IF_ERROR(file.publish());
        out_.n_layers = static_cast<int>(numbers.size());
        out_.bytes = header.data_bytes();
        return out_;
    }

private:
    static Status write_all(NewFile & file, std::span<const float> values) {
        return file.write(values.data(), values.size_bytes());
    }

    Status write_layer(const RaggedCache & cache, int layer, NewFile & file) {
        const CacheLayout & layout = cache.layout();
        const CacheShape & shape = layout.shape;
        const auto n = static_cast<size_t>(out_.n_tokens);
        std::vector<float> keys(n * static_cast<size_t>(shape.n_kv_heads * shape.head_dim));
        std::vector<float> values(n * static_cast<size_t>(shape.n_kv_heads * layout.head_dim_v));
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            const auto at = static_cast<size_t>(h) * n;
            cache.read(0, layer, h, 0, out_.n_tokens,
                       reinterpret_cast<uint8_t *>(keys.data() + at * static_cast<size_t>(shape.head_dim)),
                       reinterpret_cast<uint8_t *>(values.data() + at * static_cast<size_t>(layout.head_dim_v)));
        }
        PITH_RETURN_IF_ERROR(write_all(file, keys));
        PITH_RETURN_IF_ERROR(write_all(file, values));
        Seen & seen = seen_[static_cast<size_t>(layer)];
        PITH_RETURN_IF_ERROR(write_all(file, seen.queries));
        std::vector<int32_t> positions(static_cast<size_t>(out_.n_queries));
        for (int i = 0; i < out_.n_queries; ++i) {
            positions[static_cast<size_t>(i)] = static_cast<int32_t>(out_.n_tokens) - out_.n_queries + i;
        }
        PITH_ASSIGN_OR_RETURN(Ragged<float> attention, layers_.attention_of(layer, seen.queries, positions));
        // A row for each head and query: their mean.
        std::vector<float> means(static_cast<size_t>(shape.n_heads()) * n);
        for (int g = 0; g < shape.n_heads(); ++g) {
            const std::span<float> mean = std::span(means).subspan(static_cast<size_t>(g) * n, n);
            for (int i = 0; i < out_.n_queries; ++i) {
                const auto row = attention.row(g * out_.n_queries + i);
                for (size_t j = 0; j < n; ++j) { mean[j] += row[j] / static_cast<float>(out_.n_queries); }
            }
        }
        PITH_RETURN_IF_ERROR(write_all(file, means));
        PITH_RETURN_IF_ERROR(write_all(file, seen.inputs));
        seen = {};
        return {};
    }

    const Model & model_;
    Session & session_;
    LayerProbe layers_;
    std::span<const int32_t> tokens_;
    const EvidenceDumpOptions & options_;
    std::vector<Seen> seen_;  // [layer of the model]
    EvidenceDump out_;
};

}  // namespace

Result<EvidenceDump> dump_evidence(const Model & model, std::span<const int32_t> tokens, const std::string & path,
                                   const EvidenceDumpOptions & options) {
    if (tokens.empty()) { return {ErrorCode::kInvalidArgument, "there is no text to look at"}; }
    if (options.n_queries < 1) {
        return {ErrorCode::kInvalidArgument,
                "the number of queries is " + std::to_string(options.n_queries) + ": give 1 or more"};
    }
    SessionOptions session_options;
    session_options.policy = "full";
    session_options.type_k = session_options.type_v = KvType::kF32;
    session_options.n_threads = options.n_threads;
    session_options.chunk = options.chunk;
    PITH_ASSIGN_OR_RETURN(Session session, model.session(session_options));
    Dumper dumper(model, session, tokens, options);
    PITH_RETURN_IF_ERROR(dumper.read());
    return dumper.write(path);
}

}  // namespace pith
