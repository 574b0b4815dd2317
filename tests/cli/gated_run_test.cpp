// gated_run_test.cpp - `pith run --gate` and `pith eval --gate` on a tiny model with untrained gates: what they keep, what they
// say, what they refuse.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"

namespace pith::testing::gated_run_test {
namespace {

using Json = nlohmann::json;

class GatedRun : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        folder_ = new TempFolder;
        RandomModelSpec spec;
        spec.head_dim = 32;
        spec.n_ctx_train = 4096;
        model_ = write_model(*folder_, spec);
        spec.n_kv_heads = 4;
        other_ = write_model(*folder_, spec, "other.gguf");
        gate_ = folder_->file("gate.gguf");
        causal_ = folder_->file("causal.gguf");
        book_ = folder_->file("book.txt");
        write_text(book_, words(300));
        const std::vector<std::string> make = {"train",   "gate", "-m",      model_, "--untrained",
                                               "--gamma", "0",    "--heads", "2",    "-o"};
        for (const std::string & path : {gate_, causal_}) {
            std::vector<std::string> command = make;
            command.push_back(path);
            if (path == causal_) { command.emplace_back("--causal"); }
            const Outcome made = run_pith(command);
            EXPECT_EQ(made.exit_code, 0) << made.err;
        }
    }
    static void TearDownTestSuite() {
        delete folder_;
        folder_ = nullptr;
    }
    static Outcome run(const std::vector<std::string> & more) {
        std::vector<std::string> all = {"run", "-m", model_, "-f", book_,    "-p", "Who?",
                                        "-n",  "4",  "-t",   "1",  "--temp", "0",  "--ignore-eos"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    }
    static Json json_of(std::vector<std::string> more) {
        more.emplace_back("--json");
        const Outcome outcome = run(more);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return Json::parse(outcome.out, nullptr, false);
    }

    static inline TempFolder * folder_ = nullptr;
    static inline std::string model_, other_, gate_, causal_, book_;
};

TEST_F(GatedRun, GatesAreThePolicyWhereNoneIsNamed) {
    const Json json = json_of({"--gate", gate_});
    EXPECT_EQ(json["policy"], "gated");
    EXPECT_EQ(json["gate"], gate_);
    EXPECT_EQ(json["budget_entries"], 0);
    EXPECT_GT(json["gate_seen_entries"], 300 * 4);
    EXPECT_GT(json["gate_kept_entries"], 0);
    EXPECT_LT(json["gate_kept_entries"], json["gate_seen_entries"]);
    EXPECT_GT(json["gate_peak_bytes"], 0);
    EXPECT_GT(json["gate_s"], 0);
    EXPECT_LT(json["kept_entries"], json["gate_seen_entries"]);
    const Outcome outcome = run({"--gate", gate_});
    EXPECT_NE(outcome.err.find("\ngates    kept "), std::string::npos) << outcome.err;
    EXPECT_EQ(json_of({"--gate", gate_, "--budget", "40"})["policy"], "gated+snapkv");
    EXPECT_EQ(json_of({"--gate", gate_, "--policy", "full"})["gate_seen_entries"], Json());
}

TEST_F(GatedRun, CausalGatesWorkInChunksAndScoreUnderABudget) {
    const Json chunked = json_of({"--gate", causal_, "--prefill", "chunked", "--chunk", "50"});
    const Json whole = json_of({"--gate", causal_, "--prefill", "one-shot"});
    EXPECT_EQ(chunked["gate_kept_entries"], whole["gate_kept_entries"]);
    EXPECT_EQ(chunked["text"], whole["text"]);
    const Json scored = json_of({"--gate", causal_, "--policy", "gate+ada", "--budget", "60", "--evict-every", "1"});
    EXPECT_EQ(scored["kept_entries"], 60 * 4);
}

TEST_F(GatedRun, WhatCannotBeIsRefusedInOneLine) {
    expect_error(run({"--policy", "gated"}), 2, {"'gated' needs gates", "--gate FILE"});
    expect_error(run({"--policy", "gate", "--budget", "40"}), 1, {"'gate' needs gates", "pith calibrate importance"});
    expect_error(run({"--gate", gate_, "--policy", "gated", "--budget", "40"}), 2, {"leave out --budget 40"});
    expect_error(run({"--gate", gate_, "--prefill", "chunked"}), 1, {"--prefill chunked", "--causal"});
    expect_error(run({"--gate", folder_->file("none.gguf")}), 1, {"cannot open gate file", "none.gguf"});
    expect_error(run({"--gate", model_}), 1, {"not one of gates"});
    expect_error(run_pith({"run", "-m", other_, "--gate", gate_, "-p", "Who?", "-n", "1"}), 1, {"another model", "n_kv_heads"});
}

TEST_F(GatedRun, AnEvaluationComparesGatesWithPoliciesAndBelongsToThem) {
    const std::string out = folder_->file("run");
    const auto eval = [&](const std::string & model, const std::vector<std::string> & more) {
        std::vector<std::string> all = {"eval",     "ruler",     "-m", model, "--tasks", "niah_single_1", "--context",
                                        "1100",     "--samples", "1",  "-o",  out,       "--policy",      "gated,gate,snapkv",
                                        "--budget", "20%",       "-t", "1"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    };
    // Refused before the folder is made: what is right the second time is not held up by what was wrong the first.
    expect_error(eval(model_, {}), 2, {"'gated' needs gates", "--gate FILE"});
    expect_error(eval(other_, {"--gate", gate_}), 1, {"another model", "n_kv_heads is 2", "4"});
    expect_error(eval(model_, {"--gate", gate_, "--prefill", "chunked"}), 1,
                 {"--prefill chunked", "the whole prompt", "--causal"});
    EXPECT_FALSE(std::filesystem::exists(out));

    const Outcome first = eval(model_, {"--gate", gate_, "--json"});
    ASSERT_EQ(first.exit_code, 0) << first.err;
    std::map<std::string, double> entries;  // a lane, by policy
    const Json table = Json::parse(first.out);
    for (const Json & row : table["rows"]) { entries[row["policy"]] = row["entries_per_lane"]; }
    ASSERT_EQ(entries.size(), 4U) << first.out;
    EXPECT_EQ(entries["gate"], entries["snapkv"]) << "both meet the budget";
    EXPECT_LT(entries["snapkv"], entries["gated"]) << "gates keep about half";
    EXPECT_LT(entries["gated"], entries["full"]);

    const Outcome again = eval(model_, {"--gate", gate_, "--resume", "--json"});
    ASSERT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(Json::parse(again.out)["rows"], table["rows"]);
    expect_error(eval(model_, {"--gate", causal_, "--resume"}), 1, {"holds another run", "--gate was"});
    expect_error(eval(model_, {"--resume", "--policy", "snapkv"}), 1, {"holds another run", "--gate was", "is nothing"});
}

}  // namespace
}  // namespace pith::testing::gated_run_test
