// gate_tools_test.cpp - gates and adapters as a user handles them: made, told apart, looked at, measured, run.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_process.h"
#include "lab/figures/xml_check.h"
#include "model/random_lora.h"

namespace pith::testing::gate_tools_test {
namespace {

using Json = nlohmann::json;

class GateTools : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        folder_ = new TempFolder;
        RandomModelSpec spec;  // 2 layers, 4 heads over 2 KV heads
        spec.head_dim = 32;
        spec.n_ctx_train = 4096;
        model_ = write_model(*folder_, spec);
        spec.n_kv_heads = 4;
        other_ = write_model(*folder_, spec, "other.gguf");
        gate_ = folder_->file("gate.gguf");
        adapter_ = folder_->file("adapter.gguf");
        const Outcome made =
            run_pith({"train", "gate", "-m", model_, "-o", gate_, "--untrained", "--gamma", "0", "--heads", "2"});
        EXPECT_EQ(made.exit_code, 0) << made.err;
        const auto file = ModelFile::load(model_, {});
        ASSERT_TRUE(file.ok());
        ASSERT_TRUE(write_random_lora(**file, adapter_).ok());
    }
    static void TearDownTestSuite() {
        delete folder_;
        folder_ = nullptr;
    }
    static Json json_of(const std::vector<std::string> & arguments) {
        const Outcome outcome = run_pith(arguments);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return Json::parse(outcome.out, nullptr, false);
    }

    static inline TempFolder * folder_ = nullptr;
    static inline std::string model_, other_, gate_, adapter_;
};

TEST_F(GateTools, UntrainedGatesAreTheSameForASeedAndOverwriteNothing) {
    const std::string again = folder_->file("again.gguf");
    std::vector<std::string> command = {"train", "gate",    "-m", model_,    "-o", again,        "-s",
                                        "1",     "--gamma", "0",  "--heads", "2",  "--untrained"};
    const Outcome made = run_pith(command);
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_NE(made.err.find("untrained"), std::string::npos) << made.err;
    EXPECT_EQ(read_text_file(again), read_text_file(gate_));
    expect_error(run_pith(command), 1, {"again.gguf' exists", "-o"});
    command.insert(command.end(), {"-f", "text.txt"});
    expect_error(run_pith(command), 2, {"--untrained", "leave out -f"});
}

TEST_F(GateTools, InfoTellsGatesAdaptersAndModelsApart) {
    const Json gate = json_of({"info", gate_, "--json"});
    EXPECT_EQ(gate["type"], "gate");
    EXPECT_EQ(gate["heads"], 2);
    EXPECT_EQ(gate["gamma"], 0);
    EXPECT_EQ(gate["training"]["beta"], 0);
    EXPECT_EQ(gate["training"]["steps"], 0);
    EXPECT_EQ(gate["model"]["n_kv_heads"], 2);
    EXPECT_EQ(gate["works_in_chunks"], false);
    const Outcome told = run_pith({"info", gate_, "-m", model_});
    for (const char * word :
         {"2 layers of width", "4 heads over 2 KV heads of size 32", "2 heads of size 32", "one-shot", "not at all", "fits"}) {
        EXPECT_NE(told.out.find(word), std::string::npos) << word << "\n" << told.out;
    }
    expect_error(run_pith({"info", gate_, "-m", other_}), 1, {"another model", "n_kv_heads is 2", "4"});

    const Json adapter = json_of({"info", adapter_, "--json"});
    EXPECT_EQ(adapter["type"], "adapter");
    EXPECT_EQ(adapter["architecture"], "llama");
    EXPECT_EQ(adapter["rank"], 3);
    EXPECT_EQ(adapter["alpha"], 6);
    EXPECT_EQ(adapter["n_layers"], 2);
    ASSERT_EQ(adapter["targets"].size(), 4U);
    EXPECT_EQ(adapter["targets"][0]["name"], "attn_q");
    EXPECT_EQ(adapter["targets"][0]["n_pairs"], 2);
    EXPECT_EQ(adapter["targets"][0]["n_out"], 128);
    EXPECT_NE(run_pith({"info", adapter_, "-m", model_}).out.find("fits"), std::string::npos);
    expect_error(run_pith({"info", adapter_, "-m", other_}), 1, {"attn_k", "another model"});

    EXPECT_EQ(json_of({"info", model_, "--json"})["n_kv_heads"], 2);
    EXPECT_EQ(json_of({"info", model_, "--json"}), json_of({"info", "-m", model_, "--json"}));
    expect_error(run_pith({"info"}), 2, {"pith info FILE"});
    expect_error(run_pith({"info", model_, "-m", other_}), 2, {"give one of them"});
    expect_error(run_pith({"info", folder_->file("none.gguf")}), 1, {"none.gguf"});
    const std::string gate_bytes = read_text_file(gate_);
    write_text(folder_->file("cut.gguf"), gate_bytes.substr(0, gate_bytes.size() / 2));
    expect_error(run_pith({"info", folder_->file("cut.gguf")}), 1, {"cut.gguf"});
}

