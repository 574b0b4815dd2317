// parse_test.cpp - the policy grammar and its error messages.
#include <gtest/gtest.h>

#include "pith/policies.h"
#include "policy/policy.h"
#include "policy/score/scorer.h"

namespace pith::parse_test {
namespace {

std::string error_of(const char * text) {
    const Status status = check_policy(text);
    if (status.ok()) return "";
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    return status.message();
}

void expect_error(const char * text, const char * part) {
    const std::string message = error_of(text);
    EXPECT_NE(message.find(part), std::string::npos) << "'" << text << "' said: " << message;
}

// duo's streaming heads have room for 64 + 256 entries: with so many or fewer kept, no head keeps more than the others.
TEST(Policy, SaysWhereNothingIsLeftToChoose) {
    const Policy duo = Policy::parse("duo").value();
    EXPECT_EQ(duo.why_no_choice(204), "all heads are alike: each has room for 320 entries, and 204 are kept");
    EXPECT_NE(duo.why_no_choice(320), "");
    EXPECT_EQ(duo.why_no_choice(321), "");
    EXPECT_EQ(Policy::parse("streaming:sinks=16+retrieval:sinks=16:recent=48").value().why_no_choice(204), "");
    EXPECT_EQ(Policy::parse("snapkv").value().why_no_choice(32),
              "nothing is chosen: 32 entries are protected, and 32 are kept");
    EXPECT_EQ(Policy::parse("snapkv").value().why_no_choice(33), "");
    EXPECT_EQ(Policy::parse("h2o:recent=half").value().why_no_choice(33), "");
    EXPECT_EQ(Policy::parse("full").value().why_no_choice(1), "");
}

TEST(PolicyGrammar, ReadsPartsAndOptionsInAnyOrder) {
    for (const char * text : {"full", "snapkv", "snapkv:window=16:pool=avg5+ada:alpha=0.5", "snapkv+topk+ada", "ada+snapkv",
                              " h2o : recent = half + pyramid ", "adakv", "adakv:window=8:alpha=1", "pyramidkv+topk",
                              "tova:heads=layer:recent=0", "random:seed=7", "h2o:observe=256:normalise=visible"}) {
        EXPECT_EQ(error_of(text), "") << text;
    }
}

TEST(PolicyGrammar, AnAliasIsWhatItStandsFor) {
    const Policy alias = Policy::parse("adakv:window=16").value();
    EXPECT_EQ(alias.name(), "adakv:window=16");
    EXPECT_EQ(alias.needs().window, 16);
    EXPECT_EQ(alias.n_recent(1024), 16);
    EXPECT_EQ(Policy::parse("snapkv").value().needs(), (EvidenceNeeds{.window = 32, .window_mean = true}));
}

TEST(PolicyGrammar, PoliciesSayWhatTheyProtectAndNeed) {
    EXPECT_FALSE(Policy::parse("full").value().evicts());
    EXPECT_FALSE(Policy::parse("full").value().needs().any());
    EXPECT_EQ(Policy::parse("streaming").value().n_sinks(), 4);
    EXPECT_EQ(Policy::parse("snapkv").value().n_sinks(), 0);
    EXPECT_EQ(Policy::parse("h2o:recent=half").value().n_recent(101), 50);
    EXPECT_EQ(Policy::parse("h2o").value().n_recent(1024), 32);
    EXPECT_EQ(Policy::parse("knorm:recent=0").value().n_recent(1024), 0);
    EXPECT_EQ(Policy::parse("h2o:observe=256").value().needs(), (EvidenceNeeds{.running_sum = true, .running_last = 256}));
    EXPECT_EQ(Policy::parse("tova").value().needs(), (EvidenceNeeds{.last_query = true}));
    EXPECT_EQ(Policy::parse("knorm").value().needs(), (EvidenceNeeds{.key_norm = true}));
    EXPECT_FALSE(Policy::parse("random").value().needs().any());
}

TEST(PolicyGrammar, UnknownNamesSuggestTheNearest) {
    expect_error("snapvk", "did you mean 'snapkv'?");
    expect_error("snapkv+adaa", "did you mean 'ada'?");
    expect_error("pyramidvk", "did you mean 'pyramidkv'?");
    expect_error("bananas", "'bananas' is not known; `pith policies` lists them");
    expect_error("snapkv:windw=3", "did you mean 'window'? (it has window, pool, group, pool_over, pool_edges, order)");
    expect_error("full:x=1", "it takes none");
    expect_error(
        "adakv:windo=3",
        "did you mean 'window'? 'adakv' is snapkv+ada, with window, pool, group, pool_over, pool_edges, order, alpha, floor");
}

TEST(PolicyGrammar, TwoPartsOfOneKindAreAnError) {
    expect_error("snapkv+h2o", "'snapkv' and 'h2o' are both a scorer: keep one");
    expect_error("snapkv+ada+pyramid", "'ada' and 'pyramid' are both an allocator: keep one");
    expect_error("adakv+uniform", "'ada' and 'uniform' are both an allocator");
    expect_error("snapkv+topk+topk", "both a selector");
}

TEST(PolicyGrammar, GatedGoesInFrontOfAnyPolicyAndStandsAloneForFull) {
    const Policy alone = Policy::parse("gated").value();
    EXPECT_TRUE(alone.gated());
    EXPECT_TRUE(alone.needs_gate());
    EXPECT_FALSE(alone.evicts());
    const Policy both = Policy::parse("gated+snapkv:window=16+ada").value();
    EXPECT_TRUE(both.gated());
    EXPECT_TRUE(both.evicts());
    EXPECT_EQ(both.needs(), Policy::parse("snapkv:window=16+ada").value().needs());
    EXPECT_TRUE(Policy::parse("gated+adakv").value().gated());
    EXPECT_TRUE(Policy::parse("gated+full").value().gated());
    const Policy scorer = Policy::parse("gate+ada").value();
    EXPECT_FALSE(scorer.gated());
    EXPECT_TRUE(scorer.needs_gate());
    EXPECT_EQ(scorer.needs(), (EvidenceNeeds{.retention = true}));
    EXPECT_FALSE(Policy::parse("snapkv").value().needs_gate());
    expect_error("gated+gated+snapkv", "'gated' and 'gated' are both an admission: keep one");
    expect_error("gated:tau=0.3", "it takes none");
    expect_error("gated+ada", "there is no scorer: put one first, e.g. gated+snapkv+ada");
    expect_error("ada+gated", "there is no scorer: put one first, e.g. gated+snapkv+ada");
    expect_error("gatedd", "did you mean 'gated'?");
    expect_error("gated+full+ada", "nothing for 'ada'");
}

TEST(PolicyGrammar, NothingGoesWithFull) {
    expect_error("full+ada",
                 "'full' keeps everything, which leaves nothing for 'ada' to do: write full alone, or another scorer, e.g. "
                 "snapkv+ada");
    expect_error("full+uniform", "nothing for 'uniform'");
    expect_error("full+topk", "nothing for 'topk'");
    expect_error("caote+full", "nothing for 'caote'");
}

TEST(PolicyGrammar, WhatComparesScoresNeedsScoresThatMeasureImportance) {
    expect_error(
        "streaming+ada",
        "'streaming' orders entries by position and does not say how much each matters, which 'ada' needs to know: use "
        "another scorer, e.g. snapkv+ada, or leave 'ada' out");
    for (const char * scorer : {"streaming", "window"}) {
        for (const char * part : {"caote", "fastcaote", "ada", "entropy", "global", "critical", "joint", "diverse"}) {
            const std::string text = std::string(scorer) + "+" + part;
            expect_error(text.c_str(), ("which '" + std::string(part) + "' needs to know").c_str());
        }
        for (const char * part : {"uniform", "pyramid", "retrieval", "head", "preference", "novelty", "topk"}) {
            EXPECT_EQ(error_of((std::string(scorer) + "+" + part).c_str()), "");
        }
    }
    for (const char * text : {"random+ada+critical", "knorm+caote+joint", "keydiff+global", "h2o+fastcaote+entropy+diverse"}) {
        EXPECT_EQ(error_of(text), "") << text;
    }
}

TEST(PolicyGrammar, APolicyHasOneWindow) {
    expect_error("snapkv:window=16+preference:window=32", "'snapkv' observes the last 16 queries and 'preference' the last 32");
    EXPECT_EQ(error_of("snapkv:window=16+preference:window=16"), "");
    EXPECT_EQ(error_of("snapkv:window=16+preference"), "");
    expect_error("snapkv+caote:space=output:squared=true", "space=output has none: leave one of them out");
    EXPECT_EQ(error_of("snapkv+fastcaote:space=output"), "");
    EXPECT_EQ(error_of("cake:pool=avg9"), "");
    EXPECT_EQ(Policy::parse("cake:window=16").value().needs().window, 16);
    EXPECT_EQ(Policy::parse("cake:window=16").value().n_recent(512), 16);
}

// SCORE draws its queries between the first and the last window of the prompt.
TEST(PolicyGrammar, SampledQueriesLeaveOutAsManyAsTheWindowHas) {
    EXPECT_EQ(Policy::parse("score").value().needs().profile.margin, 32);
    EXPECT_EQ(Policy::parse("score:window=8").value().needs().profile.margin, 8);
    EXPECT_EQ(Policy::parse("h2o+novelty").value().needs().profile.margin, 32);
}

// What works on query heads by themselves would pass over these reductions: it gets the reduced scores instead.
TEST(PolicyGrammar, AReductionThatIsNoMeanLeavesNoScoresOfQueryHeads) {
    for (const char * text : {"snapkv:group=max+caote", "h2o:group=sum+caote", "tova:heads=layer+caote", "vmax+caote"}) {
        EXPECT_FALSE(Policy::parse(text).value().scorer().has_head_scores()) << text;
    }
    for (const char * text : {"snapkv+caote", "h2o+caote", "tova+caote", "vmax:group=mean+caote"}) {
        EXPECT_TRUE(Policy::parse(text).value().scorer().has_head_scores()) << text;
    }
}

TEST(PolicyGrammar, MalformedTextIsAnError) {
    expect_error("", "empty");
    expect_error("   ", "empty");
    expect_error("+", "a part is empty");
    expect_error("snapkv+", "a part is empty");
    expect_error("snapkv++ada", "a part is empty");
    expect_error("snapkv:", "is not an option: write name=value");
    expect_error("snapkv:window", "'window' after 'snapkv' is not an option");
    expect_error("snapkv:=3", "is not an option");
    expect_error("ada", "there is no scorer: put one first, e.g. snapkv+ada");
    expect_error("snapkv:window=0", "'window' of policy part 'snapkv' is '0': must be an integer from 1 to 65536");
    expect_error("snapkv:window=", "must be an integer");
    for (const char * pool : {"max6", "max", "avg1", "avg-3", "max1025", "med5", "max7x", ""}) {
        expect_error((std::string("snapkv:pool=") + pool).c_str(),
                     "must be max7, avg5, avg7, none, or max or avg with an odd width of 3 to 1023");
    }
    expect_error("snapkv+ada:alpha=2", "must be a number from 0 to 1");
    expect_error("snapkv:window=8:window=9", "given twice");
    expect_error("h2o:recent=-1", "must be an integer from 0");
    expect_error("snapkv,h2o", "'snapkv,h2o' is not known");  // one policy, not a list
}

// Samples that have no margin are the same whatever the window: one serves both policies.
TEST(PolicyNeeds, AMarginFollowsTheWindowWhereASampleHasOne) {
    const auto margin = [](const char * policy) { return Policy::parse(policy).value().needs().profile.margin; };
    EXPECT_EQ(margin("snapkv:window=16+novelty"), 16);
    EXPECT_EQ(margin("snapkv:window=16+novelty:sample=random"), margin("snapkv:window=64+novelty:sample=random"));
}

}  // namespace
}  // namespace pith::parse_test
