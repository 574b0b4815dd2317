// papers.h - the studies one by one: a file for each paper. Stage: eval.
#pragma once

#include "eval/studies/studies.h"

namespace pith {

// The 16 tasks that the papers average over.
inline constexpr std::string_view kLongBenchTasks =
    "narrativeqa,qasper,multifieldqa_en,hotpotqa,2wikimqa,musique,gov_report,qmsum,multi_news,trec,triviaqa,samsum,"
    "passage_count,passage_retrieval_en,lcc,repobench-p";

Study caote_study();
Study criticalkv_study();
Study score_study();
Study laprox_study();
Study attention_gate_study();

}  // namespace pith
