// studies_test.cpp - the studies' tables are whole, and all they name exists.
#include "eval/studies/studies.h"
#include "eval/report/compare_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/benchmark.h"
#include "core/text.h"
#include "eval/studies/paper_tables.h"
#include "pith/budget.h"
#include "pith/policies.h"
#include "policy/policy.h"

namespace pith::studies_test {
namespace {

std::string at(const Study & study, const StudyPart & part) {
    return std::string(study.name) + ", " + std::string(part.name);
}

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos && std::atoi(text.data()) > 0;
}

std::vector<std::string_view> words_of(std::string_view command) {
    return split(command, ' ');
}

Status check_policies(std::string_view list) {
    for (const std::string_view name : split(list, ',')) { PITH_RETURN_IF_ERROR(check_policy(name)); }
    return {};
}

TEST(Studies, EveryPolicyOfEveryPartExistsWithItsOptions) {
    for (const Study & study : studies()) {
        for (const StudyPart & part : study.parts) {
            const Status policies = check_policies(part.policies);
            EXPECT_TRUE(policies.ok()) << at(study, part) << ": " << policies.message();
            const std::vector<std::string_view> names = list_of(part.policies);
            EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size()) << at(study, part) << ": one twice";
        }
    }
}

// What the papers claim is of policies that the part runs, two different ones each time.
TEST(Studies, EveryPairIsOfTwoPoliciesOfItsPart) {
    int n_pairs = 0;
    for (const Study & study : studies()) {
        for (const StudyPart & part : study.parts) {
            const std::vector<std::string_view> names = list_of(part.policies);
            const auto pairs = parse_pairs(part.pairs);
            EXPECT_EQ(pairs.size(), list_of(part.pairs).size()) << at(study, part) << ": a pair without '<'";
            for (const ComparePolicies & pair : pairs) {
                ++n_pairs;
                EXPECT_EQ(std::ranges::count(names, pair.first), 1) << at(study, part) << ": " << pair.first;
                EXPECT_EQ(std::ranges::count(names, pair.second), 1) << at(study, part) << ": " << pair.second;
                EXPECT_NE(pair.first, pair.second) << at(study, part);
            }
        }
    }
    EXPECT_GT(n_pairs, 50);
    EXPECT_EQ(with_cake_preset("cake<score,snapkv<score", "llama3.1-8b"), "cake:preset=llama3.1-8b<score,snapkv<score");
    EXPECT_EQ(with_cake_preset("", "llama3.1-8b"), "");
}

TEST(Studies, EverySizeHasBudgetsLengthsAndChunksThatCanBe) {
    for (const Study & study : studies()) {
        for (const StudyPart & part : study.parts) {
            for (const StudySize * size : {&part.paper, &part.reference}) {
                EXPECT_FALSE(size->budgets.empty()) << at(study, part);
                for (const std::string_view budget : list_of(size->budgets)) {
                    EXPECT_TRUE(Budget::parse(budget).ok()) << at(study, part) << ": " << budget;
                }
                for (const std::string_view length : list_of(size->lengths)) {
                    EXPECT_TRUE(is_number(length)) << at(study, part) << ": " << length;
                }
                EXPECT_FALSE(size->chunks.empty()) << at(study, part);
                for (const std::string_view chunk : list_of(size->chunks)) {
                    EXPECT_TRUE(is_number(chunk)) << at(study, part) << ": " << chunk;
                }
            }
            if (!part.needs_data || part.stand_in) {
                EXPECT_FALSE(part.reference.lengths.empty()) << at(study, part) << ": generated samples need a length";
            }
        }
    }
}

TEST(Studies, EveryTaskOfEveryPartExists) {
    for (const Study & study : studies()) {
        for (const StudyPart & part : study.parts) {
            if (part.kind == StudyKind::kEfficiency || part.family == "perplexity") { continue; }
            const std::vector<std::string> tasks = tasks_of_part(part);
            EXPECT_FALSE(tasks.empty()) << at(study, part);
            bool has_file = false;
            for (const std::string & name : tasks) {
                const benchmarks::Task * task = benchmarks::find_task(part.family, name);
                ASSERT_NE(task, nullptr) << at(study, part) << ": " << name;
                has_file = has_file || !task->rules().file.empty();
            }
            if (part.needs_data) { EXPECT_TRUE(has_file) << at(study, part); }
        }
    }
}

