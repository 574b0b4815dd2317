// run_pages_test.cpp - heat maps and score against memory: the numbers are the table's, and what is not there is said.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "eval/report/eval_report.h"
#include "eval/report/run_tables.h"
#include "lab/figures/xml_check.h"

namespace pith::run_pages_test {
namespace {

using testing::xml_fault;

struct FakeRun {
    RunInfo info;
    std::vector<Answer> answers;

    RunTable table(const std::string & label = "") const { return {label, make_eval_table(info, answers)}; }
    Answer & find(const std::string & task, const std::string & policy, const std::string & budget) {
        return *std::find_if(answers.begin(), answers.end(),
                             [&](const Answer & a) { return a.task == task && a.policy == policy && a.budget == budget; });
    }
};

// Policy i is right in the first so many of eight samples as its number says; the full cache in all.
FakeRun run_of(const std::vector<std::string> & policies, const std::vector<std::string> & budgets = {"20%"}) {
    FakeRun run;
    run.info.family = "fake";
    run.info.tasks = {{"niah_multikey_1", "F1", {}, false}, {"vt", "F1", {}, false}};
    run.info.lengths = {512};
    run.info.settings = {{"FAMILY", "fake"}, {"model", "tiny, 1"}, {"--question-aware", "no"}};
    run.info.about = {{"model path", "models/pith-reference.gguf"}};
    run.info.cases = {{"full", ""}};
    for (const std::string & budget : budgets) {
        for (const std::string & policy : policies) { run.info.cases.push_back({policy, budget}); }
    }
    for (size_t c = 0; c < run.info.cases.size(); ++c) {
        for (const EvalTask & task : run.info.tasks) {
            for (int i = 0; i < 8; ++i) {
                Answer answer;
                answer.task = task.name;
                answer.length = 512;
                answer.sample = "s" + std::to_string(i);
                answer.index = i;
                answer.policy = run.info.cases[c].policy;
                answer.budget = run.info.cases[c].budget;
                answer.score = c == 0 || i < static_cast<int>((c - 1) % 8) ? 1 : 0;
                answer.kept = c == 0 ? 500 : 100;
                answer.kv_bytes = c == 0 ? 2 << 20 : static_cast<int64_t>(c) << 17;
                answer.n_prompt = 500;
                run.answers.push_back(answer);
            }
        }
    }
    return run;
}

struct Cell {
    std::string css_class, detail, text;
};
// "policy, task" → what the cells say, panel by panel.
std::map<std::string, std::vector<Cell>> cells_of(const std::string & svg) {
    std::map<std::string, std::vector<Cell>> cells;
    std::istringstream lines(svg);
    for (std::string one; std::getline(lines, one);) {
        const size_t title = one.find("<title>");
        if (one.rfind("<rect", 0) != 0 || title == std::string::npos) { continue; }
        const std::string words = one.substr(title + 7, one.find("</title>") - title - 7);
        const size_t css = one.find("class=\"") + 7;
        Cell cell{one.substr(css, one.find('"', css) - css), words.substr(words.find(": ") + 2), ""};
        std::getline(lines, one);
        cell.text = one.substr(one.find('>') + 1, one.rfind('<') - one.find('>') - 1);
        cells[words.substr(0, words.find(": "))].push_back(cell);
    }
    return cells;
}

// All texts, also those that are broken into lines.
std::string words_of(const std::string & svg) {
    std::string words;
    std::istringstream lines(svg);
    for (std::string one; std::getline(lines, one);) {
        if (one.rfind("<text", 0) == 0) { words += one.substr(one.find('>') + 1, one.rfind('<') - one.find('>') - 1) + " "; }
    }
    return words;
}

// Rows of a panel, from above.
std::vector<std::string> order_of(const std::string & svg, const std::string & column) {
    std::vector<std::string> names;
    for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) {
        const std::string words = svg.substr(at + 7, svg.find(": ", at) - at - 7);
        if (words.ends_with(", " + column)) { names.push_back(words.substr(0, words.size() - column.size() - 2)); }
    }
    return names;
}

std::vector<std::string> split_line(const std::string & line) {
    std::vector<std::string> cells(1);
    for (const char c : line) {
        if (c == ',') {
            cells.emplace_back();
        } else {
            cells.back() += c;
        }
    }
    return cells;
}

TEST(HeatMapPage, NumbersAndIntervalsAreThoseOfTheCsv) {
    const FakeRun run = run_of({"p0", "p1", "p2", "p3"});
    const std::string svg = heat_map_svg({run.table()});
    EXPECT_EQ(xml_fault(svg), "") << svg;
    auto cells = cells_of(svg);
    std::istringstream csv(eval_csv(run.table().table));
    std::string line;
    std::getline(csv, line);
    const std::vector<std::string> header = split_line(line);
    const auto column = [&](const char * name) {
        return static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
    };
    size_t n = 0;
    for (; std::getline(csv, line); ++n) {
        const std::vector<std::string> row = split_line(line);
        const std::string name = row[column("policy")] + ", " + row[column("task")];
        ASSERT_EQ(cells[name].size(), 1U) << name;
        const auto rounded = [&](const char * of, int digits) { return fixed(std::stod(row[column(of)]), digits); };
        EXPECT_EQ(cells[name][0].text, rounded("score", row[column("task")] == "average" ? 1 : 0)) << line;
        EXPECT_EQ(cells[name][0].detail, rounded("score", 1) + " (" + rounded("low", 1) + " to " + rounded("high", 1) + ")");
    }
    EXPECT_EQ(n, 5U * 3);
    EXPECT_EQ(cells.size(), 5U * 3);
    EXPECT_NE(svg.find(">fake on pith-reference, question later<"), std::string::npos);
    EXPECT_NE(svg.find(">512 tokens, 8 samples a task<"), std::string::npos);
    EXPECT_NE(svg.find("@media (prefers-color-scheme:dark)"), std::string::npos);
}

TEST(HeatMapPage, TheBestAverageStandsFirst) {
    const std::string svg = heat_map_svg({run_of({"p0", "p1", "p2", "p3"}).table()});
    EXPECT_EQ(order_of(svg, "vt"), (std::vector<std::string>{"full", "p3", "p2", "p1", "p0"}));
    auto cells = cells_of(svg);
    EXPECT_EQ(cells["full, vt"][0].css_class, "v31");
    EXPECT_EQ(cells["p0, vt"][0].css_class, "v0");
}

TEST(HeatMapPage, EachBudgetHasAPanelWithTheFullCache) {
    const std::string svg = heat_map_svg({run_of({"p0", "p1"}, {"10%", "20%", "40%"}).table()});
    for (const char * title : {">budget 10%<", ">budget 20%<", ">budget 40%<"}) {
        EXPECT_NE(svg.find(title), std::string::npos) << title;
    }
    auto cells = cells_of(svg);
    EXPECT_EQ(cells["full, vt"].size(), 3U);
    ASSERT_EQ(cells["p1, vt"].size(), 3U);
    EXPECT_EQ(cells["p1, vt"][0].text, "12");  // cases 2, 4 and 6: 1, 3 and 5 of 8
    EXPECT_EQ(cells["p1, vt"][1].text, "38");
    EXPECT_EQ(cells["p1, vt"][2].text, "62");
}

TEST(HeatMapPage, RefusalsAndWhatIsMissingAreShownAsSuch) {
    FakeRun run = run_of({"p0", "p1", "p2"});
    for (Answer & answer : run.answers) {
        if (answer.policy == "p2" && answer.task == "vt") { answer.refused = "the budget is too small"; }
    }
    run.find("niah_multikey_1", "p1", "20%").refused = "the budget is too small";
    std::erase_if(run.answers, [](const Answer & a) { return a.policy == "p0" && a.task == "vt"; });
    const std::string svg = heat_map_svg({run.table()});
    EXPECT_EQ(xml_fault(svg), "") << svg;
    auto cells = cells_of(svg);
    EXPECT_EQ(cells["p2, vt"][0].text, "×");
    EXPECT_EQ(cells["p2, vt"][0].css_class, "no");
    EXPECT_EQ(cells["p2, vt"][0].detail, "refused: the budget is too small");
    EXPECT_EQ(cells["p0, vt"][0].text, "–");
    EXPECT_EQ(cells["p1, niah_multikey_1"][0].text, "0*");
    for (const char * name : {"p2, average", "p0, average"}) { EXPECT_EQ(cells[name][0].text, "–") << name; }
    EXPECT_EQ(order_of(svg, "vt"), (std::vector<std::string>{"full", "p1", "p0", "p2"})) << "those without an average last";
    for (const char * words : {"× refused", "* some samples refused", "– no answer"}) {
        EXPECT_NE(words_of(svg).find(words), std::string::npos) << words;
    }
    EXPECT_EQ(words_of(heat_map_svg({run_of({"p0"}).table()})).find("refused"), std::string::npos) << "said where it is so";
}

TEST(HeatMapPage, ATaskThatDoesNotFitIsNamed) {
    FakeRun run = run_of({"p3"});
    std::erase_if(run.answers, [](const Answer & a) { return a.task == "vt"; });
    Answer left_out;
    left_out.task = "vt";
    left_out.length = 512;
    left_out.turn = -1;
    left_out.refused = "task 'vt' needs at least 902 tokens";
    run.answers.push_back(left_out);
    const std::string svg = heat_map_svg({run.table()});
    EXPECT_NE(words_of(svg).find("vt left out: task 'vt' needs at least 902 tokens."), std::string::npos) << svg;
    EXPECT_EQ(cells_of(svg)["p3, vt"][0].text, "–");
    EXPECT_EQ(cells_of(svg)["p3, average"][0].detail, cells_of(svg)["p3, niah_multikey_1"][0].detail);
}

TEST(HeatMapPage, TakesOnePolicyAndForty) {
    const std::string full = heat_map_svg({run_of({}).table()});
    EXPECT_EQ(xml_fault(full), "") << full;
    EXPECT_EQ(order_of(full, "vt"), std::vector<std::string>{"full"});
    FakeRun one_task = run_of({"p0"});
    one_task.info.tasks.pop_back();
    const std::string one = heat_map_svg({one_task.table()});
    EXPECT_EQ(one.find("average<"), std::string::npos);
    EXPECT_EQ(order_of(one, "niah_multikey_1"), (std::vector<std::string>{"full", "p0"}));
    std::vector<std::string> names;
    for (int i = 0; i < 40; ++i) { names.push_back("critical-policy:option=" + std::to_string(i)); }
    const std::string forty = heat_map_svg({run_of(names).table()});
    EXPECT_EQ(xml_fault(forty), "");
    EXPECT_EQ(order_of(forty, "vt").size(), 41U);
    for (const std::string & name : names) { EXPECT_NE(forty.find(">" + name + "</text>"), std::string::npos) << name; }
}

TEST(MemoryPage, APointStandsWhereItsBytesAre) {
    const FakeRun run = run_of({"p3", "p5"}, {"10%", "20%"});
    const std::string svg = memory_svg({run.table()});
    EXPECT_EQ(xml_fault(svg), "") << svg;
    // Cases 1 to 4 hold so many times 128 KiB and have 0, 1, 2, 3 of 8 right; the full cache holds 2 MiB.
    const Interval interval = run.table().table.find("", 512, 4)->interval.value();
    std::ostringstream last;
    last << "p5, KV cache held (MiB) 0.5: 37.5 (" << fixed(interval.low, 1).substr(0, 2);
    for (const std::string & point :
         {std::string("p3, KV cache held (MiB) 0.125: 0 ("), std::string("p5, KV cache held (MiB) 0.25: 12.5 ("),
          std::string("p3, KV cache held (MiB) 0.375: 25 ("), last.str(), std::string("full, KV cache held (MiB) 2: 100 (")}) {
        EXPECT_NE(svg.find(point), std::string::npos) << point << "\n" << svg;
    }
    EXPECT_NE(svg.find("class=\"e s0\""), std::string::npos) << "intervals are bars";
    EXPECT_NE(svg.find("class=\"band\""), std::string::npos);
    EXPECT_NE(words_of(svg).find("fake on pith-reference, 512 tokens, mean of 2 tasks, 8 samples a task; bars: 95 %."),
              std::string::npos);
    EXPECT_NE(svg.find("@media (prefers-color-scheme:dark)"), std::string::npos);
}

TEST(MemoryPage, CountsTokensWhereARunDoesNotKnowItsBytes) {
    FakeRun run = run_of({"p3"});
    const FakeRun knows = run;
    for (Answer & answer : run.answers) { answer.kv_bytes = 0; }
    const std::string svg = memory_svg({run.table("a"), knows.table("b")});
    EXPECT_NE(svg.find("p3, tokens kept a head 100: 0 ("), std::string::npos) << svg;
    EXPECT_EQ(svg.find("MiB"), std::string::npos) << "one axis for all";
}

TEST(MemoryPage, LargeCachesAreCountedInGiB) {
    FakeRun run = run_of({"p3"});
    for (Answer & answer : run.answers) { answer.kv_bytes *= 4096; }
    EXPECT_NE(memory_svg({run.table()}).find("full, KV cache held (GiB) 8: 100 ("), std::string::npos);
}

TEST(MemoryPage, NamesWhatHasNoPoint) {
    FakeRun run = run_of({"p3", "p5"});
    for (Answer & answer : run.answers) {
        if (answer.policy == "p5") { answer.refused = "the budget is too small"; }
    }
    const std::string svg = memory_svg({run.table()});
    EXPECT_EQ(xml_fault(svg), "") << svg;
    EXPECT_NE(svg.find("Not drawn"), std::string::npos);
    EXPECT_NE(words_of(svg).find("Not drawn, refused or unfinished: p5 20%."), std::string::npos) << svg;
    EXPECT_EQ(memory_svg({run_of({"p3"}).table()}).find("Not drawn"), std::string::npos);
    FakeRun nothing = run_of({"p3"});
    nothing.answers.clear();
    EXPECT_EQ(xml_fault(memory_svg({nothing.table()})), "");
}

TEST(MemoryPage, RunsStandSideBySideAndLinesLookTheSameInBoth) {
    FakeRun known = run_of({"p3", "p5"});
    known.info.settings.back().second = "yes";
    const auto runs = labelled({known.table().table, run_of({"p5", "p3"}).table().table}, {"out/a", "out/b/"});
    EXPECT_EQ(runs[0].label, "question known");
    EXPECT_EQ(runs[1].label, "question later");
    const std::string svg = memory_svg(runs);
    EXPECT_EQ(xml_fault(svg), "") << svg;
    for (const char * title : {">question known<", ">question later<"}) {
        EXPECT_NE(svg.find(title), std::string::npos) << title;
    }
    for (size_t at = svg.find("<title>p5, "); at != std::string::npos; at = svg.find("<title>p5, ", at + 1)) {
        EXPECT_NE(svg.substr(at - 90, 90).find("class=\"m s1\""), std::string::npos) << svg.substr(at - 90, 120);
    }
}

TEST(RunTables, LabelsSayWhatDiffers) {
    FakeRun first = run_of({"p0"});
    FakeRun second = run_of({"p0"});
    const auto labels = [&] {
        const auto runs = labelled({first.table().table, second.table().table}, {"out/a", "out/b/"});
        return runs[0].label + " | " + runs[1].label;
    };
    EXPECT_EQ(labels(), "a | b") << "nothing does: the folders";
    second.info.about = {{"model path", "models/pith-second.gguf"}};
    EXPECT_EQ(labels(), "pith-reference | pith-second");
    second.info.settings.emplace_back("--chunk", "64");
    EXPECT_EQ(labels(), "pith-reference | pith-second, --chunk 64");
    second.info.settings.emplace_back("--policy", "p0");
    EXPECT_EQ(labels(), "pith-reference | pith-second, --chunk 64") << "the figure says it";
    EXPECT_EQ(labelled({first.table().table}, {"out/a"})[0].label, "");
}

TEST(RunTables, ChosenPoliciesKeepTheirNumbers) {
    const FakeRun run = run_of({"p0", "p3"}, {"10%", "20%"});
    const EvalTable all = run.table().table;
    const auto chosen = only_policies(all, {"p3"});
    ASSERT_TRUE(chosen.ok());
    EXPECT_EQ(chosen->info.cases, (std::vector<EvalCase>{{"p3", "10%"}, {"p3", "20%"}}));
    EXPECT_EQ(chosen->rows.size(), 2U * 3);
    EXPECT_EQ(*chosen->find("", 512, 1)->score, *all.find("", 512, 4)->score);
    EXPECT_EQ(*chosen->find("", 512, 1)->difference, *all.find("", 512, 4)->difference) << "to the full cache, not shown";
    const auto unknown = only_policies(all, {"p3", "p4"});
    EXPECT_EQ(unknown.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(unknown.status().message()).find("'p4': there are full, p0, p3"), std::string::npos);
}

TEST(RunTables, ColumnsOfSeveralRunsNameTheRun) {
    const FakeRun run = run_of({"p0"});
    const TextTable one = eval_columns(run.table().table);
    const TextTable both = columns_of_runs({run.table("a, b"), run.table("c")});
    EXPECT_EQ(both.header.size(), one.header.size() + 1);
    EXPECT_EQ(both.header.front(), "run");
    ASSERT_EQ(both.rows.size(), 2 * one.rows.size());
    EXPECT_EQ(both.rows.front().front(), "a, b");
    EXPECT_EQ(both.rows.back().front(), "c");
    EXPECT_NE(to_csv(both).find("\n\"a, b\",fake,"), std::string::npos);
}

}  // namespace
}  // namespace pith::run_pages_test
