// pass_layer.cpp - taps for what is read, and the attention over the parts' lanes.
#include "engine/pass/pass_layer.h"

#include <algorithm>
#include <utility>

#include "attention/lane_attention.h"
#include "device/device_work.h"
#include "device/gathered_reads.h"
#include "engine/pass/ranking.h"
#include "evidence/key_norms.h"

namespace pith {

void tell_reads(const BatchPart & part, int layer, PartReads & reads) {
    EvidenceState & evidence = *part.evidence;
    if (evidence.wants_moments()) { evidence.add_moments(layer, reads.moments); }
    tell_ranking(part, layer, reads.ranking);
    if (evidence.wants_key_norms()) { evidence.add_key_norms(*part.cache, part.seq, layer, reads.key_norms); }
}

PassLayer::PassLayer(GraphBuild & build, const ModelFile & file, std::span<const BatchPart> parts,
                     std::shared_ptr<const LaneBatch> batch, Watch watch, StatesOf states_of)
    : build_(build),
      file_(file),
      parts_(parts),
      batch_(std::move(batch)),
      watch_(std::move(watch)),
      states_of_(std::move(states_of)),
      rotation_(build, parts.front().cache->layout()) {}

ggml_tensor * PassLayer::attend(int layer, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
    const RaggedCache & cache = *parts_.front().cache;
    const bool read_here = !cache.in_buckets(cache.layout().source(layer));
    if (read_here && is_on_device(file_.weights().layers[static_cast<size_t>(layer)].wo)) {
        read_together(build_, {&q, &k, &v});
    }
    rotation_.into_lanes(layer, q, k, v);
    if (watch_.queries && file_.hparams().governs(layer)) { watch_.queries(layer, q); }
    ggml_tensor * out = rotation_.out_of_lanes(layer, build_lane_attention(build_, batch_, layer, q, k, v));
    if (watch_.outputs) { watch_.outputs(out); }
    return out;
}

ggml_tensor * PassLayer::add(int layer, ggml_tensor * in, ggml_tensor * positions, ggml_tensor * tokens, ggml_tensor * keep,
                             std::span<PartReads> reads) {
    const Hparams & hp = file_.hparams();
    ggml_context * ctx = build_.ctx();
    const AttentionFn attention = [this](ggml_context *, ggml_cgraph *, int l, ggml_tensor * q, ggml_tensor * k,
                                         ggml_tensor * v) { return attend(l, q, k, v); };
    const RecurrentFn recurrent = [&](ggml_context *, int l) { return recurrent_rows(build_, hp.recurrent, states_of_(l)); };
    const RopeTap tap = [&](ggml_tensor * q, ggml_tensor * k) {
        for (size_t i = 0; i < parts_.size(); ++i) {
            const BatchPart & part = parts_[i];
            const auto rows = [&](ggml_tensor * x) { return view_tokens(ctx, x, batch_->parts[i].first_row, part.n); };
            if (part.evidence->wants_moments()) { build_query_moments(build_, rows(q), part.first_position, reads[i].moments); }
            if (part.evidence->wants_key_norms()) { build_key_norms(build_, rows(k), reads[i].key_norms); }
        }
    };
    const InputTap input_tap = [&](ggml_tensor * x) {
        for (size_t i = 0; i < parts_.size(); ++i) {
            const BatchPart & part = parts_[i];
            build_ranking(build_, part, layer, view_rows(ctx, x, batch_->parts[i].first_row, part.n), reads[i].ranking);
        }
        if (watch_.inputs) { watch_.inputs(layer, x); }
    };
    const bool governed = hp.governs(layer);  // nobody asks what the others' queries pay
    const bool ranks = std::ranges::any_of(parts_, [](const BatchPart & part) { return part.ranking != nullptr; });
    const bool reads_inputs = governed && (ranks || watch_.inputs);
    return build_layer(ctx, build_.graph(), hp, file_.weights(), layer, in, positions, attention, keep,
                       governed ? tap : RopeTap(), reads_inputs ? input_tap : InputTap(), mul_mat_of(build_), recurrent,
                       tokens);
}

}  // namespace pith
