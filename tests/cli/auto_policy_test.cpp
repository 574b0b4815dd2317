// auto_policy_test.cpp - `auto` on the command line: what it says of itself, and that it is what it says.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"
#include "text/tiny_vocabulary.h"

namespace pith::testing::auto_policy_test {
namespace {

// What `auto` is, by what is known.
constexpr const char * kInSight = "vmax:pool=avg45:pool_over=before+entropy";
constexpr const char * kLater = "keydiff+ada:alpha=0";
constexpr const char * kLaterWithHeads = "expected:eps=0.02+head:by=both";

using Json = nlohmann::json;

class AutoPolicyCommand : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        folder_ = new TempFolder;
        RandomModelSpec spec;
        spec.n_ctx_train = 4096;
        plain_ = write_model(*folder_, spec);
        beside_ = write_model(*folder_, spec, "beside.gguf");
        unfit_ = write_model(*folder_, spec, "unfit.gguf");
        const Outcome made = run_pith({"calibrate", "heads", "-m", beside_, "--samples", "1", "--tokens", "800", "-t", "1"});
        EXPECT_EQ(made.exit_code, 0) << made.err;
        write_text(folder_->file("unfit.heads.json"), "{");
        write_text(folder_->file("book.txt"), words(300));
    }
    static void TearDownTestSuite() {
        delete folder_;
        folder_ = nullptr;
    }
    static Outcome run(const std::string & model, const std::vector<std::string> & more) {
        std::vector<std::string> all = {"run", "-m",     model, "-f",          folder_->file("book.txt"),
                                        "-p",  "Who?",   "-n",  "4",           "-t",
                                        "1",   "--temp", "0",   "--ignore-eos"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    }
    static Json json_of(const std::string & model, std::vector<std::string> more) {
        more.insert(more.end(), {"--json", "--kept"});
        const Outcome outcome = run(model, more);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return Json::parse(outcome.out, nullptr, false);
    }
    static void expect_choice(const std::string & model, const std::vector<std::string> & more, const std::string & policy,
                              const std::string & reason) {
        SCOPED_TRACE(policy + ", " + reason);
        const Json chosen = json_of(model, more);
        EXPECT_EQ(chosen["policy"], policy);
        EXPECT_EQ(chosen["policy_reason"], reason);
        std::vector<std::string> by_name = more;
        by_name.insert(by_name.end(), {"--policy", policy});
        const Json named = json_of(model, by_name);
        EXPECT_FALSE(named.contains("policy_reason")) << "nobody chose for the user";
        EXPECT_EQ(named["policy"], policy);
        EXPECT_EQ(named["kept"], chosen["kept"]);
        EXPECT_EQ(named["text"], chosen["text"]);
        const Outcome said = run(model, more);
        EXPECT_NE(said.err.find("\npolicy   " + policy + " (auto: " + reason + ")"), std::string::npos) << said.err;
    }

    static inline TempFolder * folder_ = nullptr;
    static inline std::string plain_, beside_, unfit_;
};

TEST_F(AutoPolicyCommand, IsTheDefaultAndSaysWhatItChoseAndWhy) {
    const std::vector<std::string> chunks = {"--budget", "64", "--prefill", "chunked", "--chunk", "64"};
    expect_choice(plain_, {"--budget", "64"}, kInSight, "the question is in sight");
    expect_choice(plain_, chunks, kInSight, "the question is in sight");
    expect_choice(plain_, {"--budget", "64", "--question-later"}, kLater, "what will be asked is not known");
    expect_choice(plain_, {"--budget", "64", "-p", "Where?"}, kInSight, "the question is in sight");
    expect_choice(beside_, {"--budget", "64"}, kInSight, "the question is in sight");
    expect_choice(beside_, {"--budget", "64", "--question-later"}, kLaterWithHeads, "head importances beside the model");
    expect_choice(plain_, {"--budget", "64", "--question-later", "--heads", folder_->file("beside.heads.json")},
                  kLaterWithHeads, "head importances given");
    expect_choice(beside_, {"--budget", "64", "--question-later", "--heads", "none"}, kLater,
                  "what will be asked is not known");
    expect_choice(unfit_, {"--budget", "64", "--question-later"}, kLater,
                  "what will be asked is not known; the head importances beside the model do not fit it");
    expect_choice(plain_, {}, "full", "memory holds the whole context");
    EXPECT_EQ(json_of(plain_, {"--budget", "auto"})["policy_reason"], "memory holds the whole context") << "the default";
    EXPECT_EQ(json_of(plain_, {"--budget", "64", "--policy", "auto"})["policy"], kInSight) << "by name, too";
}

TEST_F(AutoPolicyCommand, ABudgetThatNoChoiceHoldsIsRefusedBeforeAnythingIsLoaded) {
    expect_error(run("no-such-model.gguf", {"--budget", "8"}), 1, {"--budget 8", "protects 32", "use --budget 32"});
    expect_error(run(plain_, {"--policy", "auto+caote", "--budget", "64"}), 2, {"'auto'", "no parts"});
    expect_error(run_pith({"inspect", "-m", plain_, "--policy", "auto"}), 2, {"'auto'", "name a policy"});
}

TEST_F(AutoPolicyCommand, ChatTellsWhatItIs) {
    const TempFolder folder;
    const std::string model = write_tiny(folder, kChatMl);
    const Outcome outcome =
        run_pith({"chat", "-m", model, "-n", "4", "-t", "1", "--budget", "64"},
                 {0, "/policy\nOnce upon a time.\n/policy\n/policy auto 128\n/policy\n/policy snapkv 64\n/policy\n"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("auto (chosen when the prompt comes), budget 64"), std::string::npos) << outcome.out;
    for (const char * line : {"keydiff+ada:alpha=0 (auto: what will be asked is not known), budget 64",
                              "keydiff+ada:alpha=0 (auto: what will be asked is not known), budget 128", "snapkv, budget 64"}) {
        EXPECT_NE(outcome.out.find(line), std::string::npos) << line << " in: " << outcome.out;
    }
}

// A row beside the others; what it was stands in the answers, the table and its files.
TEST_F(AutoPolicyCommand, AnEvaluationHasARowOfItAndKeepsWhatItWas) {
    struct Setting {
        std::string model;
        std::vector<std::string> more;
        std::string chosen;
    };
    const std::vector<std::string> aware = {"--question-aware"};
    const std::vector<std::string> aware_chunks = {"--question-aware", "--prefill", "chunked", "--chunk", "512"};
    std::vector<std::string> guided = aware_chunks;
    guided.emplace_back("--guided");
    int n = 0;
    for (const Setting & setting :
         {Setting{plain_, {}, kLater}, Setting{plain_, aware, kInSight}, Setting{plain_, aware_chunks, kLater},
          Setting{plain_, guided, kInSight}, Setting{beside_, {}, kLaterWithHeads}}) {
        SCOPED_TRACE(setting.chosen + " of setting " + std::to_string(n));
        const std::string out = folder_->file("run-" + std::to_string(n++));
        std::vector<std::string> eval = {
            "eval", "ruler",     "-m", setting.model, "--tasks", "niah_single_1", "--context",
            "1100", "--samples", "1",  "--budget",    "20%",     "--policy",      "auto," + setting.chosen,
            "-t",   "1",         "-o", out,           "--json"};
        eval.insert(eval.end(), setting.more.begin(), setting.more.end());
        const Outcome outcome = run_pith(eval);
        ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
        const Json rows = Json::parse(outcome.out)["rows"];
        ASSERT_EQ(rows.size(), 3U) << "full, auto, and what it is";
        EXPECT_EQ(rows[1]["policy"], "auto");
        EXPECT_EQ(rows[1]["chosen"], setting.chosen);
        EXPECT_FALSE(rows[0].contains("chosen"));
        EXPECT_FALSE(rows[2].contains("chosen"));
        EXPECT_EQ(rows[1]["score"], rows[2]["score"]);
        EXPECT_EQ(rows[1]["entries_per_lane"], rows[2]["entries_per_lane"]);
        const std::string answers = read_text_file(out + "/answers.jsonl");
        EXPECT_NE(answers.find("\"chosen\":\"" + setting.chosen + "\""), std::string::npos) << answers;
        EXPECT_NE(read_text_file(out + "/table.md").find("auto at 20%, 1100 tokens: " + setting.chosen), std::string::npos);
        // The importances that it takes are among what the answers depend on.
        const Json settings = Json::parse(read_text_file(out + "/run.json"))["settings"];
        EXPECT_EQ(settings.contains("--heads"), setting.chosen == kLaterWithHeads);
    }
}

TEST_F(AutoPolicyCommand, ABenchmarkOfItNamesWhatItMeasured) {
    const Outcome outcome = run_pith({"bench", "-m", plain_, "--policy", "full,auto", "--budget", "64", "-p", "128", "-n", "2",
                                      "-r", "1", "-t", "1", "--no-llama", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json rows = Json::parse(outcome.out)["rows"];
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_FALSE(rows[0].contains("chosen"));
    EXPECT_EQ(rows[1]["policy"], "auto");
    EXPECT_EQ(rows[1]["chosen"], kLater);
    EXPECT_EQ(rows[1]["budget"], "64");
    EXPECT_GT(rows[1]["evicted_entries"], 0);
}

TEST_F(AutoPolicyCommand, InfoSaysWhereImportancesComeFrom) {
    const auto note = [](const std::string & model) {
        const Outcome outcome = run_pith({"info", model, "--json"});
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        const Json said = Json::parse(outcome.out)["head_importances"];
        EXPECT_NE(run_pith({"info", model}).out.find("calibration   " + said["note"].get<std::string>()), std::string::npos);
        return said["from"].get<std::string>() + ": " + said["note"].get<std::string>();
    };
    EXPECT_EQ(note(plain_), "none: no importances (`pith calibrate heads`)");
    EXPECT_EQ(note(beside_), "beside: importances in " + folder_->file("beside.heads.json"));
    EXPECT_NE(note(unfit_).find("is not whole JSON"), std::string::npos);
    expect_error(run(beside_, {"--budget", "64", "--policy", "headkv", "--heads", "none"}), 1,
                 {"'headkv' needs head importances", "--heads none"});
}

TEST_F(AutoPolicyCommand, IsListedFirst) {
    const Outcome outcome = run_pith({"policies"});
    const size_t at = outcome.out.find("\nchoice\n  auto ");
    ASSERT_NE(at, std::string::npos) << outcome.out;
    EXPECT_LT(at, outcome.out.find("\nscorer\n"));
    EXPECT_NE(run_pith({"run", "--help"}).out.find("(default: auto)"), std::string::npos);
}

}  // namespace
}  // namespace pith::testing::auto_policy_test