TEST_F(GateTools, InspectShowsWhatGatesKeep) {
    const std::string out = folder_->file("inspect");
    const std::vector<std::string> command = {"inspect", "-m",    model_, "--gate",           gate_, "-t", "1", "-p",
                                              words(60), "--out", out,    "--gate-attention", "1"};
    const Outcome told = run_pith(command);
    ASSERT_EQ(told.exit_code, 0) << told.err;
    for (const char * word : {"of the entries kept", "layer   1", "kept by KV head", "tenths of the KV heads"}) {
        EXPECT_NE(told.out.find(word), std::string::npos) << word << "\n" << told.out;
    }
    const Json json = Json::parse(read_text_file(out + "/gate.json"));
    const size_t n_tokens = json["n_tokens"];
    ASSERT_EQ(json["tokens"].size(), n_tokens);
    ASSERT_EQ(json["layers"].size(), 2U);
    double kept = 0;
    for (const Json & layer : json["layers"]) {
        for (const Json & share : layer["kept"]) { kept += share.get<double>() / 4; }
    }
    EXPECT_NEAR(json["retention"].get<double>(), kept, 1e-12);
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, 1);
    double by_token = 0;
    for (const Json & token : json["tokens"]) { by_token += token["kept_share"].get<double>() / static_cast<double>(n_tokens); }
    EXPECT_NEAR(by_token, kept, 1e-12);

    const std::string svg = read_text_file(out + "/gate.svg");
    EXPECT_EQ(xml_fault(svg), "");
    for (const char * word : {"layer 1, KV head 0, token", "share kept", "Attention of the gate of layer 1", ">head 1<"}) {
        EXPECT_NE(svg.find(word), std::string::npos) << word;
    }
    const auto n_lines = [&](const std::string & name) {
        const std::string text = read_text_file(out + "/" + name);
        return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    };
    EXPECT_EQ(n_lines("gate_lanes.csv"), 1U + 4U);
    EXPECT_EQ(n_lines("gate_tokens.csv"), 1U + n_tokens);
    EXPECT_EQ(n_lines("gate_attention_0.csv"), 1U + n_tokens);
    EXPECT_EQ(n_lines("gate_attention_1.csv"), 1U + n_tokens);

    const Json means =
        json_of({"inspect", "-m", model_, "--gate", gate_, "-t", "1", "--tokens", "400", "--texts", "2", "--json"});
    EXPECT_EQ(means["n_texts"], 2);
    EXPECT_EQ(means["retention_of_texts"].size(), 2U);
    EXPECT_FALSE(means.contains("tokens"));
}

TEST_F(GateTools, InspectSaysWhatIsWrongInOneLine) {
    const auto inspect = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"inspect", "-m", model_, "-t", "1"});
        return run_pith(more);
    };
    expect_error(inspect({"--gate", folder_->file("none.gguf")}), 1, {"none.gguf"});
    expect_error(inspect({"--gate", model_}), 1, {"not one of gates"});
    expect_error(inspect({"--gate-attention", "0", "--out", "x"}), 2, {"--gate FILE"});
    expect_error(inspect({"--gate", gate_, "--gate-attention", "0"}), 2, {"--out FOLDER"});
    expect_error(inspect({"--gate", gate_, "--gate-attention", "-1", "--out", "x"}), 2, {"--gate-attention is -1"});
    expect_error(inspect({"--gate", gate_, "--gate-attention", "7", "--out", "x", "-p", "a"}), 1, {"layers 0 to 1"});
    expect_error(inspect({"--gate", gate_, "--texts", "2", "-p", "a"}), 2, {"--texts 2"});
    expect_error(inspect({"--gate", gate_, "--budget", "20%"}), 2, {"leave out --budget", "--policy gate"});
    EXPECT_FALSE(std::filesystem::exists("x"));
}

