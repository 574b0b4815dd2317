// reread.cpp - what the text itself pays to an entry when it is read again. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score[h,j] = group of the largest attention that any query of the text's repetition pays to entry j. Whoever repeats a text
// looks up all that it says: what is never looked up then can go, whatever will be asked.
// Paper:   KVzip: Query-Agnostic KV Cache Compression with Context Reconstruction.
// Differs: a query's attention is over all that the cache holds and the repetition so far; the authors' code leaves out of the
//          softmax what lies before the piece at hand. Pieces are chunks where a prompt is read in chunks.
#include <algorithm>

#include "policy/score/attention_scorer.h"
#include "policy/score/recent.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    group_option("max"),
    integer_option("sinks", "4", 0, 1 << 24, "first positions, which are protected"),
    integer_option("recent", "0", 0, 1 << 24, "newest entries of each head that are protected; half: half of the budget",
                   "half"),
};

class Reread final : public AttentionScorer {
public:
    explicit Reread(const Options & options)
        : AttentionScorer(parse_group(options)), sinks_(static_cast<int>(options.integer("sinks"))), recent_(options) {}

    bool is_absolute() const override { return true; }
    EvidenceNeeds needs() const override { return {.reread_max = true}; }
    int n_sinks() const override { return sinks_; }
    int n_recent(int64_t budget) const override { return recent_.count(budget); }

protected:
    Status check(const LayerEvidence & evidence) const override {
        return require_rows("reread", "reread_max", evidence.reread_max, evidence, true);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        std::ranges::copy(evidence.reread_max.row(head), out.begin());
    }

private:
    int sinks_;
    RecentRule recent_;
};

}  // namespace

ScorerInfo reread_scorer() {
    return {"reread",
            "attention that the text pays to itself when it is read again; costs a second pass",
            "max of A[g,i,j] over the repetition's queries i",
            "KVzip: Query-Agnostic KV Cache Compression with Context Reconstruction",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<Reread>(options); }};
}

}  // namespace pith
