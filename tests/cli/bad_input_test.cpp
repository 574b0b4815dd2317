// bad_input_test.cpp - whatever is wrong with a model, a flag or a text: one line that names it, a code, no partial file.
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "cli/run_process.h"

namespace pith::testing::bad_input_test {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// AddressSanitizer reserves more addresses than any limit here leaves.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCanLimitAddresses = false;
#else
constexpr bool kCanLimitAddresses = true;
#endif

class BadInput : public ::testing::Test {
protected:
    std::vector<std::string> run_arguments(const std::vector<std::string> & more, const std::string & prompt = "Hello there") {
        std::vector<std::string> all = {"run", "-m", model(), "-p", prompt, "-n", "2", "-t", "1", "--temp", "0"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    const std::string & model() {
        if (model_.empty()) { model_ = write_model(folder_); }
        return model_;
    }
    Outcome run_with(const std::vector<std::string> & more) { return run_pith(run_arguments(more)); }
    Outcome run_model(const std::string & path) { return run_pith({"run", "-m", path, "-p", "Hello", "-n", "1", "-t", "1"}); }
    std::string edited(const GgufEdit & edit) {
        EXPECT_TRUE(edit_gguf(model(), folder_.file("edited.gguf"), edit));
        return folder_.file("edited.gguf");
    }

    TempFolder folder_;
    std::string model_;
};

TEST_F(BadInput, NoSuchModelFile) {
    const std::string path = folder_.file("none.gguf");
    for (const char * command : {"info", "tokenize"}) { expect_error(run_pith({command, "-m", path}), kFailed, {path}); }
    expect_error(run_model(path), kFailed, {path});
    expect_error(run_pith({"bench", "-m", path, "-r", "1", "--no-llama"}), kFailed, {path});
    expect_error(run_pith({"demo", "-m", path}), kFailed, {path});
}

TEST_F(BadInput, NoSuchTextFile) {
    const std::string path = folder_.file("none.txt");
    expect_error(run_pith({"run", "-m", model(), "-f", path}), kFailed, {path});
    expect_error(run_pith({"tokenize", "-m", model(), "-f", path}), kFailed, {path});
}

TEST_F(BadInput, TruncatedModel) {
    const std::vector<char> whole = read_file(model());
    const std::string path = folder_.file("cut.gguf");
    for (const size_t n : {size_t{0}, size_t{3}, size_t{20}, whole.size() / 20, whole.size() / 2, whole.size() - 1}) {
        write_file(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
        SCOPED_TRACE(n);
        expect_error(run_model(path), kFailed, {path});
        expect_error(run_pith({"tokenize", "-m", path, "-p", "x"}), kFailed, {path});
    }
}

TEST_F(BadInput, GarbageModel) {
    std::vector<char> bytes(4096);
    unsigned state = 1;
    for (char & byte : bytes) { byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U); }
    const std::string path = folder_.file("garbage.gguf");
    write_file(path, bytes);
    expect_error(run_model(path), kFailed, {path});
    std::memcpy(bytes.data(), "GGUF\x03\0\0\0", 8);  // the right beginning, and then nonsense
    write_file(path, bytes);
    expect_error(run_model(path), kFailed, {path});
    expect_error(run_pith({"tokenize", "-m", path, "-p", "x"}), kFailed, {path});
}

TEST_F(BadInput, TextFileAsModel) {
    const std::string path = folder_.file("book.txt");
    write_text(path, words(500));
    expect_error(run_model(path), kFailed, {path, "GGUF"});
    expect_error(run_model(folder_.file("")), kFailed, {folder_.file("")});  // a folder
}

TEST_F(BadInput, VocabularyWithoutByteTokens) {
    RandomModelSpec spec;
    spec.byte_tokens = false;
    const std::string path = write_model(folder_, spec, "nobytes.gguf");
    expect_error(run_model(path), kFailed, {path, "byte"});
    expect_error(run_pith({"tokenize", "-m", path, "-p", "x"}), kFailed, {path, "byte"});
}

TEST_F(BadInput, UnsupportedArchitecture) {
    const std::string path = edited({[](gguf_context * gguf) { gguf_set_val_str(gguf, "general.architecture", "mamba"); }, {}});
    expect_error(run_model(path), kFailed, {path, "mamba"});
}

TEST_F(BadInput, MissingTensor) {
    const std::string path =
        edited({{}, [](ggml_tensor * tensor) { return std::strcmp(tensor->name, "blk.1.attn_k.weight") != 0; }});
    expect_error(run_model(path), kFailed, {path, "blk.1.attn_k.weight"});
}

TEST_F(BadInput, HeadSizeThatABlockDoesNotDivide) {
    RandomModelSpec spec;
    spec.head_dim = 80;
    const std::string path = write_model(folder_, spec, "head80.gguf");
    const std::vector<std::string> run = {"run", "-m", path, "-p", "Hello", "-n", "1", "-t", "1", "-ctk", "q8_0"};
    expect_error(run_pith(run), kFailed, {"80", "q8_0", "32"});
    expect_error(run_pith({"info", "-m", path, "-ctv", "q4_0"}), kFailed, {"80", "q4_0", "32"});
}

TEST_F(BadInput, UnknownCacheType) {
    expect_error(run_with({"-ctk", "q9"}), kUsage, {"q9", "q8_0"});
    expect_error(run_pith({"info", "-m", model(), "-ctv", "float"}), kUsage, {"float"});
}

TEST_F(BadInput, BudgetSmallerThanWhatIsProtected) {
    write_text(folder_.file("book.txt"), words(200));
    const Outcome outcome = run_pith(
        {"run", "-m", model(), "-f", folder_.file("book.txt"), "-n", "1", "-t", "1", "--policy", "snapkv", "--budget", "8"});
    expect_error(outcome, kFailed, {"--budget 8", "snapkv protects 32", "--budget 32"});
    // However short the prompt: an answer grows.
    expect_error(run_with({"--policy", "streaming:sinks=64", "--budget", "50"}), kFailed, {"gives 50", "64 sinks", "recent"});
}

TEST_F(BadInput, PinnedSystemPromptLargerThanTheBudget) {
    write_text(folder_.file("book.txt"), words(200));
    const Outcome outcome = run_pith({"run", "-m", model(), "-f", folder_.file("book.txt"), "-p", "Who?", "-n", "1", "-t", "1",
                                      "--policy", "streaming", "--budget", "40", "-sys", words(80), "--pin-system"});
    expect_error(outcome, kFailed, {"--budget 40", "4 sinks", "pinned", "or more"});
}

TEST_F(BadInput, BudgetsThatAreNone) {
    expect_error(run_with({"--budget", "0"}), kUsage, {"0"});
    expect_error(run_with({"--budget", "-5"}), kUsage, {"-5"});
    expect_error(run_with({"--budget=-5"}), kUsage, {"-5"});
    expect_error(run_with({"--budget", "200%"}), kUsage, {"200%"});
    expect_error(run_with({"--budget", "0%"}), kUsage, {"0%"});
    expect_error(run_with({"--budget", "lots"}), kUsage, {"lots"});
    expect_error(run_with({"--budget", "12X"}), kUsage, {"12X"});
    expect_error(run_with({"--budget", ""}), kUsage, {"--budget"});
}

TEST_F(BadInput, TolerancesThatAreNoneOrThatThePolicyCannotHave) {
    for (const char * tolerance : {"", "much", "-1%", "101%", "2", "1%%"}) {
        expect_error(run_with({"--tolerance", tolerance}), kUsage, {"--tolerance", tolerance, "1%"});
    }
    expect_error(run_with({"--tolerance", "0.5"}), kUsage, {"--tolerance", "50 %", "0.5%"});
    expect_error(run_with({"--tolerance", "1"}), kUsage, {"--tolerance", "100 %", "1%"});
    expect_error(run_with({"--tolerance", "1 %", "--policy", "full"}), kUsage, {"'full'"});
    expect_error(run_with({"--tolerance", "1%", "--policy", "snapkv"}), kUsage, {"'snapkv'", "gate or reread"});
    expect_error(run_with({"--tolerance", "1%", "--policy", "reread+ada"}), kUsage, {"'ada'", "'threshold'"});
    expect_error(run_with({"--tolerance", "1%", "--policy", "full"}), kUsage, {"'full'", "keeps everything"});
    expect_error(run_with({"--tolerance", "1%"}), kFailed, {"pith calibrate importance", "reread"});
}

TEST_F(BadInput, BudgetsThatAreFine) {
    write_text(folder_.file("book.txt"), words(300));
    for (const char * budget : {"64", "20%", "512M", "100%"}) {
        const Outcome outcome = run_pith(
            {"run", "-m", model(), "-f", folder_.file("book.txt"), "-p", "Who?", "-n", "2", "-t", "1", "--budget", budget});
        EXPECT_EQ(outcome.exit_code, 0) << budget << ": " << outcome.err;
    }
}

TEST_F(BadInput, ByteBudgetTooSmallForAnything) {
    write_text(folder_.file("book.txt"), words(300));
    const Outcome outcome =
        run_pith({"run", "-m", model(), "-f", folder_.file("book.txt"), "-n", "1", "-t", "1", "--budget", "1K"});
    expect_error(outcome, kFailed, {"1K"});
}

TEST_F(BadInput, PolicyAndBudgetThatContradictEachOther) {
    expect_error(run_with({"--policy", "snapkv"}), kUsage, {"snapkv", "--budget"});
    expect_error(run_with({"--policy", "full", "--budget", "64"}), kUsage, {"full", "--budget"});
}

TEST_F(BadInput, UnknownPolicySuggestsTheNearest) {
    const Outcome near = run_with({"--policy", "snapvk", "--budget", "64"});
    expect_error(near, kUsage, {"snapvk", "did you mean 'snapkv'"});
    EXPECT_EQ(near.err.find("tova"), std::string::npos) << "not a list of all";
    expect_error(run_with({"--policy", "bananas", "--budget", "64"}), kUsage, {"bananas", "`pith policies` lists them"});
    expect_error(run_with({"--policy", "snapkv+adda", "--budget", "64"}), kUsage, {"adda", "ada"});
    expect_error(run_pith({"bench", "-m", model(), "--policy", "full,tovo", "--budget", "64"}), kUsage, {"tovo", "tova"});
    expect_error(run_pith({"demo", "--policy", "h2p"}), kUsage, {"h2p", "h2o"});
    expect_error(run_pith({"demo", "--policy", "all,h2p"}), kUsage, {"h2p", "h2o"});
}

TEST_F(BadInput, UnknownPolicyOptionSuggestsTheNearest) {
    expect_error(run_with({"--policy", "snapkv:windw=16", "--budget", "64"}), kUsage, {"windw", "window"});
    expect_error(run_with({"--policy", "snapkv:window=none", "--budget", "64"}), kUsage, {"window", "none"});
}

TEST_F(BadInput, TwoAllocators) {
    expect_error(run_with({"--policy", "snapkv+ada+pyramid", "--budget", "64"}), kUsage, {"ada", "pyramid"});
}

TEST_F(BadInput, WindowLongerThanThePromptKeepsEverything) {
    const Outcome full = run_with({"--ignore-eos"});
    const Outcome window = run_with({"--ignore-eos", "--policy", "snapkv:window=4096", "--budget", "5000"});
    EXPECT_EQ(window.exit_code, 0) << window.err;
    EXPECT_EQ(window.out, full.out);
    EXPECT_NE(window.err.find("0 evicted"), std::string::npos) << window.err;
}

TEST_F(BadInput, WindowLongerThanTheBudget) {
    write_text(folder_.file("book.txt"), words(300));
    expect_error(run_with({"-f", folder_.file("book.txt"), "--policy", "snapkv:window=4096", "--budget", "100"}), kFailed,
                 {"4096", "100"});
}

TEST_F(BadInput, EmptyPrompt) {
    write_text(folder_.file("empty.txt"), "");
    expect_error(run_pith({"run", "-m", model(), "-p", ""}), kFailed, {"empty"});
    expect_error(run_pith({"run", "-m", model()}), kFailed, {"empty"});
    expect_error(run_pith({"run", "-m", model(), "-f", folder_.file("empty.txt"), "-p", "Who?"}), kFailed,
                 {"empty", "empty.txt"});
    expect_error(run_pith({"run", "-m", model(), "-f", "-", "-p", "Who?"}), kFailed, {"empty"});
}

TEST_F(BadInput, InvalidUtf8) {
    const std::string path = folder_.file("latin1.txt");
    write_text(path, "a caf\xE9 in Paris");
    expect_error(run_pith({"run", "-m", model(), "-f", path}), kFailed, {path, "byte 5"});
    expect_error(run_pith({"run", "-m", model(), "-p", "caf\xE9"}), kFailed, {"byte 3"});
    expect_error(run_pith({"run", "-m", model(), "-p", "x", "-sys", "\xFF"}), kFailed, {"system", "byte 0"});
    expect_error(run_pith({"tokenize", "-m", model(), "-f", path}), kFailed, {path, "byte 5"});
    expect_error(run_pith({"tokenize", "-m", model(), "-p", "caf\xE9"}), kFailed, {"byte 3"});
}

TEST_F(BadInput, ContextBeyondTheTrainingLengthWarnsAndGoesOn) {
    RandomModelSpec spec;
    spec.n_ctx_train = 64;
    const std::string path = write_model(folder_, spec, "short.gguf");
    write_text(folder_.file("book.txt"), words(300));
    const Outcome outcome = run_pith(
        {"run", "-m", path, "-f", folder_.file("book.txt"), "-n", "2", "-t", "1", "--temp", "0", "--ignore-eos", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find("warning"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("64"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.out.find("\"n_generated\": 2"), std::string::npos) << outcome.out;
}

// Under a budget what is kept moves together there, and nobody need be warned.
TEST_F(BadInput, UnderABudgetATextGoesOnPastTheTrainingLength) {
    RandomModelSpec spec;
    spec.n_ctx_train = 64;
    const std::string path = write_model(folder_, spec, "short.gguf");
    write_text(folder_.file("book.txt"), words(300));
    std::vector<std::string> run = {"run",      "-m",        path,       "-f", folder_.file("book.txt"),
                                    "--policy", "streaming", "--budget", "16"};
    for (const char * word : {"-n", "2", "-t", "1", "--temp", "0", "--ignore-eos", "--chunk", "16"}) { run.emplace_back(word); }
    const Outcome told = run_pith(run);
    EXPECT_EQ(told.exit_code, 0) << told.err;
    EXPECT_EQ(told.err.find("warning"), std::string::npos) << told.err;
    EXPECT_NE(told.err.find("context shift"), std::string::npos) << told.err;
    run.emplace_back("--no-context-shift");
    const Outcome off = run_pith(run);
    EXPECT_EQ(off.exit_code, 0) << off.err;
    EXPECT_NE(off.err.find("warning"), std::string::npos) << off.err;
    EXPECT_EQ(off.err.find("(context shift)"), std::string::npos) << off.err;
}

TEST_F(BadInput, PromptLongerThanTheContextAskedFor) {
    expect_error(run_pith({"run", "-m", model(), "-p", words(300), "-c", "100"}), kFailed, {"--ctx-size", "100"});
}

TEST_F(BadInput, OutOfMemory) {
    if (!kCanLimitAddresses) { GTEST_SKIP() << "not with AddressSanitizer"; }
    // Enough to start in and to load the tiny model, far from enough for ten million positions.
    const Outcome outcome = run_pith(run_arguments({"-c", "100000000"}), {1500U << 20U, ""});
    expect_error(outcome, kFailed, {"memory"});
}

TEST_F(BadInput, OutOfMemoryWhileLoading) {
    if (!kCanLimitAddresses) { GTEST_SKIP() << "not with AddressSanitizer"; }
    RandomModelSpec spec;
    spec.n_embd = 1024;
    spec.n_ff = 8192;
    spec.n_layers = 8;
    spec.weight_type = "f16";
    const std::string path = write_model(folder_, spec, "large.gguf");
    const Outcome outcome = run_pith({"run", "-m", path, "-p", "Hello", "-n", "1", "-t", "1"}, {400U << 20U, ""});
    expect_error(outcome, kFailed, {"memory"});
}

TEST_F(BadInput, ReadOnlyOutputFolder) {
    const std::string folder = folder_.file("locked");
    std::filesystem::create_directory(folder);
    chmod(folder.c_str(), 0555);
    const std::string path =
        geteuid() == 0 ? "/proc/self/random.gguf" : folder + "/random.gguf";  // root writes anywhere but there
    const Outcome outcome = run_pith({"make-model", "0.5b", "-o", path});
    expect_error(outcome, kFailed, {path});
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    chmod(folder.c_str(), 0755);
}

TEST_F(BadInput, OutputFolderThatDoesNotExist) {
    const std::string path = folder_.file("nowhere/random.gguf");
    expect_error(run_pith({"make-model", "0.5b", "-o", path}), kFailed, {path});
    EXPECT_FALSE(std::filesystem::exists(folder_.file("nowhere")));
}

TEST_F(BadInput, OutputFileThatExists) {
    const std::string path = folder_.file("precious.gguf");
    write_text(path, "precious");
    expect_error(run_pith({"make-model", "0.5b", "-o", path}), kFailed, {path, "--force"});
    EXPECT_EQ(read_text_file(path), "precious");
}

TEST_F(BadInput, ShapesAndTypesThatAreNone) {
    expect_error(run_pith({"make-model", "7b", "-o", folder_.file("a.gguf")}), kUsage, {"7b", "8b"});
    expect_error(run_pith({"make-model", "0.5b", "--type", "q3_z", "-o", folder_.file("a.gguf")}), kFailed, {"q3_z"});
    EXPECT_FALSE(std::filesystem::exists(folder_.file("a.gguf")));
}

TEST_F(BadInput, UnknownCommandsAndOptionsSuggestTheNearest) {
    expect_error(run_pith({"rnu"}), kUsage, {"rnu", "'run'"});
    expect_error(run_with({"--budgt", "3"}), kUsage, {"--budgt", "'--budget'"});
    expect_error(run_pith({"run", "--modle", "x"}), kUsage, {"--modle", "'--model'"});
    expect_error(run_pith({"tokenize", "-p", "x"}), kUsage, {"--model", "required"});
    expect_error(run_with({"--chunk", "many"}), kUsage, {"--chunk", "many"});
}

// llama.cpp's flags that Pith does not have, or calls otherwise: named, with what to use.
TEST_F(BadInput, LlamaCppsFlagsAreRefusedByName) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
        {{"-sm", "row"}, "--tensor-split"},
        {{"-cnv"}, "pith chat"},
        {{"-i"}, "pith chat"},
        {{"-mu", "https://host/file"}, "-hf USER/REPO"},
        {{"-cl"}, "pith models"},
        {{"-fa", "off"}, "fused"},
        {{"-b", "512"}, "--chunk"},
        {{"-ub", "64"}, "--chunk"},
        {{"--mlock"}, "--no-mmap"},
        {{"--warmup"}, "leave it out"},
        {{"--keep", "5"}, "--pin-system"},
        {{"-tb", "4"}, "-t"},
        {{"--samplers", "top_k;temperature"}, "order"},
        {{"--in-prefix", "User: "}, "pith chat"},
        {{"-o", "file"}, "> FILE"},
        {{"--no-jinja"}, "--chat-template NAME"},
        {{"--lora-scaled", "a.gguf:2"}, "--lora-scale"},
        {{"--rope-freq-base", "1e6"}, "positions"},
        {{"-md", "draft.gguf"}, "speculative"},
        {{"--spec-type", "x"}, "speculative"},
        {{"-cmoe"}, "-ngl"},
        {{"--prompt-cache", "x"}, "-p"},
        {{"--numa", "numactl"}, "numactl"},
    };
    for (const auto & [flags, instead] : cases) {
        SCOPED_TRACE(flags.front());
        expect_error(run_with(flags), kUsage, {flags.front().substr(0, flags.front().find('=')) + " is llama.cpp's", instead});
    }
    expect_error(run_pith({"chat", "-m", model(), "-no-cnv"}), kUsage, {"-no-cnv", "pith run"});
    expect_error(run_pith({"chat", "-m", model(), "-kvo"}), kUsage, {"-kvo", "CPU"});
    expect_error(run_with({"--kv-offload", "--no-kv-offload"}), kUsage, {"--kv-offload", "--no-kv-offload"});
    expect_error(run_with({"-nxyz"}), kUsage, {"unknown option '-nxyz'"});
}

TEST_F(BadInput, DevicesThatAreNoneAreRefusedByName) {
    expect_error(run_with({"-ngl", "many"}), kUsage, {"--n-gpu-layers", "many", "all"});
    expect_error(run_with({"--rpc", "somewhere"}), kUsage, {"somewhere", "host:port"});
    expect_error(run_with({"--rpc", "127.0.0.1:70000"}), kUsage, {"70000", "host:port"});
    expect_error(run_with({"--device", "RPC0,,RPC1"}), kUsage, {"--device", "RPC0,,RPC1", "commas"});
    expect_error(run_with({"--device", "none", "-ts", "3,x"}), kUsage, {"--tensor-split", "'x'"});
    expect_error(run_with({"--device", "NoDevice7"}), 1, {"NoDevice7", "no device"});
    for (const char * command : {"chat", "bench", "demo", "inspect", "serve"}) {
        SCOPED_TRACE(command);
        expect_error(run_pith({command, "-m", model(), "--rpc", "x"}), kUsage, {"'x'", "host:port"});
        expect_error(run_pith({command, "-m", model(), "-ngl", "many"}), kUsage, {"--n-gpu-layers", "many", "all"});
        expect_error(run_pith({command, "-m", model(), "-kvo"}), kUsage, {"--kv-offload", "-ngl"});
    }
    expect_error(run_pith({"eval", "ruler", "-m", model(), "-ts", "3,x"}), kUsage, {"--tensor-split", "'x'"});
    expect_error(run_pith({"bench", "-m", model(), "-dev", "NoDevice7", "-r", "1"}), 1, {"NoDevice7", "no device"});
    expect_error(run_pith({"calibrate", "heads", "-m", model(), "--rpc", "x"}), kUsage, {"'x'", "host:port"});
    // What trains does so on the CPU.
    expect_error(run_pith({"train", "gate", "-m", model(), "--rpc", "127.0.0.1:50052"}), kUsage, {"--rpc", "training", "CPU"});
    expect_error(run_pith({"train", "reference", "-ngl", "2"}), kUsage, {"--n-gpu-layers", "training", "CPU"});
    // What says that none is wanted is taken.
    for (const char * none : {"--device=none", "-dev=none", "-ngl=0"}) {
        SCOPED_TRACE(none);
        EXPECT_EQ(run_with({none, "-n", "1"}).exit_code, 0);
    }
}

TEST_F(BadInput, NumbersOutsideTheirRanges) {
    expect_error(run_with({"--chunk", "0"}), kUsage, {"--chunk", "0"});
    expect_error(run_with({"--evict-every", "-1"}), kUsage, {"--evict-every", "-1"});
    expect_error(run_with({"-t", "-2"}), kUsage, {"--threads", "-2"});
    expect_error(run_with({"-c", "-1"}), kUsage, {"--ctx-size", "-1"});
    expect_error(run_with({"--top-p", "3"}), kUsage, {"top-p", "3"});
    expect_error(run_with({"--prefill", "twice"}), kUsage, {"twice", "one-shot"});
    expect_error(run_with({"--pin-system"}), kUsage, {"--pin-system"});
    expect_error(run_pith({"run", "-m", model(), "-p", "x", "-n", "-7"}), kUsage, {"--n-predict", "-7"});
    expect_error(run_pith({"bench", "-m", model(), "-r", "0"}), kFailed, {"--repetitions", "0"});
    expect_error(run_pith({"bench", "-m", model(), "--policies", "h2o", "-r", "0"}), kUsage, {"--repetitions", "0"});
    expect_error(run_pith({"bench", "-m", model(), "--policies", "h2o", "-p", "0"}), kUsage, {"--n-prompt", "0"});
    expect_error(run_pith({"bench", "-m", model(), "--policies", "h2p"}), kUsage, {"h2p", "h2o"});
    expect_error(run_pith({"bench", "-m", model(), "--policies", "full", "-p", "64"}), kFailed, {"evicts"});
    expect_error(run_pith({"bench", "-m", model(), "--policies", "--policy", "h2o"}), kUsage, {"--policies", "--policy"});
    expect_error(run_pith({"bench", "-m", model(), "--policies", "--scoring"}), kUsage, {"--policies", "--scoring"});
    expect_error(run_pith({"bench", "-m", model(), "--policies", "--depth", "64,128"}), kUsage, {"--depth"});
    expect_error(run_pith({"bench", "-m", model(), "--profile", "--in-turns"}), kUsage, {"--profile", "--in-turns"});
    expect_error(run_pith({"bench", "-m", model(), "--profile", "--depth", "-5"}), kFailed, {"-5"});
    expect_error(run_pith({"bench", "-m", model(), "--paced"}), kUsage, {"--paced", "--in-turns"});
    expect_error(run_pith({"bench", "-m", model(), "--own"}), kUsage, {"--own", "--batch"});
    expect_error(run_pith({"bench", "-m", model(), "--in-turns", "--depth", "0"}), kFailed, {"--depth", "0"});
    expect_error(run_pith({"bench", "-m", model(), "--in-turns", "--depth", "64", "-n", "0"}), kFailed, {"--n-predict", "0"});
    expect_error(run_pith({"bench", "-m", model(), "--in-turns", "--depth", "64", "--budget", "64,,32"}), kUsage, {"budget"});
    expect_error(run_pith({"bench", "-m", model(), "--policy", "h2o", "--budget", "64,x"}), kUsage, {"'x'"});
    expect_error(run_pith({"bench", "-m", model(), "-p", "64,-1"}), kFailed, {"--n-prompt", "-1"});
    expect_error(run_pith({"bench", "-m", model(), "--profile", "-p", "64,32"}), kUsage, {"-p", "--profile"});
    expect_error(run_pith({"bench", "-m", model(), "-ctk", "f16,f17"}), kUsage, {"'f17'"});
    expect_error(run_pith({"bench", "-m", model(), "--policies", "--prefill", "chunked"}), kUsage, {"chunked"});
    expect_error(run_pith({"demo", "--samples", "-1"}), kUsage, {"--samples", "-1"});
    expect_error(run_pith({"demo", "--samples", "0"}), kUsage, {"--samples is 0: give 1 or more"});
    expect_error(run_pith({"eval", "ruler", "-m", model(), "--samples", "0"}), kUsage, {"--samples", "0"});
    expect_error(run_pith({"eval", "ruler", "-m", model(), "--samples", "two"}), kUsage, {"--samples", "two"});
    expect_error(run_pith({"eval", "ruler", "-m", model(), "--samples", "all"}), kUsage, {"--samples all", "a number"});
    expect_error(run_pith({"demo", "--perplexity", "--task", "vt"}), kUsage, {"--perplexity", "--task"});
    expect_error(run_pith({"demo", "--json", "--csv"}), kUsage, {"--json", "--csv"});
    expect_error(run_pith({"demo", "--perplexity", "--tokens", "0"}), kFailed, {"0 tokens"});
    expect_error(run_pith({"train", "reference", "-t", "-1"}), kUsage, {"--threads", "-1"});
}

// A shell's variable that is not set.
TEST_F(BadInput, EmptyValuesAreRefusedByName) {
    const auto expect_empty = [](const Outcome & outcome, const std::string & name) {
        SCOPED_TRACE(name);
        expect_error(outcome, kUsage, {name + ": the value is empty"});
    };
    for (const char * name :
         {"--n-predict", "--chunk", "--temp", "--threads", "--seed", "--ctx-size", "--top-p", "--evict-every", "--policy",
          "--heads", "--file", "--prefill", "--cache-type-k", "--gate", "--lora"}) {
        expect_empty(run_with({name, ""}), name);
    }
    expect_empty(run_with({"-n", ""}), "--n-predict");
    expect_empty(run_with({"-ctk", ""}), "--cache-type-k");
    expect_empty(run_pith({"run", "-m", "", "-p", "Hello"}), "--model");
    expect_empty(run_pith({"demo", "--samples", ""}), "--samples");
    expect_empty(run_pith({"eval", "ruler", "--context", ""}), "--context");
    expect_empty(run_pith({"calibrate", "heads", "-m", model(), "-o", ""}), "--output");
    expect_empty(run_pith({"bench", "-m", model(), "--depth", ""}), "--depth");
    const Outcome text = run_with({"--system-prompt", ""});
    EXPECT_EQ(text.exit_code, 0) << "a text may be empty: " << text.err;
}

TEST_F(BadInput, FilesWithoutAnEnd) {
    const std::string zero = "/dev/zero";
    expect_error(run_pith({"run", "-m", model(), "-f", zero}), kFailed, {zero, "not a device"});
    expect_error(run_with({"-sysf", zero}), kFailed, {zero, "not a device"});
    expect_error(run_with({"--policy", "headkv", "--budget", "64", "--heads", zero}), kFailed, {zero, "not a device"});
    expect_error(run_pith({"tokenize", "-m", model(), "-f", zero}), kFailed, {zero, "not a device"});
    const Outcome haystack =
        run_pith({"eval", "ruler", "-m", model(), "--tasks", "niah_single_1", "--samples", "1", "--context", "1024",
                  "--haystack", zero, "--write-samples", folder_.file("samples.jsonl")});
    EXPECT_NE(haystack.exit_code, 0);
    EXPECT_NE(haystack.err.find("'/dev/zero' does not end after 16 MiB"), std::string::npos) << haystack.err;
    expect_error(run_pith({"train", zero}), kFailed, {zero});
}

TEST_F(BadInput, AnEmptyHaystack) {
    write_text(folder_.file("empty.txt"), "");
    const Outcome outcome =
        run_pith({"eval", "ruler", "-m", model(), "--tasks", "niah_single_1", "--samples", "1", "--context", "1024",
                  "--haystack", folder_.file("empty.txt"), "--write-samples", folder_.file("samples.jsonl")});
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find("empty.txt' is empty"), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_.file("samples.jsonl")));
}

// Before, not after, hours of work: so many probes would not end.
TEST_F(BadInput, CalibrationThatCouldNotBeWritten) {
    for (const std::string & path : {folder_.file("nowhere/heads.json"), folder_.file(".")}) {
        expect_error(run_pith({"calibrate", "heads", "-m", model(), "--samples", "10000000", "--tokens", "512", "-o", path}),
                     kFailed, {path, "cannot be written"});
    }
}

TEST_F(BadInput, RecipesThatAreNone) {
    expect_error(run_pith({"train", folder_.file("none.json")}), kFailed, {"none.json"});
    write_text(folder_.file("bad.json"), "not json");
    expect_error(run_pith({"train", folder_.file("bad.json")}), kFailed, {"bad.json", "line 1, byte 1: a value belongs here"});
    write_text(folder_.file("deep.json"), std::string(100000, '['));
    expect_error(run_pith({"train", folder_.file("deep.json")}), kFailed, {"deep.json", "nested deeper"});
}

// Windows, states and heads that differ: what is not done with such layers yet is said by their name, and leaves nothing
// behind.
TEST_F(BadInput, WhatUnlikeLayersDoNotDoYet) {
    RandomModelSpec windows;
    windows.arch = "gemma3";
    windows.n_layers = 6;
    windows.window = 16;
    RandomModelSpec states;
    states.arch = "lfm2";
    states.keys = {{"shortconv.l_cache", 3U}, {"attention.head_count_kv", RandomList<int32_t>{{0, 2}}}};
    RandomModelSpec heads = windows;
    heads.arch = "gemma4";
    heads.keys = {{"attention.sliding_window_pattern", RandomList<bool>{{true, true, false}}},
                  {"attention.head_count_kv", RandomList<int32_t>{{4, 4, 2}}},
                  {"attention.key_length_swa", 16U},
                  {"attention.value_length_swa", 16U}};
    const std::string made = folder_.file("made");
    const std::string pairs = folder_.file("pairs.jsonl");
    write_text(
        pairs,
        "{\"prompt\": \"the hill is\", \"completion\": \" far\"}\n{\"prompt\": \"the river is\", \"completion\": \" long\"}\n");
    RandomModelSpec shares = heads;
    shares.keys.emplace_back("attention.shared_kv_layers", 3U);
    expect_error(
        run_pith({"train", "gate", "-m", write_model(folder_, shares, "shares.gguf"), "-o", made, "-t", "1", "--untrained"}),
        kFailed, {"gemma4", "layers that read another's keys", "gates are not made for these"});
    for (const auto & [spec, layers] :
         {std::pair{windows, "layers that see a window only"}, std::pair{states, "recurrent layers"},
          std::pair{heads, "layers that see a window only"}}) {
        SCOPED_TRACE(spec.arch);
        const std::string path = write_model(folder_, spec, spec.arch + ".gguf");
        EXPECT_EQ(run_model(path).exit_code, 0);
        expect_error(run_pith({"inspect", "-m", path, "--tokens", "512", "--attention", "0:0", "-o", made, "-t", "1"}), kFailed,
                     {spec.arch, layers, "layer 0 among them"});
        expect_error(run_pith({"train", "sft", "-m", path, "-f", pairs, "-o", made, "-t", "1", "--sequences", "2"}), kFailed,
                     {spec.arch, layers});
        // Gates are for the layers that policies govern.
        const std::string gate = folder_.file(spec.arch + ".gate.gguf");
        EXPECT_EQ(run_pith({"train", "gate", "-m", path, "-o", gate, "-t", "1", "--untrained"}).exit_code, 0);
        EXPECT_EQ(run_pith({"run", "-m", path, "--gate", gate, "-p", "Hello", "-n", "1", "-t", "1"}).exit_code, 0);
        EXPECT_FALSE(std::filesystem::exists(made));
    }
}

}  // namespace
}  // namespace pith::testing::bad_input_test