TEST_F(GateTools, BenchMeasuresWhatGatesCostAndSave) {
    const std::vector<std::string> command = {"bench", "-m", model_, "--gates", "-p", "60,90", "-n", "2", "-r", "2", "-t", "1"};
    expect_error(run_pith(command), 2, {"--gates", "--gate"});
    std::vector<std::string> whole = command;
    whole.insert(whole.end(), {"--gate", gate_, "--json"});
    const Json json = json_of(whole);
    ASSERT_EQ(json["rows"].size(), 4U);
    for (const Json & row : json["rows"]) {
        const bool gated = row["policy"] == "gated";
        EXPECT_EQ(row["prefill_samples_s"].size(), 2U);
        EXPECT_EQ(row["gate_share"].get<double>() > 0, gated);
        EXPECT_EQ(row["kept"].get<double>() < 1, gated);
        EXPECT_TRUE(row.contains("decode_ratio"));
        EXPECT_TRUE(row["tokens_until_even"].is_null() || row["tokens_until_even"].get<double>() >= 0) << row.dump();
        if (!gated) { EXPECT_EQ(row["tokens_until_even"], 0); }
    }
    EXPECT_EQ(json["rows"][3]["n_tokens"], 90);
    whole.pop_back();
    const Outcome told = run_pith(whole);
    EXPECT_NE(told.out.find("gated"), std::string::npos) << told.out;
    EXPECT_NE(told.out.find("share"), std::string::npos) << told.out;
    EXPECT_NE(told.out.find("even\n"), std::string::npos) << told.out;
}

TEST_F(GateTools, AnAdapterIsRunAndItsScaleCounts) {
    const auto said = [&](const std::vector<std::string> & more) {
        std::vector<std::string> all = {"run", "-m", model_, "-p", words(20), "-n", "12", "-t", "1", "--temp", "0", "--json"};
        all.insert(all.end(), more.begin(), more.end());
        return json_of(all);
    };
    const Json with = said({"--lora", adapter_, "--lora-scale", "3"});
    EXPECT_EQ(with["lora"], adapter_);
    EXPECT_EQ(with["lora_scale"], 3);
    const Json without = said({});
    EXPECT_NE(with["text"], without["text"]);
    EXPECT_EQ(said({"--lora", adapter_, "--lora-scale", "0"})["text"], without["text"]);
    EXPECT_FALSE(without.contains("lora"));

    const auto refused = [&](const std::vector<std::string> & more, int code, const std::vector<std::string> & words) {
        std::vector<std::string> all = {"run", "-m", model_, "-p", "Hello", "-n", "1", "-t", "1"};
        all.insert(all.end(), more.begin(), more.end());
        expect_error(run_pith(all), code, words);
    };
    refused({"--lora", folder_->file("none.gguf")}, 1, {"adapter file", "none.gguf"});
    refused({"--lora", gate_}, 1, {"not one of an adapter"});
    refused({"--lora-scale", "2"}, 1, {"no adapter"});
    refused({"--lora", adapter_, "--lora-scale", "nan"}, 1, {"scale is nan"});
    refused({"--lora", adapter_, "--lora-scale", "much"}, 2, {"--lora-scale"});
    refused({"-m", other_, "--lora", adapter_}, 1, {"another model"});
}

TEST_F(GateTools, AnEvaluationIsThatOfItsAdapterAndGates) {
    const auto eval = [&](const std::vector<std::string> & more) {
        std::vector<std::string> all = {"eval",      "ruler",  "-m",        model_, "--tasks", "niah_single_1",
                                        "--context", "1100",   "--samples", "1",    "-o",      folder_->file("run"),
                                        "--policy",  "window", "--budget",  "20%",  "-t",      "1"};
        all.insert(all.end(), more.begin(), more.end());
        return run_pith(all);
    };
    const Outcome first = eval({"--lora", adapter_, "--gate", gate_});
    ASSERT_EQ(first.exit_code, 0) << first.err;
    // The content counts, not the name.
    const std::string renamed = folder_->file("renamed.gguf");
    write_text(renamed, read_text_file(adapter_));
    EXPECT_EQ(eval({"--lora", renamed, "--gate", gate_}).exit_code, 0);
    expect_error(eval({}), 1, {"holds another run", "--lora was", "is nothing", "--gate was"});
    expect_error(eval({"--lora", adapter_, "--lora-scale", "0.5", "--gate", gate_}), 1,
                 {"--lora was", "at scale 1", "at scale 0.5"});
    std::string other = read_text_file(adapter_);
    other.back() = static_cast<char>(other.back() ^ 1);
    write_text(renamed, other);
    expect_error(eval({"--lora", renamed, "--gate", gate_}), 1, {"--lora was"});
}

