// demo_test.cpp - `pith demo` on the reference model: one row for each policy and budget.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"

namespace pith::testing::demo_test {
namespace {

using Json = nlohmann::json;

TEST(Demo, ComparesPoliciesOnTheBuiltInModel) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    const Outcome outcome = run_pith({"demo", "--samples", "1", "--tokens", "512", "--budget", "128,64", "-t", "1", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json demo = Json::parse(outcome.out);
    EXPECT_EQ(outcome.err, "");
    // full and gated once, eight policies at two budgets; question known, then later
    ASSERT_EQ(demo["rows"].size(), 36U);
    const double full_bytes = demo["rows"][0]["kv_allocated_bytes"];
    for (size_t i = 0; i < 36; ++i) {
        const Json & row = demo["rows"][i];
        EXPECT_EQ(row["question_aware"], i < 18);
        EXPECT_EQ(row["policy"], demo["rows"][i % 18]["policy"]);
        EXPECT_EQ(row.contains("chosen"), row["policy"] == "auto");
        if (row["policy"] == "auto") {  // gates are another row's
            EXPECT_EQ(row["chosen"], i < 18 ? "vmax:pool=avg45:pool_over=before+entropy" : "expected:eps=0.02+head:by=both");
        }
        if (row["policy"] == "full") { continue; }
        if (row["policy"] == "gated") {
            EXPECT_EQ(i % 18, 1U);
            EXPECT_EQ(row["budget"], "");
            EXPECT_LT(row["kv_allocated_bytes"].get<double>(), 0.9 * full_bytes) << row;
            continue;
        }
        const double budget = std::stod(row["budget"].get<std::string>());
        const double question = i < 18 ? 0 : 60;  // a later one comes on top of what was compressed
        EXPECT_LE(row["kept_entries_per_lane"].get<double>(), budget + question) << row;
        EXPECT_LT(row["kv_allocated_bytes"].get<double>(), full_bytes) << row;
    }
}

TEST(Demo, PrintsOneTable) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    const Outcome outcome =
        run_pith({"demo", "--samples", "1", "--tokens", "400", "--budget", "100", "--policy", "full,random", "-t", "1"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const char * word : {"policy", "known", "later", "tokens/head", "KV", "random", "of 1", "Question known"}) {
        EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
    }
    EXPECT_EQ(outcome.out.find("prefill t/s"), std::string::npos) << outcome.out;
}

TEST(Demo, OneSettingAloneHasSpeeds) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    const Outcome outcome = run_pith({"demo", "--samples", "1", "--tokens", "400", "--budget", "100", "--policy", "full,random",
                                      "-t", "1", "--question-aware"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const char * word : {"right", "prefill t/s", "decode t/s", "Question-aware"}) {
        EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
    }
    EXPECT_EQ(outcome.out.find("later"), std::string::npos) << outcome.out;
}

// The answers, entries and bytes of a prefill of its own for each row.
TEST(Demo, SharedPrefillsGiveTheSameRows) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    for (const bool context_only : {false, true}) {
        std::vector<std::string> apart = {"demo",    "--samples", "1", "--tokens", "400",      "--budget",
                                          "100,20%", "-t",        "1", "--json",   "--policy", "full,random,h2o,snapkv,adakv"};
        apart.emplace_back(context_only ? "--context-only" : "--question-aware");
        std::vector<std::string> shared = apart;
        shared.emplace_back("--share");
        const Json expected = Json::parse(run_pith(apart).out)["rows"];
        const Json got = Json::parse(run_pith(shared).out)["rows"];
        ASSERT_EQ(got.size(), 9U);
        ASSERT_EQ(expected.size(), 9U);
        for (size_t i = 0; i < got.size(); ++i) {
            for (const char * key :
                 {"policy", "budget", "n_right", "right_low", "right_high", "kept_entries_per_lane", "kv_allocated_bytes"}) {
                EXPECT_EQ(got[i][key], expected[i][key]) << key << " of " << expected[i];
            }
            EXPECT_FALSE(got[i].contains("prefill_tps"));
        }
    }
}

TEST(Demo, SaysWhichSharedRowsNoBudgetHolds) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    const Outcome outcome = run_pith({"demo", "--samples", "1", "--tokens", "400", "--budget", "20", "--policy",
                                      "snapkv:window=32,snapkv:window=8", "--question-aware", "--share", "-t", "1", "--csv"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3) << outcome.out;
    EXPECT_NE(outcome.out.find("protects 3"), std::string::npos) << outcome.out;
}

TEST(Demo, ATaskThatDoesNotFitIsNamedAndTheOthersAreAsked) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    const auto demo = [](const std::string & tasks) {
        return run_pith({"demo", "--samples", "2", "--tokens", "400", "--budget", "100", "--policy", "random", "-t", "1",
                         "--json", "--task", tasks});
    };
    const Outcome some = demo("single,cwe");
    ASSERT_EQ(some.exit_code, 0) << some.err;
    EXPECT_EQ(some.error_lines(), 1U) << some.err;
    EXPECT_NE(some.err.find("task 'cwe' needs at least 512 tokens, but --tokens is 400: 1 text left out"), std::string::npos)
        << some.err;
    const Json json = Json::parse(some.out);
    EXPECT_EQ(json["n_samples"], 1);
    for (const Json & row : json["rows"]) { EXPECT_EQ(row["n_samples"], 1) << row; }
    expect_error(demo("cwe"), 1, {"no text fits", "task 'cwe' needs at least 512", "--tokens is 400: raise it"});
}

TEST(Demo, MeasuresPerplexityAgainstTheFullCache) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    const Outcome outcome = run_pith({"demo", "--perplexity", "--samples", "2", "--tokens", "400", "--budget", "40,500",
                                      "--policy", "random,snapkv", "-t", "1", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    ASSERT_EQ(json["rows"].size(), 5U);
    const Json & full = json["rows"][0];
    EXPECT_EQ(full["policy"], "full");
    EXPECT_EQ(full["difference"], 0);
    EXPECT_GT(full["perplexity"], 1);
    for (const size_t i : {1U, 2U}) {
        const Json & row = json["rows"][i];
        EXPECT_EQ(row["kept_entries_per_lane"], 40);
        EXPECT_NEAR(row["difference"].get<double>(), row["perplexity"].get<double>() - full["perplexity"].get<double>(), 1e-9);
    }
    EXPECT_GT(json["rows"][1]["difference"], 0) << "a random tenth serves as well as everything";
    for (const size_t i : {3U, 4U}) { EXPECT_EQ(json["rows"][i]["difference"], 0) << "a budget that holds everything"; }
}

}  // namespace
}  // namespace pith::testing::demo_test
