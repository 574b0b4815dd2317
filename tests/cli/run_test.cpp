// run_test.cpp - `pith run` on a tiny random model: what it answers, and what it says about it.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"
#include "text/tiny_vocabulary.h"

namespace pith::testing::run_test {
namespace {

using Json = nlohmann::json;

class Run : public ::testing::Test {
protected:
    void SetUp() override {
        model_ = write_model(folder_);
        book_ = folder_.file("book.txt");
        write_text(book_, words(400));
    }
    std::vector<std::string> arguments(const std::vector<std::string> & more) {
        std::vector<std::string> all = {"run", "-m", model_, "-n", "6", "-t", "1", "--temp", "0", "--ignore-eos"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    Json run_json(std::vector<std::string> more) {
        more.emplace_back("--json");
        const Outcome outcome = run_pith(arguments(more));
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        return Json::parse(outcome.out, nullptr, false);
    }

    TempFolder folder_;
    std::string model_;
    std::string book_;
};

TEST_F(Run, ReadsWhatIsPipedInAsTheContextOfItsPrompt) {
    const std::string text = words(400);
    const Outcome named = run_pith(arguments({"-f", book_, "-p", "Who?", "--budget", "64"}));
    ASSERT_EQ(named.exit_code, 0) << named.err;
    const Outcome redirected = run_pith(arguments({"-p", "Who?", "--budget", "64"}), {.standard_input = text});
    EXPECT_EQ(redirected.out, named.out) << redirected.err;
    const Streams streams{folder_.file("pipe"), folder_.file("out"), folder_.file("err")};
    ASSERT_EQ(mkfifo(streams.in.c_str(), 0600), 0);
    const pid_t pid = start_pith(arguments({"-p", "Who?", "--budget", "64"}), streams);
    std::ofstream(streams.in, std::ios::binary) << text;
    ASSERT_EQ(wait_for_exit(pid), 0) << read_text_file(streams.err);
    EXPECT_EQ(read_text_file(streams.out), named.out);
    // Where the context has a file, standard input is somebody else's.
    EXPECT_EQ(run_pith(arguments({"-f", book_, "-p", "Who?", "--budget", "64"}), {.standard_input = "No."}).out, named.out);
}

TEST_F(Run, TakesWordsThatAreNoOptionsForThePrompt) {
    const Outcome named = run_pith(arguments({"-p", "Who was it?"}));
    ASSERT_EQ(named.exit_code, 0) << named.err;
    EXPECT_NE(named.err.find("decode"), std::string::npos) << named.err;
    for (const std::vector<std::string> & words : {std::vector<std::string>{"Who was it?"}, {"Who", "was", "it?"}}) {
        std::vector<std::string> more = words;
        more.emplace_back("-q");
        const Outcome said = run_pith(arguments(more));
        EXPECT_EQ(said.out, named.out) << said.err;
        EXPECT_EQ(said.err, "");
    }
    expect_error(run_pith(arguments({"-p", "Who?", "stray"})), 2, {"'stray' is no option's value"});
    expect_error(run_pith({"run", model_}), 2, {model_, "give a model with -m"});
    for (const char * text : {"[INST] Who, was it? [/INST]", "[]", "[[a]]"}) {
        EXPECT_EQ(run_json({text})["answers"][0]["question"], text);
        expect_error(run_pith(arguments({"-p", "Who?", text})), 2, {"'" + std::string(text) + "' is no option's value"});
    }
    EXPECT_EQ(run_json({"a", "[b,", "c]"})["answers"][0]["question"], "a [b, c]");
}

TEST_F(Run, ReadsThousandsOfTokens) {
    EXPECT_EQ(run_json({"-f", book_, "-p", "Who?", "--budget", "0.0625k", "-c", "4k"})["budget_entries"], 64);
    expect_error(run_pith(arguments({"-p", "Who?", "-c", "4x"})), 2, {"--ctx-size", "4x"});
    EXPECT_EQ(run_json({"-p", "Who?", "-n", "010"})["n_generated"], 10) << "nobody means octal numbers";
    EXPECT_EQ(run_json({"-p", "Who?", "-n", "2", "-c", "4K"})["n_generated"], 2);
    expect_error(run_pith(arguments({"-p", "Who?", "-c", "-010"})), 2, {"--ctx-size", "-10"});
}

TEST_F(Run, ReportsEveryKeyOfTheLedger) {
    const Json json = run_json({"-f", book_, "-p", "Who?", "--budget", "64"});
    ASSERT_TRUE(json.is_object());
    for (const char * key : {"text",
                             "answers",
                             "n_prompt",
                             "n_generated",
                             "policy",
                             "budget_entries",
                             "n_evictions",
                             "evicted_entries",
                             "kept_entries",
                             "peak_lane_entries",
                             "kv_needed_bytes",
                             "kv_allocated_bytes",
                             "kv_saved_bytes",
                             "kv_peak_bytes",
                             "evidence_peak_bytes",
                             "activation_peak_bytes",
                             "rss_peak_bytes",
                             "prefill_s",
                             "decode_s",
                             "evidence_s",
                             "plan_s",
                             "compact_s",
                             "prefill_tps",
                             "decode_tps",
                             "interrupted"}) {
        EXPECT_TRUE(json.contains(key)) << key;
    }
    EXPECT_EQ(json["policy"], "vmax:pool=avg45:pool_over=before+entropy");
    EXPECT_EQ(json["n_generated"], 6);
    EXPECT_EQ(json["budget_entries"], 64);
    EXPECT_GT(json["evicted_entries"], 0);
    EXPECT_GT(json["kv_peak_bytes"], 0);
    EXPECT_GE(json["kv_peak_bytes"], json["kv_allocated_bytes"]);
    EXPECT_GT(json["rss_peak_bytes"], json["kv_peak_bytes"]);
    EXPECT_GT(json["prefill_tps"], 0);
    EXPECT_GT(json["decode_tps"], 0);
}

TEST_F(Run, PrintsThePositionsThatEveryLaneHolds) {
    const Json json = run_json({"-f", book_, "-p", "Who?", "--budget", "64", "--kept"});
    size_t n_kept = 0;
    size_t n_lanes = 0;
    for (const Json & layer : json["kept"]) {
        for (const Json & lane : layer) {
            ++n_lanes;
            n_kept += lane.size();
            for (size_t j = 1; j < lane.size(); ++j) { EXPECT_LT(lane[j - 1].get<int>(), lane[j].get<int>()); }
        }
    }
    EXPECT_EQ(n_kept, json["kept_entries"].get<size_t>());
    EXPECT_GT(n_lanes, 1U);
    EXPECT_FALSE(run_json({"-f", book_, "-p", "Who?", "--budget", "64"}).contains("kept"));
    // A session for each question: what each of them held.
    const Json apart = run_json({"-f", book_, "-p", "Who?", "-p", "Where?", "--budget", "64", "--question-aware", "--kept"});
    ASSERT_EQ(apart["kept"].size(), 2U);
    EXPECT_EQ(apart["kept"][0].size(), json["kept"].size());
    expect_error(run_pith(arguments({"-p", "Who?", "--kept"})), 2, {"--kept", "--json"});
}

TEST_F(Run, KeepsEverythingWithoutABudget) {
    const Json json = run_json({"-f", book_, "-p", "Who?"});
    EXPECT_EQ(json["policy"], "full");
    EXPECT_EQ(json["evicted_entries"], 0);
    EXPECT_EQ(json["budget_entries"], 0);
}

TEST_F(Run, SaysTheSameWithABudgetAboveTheLength) {
    const Json full = run_json({"-f", book_, "-p", "Who?"});
    const Json large = run_json({"-f", book_, "-p", "Who?", "--budget", "4000"});
    EXPECT_EQ(large["evicted_entries"], 0);
    EXPECT_EQ(large["text"], full["text"]);
}

// One question is in sight when the context is compressed, several come later; either can be asked for.
TEST_F(Run, OneQuestionIsInSightUnlessItComesLater) {
    const Json alone = run_json({"-f", book_, "-p", "Who?", "--budget", "64", "--kept"});
    const Json aware = run_json({"-f", book_, "-p", "Who?", "--budget", "64", "--kept", "--question-aware"});
    const Json later = run_json({"-f", book_, "-p", "Who?", "--budget", "64", "--kept", "--question-later"});
    EXPECT_EQ(alone["kept"], aware["kept"]);
    EXPECT_NE(alone["kept"], later["kept"]);
    const Json chunks = run_json({"-f", book_, "-p", "Who?", "--budget", "64", "--prefill", "chunked", "--chunk", "64"});
    EXPECT_EQ(chunks["schedule"], "in chunks, question seen");
    EXPECT_EQ(later["schedule"], "one-shot");
}

TEST_F(Run, AnswersEachQuestionAsIfItWereTheOnlyOne) {
    const Json both = run_json({"-f", book_, "-p", "Who?", "-p", "And where was it?", "--budget", "64", "--question-later"});
    ASSERT_EQ(both["answers"].size(), 2U);
    const Json first = run_json({"-f", book_, "-p", "Who?", "--budget", "64", "--question-later"});
    const Json second = run_json({"-f", book_, "-p", "And where was it?", "--budget", "64", "--question-later"});
    EXPECT_EQ(both["answers"][0]["text"], first["text"]);
    EXPECT_EQ(both["answers"][1]["text"], second["text"]);
    EXPECT_EQ(both["answers"][0]["question"], "Who?");
    EXPECT_EQ(both["text"], first["text"].get<std::string>() + "\n" + second["text"].get<std::string>());
    EXPECT_EQ(both["n_generated"], 12);
    // The context was prefilled once.
    EXPECT_LT(both["n_prompt"], first["n_prompt"].get<int>() + second["n_prompt"].get<int>());
}

TEST_F(Run, SeveralQuestionsAreAllInSightUnlessTheyComeLater) {
    const std::vector<std::string> base = {"-f", book_, "-p", "Who?", "-p", "And where was it?", "--budget", "64", "--kept"};
    const auto with = [&base](const std::string & budget, bool later) {
        std::vector<std::string> flags = base;
        std::replace(flags.begin(), flags.end(), std::string("64"), budget);
        if (later) { flags.emplace_back("--question-later"); }
        return flags;
    };
    const Json seen = run_json(base);
    const Json later = run_json(with("64", true));
    EXPECT_EQ(seen["questions_in_sight"], true);
    EXPECT_NE(seen["kept"], later["kept"]);
    EXPECT_EQ(seen["n_prompt"], later["n_prompt"]);
    EXPECT_EQ(seen["budget_entries"], 64);
    // The same where nothing is evicted: the questions leave nothing behind.
    EXPECT_EQ(run_json(with("4000", false))["text"], run_json(with("4000", true))["text"]);
}

TEST_F(Run, PrefillsOncePerQuestionWhenQuestionAware) {
    const Json once = run_json({"-f", book_, "-p", "Who?", "--budget", "64", "--question-aware"});
    const Json both = run_json({"-f", book_, "-p", "Who?", "-p", "Who?", "--budget", "64", "--question-aware"});
    EXPECT_EQ(both["n_prompt"], 2 * once["n_prompt"].get<int>());
    EXPECT_EQ(both["answers"][1]["text"], once["text"]);
}

TEST_F(Run, StreamsTheSameTextThatJsonHolds) {
    const Json json = run_json({"-f", book_, "-p", "Who?"});
    for (const bool stream : {true, false}) {
        std::vector<std::string> more = {"-f", book_, "-p", "Who?"};
        if (!stream) { more.emplace_back("--no-stream"); }
        const Outcome outcome = run_pith(arguments(more));
        EXPECT_EQ(outcome.exit_code, 0);
        ASSERT_FALSE(outcome.out.empty());
        // JSON cannot hold what is no UTF-8, and a random model says such things.
        const std::string said =
            Json(outcome.out.substr(0, outcome.out.size() - 1)).dump(-1, ' ', false, Json::error_handler_t::replace);
        EXPECT_EQ(Json::parse(said), json["text"]);
        EXPECT_NE(outcome.err.find("KV"), std::string::npos) << outcome.err;
        EXPECT_EQ(outcome.err.find('\r'), std::string::npos) << "progress without a terminal";
    }
}

TEST_F(Run, ReadsTheContextFromStandardInput) {
    const Json file = run_json({"-f", book_, "-p", "Who?"});
    std::vector<std::string> more = arguments({"-f", "-", "-p", "Who?", "--json"});
    const Outcome outcome = run_pith(more, {0, words(400)});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out)["text"], file["text"]);
}

TEST_F(Run, ReadsThePromptFromAPipeWhereNobodyGaveOne) {
    const Json said = run_json({"-p", "Once upon a time"});
    const Outcome piped = run_pith(arguments({"--json"}), {0, "Once upon a time\n"});
    ASSERT_EQ(piped.exit_code, 0) << piped.err;
    EXPECT_EQ(Json::parse(piped.out)["text"], said["text"]);
}

TEST_F(Run, PrintsAnswersAloneOnStandardOutput) {
    const std::vector<std::string> base = {"-f", book_, "-p", "Who?", "-p", "Where?", "--budget", "64"};
    const Json json = run_json(base);
    const Outcome outcome = run_pith(arguments(base));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    // JSON cannot hold what is no UTF-8, and a random model says such things.
    const std::string said =
        Json(outcome.out.substr(0, outcome.out.size() - 1)).dump(-1, ' ', false, Json::error_handler_t::replace);
    EXPECT_EQ(Json::parse(said), json["text"]);
    EXPECT_NE(outcome.err.find("> Where?"), std::string::npos) << outcome.err;
}

// What llama.cpp's users type from habit, where Pith does just that.
TEST_F(Run, TakesLlamaCppsFlagsThatMeanTheSame) {
    const Json plain = run_json({"-p", "Once upon a time", "--raw"});
    const std::vector<std::vector<std::string>> same = {
        {"-no-cnv"},
        {"--no-conversation"},
        {"--raw", "-ngl", "0"},
        {"--raw", "--n-gpu-layers=0"},
        {"--raw", "-fa"},
        {"--raw", "-fa", "on"},
        {"--raw", "--flash-attn", "auto"},
        {"--raw", "-st", "--color", "--no-warmup", "--no-display-prompt", "--simple-io", "--mmap", "--log-disable", "-nkvo"},
        {"--raw", "-ctk", "f16", "-ctv", "f16", "-nr"},
        {"--raw", "-s", "-1", "--predict", "6", "--no-perf", "-co", "auto"},
    };
    for (std::vector<std::string> more : same) {
        SCOPED_TRACE(more.front() + " " + more.back());
        more.insert(more.end(), {"-p", "Once upon a time"});
        EXPECT_EQ(run_json(more)["text"], plain["text"]);
    }
    // What follows an option that takes a value is no flag, whatever it looks like.
    EXPECT_GT(run_json({"--raw", "-p", "-ngl"})["n_prompt"], 1);
}

TEST_F(Run, ReadsEscapesAndASystemPromptFromAFile) {
    const Json two_lines = run_json({"-p", "Once\nupon a time"});
    const Json line_break = run_json({"-p", "Once\\nupon a time", "-e"});
    EXPECT_EQ(two_lines["text"], line_break["text"]);
    EXPECT_EQ(two_lines["n_prompt"], line_break["n_prompt"]);
    EXPECT_NE(run_json({"-p", "Once\\nupon a time"})["n_prompt"], line_break["n_prompt"]);

    const std::string system = folder_.file("system.txt");
    write_text(system, "Answer in one word.");
    EXPECT_EQ(run_json({"-p", "Who?", "-sysf", system})["text"],
              run_json({"-p", "Who?", "-sys", "Answer in one word."})["text"]);
}

TEST_F(Run, SaysWhenABudgetInBytesHoldsMoreThanThePrompt) {
    const Outcome roomy = run_pith(arguments({"-p", "Once upon a time", "--budget", "512M"}));
    EXPECT_EQ(roomy.exit_code, 0);
    EXPECT_NE(roomy.err.find("--budget 512M holds"), std::string::npos) << roomy.err;
    EXPECT_NE(roomy.err.find("nothing of it is evicted"), std::string::npos) << roomy.err;
    for (const char * budget : {"100K", "4000", "auto"}) {
        const Outcome other = run_pith(arguments({"-f", book_, "-p", "Who?", "--budget", budget}));
        EXPECT_EQ(other.err.find("nothing of it is evicted"), std::string::npos) << budget << ": " << other.err;
    }
}

TEST_F(Run, SaysTheSameForTheSameSeed) {
    const auto draw = [this](const char * seed) {
        return run_json({"-p", "Once upon a time", "--temp", "1.5", "-n", "24", "-s", seed})["text"];
    };
    EXPECT_EQ(draw("5"), draw("5"));
    EXPECT_NE(draw("5"), draw("6"));
}

TEST_F(Run, TakesEveryCacheTypeByLlamaCppsShortNames) {
    RandomModelSpec spec;
    spec.head_dim = 32;
    model_ = write_model(folder_, spec, "wide.gguf");
    size_t smallest = ~size_t{0};
    for (const char * type : {"f32", "f16", "bf16", "q8_0", "q4_0"}) {
        const Json json = run_json({"-f", book_, "-ctk", type, "-ctv", type});
        ASSERT_TRUE(json.is_object()) << type;
        EXPECT_LE(json["kv_needed_bytes"].get<size_t>(), smallest) << type;
        smallest = json["kv_needed_bytes"].get<size_t>();
    }
    // Of keys that are too coarse a line says what to do; rotated ones are not, and values may be.
    const auto said = [&](const char * type_k, const char * type_v, bool rotates) {
        std::vector<std::string> run = {"run", "-m", model_, "-f", book_,  "-p",   "Who?", "-p",  "Where?",
                                        "-n",  "1",  "-t",   "1",  "-ctk", type_k, "-ctv", type_v};
        if (!rotates) { run.emplace_back("--no-kv-rotation"); }
        return run_pith(run).err;
    };
    const std::string coarse = said("q4_0", "q8_0", false);
    const size_t at = coarse.find("use -ctk q8_0");
    ASSERT_NE(at, std::string::npos) << coarse;
    EXPECT_EQ(coarse.find("use -ctk q8_0", at + 1), std::string::npos) << "once: " << coarse;
    EXPECT_EQ(said("q4_0", "q8_0", true).find("-ctk"), std::string::npos);
    EXPECT_EQ(said("q8_0", "q4_0", false).find("-ctk"), std::string::npos);
}

TEST_F(Run, FollowsEachPrefillSchedule) {
    for (const char * schedule : {"auto", "one-shot", "chunked"}) {
        const Json json = run_json({"-f", book_, "--budget", "64", "--prefill", schedule, "--chunk", "128", "--policy", "h2o"});
        ASSERT_TRUE(json.is_object()) << schedule;
        EXPECT_GT(json["evicted_entries"], 0) << schedule;
    }
}

TEST_F(Run, UsesTheChatTemplateUnlessToldNotTo) {
    model_ = write_tiny(folder_, kChatMl);
    const Json chat = run_json({"-p", "Hello"});
    const Json raw = run_json({"-p", "Hello", "--raw"});
    EXPECT_GT(chat["n_prompt"], raw["n_prompt"].get<int>() + 10);
}

TEST_F(Run, NeverEvictsAPinnedSystemPrompt) {
    const std::vector<std::string> base = {"-f",    book_,      "-p", "Who?",     "-sys",   "Answer in one word, always.",
                                           "--raw", "--budget", "80", "--policy", "window", "--evict-every",
                                           "16"};
    std::vector<std::string> pinned = base;
    pinned.emplace_back("--pin-system");
    const Json with = run_json(pinned);
    const Json without = run_json(base);
    ASSERT_TRUE(with.is_object() && without.is_object());
    EXPECT_EQ(with["budget_entries"], 80);
    EXPECT_EQ(with["n_prompt"], without["n_prompt"]);
}

TEST_F(Run, TokenIdsStandInForText) {
    const Json text = run_json({"-f", book_, "--raw", "--budget", "64"});
    const std::string ids = folder_.file("ids.txt");
    const std::string list = run_pith({"tokenize", "-m", model_, "-f", book_}).out;
    write_text(ids, list);
    const Json json = run_json({"--token-ids", ids, "--budget", "64"});
    EXPECT_EQ(json["text"], text["text"]);
    EXPECT_EQ(json["n_prompt"], text["n_prompt"]);
    EXPECT_EQ(json["answers"][0]["tokens"].size(), 6U);
    std::string array = "[" + list;
    std::replace(array.begin(), array.end(), ' ', ',');
    write_text(ids, array + "]\n");
    EXPECT_EQ(run_json({"--token-ids", ids, "--budget", "64"})["text"], text["text"]) << "a JSON array";

    write_text(ids, "1 2 three 4");
    expect_error(run_pith(arguments({"--token-ids", ids})), 1, {"ids.txt", "'three'", "number 3"});
    write_text(ids, "1 -2");
    expect_error(run_pith(arguments({"--token-ids", ids})), 1, {"'-2'"});
    write_text(ids, "1 99999999999");
    expect_error(run_pith(arguments({"--token-ids", ids})), 1, {"'99999999999'"});
    write_text(ids, "1 2 9999999");
    expect_error(run_pith(arguments({"--token-ids", ids})), 1, {"9999999", "number 3", "vocabulary"});
    write_text(ids, " \n");
    expect_error(run_pith(arguments({"--token-ids", ids})), 1, {"no token ids"});
    expect_error(run_pith(arguments({"--token-ids", ids, "-p", "Who?"})), 2, {"--token-ids", "-p"});
}

// The numbers of an .npy file of f32, by its own header.
struct Npy {
    size_t n_rows = 0;
    size_t n_columns = 0;
    std::vector<float> values;
};
Npy read_npy(const std::string & path) {
    const std::string bytes = read_text_file(path);
    Npy npy;
    EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const size_t n_header = 10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
    EXPECT_EQ(n_header % 64, 0U);
    const std::string header = bytes.substr(10, n_header - 10);
    EXPECT_EQ(header.back(), '\n');
    EXPECT_NE(header.find("'descr': '<f4', 'fortran_order': False"), std::string::npos) << header;
    EXPECT_EQ(std::sscanf(header.c_str() + header.find("'shape'"), "'shape': (%zu, %zu)", &npy.n_rows, &npy.n_columns), 2);
    npy.values.resize((bytes.size() - n_header) / sizeof(float));
    std::memcpy(npy.values.data(), bytes.data() + n_header, npy.values.size() * sizeof(float));
    EXPECT_EQ(npy.values.size(), npy.n_rows * npy.n_columns);
    return npy;
}

TEST_F(Run, WritesTheLogitsThatEachTokenWasChosenFrom) {
    const std::string file = folder_.file("logits.npy");
    const Json json = run_json({"-f", book_, "-p", "Who?", "-p", "Where?", "--budget", "64", "--logits", file});
    const Npy npy = read_npy(file);
    ASSERT_EQ(npy.n_rows, 12U);
    EXPECT_EQ(json["logits"], file);
    EXPECT_EQ(json["answers"][0]["logits_rows"], Json::parse("[0, 6]"));
    EXPECT_EQ(json["answers"][1]["logits_rows"], Json::parse("[6, 12]"));
    for (size_t row = 0; row < 12; ++row) {  // greedy: the largest is the token that was said
        const auto begin = npy.values.begin() + static_cast<std::ptrdiff_t>(row * npy.n_columns);
        const auto best = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(npy.n_columns)) - begin;
        EXPECT_EQ(best, json["answers"][row / 6]["tokens"][row % 6].get<int64_t>()) << row;
    }
    EXPECT_FALSE(run_json({"-p", "Who?"}).contains("logits"));
    EXPECT_FALSE(std::ifstream(file + ".tmp").good());
    expect_error(run_pith(arguments({"-p", "Who?", "--logits", folder_.file("no/such.npy")})), 1, {"no/such.npy"});
}

// The natural logarithm of a softmax, written from its definition.
std::vector<double> log_softmax(const Npy & npy, size_t row) {
    const auto begin = npy.values.begin() + static_cast<std::ptrdiff_t>(row * npy.n_columns);
    std::vector<double> out(begin, begin + static_cast<std::ptrdiff_t>(npy.n_columns));
    double sum = 0;
    for (const double logit : out) { sum += std::exp(logit); }
    for (double & logit : out) { logit -= std::log(sum); }
    return out;
}

TEST_F(Run, GivesTheLogProbabilitiesOfWhatIsSaidAndOfTheLikeliest) {
    const std::string file = folder_.file("logits.npy");
    for (const bool greedy : {true, false}) {
        SCOPED_TRACE(greedy);
        const Json json = run_json({"-f", book_, "-p", "Who?", "--budget", "64", "--logits", file, "--logprobs", "5", "--temp",
                                    greedy ? "0" : "1.5", "-s", "7"});
        const Npy npy = read_npy(file);
        const Json & said = json["answers"][0]["logprobs"];
        ASSERT_EQ(said.size(), 6U);
        for (size_t row = 0; row < 6; ++row) {
            const std::vector<double> expected = log_softmax(npy, row);
            const auto id = said[row]["id"].get<size_t>();
            EXPECT_EQ(id, json["answers"][0]["tokens"][row].get<size_t>());
            EXPECT_NE(said[row]["token"], "");
            EXPECT_NEAR(said[row]["logprob"].get<double>(), expected[id], 1e-4);
            const Json & top = said[row]["top_logprobs"];
            ASSERT_EQ(top.size(), 5U);
            EXPECT_NEAR(top[0]["logprob"].get<double>(), *std::max_element(expected.begin(), expected.end()), 1e-4);
            for (size_t i = 0; i < 5; ++i) {
                EXPECT_LE(top[i]["logprob"].get<double>(), i == 0 ? 0.0 : top[i - 1]["logprob"].get<double>());
                EXPECT_NEAR(top[i]["logprob"].get<double>(), expected[top[i]["id"].get<size_t>()], 1e-4);
            }
            if (greedy) { EXPECT_EQ(top[0]["token"], said[row]["token"]); }
        }
    }
    const Json all = run_json({"-p", "Who?", "-n", "1", "--n-probs", "1000000"});
    EXPECT_EQ(all["answers"][0]["logprobs"][0]["top_logprobs"].size(), read_npy(file).n_columns) << "there are no more";
    EXPECT_FALSE(run_json({"-p", "Who?", "--logprobs", "0"})["answers"][0].contains("logprobs"));
    expect_error(run_pith(arguments({"-p", "Who?", "--logprobs", "3"})), 2, {"--logprobs", "--json"});
    expect_error(run_pith(arguments({"-p", "Who?", "--logprobs", "-1", "--json"})), 2, {"--logprobs is -1"});
}

// Each of these ended the program by a signal, or never ended.
TEST_F(Run, RefusesGrammarsThatAReaderCouldNotStand) {
    const std::string nested = std::string(17'000, '(') + "\"a\"" + std::string(17'000, ')');
    const auto with = [&](const std::string & grammar) {
        return run_pith(arguments({"-p", "x", "-n", "2", "--grammar", grammar}));
    };
    expect_error(with("root ::= " + nested), 1, {"the grammar cannot be read: line 1", "nested deeper than 200"});
    expect_error(with("root ::= \"a\"{3,2}"), 1, {"{3,2} is no range"});
    expect_error(with("root ::= root \"a\" | \"b\""), 1, {"'root' begins with itself"});
}

TEST_F(Run, AnAnswerEndsWhereItSaysAReversePrompt) {
    const std::vector<std::string> base = {"-p", "Once upon a time", "--temp",           "1.5",        "-s", "7", "-n",
                                           "24", "--grammar",        "root ::= [a-z ]+", "--logprobs", "1"};
    const auto answer = [&](const std::vector<std::string> & more) {
        std::vector<std::string> flags = base;
        flags.insert(flags.end(), more.begin(), more.end());
        return run_json(flags)["answers"][0];
    };
    const Json whole = answer({"-r", "42"});
    EXPECT_EQ(whole["stop"], "limit") << "it is never said";
    std::vector<std::string> pieces;
    for (const Json & token : whole["logprobs"]) { pieces.push_back(token["token"]); }
    ASSERT_EQ(pieces.size(), 24U);
    size_t k = 3;  // two tokens, the second longer than a letter
    while (k + 2 < pieces.size() && pieces[k + 1].size() < 2) { ++k; }
    ASSERT_GT(pieces[k + 1].size(), 1U) << whole["text"];
    const std::string across = pieces[k].back() + pieces[k + 1];               // spans tokens
    const std::string inside = pieces[k].back() + pieces[k + 1].substr(0, 1);  // ends inside of one
    for (const std::string & text : {pieces[k + 1], across, inside}) {
        SCOPED_TRACE("'" + text + "'");
        std::string expected;
        size_t n = 0;
        while (expected.find(text) == std::string::npos) { expected += pieces[n++]; }
        const Json stopped = answer({"-r", "42", "--reverse-prompt", text});
        EXPECT_EQ(stopped["stop"], "reverse-prompt");
        EXPECT_EQ(stopped["text"], expected);
        EXPECT_EQ(stopped["n_generated"], n);
        EXPECT_EQ(stopped["logprobs"].size(), n);
    }
    std::string escaped;
    for (const char letter : across) {
        char code[8];
        std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(letter));
        escaped += code;
    }
    EXPECT_EQ(answer({"-e", "-r", escaped})["text"], answer({"-r", across})["text"]);
    EXPECT_EQ(answer({"-r", escaped})["text"], whole["text"]);
    expect_error(run_pith(arguments({"-p", "Who?", "-r", ""})), 2, {"--reverse-prompt is empty"});
}

TEST_F(Run, SaysWhenATextIsForeignToTheModel) {
    write_text(book_, words(700));
    const std::vector<std::string> base = {"-f", book_, "-p", "Who?"};
    std::vector<std::string> compressed = base;
    compressed.insert(compressed.end(), {"--budget", "64"});
    const Outcome outcome = run_pith(arguments(compressed));
    ASSERT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.err.find("warning: the prompt is foreign to this model (perplexity"), std::string::npos) << outcome.err;
    EXPECT_EQ(run_pith(arguments(base)).err.find("foreign"), std::string::npos) << "nothing is evicted";
}

