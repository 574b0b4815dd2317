// caote.cpp - CAOTE: CAOTE's tables and figures. Stage: eval.
#include "eval/studies/papers.h"

namespace pith {
namespace {

// H2O as its authors have it, half of the budget recent and sums over all queries; and as the paper writes it: the sum over
// the block's rows, nothing recent protected.
constexpr std::string_view kPolicies =
    "h2o:recent=half,h2o:recent=half+caote,h2o:recent=half+fastcaote,h2o:observe=128:recent=0,h2o:observe=128:recent=0+caote,"
    "h2o:observe=128:recent=0+fastcaote,tova,tova+caote,tova+fastcaote,snapkv,snapkv+caote,snapkv+fastcaote";
constexpr std::string_view kPairs =
    "h2o:recent=half<h2o:recent=half+caote,h2o:recent=half<h2o:recent=half+fastcaote,"
    "h2o:observe=128:recent=0<h2o:observe=128:recent=0+caote,h2o:observe=128:recent=0<h2o:observe=128:recent=0+fastcaote,"
    "tova<tova+caote,tova<tova+fastcaote,snapkv<snapkv+caote,snapkv<snapkv+fastcaote";
constexpr std::string_view kPoliciesAndSinks =
    "streaming,h2o:recent=half,h2o:recent=half+caote,h2o:recent=half+fastcaote,h2o:observe=128:recent=0,"
    "h2o:observe=128:recent=0+caote,h2o:observe=128:recent=0+fastcaote,tova,tova+caote,tova+fastcaote,snapkv,"
    "snapkv+caote,snapkv+fastcaote";
// Entries judged each by itself, and chosen together.
constexpr std::string_view kAloneAndJointly =
    "h2o:recent=half,h2o:recent=half+caote,h2o:recent=half+joint,tova,tova+caote,tova+joint,snapkv,snapkv+caote,snapkv+joint";

// Beside them the error where a group's heads meet, behind the output projection.
constexpr std::string_view kAloneTogetherAndJointly =
    "h2o:recent=half,h2o:recent=half+caote,h2o:recent=half+caote:space=output,h2o:recent=half+joint,tova,tova+caote,"
    "tova+caote:space=output,tova+joint,snapkv,snapkv+caote,snapkv+caote:space=output,snapkv+joint";

// The paper's protocol: blocks of 128 tokens, evicted after each, and one entry a lane for every token that is generated.
constexpr StudyPart kParts[] = {
    {.name = "longbench",
     .table = "Tables 2 and 3: LongBench",
     .family = "longbench",
     .tasks = kLongBenchTasks,
     .policies = kPolicies,
     .pairs = kPairs,
     .question_aware = true,
     .chunked = true,
     .evict_every = 1,
     .needs_data = true,
     .stand_in = true,
     .paper = {.budgets = "2048,4096", .chunks = "128"},
     .reference = {.lengths = "1024", .budgets = "256,512", .chunks = "128", .n_samples = 25}},
    {.name = "longbench-large",
     .table = "Tables 10 and 11: LongBench, larger budgets",
     .family = "longbench",
     .tasks = kLongBenchTasks,
     .policies = kPoliciesAndSinks,
     .pairs = kPairs,
     .question_aware = true,
     .chunked = true,
     .evict_every = 1,
     .needs_data = true,
     .stand_in = true,
     .paper = {.budgets = "6144,8192", .chunks = "128"},
     .reference = {.lengths = "1024", .budgets = "640,768", .chunks = "128", .n_samples = 10}},
    {.name = "perplexity",
     .table = "Tables 4 and 12: perplexity, difference to the full cache",
     .family = "perplexity",
     .policies = kPolicies,
     .pairs = kPairs,
     .chunked = true,
     .paper = {.lengths = "16384", .budgets = "2048,4096,6144,8192", .chunks = "128", .n_samples = 10},
     .reference = {.lengths = "2048", .budgets = "256,512,1024", .chunks = "128", .n_samples = 25}},
    {.name = "needle",
     .table = "Tables 5 and 13, Figure 2: needle in a haystack",
     .family = "needle",
     .policies = kPolicies,
     .pairs = kPairs,
     .question_aware = true,
     .chunked = true,
     .evict_every = 1,
     .paper = {.lengths = "8192,16384,32768", .budgets = "2048,4096,6144,8192", .chunks = "128"},
     .reference = {.lengths = "1024,2048", .budgets = "256,512", .chunks = "128", .n_samples = 10}},
    {.name = "formula",
     .table = "Equation (7): the norm squared, as printed, beside the exact error of (6)",
     .family = "longbench",
     .tasks = kLongBenchTasks,
     .policies = "h2o:recent=half+caote,h2o:recent=half+caote:squared=true,tova+caote,tova+caote:squared=true,snapkv+caote,"
                 "snapkv+caote:squared=true",
     .pairs = "h2o:recent=half+caote<h2o:recent=half+caote:squared=true,tova+caote<tova+caote:squared=true,snapkv+caote<snapkv+"
              "caote:squared=true",
     .question_aware = true,
     .chunked = true,
     .evict_every = 1,
     .needs_data = true,
     .stand_in = true,
     .paper = {.budgets = "2048", .chunks = "128"},
     .reference = {.lengths = "1024", .budgets = "256", .chunks = "128", .n_samples = 25}},
    {.name = "blocks",
     .table = "Appendices B and G: block sizes, and entries chosen jointly",
     .family = "longbench",
     .tasks = kLongBenchTasks,
     .policies = kAloneAndJointly,
     .pairs = "h2o:recent=half+caote<h2o:recent=half+joint,tova+caote<tova+joint,snapkv+caote<snapkv+joint",
     .question_aware = true,
     .chunked = true,
     .evict_every = 1,
     .needs_data = true,
     .stand_in = true,
     .paper = {.budgets = "2048", .chunks = "32,64,128,256,512"},
     .reference = {.lengths = "1024", .budgets = "256", .chunks = "16,32,64,128,256", .n_samples = 10}},
    {.name = "blocks-perplexity",
     .table = "Appendices B and G: the same by perplexity",
     .family = "perplexity",
     .policies = kAloneTogetherAndJointly,
     .pairs = "h2o:recent=half+caote<h2o:recent=half+joint,tova+caote<tova+joint,snapkv+caote<snapkv+joint",
     .chunked = true,
     .paper = {.lengths = "16384", .budgets = "2048", .chunks = "16,64,128,512", .n_samples = 10},
     .reference = {.lengths = "2048", .budgets = "128,256,512", .chunks = "16,64,128,512", .n_samples = 25}},
    {.name = "efficiency",
     .table = "Table 6: first token, decode and memory",
     .kind = StudyKind::kEfficiency,
     .policies = kPolicies,
     .chunked = true,
     .evict_every = 1,
     .paper = {.lengths = "4096,8192,32768", .budgets = "2048", .chunks = "128"},
     .reference = {.lengths = "512,1024,2048", .budgets = "256", .chunks = "128"}},
};

constexpr PaperItem kItems[] = {
    {"Table 1", "what each method looks at", {}, "an overview; `pith policies` lists what ours look at"},
    {"Table 2", "LongBench, Llama 3", {"pith study caote --part longbench"}, ""},
    {"Table 3", "LongBench, Qwen 2.5", {"pith study caote --part longbench"}, ""},
    {"Table 4", "perplexity, Llama 3", {"pith study caote --part perplexity"}, ""},
    {"Table 5", "needle in a haystack, Llama 3", {"pith study caote --part needle"}, ""},
    {"Table 6",
     "what CAOTE adds to prefill and decode",
     {"pith study caote --part efficiency", "pith bench -m MODEL --policies snapkv,snapkv+caote,snapkv+fastcaote"},
     ""},
    {"Table 7",
     "rank correlation of CAOTE and FastCAOTE by layer",
     {"pith inspect --policy h2o+caote,h2o+fastcaote --budget 20% --out look"},
     ""},
    {"Table 8", "lengths of the tasks", {}, "about the data"},
    {"Table 9", "lengths of the answers", {}, "about the data"},
    {"Table 10", "LongBench at 6k and 8k, Llama 3", {"pith study caote --part longbench-large"}, ""},
    {"Table 11", "LongBench at 6k and 8k, Qwen 2.5", {"pith study caote --part longbench-large"}, ""},
    {"Table 12", "perplexity, Qwen 2.5", {"pith study caote --part perplexity"}, ""},
    {"Table 13", "needle in a haystack, Qwen 2.5", {"pith study caote --part needle"}, ""},
    {"Figure 1", "how CAOTE follows a policy's scores", {}, "a drawing"},
    {"Figure 2", "needle by length and depth at 6k", {"pith study caote --part needle --budget 6144 --svg"}, ""},
    {"Equation (7)", "the norm squared", {"pith study caote --part formula"}, ""},
    {"Appendix B",
     "entries chosen jointly",
     {"pith study caote --part blocks", "pith study caote --part blocks-perplexity"},
     ""},
    {"Appendix G", "smaller blocks", {"pith study caote --part blocks", "pith study caote --part blocks-perplexity"}, ""},
};

}  // namespace

Study caote_study() {
    return {"caote", "CAOTE: KV Cache Selection for LLMs via Attention Output Error-Based Token Eviction",
            "the prompt is consumed in blocks and evicted after each, and again for every token generated, as in the paper; "
            "perplexity is over the text given with --text (the paper: BookSum); window and recent entries are protected, of "
            "which the paper says nothing",
            kParts, kItems};
}

}  // namespace pith
