// auto_policy_test.cpp - what `auto` chooses, for every state of what can be known.
#include "policy/auto_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pith/policies.h"
#include "policy/named_policy.h"
#include "policy/policy.h"

namespace pith::auto_policy_test {
namespace {

// What `auto` is, by what is known.
constexpr const char * kInSight = "vmax:pool=avg45:pool_over=before+entropy";
constexpr const char * kLater = "keydiff+ada:alpha=0";
constexpr const char * kLaterWithHeads = "expected:eps=0.02+head:by=both";

constexpr KnownHeads kAllHeads[] = {KnownHeads::kNone,  KnownHeads::kGiven,   KnownHeads::kBesideModel,
                                    KnownHeads::kUnfit, KnownHeads::kShipped, KnownHeads::kOthers};

bool fits(KnownHeads heads) {
    return heads == KnownHeads::kGiven || heads == KnownHeads::kBesideModel || heads == KnownHeads::kShipped;
}

constexpr KnownQuestion kAllQuestions[] = {KnownQuestion::kUnknown, KnownQuestion::kInSight, KnownQuestion::kOutOfSight};

std::string chosen(const AutoFacts & facts) {
    return choose_policy(facts).policy.name();
}

TEST(AutoPolicy, ChoosesByGatesBudgetHeadsAndQuestionInThisOrder) {
    for (const KnownHeads heads : kAllHeads) {
        for (const KnownQuestion question : kAllQuestions) {
            EXPECT_EQ(chosen({false, KnownGates::kThreshold, heads, question}), "gated");
            EXPECT_EQ(chosen({true, KnownGates::kThreshold, heads, question}), "gated+snapkv");
            EXPECT_EQ(chosen({false, KnownGates::kNone, heads, question}), "full");
            const std::string without = question == KnownQuestion::kInSight ? kInSight : kLater;
            const std::string with = question == KnownQuestion::kInSight ? kInSight : kLaterWithHeads;
            EXPECT_EQ(chosen({true, KnownGates::kNone, heads, question}), fits(heads) ? with : without);
            const std::string even = question == KnownQuestion::kInSight ? "snapkv" : "keydiff";
            EXPECT_EQ(chosen({true, KnownGates::kNone, heads, question, false, true}), even)
                << "divides nothing, heads measured or not";
        }
    }
}

TEST(AutoPolicy, ReadsAgainWhereItMayAndNobodyKnowsWhatWillBeAsked) {
    for (const KnownHeads heads : kAllHeads) {
        for (const KnownQuestion question : kAllQuestions) {
            const AutoFacts once{.limited = true, .heads = heads, .question = question};
            AutoFacts twice = once;
            twice.may_reread = true;
            const bool seen = question == KnownQuestion::kInSight;
            const std::string again = fits(heads) ? "reread:group=mean+head:by=both" : "reread:group=mean+global:normalise=off";
            EXPECT_EQ(chosen(twice), seen ? chosen(once) : again);
            EXPECT_EQ(choose_policy(twice).reason, choose_policy(once).reason);
        }
    }
    EXPECT_EQ(chosen({.may_reread = true}), "full");
    EXPECT_EQ(chosen({.limited = true, .even = true, .may_reread = true}), "keydiff");
    EXPECT_EQ(chosen({.limited = true, .gates = KnownGates::kThreshold, .may_reread = true}), "gated+snapkv");
}

TEST(AutoPolicy, TakesWhatWasLearntForTheModelWhereNobodyKnowsWhatWillBeAsked) {
    for (const KnownHeads heads : kAllHeads) {
        const AutoFacts learnt{.limited = true, .gates = KnownGates::kRank, .heads = heads};
        EXPECT_EQ(chosen(learnt), "gate+global:normalise=off");
        EXPECT_EQ(choose_policy(learnt).reason, "importance was learnt for the model");
        AutoFacts twice = learnt;
        twice.may_reread = true;
        EXPECT_EQ(chosen(twice), fits(heads) ? "reread:group=mean+head:by=both" : "gate+global:normalise=off");
        AutoFacts seen = learnt;
        seen.question = KnownQuestion::kInSight;
        EXPECT_EQ(chosen(seen), "vmax:pool=avg45:pool_over=before+entropy");
    }
    EXPECT_EQ(chosen({.gates = KnownGates::kRank}), "full");
    EXPECT_EQ(chosen({.limited = true, .gates = KnownGates::kRank, .even = true}), "keydiff");
}

TEST(AutoPolicy, SaysWhy) {
    const auto reason = [](const AutoFacts & facts) { return choose_policy(facts).reason; };
    EXPECT_EQ(reason({}), "no budget");
    EXPECT_EQ(reason({.roomy = true}), "memory holds the whole context");
    EXPECT_EQ(reason({.limited = true, .even = true}),
              "what will be asked is not known; a limit on virtual memory, so all heads hold the same");
    EXPECT_EQ(reason({.gates = KnownGates::kThreshold}), "the model has gates");
    EXPECT_EQ(reason({.limited = true, .heads = KnownHeads::kGiven}), "head importances given");
    EXPECT_EQ(reason({.limited = true, .heads = KnownHeads::kBesideModel}), "head importances beside the model");
    EXPECT_EQ(reason({.limited = true, .heads = KnownHeads::kShipped}), "head importances that come with Pith");
    EXPECT_EQ(
        reason({.limited = true, .heads = KnownHeads::kOthers}),
        "what will be asked is not known; the head importances that come with Pith are for another training of the model");
    EXPECT_EQ(reason({.limited = true, .question = KnownQuestion::kInSight}), "the question is in sight");
    EXPECT_EQ(reason({.limited = true, .question = KnownQuestion::kOutOfSight}), "the question is longer than a chunk");
    EXPECT_EQ(reason({.limited = true}), "what will be asked is not known");
    EXPECT_EQ(reason({.limited = true, .heads = KnownHeads::kUnfit, .question = KnownQuestion::kInSight}),
              "the question is in sight");
}

// A scorer that looks at the newest queries takes them for the question; its needs say so, whatever divides the budget.
TEST(AutoPolicy, NamedPoliciesThatJudgeByTheNewestTokensAreToldWhereTheQuestionComesLater) {
    for (const char * name : {"snapkv", "snapkv:pool=avg45+preference", "adakv", "pyramidkv", "headkv", "cake", "lava",
                              "laprox", "score", "criticalkv", "tova", "gated+snapkv"}) {
        EXPECT_TRUE(Policy::parse(name)->judges_by_newest_queries()) << name;
    }
    for (const char * name : {"full", "random", "streaming", "window", "knorm", "keydiff", "keydiff+preference", "h2o",
                              "expected", "duo", "gated"}) {
        EXPECT_FALSE(Policy::parse(name)->judges_by_newest_queries()) << name;
    }
    const auto text = [](const std::vector<PolicyChoice> & policies, const AutoFacts & facts = {}) {
        return *unseen_question_text(policies, facts);
    };
    EXPECT_EQ(text({"keydiff", "auto", "full"}), "");
    EXPECT_EQ(text({"snapkv"}),
              "policy snapkv judges by the newest tokens, which will not be the question: keydiff+ada:alpha=0, which auto "
              "chooses, fits");
    EXPECT_EQ(
        text({"keydiff", "adakv", "lava"}, {.question = KnownQuestion::kInSight}),
        "policies adakv, lava judge by the newest tokens, which will not be the question: keydiff+ada:alpha=0, which auto "
        "chooses, fits");
    EXPECT_EQ(
        text({"snapkv"}, {.heads = KnownHeads::kGiven}),
        "policy snapkv judges by the newest tokens, which will not be the question: expected:eps=0.02+head:by=both, which "
        "auto chooses, fits");
    EXPECT_EQ(text({"snapkv"}, {.gates = KnownGates::kThreshold}),
              "policy snapkv judges by the newest tokens, which will not be the question: keydiff+ada:alpha=0 fits")
        << "auto's own choice is no better";
}

// What a session relies on before it knows which it is: that they are planned alike, and that importances are there.
TEST(AutoPolicy, CandidatesAreAllThatABudgetCanBringAndArePlannedAlike) {
    const auto candidates = auto_candidates(/*may_reread=*/false);
    for (const KnownGates gates : {KnownGates::kNone, KnownGates::kThreshold, KnownGates::kRank}) {
        for (const KnownHeads heads : kAllHeads) {
            for (const KnownQuestion question : kAllQuestions) {
                const std::string name = chosen({true, gates, heads, question});
                EXPECT_NE(std::ranges::find(candidates, name, &Policy::name), candidates.end()) << name;
                const auto policy = Policy::parse(name);
                ASSERT_TRUE(policy.ok()) << policy.status().message();
                EXPECT_TRUE(policy->evicts()) << name;
                EXPECT_EQ(policy->gated(), gates == KnownGates::kThreshold) << name;
                const bool ranks = gates == KnownGates::kRank && question != KnownQuestion::kInSight;
                EXPECT_EQ(policy->needs_gate(), gates == KnownGates::kThreshold || ranks) << name;
                if (!fits(heads)) { EXPECT_FALSE(policy->wants_importance()) << name; }
            }
        }
    }
}

TEST(AutoPolicy, IsAWordOfItsOwn) {
    EXPECT_TRUE(PolicyChoice().is_auto());
    EXPECT_TRUE(PolicyChoice("auto").is_auto());
    EXPECT_TRUE(PolicyChoice(" auto ").is_auto());
    EXPECT_FALSE(PolicyChoice("auto+caote").is_auto());
    EXPECT_TRUE(check_policy("auto").ok());
    for (const char * text : {"auto+caote", "gated+auto", "auto:window=8"}) {
        const Status status = check_policy(text);
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << text;
        EXPECT_NE(status.message().find("no parts and no options"), std::string::npos) << status.message();
    }
    const Status status = named_policy("auto").status();  // of those who need one policy, not a choice
    EXPECT_NE(status.message().find("depends on the session"), std::string::npos) << status.message();
}

TEST(AutoPolicy, StandsFirstInTheListAndNamesWhatItChooses) {
    const PolicyInfo first = list_policies().front();
    EXPECT_EQ(first.name, "auto");
    EXPECT_EQ(first.kind, "choice");
    for (const Policy & one : auto_candidates(/*may_reread=*/false)) {
        EXPECT_NE(first.help.find(one.name()), std::string::npos) << one.name() << " in: " << first.help;
    }
}

}  // namespace
}  // namespace pith::auto_policy_test
