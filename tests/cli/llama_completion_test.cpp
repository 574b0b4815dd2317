// llama_completion_test.cpp - `pith run` says what llama.cpp's own program says on the reference model: greedily, and drawn by
// every sampler from the same seed. Skipped where the program is not installed; reference_model_test.cpp compares logits with
// the library, ties and all.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"
#include "common/bench/find_llama_bench.h"
#include "engine/probe/child_process.h"
#include "pith/text.h"

namespace pith::testing::llama_completion_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const std::string kModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";
// f32 on both sides, and attention that sums in one order: what is left is the last bits of sums.
constexpr float kRounding = 1e-3F;

Words joined(std::initializer_list<Words> lists) {
    Words all;
    for (const Words & list : lists) { all.insert(all.end(), list.begin(), list.end()); }
    return all;
}

// What their program says after the prompt. A few tokens more than are compared: it keeps back what may begin a stop word.
std::string what_llama_says(const LlamaBench & llama, const std::string & prompt, int n, const Words & flags) {
    const Words words = joined({llama.command,
                                {"-m", kModel, "-p", prompt, "-n", std::to_string(n + 12), "-t", "1", "-no-cnv",
                                 "--no-display-prompt", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--ignore-eos"},
                                flags});
    const auto said = run_program(words, llama.working_folder);
    EXPECT_TRUE(said.ok()) << said.status().message();
    if (!said.ok()) { return {}; }
    EXPECT_EQ(said->exit_code, 0);
    return said->text;
}

struct Said {
    std::vector<int32_t> tokens;
    std::vector<std::vector<float>> logits;  // [token][n_vocab], before any sampler
};

std::vector<std::vector<float>> read_rows(const std::string & npy, size_t n_rows) {
    const std::string bytes = read_text_file(npy);
    if (bytes.size() < 10 || n_rows == 0) { return {}; }
    const size_t n_header = 10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
    const size_t n_columns = (bytes.size() - n_header) / sizeof(float) / n_rows;
    std::vector<std::vector<float>> rows(n_rows, std::vector<float>(n_columns));
    for (size_t row = 0; row < n_rows; ++row) {
        std::memcpy(rows[row].data(), bytes.data() + n_header + row * n_columns * sizeof(float), n_columns * sizeof(float));
    }
    return rows;
}

Said what_pith_says(const std::string & prompt, int n, const Words & flags) {
    const TempFolder folder;
    const std::string npy = folder.file("logits.npy");
    const Outcome outcome = run_pith(joined({{"run", "-m", kModel, "-p", prompt, "--raw", "-n", std::to_string(n), "-t", "1",
                                              "-ctk", "f32", "-ctv", "f32", "--ignore-eos", "--json", "--logits", npy},
                                             flags}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    if (outcome.exit_code != 0) { return {}; }
    Said said;
    said.tokens = Json::parse(outcome.out)["answers"][0]["tokens"].get<std::vector<int32_t>>();
    said.logits = read_rows(npy, said.tokens.size());
    return said;
}

// The token whose text `rest` may begin with: of several the likeliest. -1: none.
int32_t next_token(const Tokenizer & tokenizer, const std::string & rest, const std::vector<float> & logits) {
    int32_t best = -1;
    for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
        const std::string piece = tokenizer.piece(token);
        const bool fits = !piece.empty() && rest.starts_with(piece);
        const auto logit = [&](int32_t t) { return logits[static_cast<size_t>(t)]; };
        if (fits && (best < 0 || logit(token) > logit(best))) { best = token; }
    }
    return best;
}

// The same text; or else one that goes another way where two tokens' logits are as near as rounding brings them.
void expect_same_text(const Tokenizer & tokenizer, const std::string & theirs, const Said & ours, int n) {
    ASSERT_EQ(ours.tokens.size(), static_cast<size_t>(n));
    std::string text;
    for (size_t i = 0; i < ours.tokens.size(); ++i) {
        const int32_t token = ours.tokens[i];
        const std::string longer = text + tokenizer.piece(token);
        if (theirs.starts_with(longer)) {
            text = longer;
            continue;
        }
        const std::vector<float> & logits = ours.logits[i];
        ASSERT_TRUE(theirs.starts_with(text));
        const int32_t other = next_token(tokenizer, theirs.substr(text.size()), logits);
        ASSERT_GE(other, 0) << "after '" << text << "' theirs goes on with '" << theirs.substr(text.size(), 40) << "'";
        const float gap = std::abs(logits[static_cast<size_t>(token)] - logits[static_cast<size_t>(other)]);
        EXPECT_LT(gap, kRounding) << "token " << i << ", after '" << text << "': ours is '" << tokenizer.piece(token)
                                  << "', theirs '" << tokenizer.piece(other) << "'\ntheirs: " << theirs;
        return;  // from here on they tell different stories
    }
    EXPECT_GT(text.size(), static_cast<size_t>(n));
}

void expect_both_say_the_same(const LlamaBench & llama, const std::string & prompt, int n, const Words & flags) {
    const auto tokenizer = Tokenizer::load(kModel);
    ASSERT_TRUE(tokenizer.ok());
    const Said ours = what_pith_says(prompt, n, flags);
    std::string text;
    for (const int32_t token : ours.tokens) { text += tokenizer->piece(token); }
    std::string theirs = what_llama_says(llama, prompt, n, flags);
    // Once in a while it ends well without having written its last words.
    for (int again = 0; again < 3 && theirs.size() < text.size() && text.starts_with(theirs); ++again) {
        theirs = what_llama_says(llama, prompt, n, flags);
    }
    expect_same_text(*tokenizer, theirs, ours, n);
}

TEST(LlamaCompletion, SaysTheSame128TokensGreedily) {
    const LlamaBench llama = app::find_llama_program("llama-completion");
    if (llama.command.empty()) { GTEST_SKIP() << "llama-completion is not installed"; }
    for (const std::string prompt :
         {"The town of Elm had many people. Anna kept the", "In the village lived a baker. One morning", "The old clock"}) {
        SCOPED_TRACE(prompt);
        expect_both_say_the_same(llama, prompt, 128, {"--temp", "0"});
    }
}

struct FlagSet {
    const char * name;
    Words flags;
    friend void PrintTo(const FlagSet & set, std::ostream * out) { *out << set.name; }
};

class LlamaSamplers : public ::testing::TestWithParam<FlagSet> {};

// Long enough that a look-back of 64 tokens does not reach the beginning.
const std::string kLongPrompt =
    "The town of Elm had many people. Anna kept the bakery. Tom kept the mill. Anna lived near the river. Tom lived near the "
    "old bridge. Every morning Anna went to the mill. Every evening Tom went to the bakery. The grass is green. The sky is "
    "blue. "
    "The sun is yellow. Here we go. There and back again. Anna kept the";

TEST_P(LlamaSamplers, DrawTheSame64Tokens) {
    const LlamaBench llama = app::find_llama_program("llama-completion");
    if (llama.command.empty()) { GTEST_SKIP() << "llama-completion is not installed"; }
    const Words flags = joined({{"--seed", "7"}, GetParam().flags});
    expect_both_say_the_same(llama, kLongPrompt, 64, flags);
}

INSTANTIATE_TEST_SUITE_P(
    FlagSets, LlamaSamplers,
    ::testing::Values(FlagSet{"Greedy", {"--temp", "0"}}, FlagSet{"Defaults", {}},
                      FlagSet{"TopKTopP", {"--temp", "1.1", "--top-k", "20", "--top-p", "0.9", "--min-p", "0"}},
                      FlagSet{"MinP", {"--temp", "1.3", "--top-k", "0", "--top-p", "1", "--min-p", "0.1"}},
                      FlagSet{"Typical", {"--temp", "1.2", "--top-k", "0", "--typical", "0.6"}},
                      FlagSet{"TopNSigma", {"--temp", "1.5", "--top-nsigma", "1.0"}},
                      FlagSet{"Penalties",
                              {"--temp", "0.9", "--repeat-penalty", "1.3", "--presence-penalty", "0.5", "--frequency-penalty",
                               "0.4", "--repeat-last-n", "32"}},
                      FlagSet{"Dry", {"--temp", "0.7", "--dry-multiplier", "0.8", "--dry-allowed-length", "1"}},
                      FlagSet{"DryGreedy", {"--temp", "0", "--dry-multiplier", "2", "--dry-sequence-breaker", "."}},
                      FlagSet{"Xtc", {"--temp", "1", "--xtc-probability", "0.5", "--xtc-threshold", "0.1"}},
                      FlagSet{"Mirostat1", {"--temp", "1.2", "--mirostat", "1", "--mirostat-ent", "3", "--mirostat-lr", "0.2"}},
                      FlagSet{"Mirostat2",
                              {"--temp", "1.2", "--mirostat", "2", "--mirostat-ent", "2.5", "--mirostat-lr", "0.2"}},
                      FlagSet{"LogitBias", {"--temp", "0.8", "--logit-bias", "260+2", "--logit-bias", "261-inf"}},
                      FlagSet{"DynamicTemperature", {"--temp", "1", "--dynatemp-range", "0.6", "--dynatemp-exp", "1.5"}},
                      FlagSet{"Grammar", {"--temp", "1", "--grammar", "root ::= ([a-z]+ \" \")+ \".\""}}),
    [](const auto & of) { return std::string(of.param.name); });

}  // namespace
}  // namespace pith::testing::llama_completion_test