// What the papers number.
TEST(Studies, ListEveryTableAndFigureOfTheirPapers) {
    struct Paper {
        std::string_view name;
        int n_tables, n_figures;
    };
    constexpr Paper kPapers[] = {
        {"caote", 13, 2}, {"criticalkv", 17, 9}, {"score", 11, 13}, {"laprox", 15, 6}, {"attention-gate", 5, 5}};
    EXPECT_EQ(studies().size(), std::size(kPapers));
    for (const Paper & paper : kPapers) {
        const Study * study = find_study(paper.name);
        ASSERT_NE(study, nullptr) << paper.name;
        const auto count = [&](const std::string & label) {
            return std::ranges::count(study->items, label, &PaperItem::label);
        };
        for (int i = 1; i <= paper.n_tables; ++i) {
            EXPECT_EQ(count("Table " + std::to_string(i)), 1) << paper.name << ", table " << i;
        }
        for (int i = 1; i <= paper.n_figures; ++i) {
            EXPECT_EQ(count("Figure " + std::to_string(i)), 1) << paper.name << ", figure " << i;
        }
        EXPECT_EQ(count("Table " + std::to_string(paper.n_tables + 1)), 0) << paper.name;
        EXPECT_EQ(count("Figure " + std::to_string(paper.n_figures + 1)), 0) << paper.name;
    }
}

TEST(Studies, AnItemHasACommandOrTheReasonWhyThereIsNone) {
    for (const Study & study : studies()) {
        for (const PaperItem & item : study.items) {
            EXPECT_NE(item.commands[0].empty(), item.why_not.empty()) << study.name << ", " << item.label;
            EXPECT_FALSE(item.what.empty()) << study.name << ", " << item.label;
        }
    }
}

TEST(Studies, CommandsNameTheirPartsAndEveryPartIsNamed) {
    for (const Study & study : studies()) {
        std::set<std::string_view> named;
        for (const PaperItem & item : study.items) {
            for (const std::string_view command : item.commands) {
                if (!command.starts_with("pith study ")) { continue; }
                const std::vector<std::string_view> words = words_of(command);
                ASSERT_GE(words.size(), 5U) << command;
                EXPECT_EQ(words[2], study.name) << command;
                EXPECT_EQ(words[3], "--part") << command;
                EXPECT_NE(find_part(study, words[4]), nullptr) << command;
                named.insert(words[4]);
            }
        }
        for (const StudyPart & part : study.parts) { EXPECT_TRUE(named.contains(part.name)) << at(study, part); }
    }
}

TEST(Studies, PoliciesAndBudgetsOfTheCommandsExist) {
    int n_policies = 0;
    for (const Study & study : studies()) {
        for (const PaperItem & item : study.items) {
            for (const std::string_view command : item.commands) {
                const std::vector<std::string_view> words = words_of(command);
                for (size_t i = 0; i + 1 < words.size(); ++i) {
                    if (words[i] == "--policy" || words[i] == "--policies") {
                        EXPECT_TRUE(check_policies(words[i + 1]).ok()) << command;
                        ++n_policies;
                    }
                    if (words[i] != "--budget") { continue; }
                    for (const std::string_view budget : list_of(words[i + 1])) {
                        EXPECT_TRUE(Budget::parse(budget).ok()) << command;
                    }
                }
            }
        }
    }
    EXPECT_GT(n_policies, 5);
}

TEST(Studies, CakeTakesTheConstantsOfTheModelItIsTunedFor) {
    ModelInfo model;
    model.architecture = "llama";
    model.n_layers = 32;
    model.n_embd = 4096;
    model.n_kv_heads = 8;
    model.n_vocab = 128256;
    EXPECT_EQ(cake_preset_of(model), "llama3.1-8b");
    EXPECT_EQ(with_cake_preset("snapkv,cake,cake:pool=avg7,attnvar+preference", "llama3.1-8b"),
              "snapkv,cake:preset=llama3.1-8b,cake:pool=avg7:preset=llama3.1-8b,attnvar+preference:preset=llama3.1-8b");
    EXPECT_TRUE(check_policies(with_cake_preset("cake,cake:pool=avg7", "llama3.1-8b")).ok());
    EXPECT_EQ(without_cake_preset("cake:pool=avg7:preset=llama3.1-8b"), "cake:pool=avg7");
    EXPECT_EQ(without_cake_preset("cake:preset=llama3.1-8b+critical"), "cake+critical");
    model.n_layers = 2;
    EXPECT_EQ(cake_preset_of(model), "");
    EXPECT_EQ(with_cake_preset("snapkv,cake", ""), "snapkv,cake");
}

