// data.cpp - batches of the generator's documents. Stage: train.
#include "train/data/data.h"

#include <algorithm>

namespace pith::train {
namespace {

struct Row {
    std::vector<int32_t> tokens;
    std::vector<float> weights;  // of each token as a target
    size_t last_segment = 0;     // tokens before it
};

Row encode(Encoder & encoder, const std::vector<corpus::Segment> & segments) {
    Row row;
    row.tokens.push_back(encoder.bos());
    for (const corpus::Segment & s : segments) {
        row.weights.resize(row.tokens.size(), 0.0F);
        row.last_segment = row.tokens.size();
        const int32_t control = s.control == corpus::Control::kTurnStart ? encoder.turn_start() : encoder.turn_end();
        if (s.control == corpus::Control::kNone || control < 0) {
            encoder.append(s.text, row.tokens);
        } else {
            row.tokens.push_back(control);
        }
        if (s.end) { row.tokens.push_back(encoder.eos()); }
        row.weights.resize(row.tokens.size(), s.weight);
    }
    row.weights.resize(row.tokens.size(), 0.0F);
    return row;
}

// n_gated: tokens that gates decide on.
void append_row(Batch & batch, Row row, size_t n_gated, int n_tokens, int32_t fill) {
    const auto n = static_cast<size_t>(n_tokens);
    batch.n_gated.push_back(static_cast<int>(std::min(n, n_gated)));
    row.tokens.resize(n + 1, fill);
    row.weights.resize(n + 1, 0.0F);
    batch.tokens.insert(batch.tokens.end(), row.tokens.begin(), row.tokens.end() - 1);
    batch.targets.insert(batch.targets.end(), row.tokens.begin() + 1, row.tokens.end());
    batch.weights.insert(batch.weights.end(), row.weights.begin() + 1, row.weights.end());
}

// A task sample with its answer as a document.
Result<corpus::Document> task_document(const std::string & id, const corpus::TaskOptions & options, float prompt_weight,
                                       const corpus::CountTokens & count) {
    PITH_ASSIGN_OR_RETURN(corpus::Task task, corpus::make_task(id, options, count));
    corpus::Document d;
    d.kind = id;
    d.segments = {{task.prompt(), prompt_weight, false}, {task.completion, 1.0F, true}};
    return d;
}

struct Drawn {
    corpus::Document document;
    bool is_task = false;
};
Drawn draw_document(const StreamOptions & options, uint64_t index, int n_tokens, const corpus::CountTokens & count) {
    constexpr uint64_t kTaskStream = 0x100000;  // seeds of task draws, apart from those of documents
    corpus::Random random(options.space, options.seed + kTaskStream, index);
    double roll = random.uniform();
    for (const TaskShare & t : options.tasks) {
        if (roll < t.share) {
            corpus::TaskOptions task;
            task.n_tokens = n_tokens;
            task.haystack = random.chance(0.65) ? corpus::Haystack::kNoise : corpus::Haystack::kWorld;
            task.space = options.space;
            task.seed = options.seed + kTaskStream + 1;
            task.index = index;
            if (auto d = task_document(t.id, task, options.prompt_weight, count); d.ok()) {
                return {std::move(d).value(), true};
            }
            break;
        }
        roll -= t.share;
    }
    return {corpus::make_document(options.space, options.seed, index, n_tokens, count, options.mixture), false};
}

}  // namespace

Batch make_batch(Encoder & encoder, const StreamOptions & options, uint64_t first_index, const BatchShape & shape,
                 std::vector<std::string> * kinds) {
    const corpus::CountTokens count = [&](std::string_view text) { return encoder.count(text); };
    Batch batch;
    batch.shape = shape;
    for (int r = 0; r < shape.n_sequences; ++r) {
        const auto [d, is_task] = draw_document(options, first_index + static_cast<uint64_t>(r), shape.n_tokens, count);
        Row row = encode(encoder, d.segments);
        const size_t n_gated = is_task ? row.last_segment : row.tokens.size();
        append_row(batch, std::move(row), n_gated, shape.n_tokens, encoder.eos());
        if (kinds != nullptr) { kinds->push_back(d.kind); }
    }
    return batch;
}

Batch make_text_batch(Encoder & encoder, uint64_t seed, uint64_t first_index, const BatchShape & shape) {
    const corpus::CountTokens count = [&](std::string_view text) { return encoder.count(text); };
    Batch batch;
    batch.shape = shape;
    for (int r = 0; r < shape.n_sequences; ++r) {
        corpus::Document d = corpus::make_plain_text(corpus::SeedSpace::kValidation, seed,
                                                     first_index + static_cast<uint64_t>(r), shape.n_tokens, count);
        for (corpus::Segment & s : d.segments) { s.weight = 1.0F; }
        Row row = encode(encoder, d.segments);
        const size_t n_gated = row.tokens.size();
        append_row(batch, std::move(row), n_gated, shape.n_tokens, encoder.eos());
    }
    return batch;
}

Result<Batch> make_task_batch(Encoder & encoder, const std::string & id, const corpus::TaskOptions & options,
                              const BatchShape & shape) {
    const corpus::CountTokens count = [&](std::string_view text) { return encoder.count(text); };
    Batch batch;
    batch.shape = shape;
    for (int r = 0; r < shape.n_sequences; ++r) {
        corpus::TaskOptions one = options;
        one.index += static_cast<uint64_t>(r);
        PITH_ASSIGN_OR_RETURN(corpus::Task task, corpus::make_task(id, one, count));
        Row row = encode(encoder, {{task.prompt(), 0.0F, false}, {task.completion, 1.0F, true}});
        const size_t n_gated = row.last_segment;
        append_row(batch, std::move(row), n_gated, shape.n_tokens, encoder.eos());
    }
    return batch;
}

int count_exact(const Batch & batch, const BatchLoss & loss) {
    const auto n = static_cast<size_t>(batch.shape.n_tokens);
    int exact = 0;
    for (size_t r = 0; r < static_cast<size_t>(batch.shape.n_sequences); ++r) {
        bool all = true;
        for (size_t i = r * n; i < (r + 1) * n; ++i) { all = all && (batch.weights[i] <= 0.0F || loss.hit[i] != 0); }
        exact += all ? 1 : 0;
    }
    return exact;
}

}  // namespace pith::train
