// arch_keys.h - keys that several architectures read beside those that all have. Stage: model.
#pragma once

#include "model/arch/hparams.h"
#include "model/arch/key_reader.h"
#include "pith/status.h"

namespace pith {

// rope.dimension_sections [4]: pairs of RoPE that turn by time, height and width, and the rest. A token of text has one
// position for the first three and 0 for the rest: halves turn as ever, but the pairs of the rest do not
// (Hparams::unrotated_pairs). interleaved: the sections take the pairs in turns, not one behind the other. A file without the
// key has no sections. Paper: Qwen2-VL (Wang et al., 2024), section 2.1.
Status read_rope_sections(const KeyReader & keys, bool interleaved, bool required, Hparams & hp);

// What Granite's forms have in common: embedding_scale, residual_scale, attention.scale and logit_scale, which divides;
// rope.scaling.finetuned: false where nothing turns.
Status read_granite(const KeyReader & keys, Hparams & hp);

// expert_weights_norm and expert_weights_scale: whether the chosen experts' weights are made to sum to 1, and what they are
// multiplied by.
Status read_expert_weights(const KeyReader & keys, Hparams & hp);

// attention.sliding_window: how many positions the layers with a window see. Which these are: of every `period` layers all but
// the last, where attention.sliding_window_pattern says no other period, or lists the layers (true: a window).
// required: a file without it is bad; otherwise it has no windows, or, where `otherwise` is not 0, that one.
Status read_windows(const KeyReader & keys, int period, bool required, int otherwise, Hparams & hp);

// attn_logit_softcapping and final_logit_softcapping; 0 or missing: none, but of attention `attention_otherwise`.
Status read_softcaps(const KeyReader & keys, float attention_otherwise, float logits_otherwise, Hparams & hp);

// shortconv.l_cache: how many tokens the convolutions of recurrent layers see.
Status read_short_convolutions(const KeyReader & keys, Hparams & hp);

// ssm.*: heads and sizes of gated delta nets. Which layers are such: attention.recurrent_layers lists them (true: one), or of
// every full_attention_interval layers all but the last are.
Status read_delta_nets(const KeyReader & keys, Hparams & hp);

// ssm.*: heads, groups and sizes of Mamba 2.
Status read_mamba2(const KeyReader & keys, Hparams & hp);

// The same of Nemotron H, and which layers are a feed-forward: those without heads whose feed_forward_length is not 0.
Status read_nemotron_h(const KeyReader & keys, Hparams & hp);

// Layers that see a window only, where Pith does not run them.
Status refuse_windows(const KeyReader & keys);

}  // namespace pith