TEST(Studies, AScorersOptionGoesToWhoHasIt) {
    EXPECT_EQ(with_scorer_option("snapkv,criticalkv<critical-adakv,h2o:recent=half", "pool=avg45"),
              "snapkv:pool=avg45,criticalkv:pool=avg45<critical-adakv:pool=avg45,h2o:recent=half");
    EXPECT_EQ(with_scorer_option("gated+snapkv:pool=avg7:window=8+ada:alpha=0", "pool=avg45"),
              "gated+snapkv:window=8:pool=avg45+ada:alpha=0");
    EXPECT_EQ(with_scorer_option("snapkv+ada", "alpha=0"), "snapkv+ada");  // an allocator's
    EXPECT_EQ(with_scorer_option("", "pool=avg45"), "");
    EXPECT_TRUE(is_scorer_option("pool"));
    EXPECT_FALSE(is_scorer_option("alpha"));
    EXPECT_FALSE(is_scorer_option("poool"));
    for (const Study & study : studies()) {
        for (const StudyPart & part : study.parts) {
            const std::string wide = with_scorer_option(part.policies, "pool=avg45");
            const Status policies = check_policies(wide);
            EXPECT_TRUE(policies.ok()) << at(study, part) << ": " << policies.message();
            const auto names = list_of(wide);
            for (const ComparePolicies & pair : parse_pairs(with_scorer_option(part.pairs, "pool=avg45"))) {
                EXPECT_EQ(std::ranges::count(names, pair.first), 1) << at(study, part) << ": " << pair.first;
                EXPECT_EQ(std::ranges::count(names, pair.second), 1) << at(study, part) << ": " << pair.second;
            }
        }
    }
}

TEST(PaperNumbers, AreOfPartsPoliciesBudgetsAndTasksThatExist) {
    for (const Study & study : studies()) {
        const auto tables = paper_tables_of(study.name);
        ASSERT_TRUE(tables.ok()) << study.name << ": " << tables.status().message();
        EXPECT_FALSE(tables->empty()) << study.name;
        for (const PaperTable & table : *tables) {
            const std::string where =
                std::string(study.name) + ", " + std::string(table.table) + ", " + std::string(table.model);
            EXPECT_EQ(std::ranges::count(study.items, table.table, &PaperItem::label), 1) << where;
            const StudyPart * part = find_part(study, table.part);
            ASSERT_NE(part, nullptr) << where;
            const std::vector<std::string_view> policies = list_of(part->policies);
            const std::vector<std::string_view> budgets = list_of(part->paper.budgets);
            for (const PaperRow & row : table.rows) {
                EXPECT_TRUE(row.policy == "full" || std::ranges::count(policies, row.policy) == 1)
                    << where << ": " << row.policy;
                EXPECT_TRUE(row.budget.empty() || std::ranges::count(budgets, row.budget) == 1) << where << ": " << row.budget;
                EXPECT_TRUE(std::ranges::any_of(row.values, [](const auto & v) { return v.has_value(); })) << where;
            }
            const std::vector<std::string> tasks = tasks_of_part(*part);
            for (const std::string_view column : table.columns) {
                const bool is_task = std::ranges::count(tasks, column) == 1;
                const bool is_domain = part->family == "longbench" && !tasks_of_domain(column).empty();
                const bool is_group = part->family == "longbench-v2" && column.find('=') != std::string_view::npos;
                const bool is_mean = column == "average" || column.starts_with("average@");
                const bool is_size = part->kind == StudyKind::kEfficiency && column.starts_with("@");
                EXPECT_TRUE(is_task || is_domain || is_group || is_mean || is_size) << where << ": " << column;
            }
        }
    }
}

TEST(PaperNumbers, DomainsAreOfTasksThatExist) {
    for (const char * domain : {"single-doc", "multi-doc", "summarization", "few-shot", "synthetic", "code"}) {
        EXPECT_FALSE(tasks_of_domain(domain).empty()) << domain;
        for (const std::string_view task : tasks_of_domain(domain)) {
            EXPECT_NE(benchmarks::find_task("longbench", task), nullptr) << task;
        }
    }
    EXPECT_TRUE(tasks_of_domain("narrativeqa").empty());
}

