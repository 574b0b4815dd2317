// studies.cpp - the settings of CAOTE's, CriticalKV's, SCORE's and LaProx's tables. Stage: eval.
#include "eval/studies.h"

#include <algorithm>

namespace pith {
namespace {

constexpr const char * kAllTasks = "all";

Study caote() {
    const std::string policies =
        "h2o:recent=half,h2o:recent=half+caote,h2o:recent=half+fastcaote,tova,tova+caote,tova+fastcaote,snapkv,snapkv+caote,"
        "snapkv+fastcaote";
    Study study{
        "caote",
        "CAOTE: KV Cache Selection for LLMs via Attention Output Error-Based Token Eviction",
        "the prompt is consumed in blocks and evicted after each, as in the paper; perplexity is over the text given with "
        "--text (the paper: BookSum)",
        {}};
    StudyPart longbench{"longbench", "Table 2: LongBench", "longbench", kAllTasks, policies};
    longbench.question_aware = true;
    longbench.chunked = true;
    longbench.needs_data = true;
    longbench.stand_in = true;
    longbench.paper = {{}, {"2048", "4096"}, 128, 0};
    longbench.reference = {{1024}, {"256", "512"}, 64, 25};
    StudyPart perplexity{"perplexity", "Table 4: perplexity, difference to the full cache", "perplexity", "", policies};
    perplexity.chunked = true;
    perplexity.paper = {{16384}, {"2048", "4096", "6144"}, 128, 10};
    perplexity.reference = {{2048}, {"256", "512", "1024"}, 64, 25};
    StudyPart needle{"needle", "Table 5: needle in a haystack", "needle", "", policies};
    needle.question_aware = true;
    needle.chunked = true;
    needle.paper = {{8192, 16384, 32768}, {"2048", "4096", "6144"}, 128, 0};
    needle.reference = {{1024, 2048}, {"256", "512"}, 64, 10};
    study.parts = {longbench, perplexity, needle};
    return study;
}

Study criticalkv() {
    Study study{"criticalkv", "Identify Critical KV Cache in LLM Inference from an Output Perturbation Perspective", "", {}};
    const std::string policies = "snapkv,criticalkv,adakv,critical-adakv,headkv:window=8,critical-headkv:window=8";
    StudyPart ruler{"ruler", "Table 1 and Figure 2: RULER", "ruler", "", policies};
    ruler.paper = {{32768}, {"20%", "40%", "60%", "80%"}, 512, 100};
    ruler.reference = {{2048}, {"20%", "40%", "60%", "80%"}, 512, 25};
    StudyPart longbench{"longbench", "Table 2: LongBench", "longbench", kAllTasks, policies};
    longbench.needs_data = true;
    longbench.paper = {{}, {"20%", "40%"}, 512, 0};
    longbench.reference = {{}, {"20%", "40%"}, 512, 25};
    StudyPart scbench{"scbench", "Table 3: SCBench, several turns", "scbench", kAllTasks, "adakv,critical-adakv"};
    scbench.needs_data = true;
    scbench.paper = {{100000}, {"80%", "60%", "40%"}, 512, 0};
    scbench.reference = {{}, {"80%", "60%", "40%"}, 512, 25};
    study.parts = {ruler, longbench, scbench};
    return study;
}

Study score() {
    Study study{
        "score", "SCORE: Similarity-Aware Contextual Overlap-Redundancy Eviction for Efficient KV Cache Compression", "", {}};
    StudyPart longbench{"longbench", "Table 1: LongBench, 128 entries", "longbench", kAllTasks,
                        "streaming,h2o:recent=half,headkv:window=8,snapkv,pyramidkv,cake,score"};
    longbench.question_aware = true;
    longbench.needs_data = true;
    longbench.stand_in = true;
    longbench.paper = {{}, {"128"}, 512, 0};
    longbench.reference = {{2048}, {"128"}, 512, 25};
    StudyPart v2{"longbench-v2", "Table 2: LongBench v2", "longbench-v2", kAllTasks, "cake,headkv:window=8,score"};
    v2.question_aware = true;
    v2.needs_data = true;
    v2.paper = {{}, {"128", "1024"}, 512, 0};
    v2.reference = {{}, {"128", "1024"}, 512, 25};
    StudyPart haystack{"babilong", "Table 3: reasoning in a haystack", "babilong", kAllTasks,
                       "snapkv,pyramidkv,headkv:window=8,cake,score"};
    haystack.question_aware = true;
    haystack.needs_data = true;
    haystack.paper = {{}, {"128"}, 512, 0};
    haystack.reference = {{}, {"128"}, 512, 25};
    study.parts = {longbench, v2, haystack};
    return study;
}

Study laprox() {
    Study study{"laprox",
                "Reformulating KV Cache Eviction Problem for Long-Context LLM Inference",
                "CriticalKV stands over SnapKV; the paper does not say over what",
                {}};
    // All baselines pool averages of 7 and observe 32 queries (appendix A).
    const std::string policies =
        "streaming,snapkv:pool=avg7,snapkv:pool=avg7+ada,snapkv:pool=avg7+critical,attnvar:pool=avg7+preference,laprox";
    StudyPart longbench{"longbench", "Table 1 and Figure 2: LongBench", "longbench", kAllTasks, policies};
    longbench.question_aware = true;
    longbench.needs_data = true;
    longbench.stand_in = true;
    longbench.paper = {{}, {"128", "256", "512", "1024"}, 512, 0};
    longbench.reference = {{2048}, {"64", "128", "256"}, 512, 25};
    StudyPart needles{"niah", "Figure 3: one needle, one of four, four of four", "ruler",
                      "niah_single_2,niah_multikey_1,niah_multiquery", policies};
    needles.question_aware = true;
    needles.paper = {{32768}, {"256", "512", "1024", "2048"}, 512, 100};
    needles.reference = {{2048}, {"64", "128", "256"}, 512, 25};
    study.parts = {longbench, needles};
    return study;
}

}  // namespace

std::span<const Study> studies() {
    static const std::vector<Study> all = {caote(), criticalkv(), score(), laprox()};
    return all;
}

const Study * find_study(std::string_view name) {
    const auto at = std::ranges::find(studies(), name, &Study::name);
    return at == studies().end() ? nullptr : &*at;
}

}  // namespace pith
