// worst_test.cpp - the most that any of the window's queries paid.
#include <algorithm>

#include "policy/formulas.h"
#include "policy/score/score_one.h"

namespace pith::test::worst_test {
namespace {

// Rows of averages are pooled where they are taken (evidence/pooled_rows.h); a maximum over neighbours is taken here.
std::vector<float> worst(const PartVariant & scorer, const LayerEvidence & evidence, int h) {
    const auto positions = evidence.positions.row(h);
    const auto n = static_cast<int>(positions.size());
    int n_past = 0;
    while (n_past < n && positions[static_cast<size_t>(n_past)] < evidence.n_seen - evidence.n_window) ++n_past;
    const std::string pool = scorer.options.at("pool");
    const int reach = pool.starts_with("max") ? std::stoi(pool.substr(3)) / 2 : 0;
    std::vector<double> of_group(static_cast<size_t>(n), 0.0);
    for (int g = 0; g < evidence.n_group; ++g) {
        const auto row = evidence.window_max.row(h * evidence.n_group + g);
        for (int j = 0; j < n; ++j) {
            float most = row[static_cast<size_t>(j)];
            for (int i = std::max(0, j - reach); j < n_past && i <= std::min(n_past - 1, j + reach); ++i) {
                most = std::max(most, row[static_cast<size_t>(i)]);
            }
            double & all = of_group[static_cast<size_t>(j)];
            all = scorer.is("group", "max") ? std::max<double>(all, most) : all + most;
        }
    }
    double sum = 0;
    for (int j = 0; j < n; ++j) {
        if (scorer.is("group", "mean")) of_group[static_cast<size_t>(j)] /= evidence.n_group;
        if (j < n_past) sum += of_group[static_cast<size_t>(j)];
    }
    std::vector<float> scores(of_group.begin(), of_group.end());
    for (int j = 0; scorer.is("floor", "mean") && j < n_past; ++j) {
        scores[static_cast<size_t>(j)] = static_cast<float>(std::max(of_group[static_cast<size_t>(j)], sum / n_past));
    }
    return scores;
}
const Known<ScorerFormula> kWorst({"worst", worst});

TEST(Worst, LiftsWhatNoQueryLookedAtToTheLanesMean) {
    LayerEvidence evidence = bare_evidence(1, 2, 4);
    evidence.n_window = 1;
    evidence.window_max.push_row(Row{.6F, 0, .1F, .9F});
    evidence.window_max.push_row(Row{.2F, 0, .3F, .1F});
    EXPECT_EQ(scores_of("worst:floor=none", evidence), (std::vector<Row>{{.6F, 0, .3F, .9F}}));
    const std::vector<Row> lifted = scores_of("worst", evidence);
    EXPECT_FLOAT_EQ(lifted[0][1], .3F) << "the mean of .6, 0 and .3: the window's own entry is not in it";
    EXPECT_FLOAT_EQ(lifted[0][2], .3F);
    EXPECT_FLOAT_EQ(lifted[0][3], .9F);
}

TEST(Worst, AsksForRowsThatArePooledBeforeTheirMaximumIsTaken) {
    EXPECT_EQ(Policy::parse("worst")->needs().window_max_pool, 5);
    EXPECT_EQ(Policy::parse("worst:pool=avg9:window=16")->needs(),
              (EvidenceNeeds{.window = 16, .window_max = true, .window_max_pool = 9}));
    EXPECT_EQ(Policy::parse("worst:pool=none")->needs().window_max_pool, 0);
    EXPECT_EQ(Policy::parse("worst:pool=max7")->needs().window_max_pool, 0);
    EXPECT_TRUE(Policy::parse("worst")->judges_by_newest_queries());
    EXPECT_EQ(Policy::parse("worst:window=16")->n_recent(100), 16);
}

}  // namespace
}  // namespace pith::test::worst_test
