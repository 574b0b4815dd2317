// attention_gate.cpp - Attention-Gate's tables and figures. Stage: eval.
#include "eval/studies/papers.h"

namespace pith {
namespace {

// Gates are of one model and are trained first; what they keep is no budget's matter, the other policies keep half.
constexpr StudyPart kParts[] = {
    {.name = "accuracy",
     .table = "Tables 1 and 4: seven multiple-choice tasks",
     .family = "multiple-choice",
     .tasks = "piqa,arc_challenge,arc_easy,rte,copa,boolq,hellaswag",
     .policies = "gated,window,streaming,h2o:recent=half,keydiff,snapkv",
     .pairs = "window<gated,streaming<gated,h2o:recent=half<gated,keydiff<gated,snapkv<gated",
     .question_aware = true,
     .needs_data = true,
     .stand_in = true,
     .paper = {.budgets = "50%"},
     .reference = {.lengths = "1024", .budgets = "50%", .n_samples = 25}},
    {.name = "fine-tuned",
     .table = "Tables 2, 3 and 5: six tasks after fine-tuning, forms of the gate",
     .family = "multiple-choice",
     .tasks = "piqa,arc_challenge,rte,copa,boolq,openbookqa",
     .policies = "gated",
     .question_aware = true,
     .needs_data = true,
     .stand_in = true,
     .paper = {.budgets = "50%"},
     .reference = {.lengths = "1024", .budgets = "50%", .n_samples = 25}},
};

constexpr std::string_view kAccuracy = "pith study attention-gate --part accuracy --gate GATE";
constexpr std::string_view kFineTuned = "pith study attention-gate --part fine-tuned --lora LORA --gate GATE";
constexpr std::string_view kMaps = "pith inspect --gate GATE --attention 0:all,2:all --out look";
constexpr std::string_view kGateMaps = "pith inspect --gate GATE --out look --gate-attention 2";

constexpr PaperItem kItems[] = {
    {"Table 1",
     "gates, and policies that keep half",
     {"pith train gate -m MODEL -f TEXT -o GATE", kAccuracy, "scripts/train_gates compare"},
     ""},
    {"Table 2",
     "fine-tuned with gates",
     {"pith train sft -m MODEL -f PROMPTS -o FOLDER/sft --alpha 0.5", kFineTuned, "scripts/train_gates sft"},
     ""},
    {"Table 3",
     "forms of the gate",
     {"pith train sft -m MODEL -f PROMPTS --heads 2 -o FOLDER/heads2", kFineTuned,
      "scripts/train_gates -F base heads2 heads1 half quarter previous previous2 linear table"},
     ""},
    {"Table 4", "gates of Mistral", {"pith train gate -m MODEL -f TEXT -o GATE", kAccuracy}, ""},
    {"Table 5",
     "recent keys that stay visible",
     {"pith train sft -m MODEL -f PROMPTS --recent 5 -o FOLDER/recent5", kFineTuned,
      "scripts/train_gates -F recent5 recent10 table"},
     ""},
    {"Figure 1", "what gates keep of a text", {"pith inspect --gate GATE -f TEXT --out look"}, ""},
    {"Figure 2", "where a gate stands", {}, "a drawing"},
    {"Figure 3", "attention of the model and of its gates", {kMaps, kGateMaps}, ""},
    {"Figure 4", "the same for more layers", {kMaps, kGateMaps}, ""},
    {"Figure 5",
     "the same for other texts",
     {"pith inspect --gate GATE -f TEXT --attention 0:all,2:all --out look",
      "pith inspect --gate GATE -f TEXT --out look --gate-attention 2"},
     ""},
};

}  // namespace

Study attention_gate_study() {
    return {
        "attention-gate", "In-context KV-Cache Eviction for LLMs via Attention-Gate",
        "likelihoods decide between the choices, without OpenCompass's prompts; one gate file serves all tasks of a run, where "
        "the paper trains one for each in Tables 2, 3 and 5: give --data folders of one task to do the same",
        kParts, kItems};
}

}  // namespace pith