// A model of its own, since what lies beside a model is found by every command.
TEST_F(GateTools, ImportanceIsLearntOnceAndFoundByWhatComesAfter) {
    RandomModelSpec spec;
    spec.head_dim = 32;
    spec.n_ctx_train = 4096;
    const std::string model = write_model(*folder_, spec, "learnt.gguf");
    const std::string text = folder_->file("text.txt");
    std::string words;
    for (int i = 0; i < 500; ++i) { words += "word" + std::to_string(i * 7 % 1000) + (i % 9 == 8 ? ".\n" : " "); }
    std::ofstream(text) << words;
    EXPECT_TRUE(json_of({"info", model, "--json"})["importance"].is_null());
    const std::vector<std::string> command = {"calibrate", "importance", "-m", model, "-f", text, "--tokens", "256", "-t", "1"};
    std::vector<std::string> as_json = command;
    as_json.emplace_back("--json");
    const Json done = json_of(as_json);
    const std::string beside = folder_->file("learnt.importance.gguf");
    EXPECT_EQ(done["file"], beside);
    EXPECT_GT(done["n_tokens"], 1500);
    EXPECT_GT(done["held_out"]["found"], 0.2);
    EXPECT_NE(run_pith(command).out.find("of the fifth that a second reading ranks first"), std::string::npos);

    EXPECT_EQ(json_of({"info", model, "--json"})["importance"], beside);
    const Json gate = json_of({"info", beside, "--json"});
    EXPECT_EQ(gate["purpose"], "rank");
    EXPECT_NE(run_pith({"info", beside}).out.find("policy gate"), std::string::npos);
    const auto policy_of = [&](std::vector<std::string> more) {
        std::vector<std::string> run = {"run", "-m", model, "-f", text, "-n", "2", "-t", "1", "--budget", "20%", "--json"};
        run.insert(run.end(), more.begin(), more.end());
        return json_of(run)["policy"].get<std::string>();
    };
    EXPECT_EQ(policy_of({}), "gate+global:normalise=off");
    EXPECT_EQ(policy_of({"--gate", "none"}), "keydiff+ada:alpha=0");
    const std::string cache = folder_->file("learnt.pith");
    ASSERT_EQ(run_pith({"compress", "-m", model, "-f", text, "-o", cache, "--budget", "20%", "-t", "1"}).exit_code, 0);
    EXPECT_EQ(run_pith({"ask", cache, "-p", "word", "-n", "2", "-t", "1"}).exit_code, 0);
    EXPECT_EQ(policy_of({"--policy", "gate+ada"}), "gate+ada");
    expect_error(run_pith({"run", "-m", model, "-f", text, "--budget", "20%", "--policy", "gated+snapkv", "--gate", beside}), 1,
                 {"only rank entries", "--gate"});
}

TEST_F(GateTools, ImportanceSaysWhatItCannotLearnFrom) {
    const std::string few = folder_->file("few.txt");
    std::ofstream(few) << "a few words";
    const std::string output = folder_->file("never.gguf");
    expect_error(run_pith({"calibrate", "importance", "-m", model_, "-f", few, "-o", output}), 1,
                 {"too few tokens", "--tokens"});
    expect_error(run_pith({"calibrate", "importance", "-m", model_, "-f", "absent.txt", "-o", output}), 1, {"absent.txt"});
    expect_error(run_pith({"calibrate", "importance", "-m", model_, "--samples", "1"}), 2, {"--samples", "2"});
    expect_error(run_pith({"calibrate", "importance", "-m", model_, "--tokens", "12"}), 2, {"--tokens", "128"});
    expect_error(run_pith({"calibrate", "importance", "-m", model_, "--ridge", "0"}), 2, {"--ridge"});
    EXPECT_FALSE(std::filesystem::exists(output));
}

}  // namespace
}  // namespace pith::testing::gate_tools_test
