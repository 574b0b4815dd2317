// comparison_test.cpp - a run beside a paper's numbers, both small enough to see through.
#include "eval/studies/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pith::comparison_test {
namespace {

constexpr PaperFile kFiles[] = {{"study/table-01", R"(# paper: P
# table: Table 1
# part: part
model,measure,policy,which,budget,a,b,average
A,score,full,,,90,70,80
A,score,cake,,20%,50,30,40
A,score,snapkv,,20%,40,20,30
B,score,cake,,20%,52,32,42
)"},
                                {"study/table-02", R"(# paper: P
# table: Table 2
# part: part
model,measure,policy,which,budget,a,b,average
A,evicted,gated,(1),,10,20,15
A,evicted,gated,(2),,30,40,35
)"},
                                {"study/table-03", R"(# paper: P
# table: Table 3
# part: part
model,measure,policy,which,budget,average@1000,average@4000,average
A,score,cake,,20%,7,9,8
)"},
                                {"study/table-04", R"(# paper: P
# table: Table 4
# part: other
model,measure,policy,which,budget,average
A,score,cake,,20%,1
)"}};

std::vector<PaperTable> read_numbers() {
    std::vector<PaperTable> all;
    for (const PaperFile & file : kFiles) {
        const auto tables = read_paper_tables(file);
        EXPECT_TRUE(tables.ok()) << tables.status().message();
        if (tables.ok()) { all.insert(all.end(), tables->begin(), tables->end()); }
    }
    return all;
}

EvalRow row(const std::string & task, int length, size_t index, double score, double kept) {
    EvalRow out;
    out.task = task;
    out.length = length;
    out.index = index;
    out.score = score;
    out.kept = kept;
    return out;
}

// Tasks a and b at 1,024 and 4,096 tokens.
EvalTable make_run(const std::vector<std::string> & tasks = {"a", "b"}) {
    EvalTable table;
    for (const std::string & task : tasks) { table.info.tasks.push_back({task, "share", {}, false}); }
    table.info.lengths = {1024, 4096};
    table.info.cases = {{"full", ""}, {"cake:preset=llama3.1-8b", "20%"}, {"gated", ""}, {"h2o", "20%"}};
    for (const int length : table.info.lengths) {
        const double more = length == 1024 ? 0 : 10;
        for (const std::string & task : tasks) {
            const double base = task == "a" ? 60 : 20;
            table.rows.push_back(row(task, length, 0, base + 20 + more, 100));
            table.rows.push_back(row(task, length, 1, base + more, 20));
            table.rows.push_back(row(task, length, 2, base + more, task == "a" ? 75 : 55));
            table.rows.push_back(row(task, length, 3, base + more, 20));
        }
    }
    return table;
}

std::vector<PaperComparison> compare(const EvalTable * table, bool details = false) {
    static const std::vector<PaperTable> numbers = read_numbers();
    return compare_with_paper(numbers, "part", {table, {"a", "b"}}, details);
}

const ComparedRow & find(const PaperComparison & comparison, const std::string & policy, const std::string & label = "",
                         const std::string & column = "average") {
    static const ComparedRow kNone;
    const auto at = std::ranges::find_if(comparison.rows, [&](const ComparedRow & one) {
        return one.policy == policy && one.label == label && one.column == column;
    });
    EXPECT_NE(at, comparison.rows.end()) << policy << " " << label << " " << column;
    return at == comparison.rows.end() ? kNone : *at;
}

TEST(Comparison, PutsARunBesideEachOfThePapersModels) {
    const EvalTable table = make_run();
    const auto all = compare(&table);
    ASSERT_EQ(all.size(), 3U) << "another part's table is none of these";
    EXPECT_EQ(all[0].models, (std::vector<std::string_view>{"A", "B"}));
    const ComparedRow & cake = find(all[0], "cake");
    EXPECT_EQ(cake.here, 45.0) << "mean of a, b over both lengths, whatever the preset";
    EXPECT_EQ(cake.paper[0], 40.0);
    EXPECT_EQ(cake.paper[1], 42.0);
    EXPECT_EQ(find(all[0], "full").paper[1], std::nullopt) << "the paper has none for B";
    EXPECT_EQ(find(all[0], "snapkv").here, std::nullopt) << "only the paper has it";
    EXPECT_EQ(find(all[0], "h2o").here, 45.0);
    EXPECT_EQ(find(all[0], "h2o").paper[0], std::nullopt) << "only this run has it";
    EXPECT_EQ(all[0].rows.back().policy, "snapkv") << "the paper's own come last";
}

TEST(Comparison, GivesEveryTaskInDetail) {
    const EvalTable table = make_run();
    const auto all = compare(&table, true);
    EXPECT_EQ(find(all[0], "cake", "", "a").here, 65.0);
    EXPECT_EQ(find(all[0], "cake", "", "a").paper[1], 52.0);
    EXPECT_EQ(find(all[0], "cake", "", "b").here, 25.0);
}

TEST(Comparison, ComparesFewerTasksOverThoseAlone) {
    const EvalTable table = make_run({"b"});
    const auto all = compare(&table);
    const ComparedRow & cake = find(all[0], "cake", "", "b");
    EXPECT_EQ(cake.here, 25.0);
    EXPECT_EQ(cake.paper[0], 30.0) << "the paper's b, not its average";
}

TEST(Comparison, RunsOneGateBesideEachOfThePapersAndCountsWhatIsEvicted) {
    const EvalTable table = make_run();
    const auto all = compare(&table);
    EXPECT_EQ(find(all[1], "gated", "(1)").here, 35.0) << "25 % of a, 45 % of b";
    EXPECT_EQ(find(all[1], "gated", "(1)").paper[0], 15.0);
    EXPECT_EQ(find(all[1], "gated", "(2)").here, 35.0);
    EXPECT_EQ(find(all[1], "gated", "(2)").paper[0], 35.0);
}

TEST(Comparison, TakesAnAverageAtALengthFromThatLength) {
    const EvalTable table = make_run();
    const auto all = compare(&table);
    EXPECT_EQ(find(all[2], "cake", "", "average@1000").here, 40.0);
    EXPECT_EQ(find(all[2], "cake", "", "average@4000").here, 50.0);
    EXPECT_EQ(find(all[2], "cake", "", "average@4000").paper[0], 9.0);
    EXPECT_TRUE(std::ranges::none_of(all[2].rows, [](const ComparedRow & one) { return one.column == "average"; }))
        << "the paper's is over other lengths than the run's";
    EXPECT_EQ(find(compare(nullptr)[2], "cake").paper[0], 8.0);
}

TEST(Comparison, ShowsThePaperAloneWithoutARun) {
    const auto all = compare(nullptr);
    EXPECT_EQ(find(all[0], "cake").here, std::nullopt);
    const std::string text = comparison_text(all, false);
    EXPECT_EQ(text.find("here"), std::string::npos);
    EXPECT_NE(text.find("Table 2, % of the entries evicted"), std::string::npos);
    EXPECT_NE(text.find("42.00"), std::string::npos);
    const EvalTable table = make_run();
    EXPECT_NE(comparison_text(compare(&table), true).find("here"), std::string::npos);
}

}  // namespace
}  // namespace pith::comparison_test