// A misread digit shows: rows whose tasks and average are both printed add up, but for those where the paper's own do not.
TEST(PaperNumbers, AddUpToThePrintedAverages) {
    std::set<std::string> wrong;
    int n_rows = 0;
    for (const Study & study : studies()) {
        const auto tables = paper_tables_of(study.name);
        ASSERT_TRUE(tables.ok());
        for (const PaperTable & table : *tables) {
            const size_t n = table.columns.size() - 1;
            const bool by_domain = !tasks_of_domain(table.columns.front()).empty();
            if (n < 2 || table.columns.back() != "average" || table.columns.front().find('=') != std::string_view::npos) {
                continue;
            }
            for (const PaperRow & row : table.rows) {
                double sum = 0;
                double weights = 0;
                const bool whole = std::ranges::all_of(row.values, [](const auto & v) { return v.has_value(); });
                for (size_t i = 0; i < n && whole; ++i) {
                    const auto weight = by_domain ? static_cast<double>(tasks_of_domain(table.columns[i]).size()) : 1.0;
                    sum += weight * *row.values[i];
                    weights += weight;
                }
                if (!whole) { continue; }
                ++n_rows;
                if (std::abs(sum / weights - *row.values[n]) < 0.031) { continue; }
                wrong.insert(std::string(study.name) + ", " + std::string(table.table) + ": " + std::string(row.policy) +
                             " at " + std::string(row.budget));
            }
        }
    }
    EXPECT_GT(n_rows, 300);
    EXPECT_EQ(wrong, (std::set<std::string>{"attention-gate, Table 1: gated at ", "caote, Table 10: tova+fastcaote at 8192",
                                            "caote, Table 3: tova+caote at 4096"}));
}

// Every file is of a study, and named after its table: caote/table-02 has the paper's Table 2.
TEST(PaperNumbers, SayWhichPaperAndTableTheyAreOf) {
    std::set<std::string_view> of_studies;
    EXPECT_GE(all_paper_files().size(), 40U);
    for (const PaperFile & file : all_paper_files()) {
        const size_t slash = file.name.find('/');
        const Study * study = find_study(file.name.substr(0, slash));
        ASSERT_NE(study, nullptr) << file.name;
        of_studies.insert(study->name);
        EXPECT_EQ(remark_of(file, "paper"), study->paper) << file.name;
        const auto tables = read_paper_tables(file);
        ASSERT_TRUE(tables.ok()) << tables.status().message();
        for (const PaperTable & table : *tables) {
            const std::string number(table.table.substr(table.table.find(' ') + 1));
            EXPECT_EQ(file.name.substr(slash + 1), "table-" + std::string(number.size() < 2 ? "0" : "") + number) << file.name;
        }
    }
    EXPECT_EQ(of_studies.size(), studies().size());
}

TEST(PaperNumbers, AreInTheRangeOfWhatTheyMeasure) {
    for (const Study & study : studies()) {
        const auto tables = paper_tables_of(study.name);
        ASSERT_TRUE(tables.ok()) << tables.status().message();
        for (const PaperTable & table : *tables) {
            const bool is_perplexity = table.columns.front() == "perplexity";
            for (const PaperRow & row : table.rows) {
                for (const auto & value : row.values) {
                    if (!value) { continue; }
                    const std::string where = std::string(study.name) + ", " + std::string(table.table) + ", " +
                                              std::string(row.policy) + ": " + std::to_string(*value);
                    switch (table.measure) {
                        case PaperMeasure::kScore:
                            EXPECT_TRUE(*value >= (is_perplexity ? 1 : 0) && *value <= 100) << where;
                            break;
                        case PaperMeasure::kEvicted:
                            EXPECT_TRUE(*value >= 0 && *value <= 100) << where;
                            break;
                        case PaperMeasure::kDifference:
                            EXPECT_LT(std::abs(*value), 10) << where;
                            break;
                        case PaperMeasure::kFirstSeconds:
                            EXPECT_TRUE(*value > 0 && *value < 3600) << where;
                            break;
                        case PaperMeasure::kOverhead:
                            EXPECT_TRUE(*value > 0 && *value < 1) << where;
                            break;
                    }
                }
            }
        }
    }
}

// Rows that a part has besides its paper's: another reading of what the paper leaves open, or what it must beat.
bool is_ours(const Study & study, std::string_view policy) {
    return policy == "score:start=zero" || policy.starts_with("h2o:observe=") || policy.starts_with("streaming:sinks=16+") ||
           (study.name == "attention-gate" && (policy == "keydiff" || policy == "snapkv"));
}

