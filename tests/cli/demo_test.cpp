// demo_test.cpp - `pith demo` on the reference model: one row for each policy and budget.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"

namespace pith::testing {
namespace {

using Json = nlohmann::json;

TEST(Demo, ComparesPoliciesOnTheBuiltInModel) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    const Outcome outcome = run_pith({"demo", "--samples", "1", "--tokens", "512", "--budget", "128,64", "-t", "1", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json demo = Json::parse(outcome.out);
    ASSERT_EQ(demo["rows"].size(), 13U);  // full once, six policies at two budgets
    EXPECT_EQ(demo["question_aware"], true);
    const double full_bytes = demo["rows"][0]["kv_allocated_bytes"];
    for (const Json & row : demo["rows"]) {
        if (row["policy"] == "full") { continue; }
        EXPECT_LE(row["kept_entries_per_lane"].get<double>(), std::stod(row["budget"].get<std::string>())) << row;
        EXPECT_LT(row["kv_allocated_bytes"].get<double>(), full_bytes) << row;
    }
}

TEST(Demo, PrintsOneTable) {
    if (!std::filesystem::exists(PITH_SOURCE_DIR "/models/pith-reference.gguf")) { GTEST_SKIP() << "no reference model"; }
    const Outcome outcome =
        run_pith({"demo", "--samples", "1", "--tokens", "400", "--budget", "100", "--policy", "full,random", "-t", "1"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const char * word :
         {"policy", "right", "entries/lane", "KV", "prefill t/s", "decode t/s", "random", "of 1", "Question-aware"}) {
        EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
    }
}

}  // namespace
}  // namespace pith::testing
