// commands_test.cpp - the other subcommands: help, info, policies, tokenize, make-model, bench.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/run_process.h"

namespace pith::testing::commands_test {
namespace {

using Json = nlohmann::json;

Json run_json(const std::vector<std::string> & arguments) {
    const Outcome outcome = run_pith(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
}

TEST(Commands, ShowExamplesWhenNothingIsAsked) {
    const Outcome outcome = run_pith({});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.out.find("pith run -m"), std::string::npos);
    EXPECT_EQ(outcome.err, "");
}

TEST(Commands, HaveAVersionAndAHelpEach) {
    EXPECT_EQ(run_pith({"--version"}).out.substr(0, 5), "pith ");
    for (const char * command :
         {"run", "info", "policies", "tokenize", "bench", "train", "demo", "make-model", "inspect", "calibrate"}) {
        const Outcome outcome = run_pith({command, "--help"});
        EXPECT_EQ(outcome.exit_code, 0) << command;
        EXPECT_NE(outcome.out.find("--"), std::string::npos) << command;
    }
}

// `pith` copied to where no pith-lab lies beside it, with this PATH.
Outcome run_alone(const std::string & words, const std::string & path) {
    const TempFolder folder;
    const std::string program = folder.file("pith");
    std::filesystem::copy_file(PITH_PROGRAM, program);
    const std::string command =
        "PATH='" + path + "' '" + program + "' " + words + " >'" + folder.file("out") + "' 2>'" + folder.file("err") + "'";
    Outcome outcome;
    const int state = std::system(command.c_str());
    outcome.exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    outcome.out = read_text_file(folder.file("out"));
    outcome.err = read_text_file(folder.file("err"));
    return outcome;
}

TEST(Commands, OfTheLaboratorySayWhatToInstallWhereItIsMissing) {
    const std::vector<std::string> commands = {"eval --list",     "study",           "--verbose inspect",
                                               "train reference", "bench --profile", "demo --perplexity"};
    for (const std::string & words : commands) {
        const std::string named = words.starts_with("--verbose") ? "pith inspect" : "pith " + words.substr(0, words.find(' '));
        expect_error(run_alone(words, ""), 1, {named, "install the package pith-lab"});
    }
    EXPECT_EQ(run_alone("policies", "").exit_code, 0) << "what is pith's own goes on";
    const Outcome completion = run_alone("completion bash", "");
    EXPECT_EQ(completion.exit_code, 0) << completion.err;
    EXPECT_NE(completion.out.find("eval"), std::string::npos);
}

TEST(Commands, OfTheLaboratoryAreFoundInPath) {
    const Outcome listed = run_alone("eval --list", std::filesystem::path(PITH_PROGRAM).parent_path().string());
    EXPECT_EQ(listed.exit_code, 0) << listed.err;
    EXPECT_EQ(listed.out, run_pith({"eval", "--list"}).out);
    EXPECT_NE(listed.out.find("niah_single_1"), std::string::npos);
}

TEST(Commands, FailWhereTheirOutputCannotBeWritten) {
    const TempFolder folder;
    const std::string model = write_model(folder);
    const std::vector<std::vector<std::string>> commands = {
        {},
        {"--version"},
        {"run", "--help"},
        {"run", "-m", model, "-p", "Hello", "-n", "2", "-t", "1"},
        {"run", "-m", model, "-p", "Hello", "-n", "2", "-t", "1", "--json"},
        {"info", "-m", model},
        {"tokenize", "-m", model, "-p", "Hello"},
        {"policies"},
        {"eval", "--list"},
        {"study", "--list"},
        {"inspect", "-m", model, "--policy", "snapkv", "--budget", "50%", "--tokens", "512", "-t", "1"},
        {"completion", "bash"},
        {"man"},
    };
    for (const std::vector<std::string> & words : commands) {
        RunLimits full;
        full.standard_output = "/dev/full";
        const Outcome outcome = run_pith(words, full);
        const std::string name = words.empty() ? "pith" : words[0];
        EXPECT_EQ(outcome.exit_code, 1) << name;
        EXPECT_NE(outcome.err.find("pith: standard output cannot be written"), std::string::npos)
            << name << ": " << outcome.err;
    }
}

TEST(Commands, InfoCountsTheCache) {
    const TempFolder folder;
    RandomModelSpec spec;
    spec.head_dim = 32;
    const std::string model = write_model(folder, spec);
    const Json info = run_json({"info", "-m", model, "-c", "1000", "-ctk", "q8_0", "--json"});
    EXPECT_EQ(info["architecture"], "llama");
    EXPECT_EQ(info["n_layers"], spec.n_layers);
    EXPECT_EQ(info["n_vocab"], spec.n_vocab);
    EXPECT_EQ(info["has_chat_template"], false);
    const int per_token = spec.n_layers * spec.n_kv_heads * (32 / 32 * 34 + 32 * 2);
    EXPECT_EQ(info["kv_bytes_per_token"], per_token);
    EXPECT_EQ(info["kv_bytes"], per_token * 1000);
    EXPECT_NE(run_pith({"info", "-m", model}).out.find("llama"), std::string::npos);
}

// As a run takes it that reads so long a text in chunks.
TEST(Commands, InfoCountsTheCacheWithinABudget) {
    const TempFolder folder;
    const std::string model = write_model(folder, RandomModelSpec());
    for (const char * budget : {"64", "10%", "300K"}) {
        SCOPED_TRACE(budget);
        const Json info = run_json({"info", "-m", model, "-c", "2000", "--budget", budget, "--json"});
        const Json & within = info["within"];
        const Json bench = run_json({"bench", "-m", model, "-p", "2000", "-n", "1", "-r", "1", "--policy", "keydiff",
                                     "--prefill", "chunked", "--budget", budget, "--no-llama", "--json"})["rows"][0];
        const auto peak = bench["kv_peak_bytes"].get<int64_t>();
        EXPECT_LE(peak, within["most_kv_bytes"].get<int64_t>());
        EXPECT_GT(peak, within["most_kv_bytes"].get<int64_t>() * 4 / 5);
        EXPECT_LE(within["kv_bytes"].get<int64_t>(), info["kv_bytes"].get<int64_t>());
        EXPECT_LT(within["n_entries"].get<int64_t>(), within["most_entries"].get<int64_t>());
    }
    EXPECT_EQ(run_json({"info", "-m", model, "--budget", "100", "--json"})["within"]["n_entries"], 100);
    EXPECT_NE(run_pith({"info", model, "--budget", "100"}).out.find("100 tokens a head"), std::string::npos);
    EXPECT_TRUE(run_json({"info", model, "--json"})["within"].is_null());
    expect_error(run_pith({"info", model, "--budget", "auto"}), 2, {"auto", "tokens"});
    expect_error(run_pith({"info", model, "--budget", "much"}), 2, {"much"});
    expect_error(run_pith({"info", model, "--budget", "2K"}), 1, {"2K", "37K"});
}

// The type that a file says it has, and what it is made of: an embedding in another type may hold most of the bytes.
TEST(Commands, InfoSaysWhatTheFileSaysItIs) {
    const TempFolder folder;
    RandomModelSpec spec;
    spec.weight_type = "q8_0";
    spec.n_embd = spec.n_ff = 64;
    const std::string plain = write_model(folder, spec);
    const Json silent = run_json({"info", "-m", plain, "--json"});
    EXPECT_EQ(silent["file_type"], "mostly q8_0");
    const auto marked = [&](uint32_t number) {
        GgufEdit edit;
        edit.metadata = [number](gguf_context * gguf) { gguf_set_val_u32(gguf, "general.file_type", number); };
        EXPECT_TRUE(edit_gguf(plain, folder.file("marked.gguf"), edit));
        return folder.file("marked.gguf");
    };
    const std::string file = marked(15);
    const Json info = run_json({"info", "-m", file, "--json"});
    EXPECT_EQ(info["file_type"], "Q4_K - Medium");
    EXPECT_EQ(info["weight_type"], "q8_0");
    int64_t n_weights = 0;
    size_t n_bytes = 0;
    for (const Json & share : info["weight_types"]) {
        n_weights += share["n_weights"].get<int64_t>();
        n_bytes += share["bytes"].get<size_t>();
    }
    EXPECT_EQ(info["weight_types"].size(), 2U) << "norms are f32";
    EXPECT_EQ(n_weights, info["n_params"]);
    EXPECT_EQ(n_bytes, info["weight_bytes"]);
    EXPECT_GT(info["weight_bytes_per_token"], 0);
    EXPECT_LE(info["weight_bytes_per_token"], info["weight_bytes"]);
    const std::string text = run_pith({"info", "-m", file}).out;
    EXPECT_NE(text.find("Q4_K - Medium: q8_0 9"), std::string::npos) << text;
    EXPECT_EQ(run_json({"info", "-m", marked(999), "--json"})["file_type"], "file type 999");
}

TEST(Commands, PoliciesListWhatTheIssueNames) {
    const Json list = run_json({"policies", "--json"});
    ASSERT_TRUE(list.is_array());
    std::set<std::string> names;
    for (const Json & policy : list) {
        for (const char * key : {"name", "kind", "paper", "options", "help"}) { EXPECT_TRUE(policy.contains(key)) << key; }
        names.insert(policy["name"].get<std::string>());
    }
    for (const char * name : {"full", "random", "streaming", "window", "knorm", "h2o", "tova", "snapkv", "uniform", "pyramid",
                              "ada", "topk", "adakv"}) {
        EXPECT_EQ(names.count(name), 1U) << name;
        EXPECT_NE(run_pith({"policies"}).out.find(name), std::string::npos);
    }
}

TEST(Commands, TokenizeShowsIdsAndPieces) {
    const TempFolder folder;
    const std::string model = write_model(folder);
    const Json tokens = run_json({"tokenize", "-m", model, "-p", "Hello", "--pieces", "--json"});
    ASSERT_EQ(tokens["n_tokens"].get<size_t>(), tokens["tokens"].size());
    std::string joined;
    for (const Json & piece : tokens["pieces"]) { joined += piece.get<std::string>(); }
    EXPECT_NE(joined.find("Hello"), std::string::npos) << joined;
    const Outcome from_stdin = run_pith({"tokenize", "-m", model, "--json"}, {0, "Hello"});
    EXPECT_EQ(Json::parse(from_stdin.out)["tokens"], tokens["tokens"]);
    const Outcome plain = run_pith({"tokenize", "-m", model, "-p", "Hello"});
    EXPECT_EQ(plain.err, std::to_string(tokens["tokens"].size()) + " tokens\n");
    EXPECT_EQ(run_json({"tokenize", "-m", model, "-p", "Hello", "--no-bos", "--json"})["n_tokens"],
              tokens["n_tokens"].get<int>() - 1);
    EXPECT_EQ(run_json({"tokenize", "-m", model, "-p", "", "--no-bos", "--json"})["n_tokens"], 0);
}

// As llama-bench has it: each flag may be a list, between commas or repeated, and every combination is measured.
TEST(Commands, BenchMeasuresEveryCombinationOfLists) {
    const TempFolder folder;
    const std::string model = write_model(folder);
    const std::vector<std::string> words = {"bench", "-m",    model,     "--policy", "full,snapkv", "--budget",  "64,48",
                                            "-p",    "32,48", "-p",      "64",       "-n",          "0,2",       "-t",
                                            "1,2",   "-ctk",  "f16,f32", "-r",       "1",           "--no-llama"};
    std::vector<std::string> as_json = words;
    as_json.emplace_back("--json");
    const Json bench = run_json(as_json);
    ASSERT_EQ(bench["rows"].size(), size_t{3 * 2 * 2 * 2 * 3}) << "of snapkv a row for each budget";
    std::set<std::string> cases;
    for (const Json & row : bench["rows"]) {
        std::string name;
        for (const char * key : {"n_prompt", "n_generate", "n_threads", "cache_type_k", "policy", "budget"}) {
            name += row[key].dump() + " ";
        }
        cases.insert(name);
        EXPECT_EQ(row["prefill_samples"].size(), 1U);
        EXPECT_EQ(row["decode_samples"].size(), row["n_generate"] == 0 ? 0U : 1U);
    }
    EXPECT_EQ(cases.size(), bench["rows"].size());
    const std::string table = run_pith(words).out;
    for (const char * word : {"prompt 32, 48, 64, generate 0, 2", "threads", "prompt  decode", "f32"}) {
        EXPECT_NE(table.find(word), std::string::npos) << word << " in: " << table;
    }
}

TEST(Commands, BenchMeasuresEachDepthAndPolicy) {
    const TempFolder folder;
    const std::string model = write_model(folder);
    const Json bench = run_json({"bench", "-m", model, "--depth", "0,300", "--policy", "full,snapkv", "--budget", "64", "-p",
                                 "32", "-n", "4", "-r", "2", "-t", "1", "--no-llama", "--json"});
    ASSERT_EQ(bench["rows"].size(), 4U);
    for (const Json & row : bench["rows"]) {
        EXPECT_EQ(row["prefill_samples"].size(), 2U);
        EXPECT_EQ(row["decode_samples"].size(), 2U);
        EXPECT_GT(row["prefill_tps"], 0);
        EXPECT_GT(row["rss_peak_bytes"], 0);
    }
    EXPECT_LT(bench["rows"][3]["kv_needed_bytes"], bench["rows"][2]["kv_needed_bytes"]);
    EXPECT_GT(bench["rows"][3]["evicted_entries"], 0);
}

TEST(Commands, BenchRepeatsInOneProcessWhenAsked) {
    const TempFolder folder;
    const Json bench = run_json({"bench",
                                 "-m",
                                 write_model(folder),
                                 "--depth",
                                 "300",
                                 "--policy",
                                 "snapkv",
                                 "--budget",
                                 "64",
                                 "-p",
                                 "32",
                                 "-n",
                                 "4",
                                 "-r",
                                 "3",
                                 "-t",
                                 "1",
                                 "--no-llama",
                                 "--no-interleave",
                                 "--json"});
    ASSERT_EQ(bench["rows"].size(), 1U);
    EXPECT_EQ(bench["rows"][0]["prefill_samples"].size(), 3U);
    EXPECT_EQ(bench["rows"][0]["decode_samples"].size(), 3U);
}

TEST(Commands, BenchOfABatchSharesWhatIsKeptOrGivesEachItsOwn) {
    const TempFolder folder;
    const std::string model = write_model(folder);
    const auto growth = [&](bool own) {
        std::vector<std::string> words = {"bench",    "-m",     model,      "--batch",    "1,9",   "--depth", "600",
                                          "--policy", "snapkv", "--budget", "256",        "-n",    "2",       "-r",
                                          "1",        "-t",     "1",        "--no-llama", "--json"};
        if (own) { words.emplace_back("--own"); }
        const Json bench = run_json(words);
        EXPECT_EQ(bench["rows"].size(), 2U);
        for (const Json & row : bench["rows"]) { EXPECT_GT(row["tps"], 0); }
        return bench["rows"][1]["kv_bytes"].get<double>() - bench["rows"][0]["kv_bytes"].get<double>();
    };
    EXPECT_GT(growth(true), 2 * growth(false));  // eight more sequences: entries they keep, or a new token's pages alone
}

TEST(Commands, BenchTellsTheShareOfScoring) {
    const TempFolder folder;
    const Json bench = run_json(
        {"bench", "-m", write_model(folder), "--scoring", "-p", "300", "--budget", "64", "-r", "1", "-t", "1", "--json"});
    ASSERT_EQ(bench["rows"].size(), 4U);
    for (const Json & row : bench["rows"]) {
        EXPECT_GT(row["scoring_share"], 0) << row["policy"];
        EXPECT_LT(row["scoring_share"], 1) << row["policy"];
    }
}

TEST(Commands, BenchTellsWhatEachPolicyAddsToAPrefill) {
    const TempFolder folder;
    const std::string model = write_model(folder);
    const Json all =
        run_json({"bench", "-m", model, "--policies", "-p", "300", "--budget", "64", "-r", "2", "-t", "1", "--json"});
    EXPECT_GT(all["prefill_s"], 0);
    EXPECT_EQ(all["budget_entries"], 64);
    std::set<std::string> names;
    for (const Json & row : all["rows"]) {
        names.insert(row["policy"].get<std::string>());
        if (row.contains("note")) { continue; }
        EXPECT_EQ(row["eviction_samples_s"].size(), 2U) << row;
        const double sum = row["evidence_s"].get<double>() + row["plan_s"].get<double>() + row["compact_s"].get<double>();
        EXPECT_GT(sum, 0) << row;
        // What is fused into the attention is the difference of two timings: of either sign for a tiny model.
        EXPECT_NEAR(row["share"], (row["capture_s"].get<double>() + sum) / all["prefill_s"].get<double>(), 1e-6) << row;
        const int lanes = RandomModelSpec().n_layers * RandomModelSpec().n_kv_heads;
        EXPECT_EQ(row["evicted_entries"], (300 - 64) * lanes) << row;
    }
    EXPECT_EQ(names.size(), all["rows"].size());
    for (const char * name : {"snapkv", "h2o", "adakv", "random"}) { EXPECT_EQ(names.count(name), 1U) << name; }

    const Json some = run_json(
        {"bench", "-m", model, "--policies", "h2o,tova+fastcaote", "--depth", "200", "--budget", "50%", "-t", "1", "--json"});
    ASSERT_EQ(some["rows"].size(), 4U);  // and their bases, snapkv and tova
    EXPECT_EQ(some["n_prompt"], 200);
    for (const Json & row : some["rows"]) {
        EXPECT_EQ(row["base"], row["policy"] == "tova+fastcaote" ? "tova" : row["policy"] == "snapkv" ? "" : "snapkv");
    }
}

TEST(Commands, BenchTellsWhereATokensTimeGoes) {
    const TempFolder folder;
    const Json profile = run_json({"bench", "-m", write_model(folder), "--profile", "--policy", "full,snapkv", "--budget", "64",
                                   "--depth", "0,300", "-p", "100", "-n", "40", "--evict-every", "8", "-t", "1", "--json"});
    ASSERT_EQ(profile["rows"].size(), 8U);  // two depths, two policies, two phases
    for (const Json & row : profile["rows"]) {
        const bool decode = row["phase"] == "decode";
        EXPECT_EQ(row["n_tokens"], decode ? 40 : row["depth"].get<int>()) << row;
        double sum = 0;
        for (const auto & [name, seconds] : row["parts_s"].items()) { sum += seconds.get<double>(); }
        EXPECT_NEAR(sum, row["total_s"].get<double>(), 1e-9) << row;
        for (const char * always : {"weights", "attention", "activations", "graphs"}) {
            EXPECT_GT(row["parts_s"][always], 0) << always << " of " << row;
        }
        EXPECT_EQ(row["parts_s"]["sampling"] > 0, decode) << row;
        for (const char * of_policies : {"evidence", "policy", "compaction"}) {
            EXPECT_EQ(row["parts_s"][of_policies] > 0, row["policy"] == "snapkv") << of_policies << " of " << row;
        }
        EXPECT_GT(row["plain_s"], 0) << row;
    }
}

TEST(Commands, BenchDecodesInTurnsOverDepthsAndBudgets) {
    const TempFolder folder;
    const Json bench =
        run_json({"bench", "-m", write_model(folder), "--in-turns", "--policy", "full,snapkv", "--budget", "32,64,128",
                  "--depth", "512,256", "-n", "4", "-r", "2", "-t", "1", "--chunk", "64", "--json"});
    ASSERT_EQ(bench["rows"].size(), 8U);
    for (const Json & row : bench["rows"]) {
        EXPECT_EQ(row["token_samples_s"].size(), 2U) << row;
        EXPECT_GT(row["token_s"], 0) << row;
        const double entries =
            row["policy"] == "full" ? row["depth"].get<double>() : std::stod(row["budget"].get<std::string>());
        EXPECT_EQ(row["n_entries"].get<double>(), entries) << row;
    }
    EXPECT_EQ(bench["rows"][0]["depth"], 256) << "depths ascend";
    EXPECT_EQ(bench["lines"].size(), 2U) << "three budgets at each of two depths";
}

TEST(Commands, BenchMeasuresARoundForEachLineItReads) {
    const TempFolder folder;
    const std::vector<std::string> paced = {"bench",       "-m",       write_model(folder),
                                            "--in-turns",  "--paced",  "--policy",
                                            "full,snapkv", "--budget", "32",
                                            "--depth",     "64,128",   "-p",
                                            "48",          "-n",       "2",
                                            "-t",          "1",        "--chunk",
                                            "64"};
    RunLimits limits;
    limits.standard_input = "go\ngo\n";
    const Outcome outcome = run_pith(paced, limits);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, "ready");
    for (const int round : {1, 2}) {
        std::set<std::string> cases;
        while (std::getline(lines, line) && line != "done") {
            std::istringstream fields(line);
            std::string number, name, seconds;
            std::getline(fields, number, '\t');
            std::getline(fields, name, '\t');
            std::getline(fields, seconds);
            EXPECT_EQ(number, std::to_string(round));
            EXPECT_GT(std::stod(seconds), 0) << line;
            cases.insert(name);
        }
        EXPECT_EQ(cases, (std::set<std::string>{"full, prompt of 48", "full, behind 64", "full, behind 128",
                                                "snapkv 32, prompt of 48", "snapkv 32, behind 64", "snapkv 32, behind 128"}));
    }
    EXPECT_FALSE(std::getline(lines, line)) << line;
    EXPECT_EQ(run_pith(paced).out, "ready\n");  // nobody asks
}

}  // namespace
}  // namespace pith::testing::commands_test