// A part that the paper has numbers of runs what these are of: each of its policies under each of its budgets, but for those
// that the paper shows in figures alone.
TEST(PaperNumbers, HaveACellForWhatTheirPartRuns) {
    std::set<std::string> missing;
    for (const Study & study : studies()) {
        const auto tables = paper_tables_of(study.name);
        ASSERT_TRUE(tables.ok()) << tables.status().message();
        for (const StudyPart & part : study.parts) {
            std::set<std::pair<std::string_view, std::string_view>> printed;
            std::set<std::string_view> policies, budgets;
            for (const PaperTable & table : *tables) {
                if (table.part != part.name) { continue; }
                for (const PaperRow & row : table.rows) {
                    printed.emplace(row.policy, row.budget);
                    policies.insert(row.policy);
                    budgets.insert(row.budget);
                }
            }
            if (printed.empty()) { continue; }
            const std::string where = std::string(study.name) + " " + std::string(part.name) + ": ";
            for (const std::string_view policy : list_of(part.policies)) {
                if (is_ours(study, policy)) { continue; }
                const bool without_budget = printed.contains({policy, ""});
                if (!policies.contains(policy)) { missing.insert(where + std::string(policy)); }
                for (const std::string_view budget : list_of(part.paper.budgets)) {
                    if (without_budget || !policies.contains(policy)) { continue; }
                    if (!budgets.contains(budget)) {
                        missing.insert(where + "at " + std::string(budget));
                    } else if (!printed.contains({policy, budget})) {
                        missing.insert(where + std::string(policy) + " at " + std::string(budget));
                    }
                }
            }
        }
    }
    EXPECT_EQ(missing,
              (std::set<std::string>{"caote efficiency: h2o:recent=half", "caote efficiency: h2o:recent=half+caote",
                                     "caote efficiency: h2o:recent=half+fastcaote", "caote efficiency: snapkv",
                                     "caote efficiency: tova", "caote efficiency: tova+caote",
                                     "caote efficiency: tova+fastcaote", "criticalkv ruler: at 20%", "criticalkv ruler: at 60%",
                                     "criticalkv ruler: at 80%", "score budgets: at 128", "score budgets: at 2048"}));
}

TEST(PaperNumbers, SaidWronglyAreRefusedWithFileAndLine) {
    const std::string top = "# paper: P\n# table: Table 1\n# part: ruler\n";
    const std::string head = top + "model,measure,policy,which,budget,vt\n";
    const auto message = [](const std::string & text) { return read_paper_tables({"p/table-01", text}).status().message(); };
    const auto expect = [&](const std::string & text, std::initializer_list<const char *> words) {
        for (const char * word : words) {
            EXPECT_NE(message(text).find(word), std::string::npos) << word << ": " << message(text);
        }
    };
    expect(head + "m,score,snapkv,,20%,1,2\n", {"line 5 of 'numbers/p/table-01.csv'", "7 cells for 6 columns"});
    expect(head + "m,score,snapkv,,20%,x\n", {"line 5", "'x'", "write a number, or nothing"});
    expect(head + "m,score,snapkv,,20%,nan\n", {"line 5", "'nan'"});
    expect(head + "m,luck,snapkv,,20%,1\n", {"line 5", "'luck'", "use one of score, difference"});
    expect(head + "m,score,snapkv,,20%,1\nm,score,snapkv,,20%,2\n", {"line 6", "leave one out"});
    expect(top + "m,score,snapkv,,20%,1\n", {"line 4", "write model,measure,policy,which,budget"});
    expect("# paper: P\n# part: ruler\nmodel,measure,policy,which,budget,vt\n", {"line 3", "'# table: "});
    expect(head, {"no row"});
    expect("", {"no row"});
    const auto good = read_paper_tables({"p/table-01", R"(# paper: P
# table: Table 1
# part: ruler
# A remark.
model,measure,policy,which,budget,vt,few-shot,average
m,evicted,gated,(2-1),,1,,7.5
m,score,gated,(2-1),,2,3,4
n,evicted,gated,(2-1),,5,6,7
m,evicted,gated,(2-2),50%,1,2,3)"});
    ASSERT_TRUE(good.ok()) << good.status().message();
    ASSERT_EQ(good->size(), 3U) << "by model and measure";
    const PaperTable & table = good->front();
    EXPECT_EQ(table.columns, (std::vector<std::string_view>{"vt", "few-shot", "average"}));
    EXPECT_EQ(table.table, "Table 1");
    EXPECT_EQ(table.part, "ruler");
    EXPECT_EQ(table.model, "m");
    EXPECT_EQ(table.measure, PaperMeasure::kEvicted);
    ASSERT_EQ(table.rows.size(), 2U);
    EXPECT_EQ(table.rows[0].policy, "gated");
    EXPECT_EQ(table.rows[0].label, "(2-1)");
    EXPECT_EQ(table.rows[0].budget, "");
    EXPECT_EQ(table.rows[0].values[0], 1.0);
    EXPECT_EQ(table.rows[0].values[1], std::nullopt);
    EXPECT_EQ(table.rows[0].values[2], 7.5);
    EXPECT_EQ(table.rows[1].budget, "50%");
    EXPECT_EQ((*good)[1].measure, PaperMeasure::kScore);
    EXPECT_EQ((*good)[2].model, "n");
}

}  // namespace
}  // namespace pith::studies_test
