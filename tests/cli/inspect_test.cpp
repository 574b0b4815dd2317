// inspect_test.cpp - `pith inspect` and `pith calibrate heads`: files, errors, and head importances on their way to a policy.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_process.h"
#include "lab/figures/xml_check.h"

namespace pith::testing::inspect_test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> lines_of(const std::string & text) {
    std::vector<std::string> lines;
    std::stringstream in(text);
    for (std::string line; std::getline(in, line);) { lines.push_back(line); }
    return lines;
}

RandomModelSpec spec_of_cli_tests() {
    RandomModelSpec spec;  // 2 layers, 4 heads over 2 KV heads
    spec.head_dim = 32;
    return spec;
}

class InspectCommand : public ::testing::Test {
protected:
    void SetUp() override { model_ = write_model(folder_, spec_of_cli_tests()); }
    Outcome inspect(std::vector<std::string> more) const {
        std::vector<std::string> arguments = {"inspect", "-m", model_, "--tokens", "512", "-t", "1"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_pith(arguments);
    }
    Outcome calibrate(std::vector<std::string> more) const {
        std::vector<std::string> arguments = {"calibrate", "heads",    "-m",  model_, "--samples",
                                              "1",         "--tokens", "500", "-t",   "1"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_pith(arguments);
    }
    TempFolder folder_;
    std::string model_;
};

// Of six layers with windows in all but the last, policies govern the last.
TEST_F(InspectCommand, NumbersLayersAsTheModelDoes) {
    RandomModelSpec spec;
    spec.arch = "gemma3";
    spec.n_layers = 6;
    spec.window = 16;
    model_ = write_model(folder_, spec, "windows.gguf");
    const std::string out = folder_.file("windows");
    const Outcome outcome = inspect({"--policy", "snapkv,random", "--budget", "64", "--out", out});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("1 of 6 layers (policies govern no others) of 4 heads"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("\nlayer   5 "), std::string::npos) << outcome.out;
    const Json said = Json::parse(read_text_file(out + "/inspect.json"));
    EXPECT_EQ(said["layer_numbers"], Json::array({5}));
    EXPECT_EQ(said["n_model_layers"], 6);
    EXPECT_EQ(said["full_cache"].size(), 1U);
    const auto rows = lines_of(read_text_file(out + "/layers.csv"));
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_TRUE(rows[1].starts_with("snapkv,64,5,")) << rows[1];
    EXPECT_TRUE(lines_of(read_text_file(out + "/attention.csv"))[1].starts_with("5,0,"));
    const std::string svg = read_text_file(out + "/inspect.svg");
    EXPECT_EQ(xml_fault(svg), "");
}

TEST_F(InspectCommand, WritesTablesJsonAndAFigureThatHoldEveryLane) {
    const std::string out = folder_.file("new/folder");
    const Outcome outcome = inspect({"--policy", "full,snapkv,adakv", "--budget", "20%,64", "--out", out, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json said = Json::parse(outcome.out);
    EXPECT_EQ(said, Json::parse(read_text_file(out + "/inspect.json")));
    ASSERT_EQ(said["cases"].size(), 4U);
    EXPECT_EQ(said["pairs"].size(), 2U);
    EXPECT_EQ(said["distance"].size(), 8U);
    EXPECT_EQ(said["full_cache"].size(), 2U);

    const std::string svg = read_text_file(out + "/inspect.svg");
    EXPECT_EQ(xml_fault(svg), "");
    const auto lanes = lines_of(read_text_file(out + "/lanes.csv"));
    ASSERT_EQ(lanes.size(), 1U + 4U * 4U);
    for (const Json & one : said["cases"]) {
        int64_t n_kept = 0;
        for (size_t l = 0; l < 2; ++l) {
            for (size_t h = 0; h < 2; ++h) {
                const int kept = one["layers"][l]["kept"][h];
                n_kept += kept;
                const std::string where = "layer " + std::to_string(l) + ", KV head " + std::to_string(h) + ": ";
                EXPECT_NE(svg.find(where + std::to_string(kept) + "<"), std::string::npos) << where;
                const std::string row = one["policy"].get<std::string>() + "," + one["budget"].get<std::string>() + "," +
                                        std::to_string(l) + "," + std::to_string(h) + "," + said["n_tokens"].dump() + "," +
                                        std::to_string(kept);
                EXPECT_NE(std::find(lanes.begin(), lanes.end(), row), lanes.end()) << row;
            }
            EXPECT_EQ(one["layers"][l]["perturbation"].size(), 4U);
        }
        EXPECT_EQ(n_kept, one["budget_entries"].get<int64_t>() * 4) << one["policy"];
    }
    for (const char * name : {"summary", "layers", "heads", "kept", "scores", "pairs", "model", "attention", "distances"}) {
        const auto table = lines_of(read_text_file(out + "/" + name + ".csv"));
        ASSERT_GT(table.size(), 1U) << name;
        for (const std::string & line : table) {
            EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(table[0].begin(), table[0].end(), ',')) << line;
        }
    }
}

// A researcher's way: which tokens there were, what each got in each lane, and which of them are left.
TEST_F(InspectCommand, WritesTokensScoresAndKeptPositionsOfEveryLane) {
    const std::string out = folder_.file("entries");
    const Outcome outcome = inspect({"--policy", "snapkv,snapkv+caote", "--budget", "64", "--out", out, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json said = Json::parse(outcome.out);
    const size_t n = said["n_tokens"];
    ASSERT_EQ(said["tokens"].size(), n);
    ASSERT_EQ(said["pieces"].size(), n);
    EXPECT_EQ(said["type_k"], "f32");
    const auto tokens = lines_of(read_text_file(out + "/tokens.csv"));
    ASSERT_EQ(tokens.size(), 1 + n);
    EXPECT_EQ(tokens[0], "position,token,piece");
    EXPECT_EQ(tokens[n].rfind(std::to_string(n - 1) + "," + said["tokens"][n - 1].dump() + ",\"", 0), 0U) << tokens[n];

    const auto scores = lines_of(read_text_file(out + "/scores.csv"));
    EXPECT_EQ(scores[0], "policy,layer,kv_head,position,token,score,refined_score");
    ASSERT_EQ(scores.size(), 1 + 2 * 4 * n);
    ASSERT_EQ(said["scores"].size(), 2U);
    EXPECT_FALSE(said["scores"][0].contains("refined_scores"));
    size_t row = 1;
    for (const Json & policy : said["scores"]) {
        for (size_t l = 0; l < 2; ++l) {
            for (size_t h = 0; h < 2; ++h) {
                ASSERT_EQ(policy["scores"][l][h].size(), n);
                for (size_t j = 0; j < n; ++j, ++row) {
                    std::vector<std::string> cells;
                    std::stringstream in(scores[row]);
                    for (std::string cell; std::getline(in, cell, ',');) { cells.push_back(cell); }
                    ASSERT_EQ(cells.size(), 7U);
                    EXPECT_EQ(cells[0], policy["policy"]);
                    EXPECT_EQ(cells[1] + cells[2] + "." + cells[3],
                              std::to_string(l) + std::to_string(h) + "." + std::to_string(j));
                    EXPECT_EQ(cells[4], said["tokens"][j].dump());
                    EXPECT_EQ(std::stod(cells[5]), policy["scores"][l][h][j].get<double>());
                    const Json & ranked = policy.contains("refined_scores") ? policy["refined_scores"] : policy["scores"];
                    EXPECT_EQ(std::stod(cells[6]), ranked[l][h][j].get<double>());
                }
            }
        }
    }
    for (const Json & one : said["cases"]) {
        for (const char * measure : {"kept", "mass", "sigma", "perturbation", "relative_perturbation", "cosine"}) {
            const Json & spread = one["spread"][measure];
            EXPECT_LE(spread["min"], spread["median"]) << measure;
            EXPECT_LE(spread["median"], spread["max"]) << measure;
        }
        for (size_t l = 0; l < 2; ++l) {
            for (size_t h = 0; h < 2; ++h) {
                const Json & positions = one["layers"][l]["positions"][h];
                EXPECT_EQ(positions.size(), one["layers"][l]["kept"][h].get<size_t>());
                EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
                EXPECT_EQ(positions.back(), n - 1) << "the newest is always kept";
            }
        }
    }
}

TEST_F(InspectCommand, TokenIdsStandInForText) {
    const std::string text = folder_.file("text.txt");
    write_text(text, words(200));
    const Json of_text = Json::parse(inspect({"-f", text, "--raw", "--policy", "snapkv", "--budget", "64", "--json"}).out);
    const std::string ids = folder_.file("ids.txt");
    write_text(ids, run_pith({"tokenize", "-m", model_, "-f", text}).out);
    const Outcome outcome = inspect({"--token-ids", ids, "--policy", "snapkv", "--budget", "64", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out), of_text);
    expect_error(inspect({"--token-ids", ids, "-f", text}), 2, {"--token-ids", "-f"});
    expect_error(inspect({"--token-ids", ids, "--texts", "3"}), 2, {"--texts"});
    expect_error(inspect({"--token-ids", folder_.file("none.txt")}), 1, {"none.txt"});
}

TEST_F(InspectCommand, CacheTypesAreThoseAskedFor) {
    const auto entropy = [&](std::vector<std::string> more) {
        more.insert(more.end(), {"--policy", "snapkv", "--budget", "64", "--json"});
        const Outcome outcome = inspect(more);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        const Json json = Json::parse(outcome.out);
        EXPECT_EQ(json["type_k"], more[1]);
        EXPECT_EQ(json["type_v"], more[3]);
        return json["full_cache"][0]["entropy"][0].get<double>();
    };
    const double exact = entropy({"-ctk", "f32", "-ctv", "f32"});
    const double rounded = entropy({"-ctk", "q4_0", "-ctv", "f32"});
    EXPECT_NE(exact, rounded);
    EXPECT_EQ(exact, entropy({"-ctk", "f32", "-ctv", "q4_0"})) << "the first layer's attention does not read values";
    expect_error(inspect({"-ctk", "q3"}), 2, {"q3"});
}

TEST_F(InspectCommand, SaysWhenATextIsForeignToTheModel) {
    const Outcome outcome = inspect({"--policy", "snapkv", "--budget", "64"});  // a random model knows no text
    ASSERT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find("pith: warning: the prompt is foreign to this model"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.out.find("of perplexity"), std::string::npos) << outcome.out;
}

TEST_F(InspectCommand, APerplexityOfAForeignTextSaysSo) {
    const std::vector<std::string> command = {"eval", "perplexity", "-m",     model_,     "--context", "300",       "--chunk",
                                              "100",  "--policy",   "snapkv", "--budget", "64",        "--samples", "1"};
    const Outcome outcome = run_pith(command);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("warning: the text is foreign to this model"), std::string::npos) << outcome.err;
}

TEST_F(InspectCommand, TablesShowHowHeadsVary) {
    const Outcome outcome = inspect({"--policy", "snapkv", "--budget", "64"});
    for (const char * words : {"least / median / largest", "mean over heads (least-largest)"}) {
        EXPECT_NE(outcome.out.find(words), std::string::npos) << outcome.out;
    }
}

TEST_F(InspectCommand, FiguresAreChosenByName) {
    const std::string out = folder_.file("figures");
    const std::vector<std::string> base = {"--policy", "snapkv,h2o", "--budget", "64,128", "--out", out, "--format", "svg"};
    std::vector<std::string> some = base;
    some.insert(some.end(), {"--figure", "kept,novelty"});
    ASSERT_EQ(inspect(some).exit_code, 0);
    const std::string svg = read_text_file(out + "/inspect.svg");
    EXPECT_EQ(xml_fault(svg), "");
    EXPECT_NE(svg.find("Entries kept, budget 64"), std::string::npos);
    EXPECT_NE(svg.find("SCORE's distances"), std::string::npos);
    EXPECT_EQ(svg.find("By layer"), std::string::npos);
    EXPECT_EQ(svg.find("by policy and budget"), std::string::npos);
    EXPECT_EQ(svg.find("Attention mass"), std::string::npos);
    ASSERT_EQ(inspect(base).exit_code, 0);
    const std::string all = read_text_file(out + "/inspect.svg");
    for (const char * heading :
         {"By layer, budget 64", "By budget", "Entries kept, budget 128", "Attention mass kept", "Perturbation of heads",
          "by policy and budget", "Distance between heads", "% of its length", "log scale"}) {
        const bool is_scale = std::string(heading) == "log scale";  // 64 and 128 are near enough for a linear one
        EXPECT_EQ(all.find(heading) != std::string::npos, !is_scale) << heading;
    }
    std::vector<std::string> wrong = base;
    wrong.insert(wrong.end(), {"--figure", "keep"});
    expect_error(inspect(wrong), 2, {"'keep'", "kept, mass"});
    expect_error(inspect({"--figure", "kept"}), 2, {"--out"});
}

TEST_F(InspectCommand, WritesOnlyTheFormatsAskedFor) {
    const std::string out = folder_.file("svg-only");
    const Outcome outcome = inspect({"--policy", "snapkv", "--budget", "64", "--out", out, "--format", "svg"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    size_t n = 0;
    for ([[maybe_unused]] const auto & entry : std::filesystem::directory_iterator(out)) { ++n; }
    EXPECT_EQ(n, 1U);
    EXPECT_TRUE(std::filesystem::exists(out + "/inspect.svg"));
}

// Means over texts: the JSON says what the CSV files say, each number with its deviation, and the figure is drawn from the
// means.
TEST_F(InspectCommand, MeansOverTextsHaveTheirDeviationsInEveryFile) {
    const std::string out = folder_.file("means");
    const Outcome outcome =
        inspect({"--texts", "3", "--policy", "snapkv,adakv", "--budget", "64,128", "--distance", "bc", "--out", out, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json said = Json::parse(outcome.out);
    EXPECT_EQ(said, Json::parse(read_text_file(out + "/inspect.json")));
    EXPECT_EQ(said["n_texts"], 3);
    EXPECT_EQ(said["n_left_out"], 0);
    EXPECT_EQ(said["distance_by"], "bc");
    EXPECT_EQ(said["rows"].size(), 4U);
    for (const char * half : {"mean", "deviation"}) {
        EXPECT_EQ(said[half]["distance"].size(), 8U) << half;
        ASSERT_EQ(said[half]["cases"].size(), 4U) << half;
        EXPECT_EQ(said[half]["cases"][1]["n_texts"], 3);
        EXPECT_EQ(said[half]["cases"][1]["layers"][1]["mass"].size(), 4U);
    }
    EXPECT_GT(said["deviation"]["distance"][0][5].get<double>(), 0);
    EXPECT_EQ(said["deviation"]["cases"][0]["layers"][0]["kept"][0], 0) << "snapkv keeps 64 of every text";
    for (const char * name :
         {"summary", "layers", "heads", "lanes", "pairs", "model", "attention", "distances", "distances_sd"}) {
        const auto table = lines_of(read_text_file(out + "/" + name + ".csv"));
        ASSERT_GT(table.size(), 1U) << name;
        for (const std::string & line : table) {
            EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(table[0].begin(), table[0].end(), ',')) << line;
        }
    }
    EXPECT_EQ(lines_of(read_text_file(out + "/heads.csv"))[0],
              "policy,budget,layer,head,texts,mass,mass_sd,sigma,sigma_sd,perturbation,perturbation_sd,relative_perturbation,"
              "relative_perturbation_sd,output_error,output_error_sd");
    const std::string svg = read_text_file(out + "/inspect.svg");
    EXPECT_EQ(xml_fault(svg), "");
    for (const char * words :
         {"means over 3 texts", "Bhattacharyya", "a standard deviation", "(HD)", "Entries kept", "By budget"}) {
        EXPECT_NE(svg.find(words), std::string::npos) << words;
    }
    expect_error(inspect({"--distance", "euclid"}), 2, {"--distance is 'euclid'", "jsd"});
    expect_error(inspect({"--texts", "0"}), 2, {"--texts (--samples) is 0"});
    const Json known = Json::parse(inspect({"--policy", "snapkv", "--budget", "64", "--json"}).out);
    const Json later = Json::parse(inspect({"--policy", "snapkv", "--budget", "64", "--question-later", "--json"}).out);
    EXPECT_LT(later["n_tokens"].get<int>(), known["n_tokens"].get<int>()) << "policies see the text alone";
    expect_error(inspect({"-p", "Who?", "-f", "-", "--question-later", "--attention", "0:0", "-o", folder_.file("maps")}), 2,
                 {"--question-later"});
    expect_error(inspect({"--token-ids", "ids.txt", "--question-later"}), 2, {"where the question begins"});
}

// The samples that `pith eval` writes, and a data set's texts: one look each is the mean of one.
TEST_F(InspectCommand, DataSetsAreReadSampleBySample) {
    const std::string samples = folder_.file("samples.jsonl");
    const Outcome written = run_pith({"eval", "ruler", "-m", model_, "--tasks", "niah_single_1", "--context", "600,700",
                                      "--samples", "2", "--write-samples", samples});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    const auto look = [&](std::vector<std::string> more) {
        more.insert(more.begin(),
                    {"inspect", "-m", model_, "-t", "1", "--data", samples, "--policy", "snapkv", "--budget", "64"});
        return run_pith(more);
    };
    const Outcome all = look({"--json"});
    ASSERT_EQ(all.exit_code, 0) << all.err;
    EXPECT_EQ(Json::parse(all.out)["n_texts"], 4);
    const Outcome first = look({"--samples", "1", "--json"});
    ASSERT_EQ(first.exit_code, 0) << first.err;
    EXPECT_EQ(Json::parse(first.out)["n_texts"], 1);
    EXPECT_EQ(Json::parse(first.out)["deviation"]["distance"][0][1], 0);
    // Those of 700 tokens do not fit 650: a line each, and counted.
    const Outcome some = look({"--tokens", "650", "--json"});
    ASSERT_EQ(some.exit_code, 0) << some.err;
    EXPECT_EQ(Json::parse(some.out)["n_texts"], 2);
    EXPECT_EQ(Json::parse(some.out)["n_left_out"], 2);
    EXPECT_NE(some.err.find("task 'niah_single_1', sample '0' needs"), std::string::npos) << some.err;
    EXPECT_NE(some.err.find("raise --tokens; left out"), std::string::npos) << some.err;
    expect_error(look({"--tokens", "300"}), 1, {"no text fits", "task 'niah_single_1'", "raise --tokens"});

    const std::string texts = folder_.file("texts.jsonl");
    write_text(texts, "{\"text\": \"" + words(150) + "\"}\n{\"text\": \"" + words(180) + "\"}\n");
    const Outcome plain =
        run_pith({"inspect", "-m", model_, "-t", "1", "--data", texts, "--policy", "snapkv", "--budget", "64", "--json"});
    ASSERT_EQ(plain.exit_code, 0) << plain.err;
    EXPECT_EQ(Json::parse(plain.out)["n_texts"], 2);
    const Outcome made =
        inspect({"--task", "ruler/niah_single_1", "--samples", "2", "--policy", "snapkv", "--budget", "64", "--json"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_EQ(Json::parse(made.out)["n_texts"], 2);
    expect_error(inspect({"--task", "ruler/vt"}), 1, {"task 'vt' needs at least", "--tokens: raise it"});
    expect_error(inspect({"--data", samples, "-f", texts}), 2, {"--data", "-f"});
    write_text(folder_.file("odd.jsonl"), "{\"words\": 1}\n");
    expect_error(inspect({"--data", folder_.file("odd.jsonl")}), 1, {"odd.jsonl", "--task FAMILY/NAME"});
}

TEST_F(InspectCommand, MapsOfTheModelsAttentionAreFilesOfTheirOwn) {
    const std::string out = folder_.file("maps");
    const Outcome outcome = inspect({"--attention", "1:2,0:all", "-o", out});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("layer   1  head   2"), std::string::npos) << outcome.out;
    const Json json = Json::parse(read_text_file(out + "/attention_maps.json"));
    ASSERT_EQ(json["maps"].size(), 5U);
    EXPECT_EQ(json["maps"][0]["layer"], 1);
    EXPECT_EQ(json["maps"][0]["head"], 2);
    const size_t n_cells = json["n_cells"];
    EXPECT_LE(n_cells, 256U);
    EXPECT_GT(n_cells, 128U);
    const auto table = lines_of(read_text_file(out + "/attention_map_1_2.csv"));
    ASSERT_EQ(table.size(), 1 + n_cells);
    for (size_t r = 0; r < n_cells; ++r) {
        double sum = 0;
        for (size_t c = 0; c < n_cells; ++c) { sum += json["maps"][0]["values"][r][c].get<double>(); }
        EXPECT_NEAR(sum, 1, 1e-3) << r;
        EXPECT_EQ(std::count(table[1 + r].begin(), table[1 + r].end(), ','), static_cast<std::ptrdiff_t>(n_cells));
    }
    EXPECT_TRUE(std::filesystem::exists(out + "/attention_map_0_3.csv"));
    const std::string svg = read_text_file(out + "/attention_maps.svg");
    EXPECT_EQ(xml_fault(svg), "");
    // Cells are named by their first token, as in the tables.
    const size_t at = svg.find("query (cells of ");
    ASSERT_NE(at, std::string::npos);
    const int n_tokens = std::stoi(svg.substr(at + 16));
    EXPECT_NE(svg.find("tokens) " + std::to_string(n_tokens) + ", key"), std::string::npos) << n_tokens;
    EXPECT_EQ(svg.find("tokens) 1, key"), std::string::npos);
    // With gates a second map of each head, over what they leave.
    const std::string gate = folder_.file("gate.gguf");
    const Outcome made = run_pith({"train", "gate", "-m", model_, "-o", gate, "--untrained", "--gamma", "0", "--heads", "2"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const std::string both = folder_.file("both");
    const Outcome gated = inspect({"--gate", gate, "--attention", "1:2", "-o", both, "--format", "csv"});
    ASSERT_EQ(gated.exit_code, 0) << gated.err;
    EXPECT_NE(gated.out.find("head   2  gated"), std::string::npos) << gated.out;
    EXPECT_EQ(read_text_file(both + "/attention_map_1_2.csv"), read_text_file(out + "/attention_map_1_2.csv"))
        << "the full cache's map is the same with gates beside it";
    const auto left = lines_of(read_text_file(both + "/attention_map_1_2_gated.csv"));
    EXPECT_EQ(left.size(), table.size());
    EXPECT_NE(left, table);
    const Outcome means = inspect({"--gate", gate, "--texts", "2", "--json"});
    ASSERT_EQ(means.exit_code, 0) << means.err;
    EXPECT_EQ(Json::parse(means.out)["n_left_out"], 0);
    expect_error(inspect({"--attention", "2:0", "-o", out}), 2, {"'2:0'", "layers 0 to 1"});
    expect_error(inspect({"--attention", "one", "-o", out}), 2, {"'one'", "LAYER:HEAD"});
    expect_error(inspect({"--attention", "0:0"}), 2, {"-o FOLDER"});
    expect_error(inspect({"--attention", "0:0", "-o", out, "--policy", "snapkv"}), 2, {"--attention", "--policy"});
    expect_error(inspect({"--attention", "0:0", "-o", out, "-ctv", "q8_0"}), 2, {"-ctv is q8_0", "leave it out"});
    expect_error(inspect({"--gate", gate, "--texts", "2", "-o", out}), 2, {"--texts 2 gives a table", "--out"});
    const std::string texts = folder_.file("two.jsonl");
    write_text(texts, "{\"text\": \"One.\"}\n");
    const Outcome of_data = inspect({"--gate", gate, "--data", texts, "-o", out});
    expect_error(of_data, 2, {"--data gives a table"});
    EXPECT_EQ(of_data.err.find("--texts"), std::string::npos) << of_data.err;
}

TEST_F(InspectCommand, ReadsAFileAndAQuestion) {
    const std::string text = folder_.file("text.txt");
    write_text(text, words(200));
    const Outcome outcome = inspect({"-f", text, "-p", " Who?", "--policy", "random,window", "--budget", "64"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const char * word : {"policy", "random", "window", "layer   1", "entries kept", "rank correlation", "IR"}) {
        EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
    }
}

TEST_F(InspectCommand, SaysWhatIsWrongInOneLine) {
    expect_error(inspect({"--policy", "full"}), 2, {"full", "evicts nothing"});
    expect_error(inspect({"--policy", "snapvk"}), 2, {"snapvk", "snapkv"});
    expect_error(inspect({"--budget", "0"}), 2, {"0"});
    expect_error(inspect({"--format", "png"}), 2, {"png", "csv"});
    expect_error(inspect({"--chunk", "0"}), 2, {"--chunk"});
    expect_error(inspect({"-p", "Who?"}), 2, {"-f"});
    expect_error(inspect({"-f", "nowhere.txt"}), 1, {"nowhere.txt"});
    expect_error(inspect({"--tokens", "20"}), 1, {"20"});
    const std::string file = folder_.file("a-file");
    write_text(file, "x");
    expect_error(inspect({"--policy", "snapkv", "--budget", "64", "--out", file}), 1, {"a-file"});
}

TEST_F(InspectCommand, HeadImportancesComeFromCalibrationAndGoToPolicies) {
    const std::string text = folder_.file("text.txt");
    write_text(text, words(200));
    const std::vector<std::string> run = {"run",      "-m", model_, "-f", text, "--policy", "headkv",
                                          "--budget", "64", "-n",   "1",  "-t", "1",        "--json"};
    expect_error(run_pith(run), 1, {"'headkv'", "head importances", "pith calibrate heads", "--heads"});

    const std::string heads = folder_.file("my-heads.json");
    const Outcome made = calibrate({"-o", heads, "--json"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_EQ(Json::parse(made.out)["n_samples"], 1);
    EXPECT_EQ(Json::parse(read_text_file(heads))["copy"].size(), 2U);
    std::vector<std::string> with_heads = run;
    with_heads.insert(with_heads.end(), {"--heads", heads});
    EXPECT_EQ(run_pith(with_heads).exit_code, 0) << run_pith(with_heads).err;

    // Beside the model they are found by themselves.
    ASSERT_EQ(calibrate({}).exit_code, 0);
    EXPECT_TRUE(std::filesystem::exists(folder_.file("model.heads.json")));
    const Outcome found = run_pith(run);
    EXPECT_EQ(found.exit_code, 0) << found.err;

    RandomModelSpec other = spec_of_cli_tests();
    other.seed = 2;
    const std::string other_model = write_model(folder_, other, "other.gguf");
    expect_error(run_pith({"run", "-m", other_model, "-f", text, "--policy", "headkv", "--budget", "64", "--heads", heads}), 1,
                 {"my-heads.json", "another model"});
    write_text(heads, read_text_file(heads).substr(0, 100));
    expect_error(run_pith(with_heads), 1, {"my-heads.json", "not whole JSON"});
}

TEST_F(InspectCommand, CalibrationLeavesOutProbesThatDoNotFit) {
    const Outcome some = calibrate({"--samples", "12", "--tokens", "1000", "--json"});
    ASSERT_EQ(some.exit_code, 0) << some.err;
    EXPECT_NE(some.err.find("4 probes of 250 tokens left out: task 'multikey' needs at least"), std::string::npos) << some.err;
    EXPECT_NE(some.err.find("raise --tokens (1000"), std::string::npos) << some.err;
    const Json json = Json::parse(some.out);
    EXPECT_EQ(json["n_samples"], 8);
    EXPECT_EQ(json["n_left_out"], 4);
    EXPECT_EQ(json["lengths"], (std::vector<int>{1000, 500}));
    expect_error(calibrate({"--tokens", "200", "-o", folder_.file("none.json")}), 1, {"no probe fits", "--tokens is 200"});
    EXPECT_FALSE(std::filesystem::exists(folder_.file("none.json")));
}

TEST_F(InspectCommand, CalibrationSaysWhatIsWrongAndLeavesNoFile) {
    expect_error(calibrate({"--samples", "0"}), 2, {"--samples"});
    expect_error(calibrate({"--tokens", "50"}), 1, {"50 tokens"});
    expect_error(calibrate({"-t", "-1"}), 2, {"--threads"});
    expect_error(calibrate({"-o", folder_.file("no/such/heads.json")}), 1, {"no/such/heads.json"});
    expect_error(run_pith({"calibrate", "heads", "-m", "nowhere.gguf"}), 1, {"nowhere.gguf"});
    expect_error(run_pith({"calibrate"}), 2, {"calibrate heads"});
    expect_error(calibrate({"--sample", "3"}), 2, {"--sample", "--samples"});
    expect_error(calibrate({"--zzzzz"}), 2, {"`pith calibrate heads --help`"});
    EXPECT_FALSE(std::filesystem::exists(folder_.file("model.heads.json")));
    EXPECT_FALSE(std::filesystem::exists(folder_.file("model.heads.json.tmp")));
}

}  // namespace
}  // namespace pith::testing::inspect_test
