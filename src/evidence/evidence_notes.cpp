// evidence_notes.cpp - see evidence_notes.h. Stage: evidence.
#include "evidence/evidence_notes.h"

#include <algorithm>

namespace pith {

std::vector<std::string> evidence_notes(const Hparams & hparams, const EvidenceUse & use) {
    const EvidenceNeeds & needs = use.needs;
    const bool outputs = needs.output_l1 || needs.output_l2 || needs.output_pairs || needs.output_errors;
    const bool values = outputs || needs.value_l1 || needs.value_l2 || needs.values || needs.value_rows;
    std::vector<std::string> notes;
    if (outputs && use.ranks_across_layers && hparams.form.attn_post_norm != nullptr) {
        notes.emplace_back(
            "a norm behind the attention divides by a number of each token and layer that is not counted: what entries of "
            "different "
            "layers add is compared as nearly as these numbers agree");
    }
    if (values && hparams.form.output_gate) {
        notes.emplace_back("a gate stands behind the attention: what a value adds is counted before it");
    }
    if (needs.expected_future > 0 && hparams.attention_softcap != 0.0F) {
        notes.emplace_back(
            "scores are soft-capped: attention still to come is expected by the cap of the mean exponent, which is "
            "near the mean of capped scores");
    }
    const auto n_readers = std::ranges::count_if(
        hparams.layers, [&](const LayerHparams & one) { return one.kv_source >= 0 && hparams.governs(one.kv_source); });
    if (n_readers > 0 && (needs.any_attention() || needs.expected_future > 0)) {
        notes.emplace_back("the queries of " + std::to_string(n_readers) + (n_readers == 1 ? " layer" : " layers") +
                           " that read another's keys are not counted");
    }
    return notes;
}

std::vector<std::string> evidence_notes(const Hparams & hparams) {
    return evidence_notes(hparams, {{.running_sum = true, .expected_future = 1, .output_l2 = true}, true});
}

}  // namespace pith