TEST_F(Run, StopsAtTheContextSize) {
    const Json prompt = run_json({"-p", "Hello there"});
    const int n_ctx = prompt["n_prompt"].get<int>() + 3;
    const Json json = run_json({"-p", "Hello there", "-c", std::to_string(n_ctx)});
    EXPECT_EQ(json["n_generated"], 3);
}

// One of many prompts that cannot be answered is named, and the others are answered, one after the other or together.
TEST_F(Run, OnePromptThatFailsDoesNotKeepTheOthersFromTheirAnswers) {
    write_text(folder_.file("prompts.txt"), words(100) + "\nWho?\n" + words(120) + "\n");
    for (const char * n : {"1", "2"}) {
        SCOPED_TRACE(n);
        const std::vector<std::string> all = arguments({"--prompts", folder_.file("prompts.txt"), "--policy", "h2o:recent=16",
                                                        "--budget", "30%", "--raw", "--parallel", n});
        const Outcome outcome = run_pith(all);
        EXPECT_EQ(outcome.exit_code, 1);
        EXPECT_NE(outcome.err.find("\npith: prompt 2: "), std::string::npos) << outcome.err;
        EXPECT_EQ(outcome.err.find("prompt 3: "), std::string::npos) << outcome.err;
        EXPECT_GT(outcome.out.size(), 3U) << "two answers, and an empty line";
        std::vector<std::string> as_json = all;
        as_json.emplace_back("--json");
        const Outcome told = run_pith(as_json);
        EXPECT_EQ(told.exit_code, 1) << told.err;
        const Json json = Json::parse(told.out, nullptr, false);
        ASSERT_EQ(json["answers"].size(), 3U) << told.out;
        EXPECT_EQ(json["answers"][0]["n_generated"], 6);
        EXPECT_EQ(json["answers"][1]["stop"], "error");
        EXPECT_NE(json["answers"][1]["error"].get<std::string>().find("--budget"), std::string::npos);
        EXPECT_EQ(json["answers"][2]["n_generated"], 6);
        EXPECT_FALSE(json["answers"][2].contains("error"));
    }
}

TEST_F(Run, KeepsWhatWasSaidWhenInterrupted) {
    const Outcome outcome = run_pith({"run", "-m", model_, "-p", "Hello", "-n", "-1", "--ignore-eos", "-t", "1", "--json"},
                                     {.interrupt_after_s = 2});
    EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
    const Json json = Json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << outcome.out;
    EXPECT_EQ(json["interrupted"], true);
    EXPECT_EQ(json["answers"][0]["stop"], "interrupt");
}

}  // namespace
}  // namespace pith::testing::run_test
