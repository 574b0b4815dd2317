// chat_test.cpp - `pith chat` at a pseudo-terminal, as a user types, and through a pipe.
#include <poll.h>
#include <pty.h>
#include <termios.h>

#include <chrono>
#include <functional>
#include <regex>
#include <thread>

#include "cli/run_process.h"
#include "pith/text.h"
#include "text/tiny_vocabulary.h"

namespace pith::testing::chat_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char * kPrompt = "\r\n> ";  // at the beginning of a line: answers may hold the rest

// A `pith` at a terminal of its own.
class Terminal {
public:
    explicit Terminal(std::vector<std::string> words) {
        words.insert(words.begin(), PITH_PROGRAM);
        std::vector<char *> argv;
        for (std::string & word : words) { argv.push_back(word.data()); }
        argv.push_back(nullptr);
        const winsize size{40, 200, 0, 0};
        pid_ = forkpty(&fd_, nullptr, nullptr, &size);
        if (pid_ == 0) {
            setenv("TERM", "xterm", 1);
            execv(argv[0], argv.data());
            _exit(127);
        }
    }
    ~Terminal() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        close(fd_);
    }
    Terminal(const Terminal &) = delete;
    Terminal & operator=(const Terminal &) = delete;

    void type(const std::string & text) { ASSERT_EQ(write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size())); }
    // Reads until `text` has come since the last call; what came, up to and with it.
    std::string wait_for(const std::string & text) {
        const auto end = Clock::now() + std::chrono::seconds(60);
        do {
            const size_t at = screen_.find(text);
            if (at != std::string::npos) {
                const std::string before = screen_.substr(0, at + text.size());
                screen_.erase(0, at + text.size());
                return before;
            }
        } while (Clock::now() < end && read_more());
        ADD_FAILURE() << "'" << text << "' did not come; the screen says: " << screen_;
        return {};
    }
    // Reads until the prompt has come and keys are taken one by one: libedit shows the prompt first, and what is
    // typed between the two is edited by the terminal (a backspace would take away the end of an arrow key).
    std::string wait_for_prompt() {
        std::string before = wait_for(kPrompt);
        const auto end = Clock::now() + std::chrono::seconds(60);
        for (termios mode{}; tcgetattr(fd_, &mode) == 0 && (mode.c_lflag & ICANON) != 0;) {
            if (Clock::now() > end) {
                ADD_FAILURE() << "the prompt came, but the terminal still edits lines itself";
                break;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return before;
    }
    // At the prompt: types a line; what the screen then says, the line's echo first, up to the next prompt. The line of
    // progress, which names times, is left out as it leaves the screen.
    std::string ask(const std::string & line) {
        static const std::regex progress("(\\rreading [^\\r]*)+\\r *\\r");
        type(line + "\n");
        return std::regex_replace(wait_for_prompt(), progress, "");
    }
    // Memory of the program that is in RAM now.
    size_t resident_bytes() const {
        std::ifstream rollup("/proc/" + std::to_string(pid_) + "/smaps_rollup");
        for (std::string line; std::getline(rollup, line);) {
            if (line.starts_with("Rss:")) { return std::stoul(line.substr(4)) * 1024; }
        }
        return 0;
    }
    // Reads until so many bytes have come since the last call.
    void wait_for_bytes(size_t n) {
        const auto end = Clock::now() + std::chrono::seconds(60);
        while (screen_.size() < n && Clock::now() < end && read_more()) {}
        ASSERT_GE(screen_.size(), n);
    }
    int wait_for_end() {
        int state = 0;
        waitpid(pid_, &state, 0);
        pid_ = -1;
        return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
    }

private:
    // false: the program is gone.
    bool read_more() {
        pollfd ready{fd_, POLLIN, 0};
        if (poll(&ready, 1, 1000) < 0) { return false; }
        char buffer[4096];
        const ssize_t n = (ready.revents & (POLLIN | POLLHUP)) != 0 ? read(fd_, buffer, sizeof buffer) : 0;
        if (n > 0) { screen_.append(buffer, static_cast<size_t>(n)); }
        return n >= 0;
    }

    int fd_ = -1;
    pid_t pid_ = -1;
    std::string screen_;
};

std::string write_chat(const TempFolder & folder, const RandomModelSpec & spec) {
    const std::string plain = write_model(folder, spec, "shaped.gguf");
    GgufEdit edit;
    edit.metadata = [](gguf_context * gguf) { gguf_set_val_str(gguf, "tokenizer.chat_template", kChatMl); };
    const std::string chat = folder.file("shaped-chat.gguf");
    EXPECT_TRUE(edit_gguf(plain, chat, edit));
    return chat;
}

// Token `id` of the vocabulary becomes a special one with this name.
void name_control_token(gguf_context * gguf, int32_t id, const std::string & name) {
    constexpr int32_t kControl = 3;
    const int64_t texts = gguf_find_key(gguf, "tokenizer.ggml.tokens");
    const int64_t types = gguf_find_key(gguf, "tokenizer.ggml.token_type");
    const auto n = static_cast<size_t>(gguf_get_arr_n(gguf, texts));
    std::vector<std::string> all;
    for (size_t i = 0; i < n; ++i) { all.emplace_back(gguf_get_arr_str(gguf, texts, i)); }
    all[static_cast<size_t>(id)] = name;
    std::vector<const char *> pointers;
    for (const std::string & text : all) { pointers.push_back(text.c_str()); }
    const auto * old = static_cast<const int32_t *>(gguf_get_arr_data(gguf, types));
    std::vector<int32_t> kinds(old, old + n);
    kinds[static_cast<size_t>(id)] = kControl;
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pointers.data(), n);
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, kinds.data(), n);
}

class Chat : public ::testing::Test {
protected:
    std::vector<std::string> words(const std::vector<std::string> & more = {}) {
        std::vector<std::string> all = {"chat", "-m", model_, "--temp", "0", "-t", "1"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    // Answers to the lines, one string each; through a pipe nothing else is on standard output.
    Outcome piped(const std::vector<std::string> & lines, const std::vector<std::string> & more = {}) {
        RunLimits limits;
        for (const std::string & line : lines) { limits.standard_input += line + "\n"; }
        return run_pith(words(more), limits);
    }
    // Flags under which an answer never ends.
    std::vector<std::string> without_end() const {
        const Tokenizer tokenizer = Tokenizer::load(model_).value();
        std::vector<std::string> flags;
        for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
            if (tokenizer.is_end_of_generation(token)) {
                flags.insert(flags.end(), {"--logit-bias", std::to_string(token) + "-inf"});
            }
        }
        return flags;
    }

    TempFolder folder_;
    std::string model_ = write_tiny(folder_, kChatMl);
};

TEST_F(Chat, AtATerminalItTakesSeveralLinesHistoryAndCommands) {
    Terminal terminal(words({"-n", "4"}));
    terminal.wait_for_prompt();
    terminal.type("The river is \\\n");
    terminal.wait_for(". ");
    terminal.type("long.\n");
    terminal.wait_for_prompt();
    terminal.type("/kept\n");
    EXPECT_NE(terminal.wait_for("tokens per head").find("The river is \r\n"), std::string::npos) << "both lines were read";
    terminal.wait_for_prompt();
    terminal.type("/helpp\n");
    terminal.wait_for("did you mean '/help'?");
    terminal.wait_for_prompt();
    terminal.type("\x1b[A\x7f\n");  // the line before, without its last letter
    terminal.wait_for("Ctrl-C stops an answer");
    terminal.wait_for_prompt();
    terminal.type("\x04");
    EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST_F(Chat, AtATerminalItSaysWhatRunsAndTabCompletes) {
    Terminal terminal(words({"-n", "4", "--budget", "512"}));
    const std::string banner = terminal.wait_for_prompt();
    EXPECT_NE(banner.find(", policy auto, budget 512\r\n/help lists the commands, Tab completes them"), std::string::npos)
        << banner;
    terminal.type("The river is long.\n");
    terminal.wait_for_prompt();
    terminal.type("/hel\t\n");
    terminal.wait_for("Ctrl-C stops an answer");
    terminal.wait_for_prompt();
    terminal.type("/policy strea\t256\n");
    EXPECT_NE(terminal.wait_for("per head are held)").find("(streaming, budget 256: "), std::string::npos);
    terminal.wait_for_prompt();
    const std::string file = folder_.file("a talk.pith");
    terminal.type("/save " + file + "\n");
    terminal.wait_for("(saved to " + file + ")");
    terminal.wait_for_prompt();
    write_text(folder_.file("noted.pith"), "");
    ASSERT_EQ(rename(file.c_str(), folder_.file("talk.pith").c_str()), 0);
    terminal.type("/load " + folder_.file("tal") + "\t\n");
    terminal.wait_for("tokens from " + folder_.file("talk.pith") + ")");
    terminal.wait_for_prompt();
    terminal.type("no file\t\n");  // in a message nothing is completed
    EXPECT_EQ(terminal.wait_for_prompt().find("files"), std::string::npos);
    terminal.type("/exit\n");
    EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST_F(Chat, CommandsSayWhatTheyDid) {
    const std::vector<std::string> more = {"-n", "4", "--policy", "streaming", "--budget", "64"};
    const Outcome told = piped({"The river is long.", "/undo", "/clear", "/system You are brief.", "One.", "/budget 80",
                                "/budget", "/policy h2o", "/policy full", "/budget 0"},
                               more);
    ASSERT_EQ(told.exit_code, 0) << told.err;
    for (const char * line :
         {"(the last turn is taken back: 0 turns left)\n", "(begun again)\n", "(begun again with this system prompt)\n",
          "(streaming, budget 80: 80 of ", "(h2o, budget 80: ", "(full, no budget: "}) {
        EXPECT_NE(told.err.find(line), std::string::npos) << line << " is not in: " << told.err;
    }
    EXPECT_NE(told.out.find("\nstreaming, budget 80: "), std::string::npos) << told.out;
    EXPECT_NE(told.err.find("/budget"), std::string::npos) << told.err;
}

TEST_F(Chat, AMessageMayBeginWithASlash) {
    const std::vector<std::string> more = {"-n", "4"};
    const Outcome slash = piped({"//kept or not", "/kept"}, more);
    ASSERT_EQ(slash.exit_code, 0) << slash.err;
    EXPECT_NE(slash.out.find("/kept or not"), std::string::npos) << slash.out;
    EXPECT_EQ(slash.out.find("//kept"), std::string::npos) << slash.out;
    EXPECT_NE(piped({"/nothing"}, more).err.find("// begins a message with /"), std::string::npos);
}

TEST_F(Chat, TextsFromWindowsAreReadAsOthers) {
    const std::string mark = "\xEF\xBB\xBF";
    const std::vector<std::string> more = {"-n", "6"};
    RunLimits windows, plain;
    windows.standard_input = mark + "The river is \\\r\nlong.\r\n/kept\r\n";
    plain.standard_input = "The river is \\\nlong.\n/kept\n";
    const Outcome outcome = run_pith(words(more), windows);
    EXPECT_EQ(outcome.out, run_pith(words(more), plain).out);
    EXPECT_NE(outcome.out.find("The river is \nlong."), std::string::npos) << outcome.out;

    const auto both = [&](const std::string & text, const std::function<Outcome(const std::string & file)> & run) {
        write_text(folder_.file("plain.txt"), text);
        write_text(folder_.file("windows.txt"), mark + std::regex_replace(text, std::regex("\n"), "\r\n"));
        const Outcome wanted = run(folder_.file("plain.txt"));
        ASSERT_EQ(wanted.exit_code, 0) << wanted.err;
        // What stands behind the answers in JSON are times.
        const auto said = [](const Outcome & of) { return of.out.substr(0, of.out.find("\"policy\"")); };
        EXPECT_EQ(said(run(folder_.file("windows.txt"))), said(wanted)) << text;
    };
    const auto run = [this](const std::vector<std::string> & flags) {
        std::vector<std::string> all = {"run", "-m", model_, "--temp", "0", "-t", "1", "-n", "6"};
        all.insert(all.end(), flags.begin(), flags.end());
        return run_pith(all);
    };
    const std::string text = "The river is long.\nThe garden is old.\n";
    both(text, [&](const std::string & file) { return run({"-f", file, "-p", "What is long?", "--json"}); });
    both(text, [&](const std::string & file) { return run({"--prompts", file}); });
    both(text, [&](const std::string & file) { return run_pith({"tokenize", "-m", model_, "-f", file}); });
    both("# one\nroot ::= [a-z]+ |\n  [0-9]\n", [&](const std::string & file) {
        return run({"-p", "Hello", "--grammar-file", file});
    });
    both("{% for m in messages %}\n{{ m['content'] }}\n{% endfor %}\n", [&](const std::string & file) {
        return run({"-p", "Hello", "--json", "--chat-template-file", file});
    });
    both("You are brief.\n", [&](const std::string & file) { return run({"-p", "Hello", "--json", "-sysf", file}); });
}

TEST_F(Chat, CtrlCStopsAnAnswerAndKeepsWhatWasSaid) {
    Terminal terminal(words(without_end()));
    terminal.wait_for(kPrompt);
    terminal.type("Talk.\n");
    terminal.wait_for("\n");       // the message's own line end; then the answer begins
    terminal.wait_for_bytes(500);  // it is being written
    terminal.type("\x03");
    terminal.wait_for(kPrompt);
    terminal.type("/stats\n");
    const std::string stats = terminal.wait_for(kPrompt);
    EXPECT_TRUE(std::regex_search(stats, std::regex("decode +[1-9]"))) << stats;
    terminal.type("\x03");
    terminal.wait_for("Ctrl-D or /exit ends");
    terminal.wait_for(kPrompt);
    terminal.type("/exit\n");
    EXPECT_EQ(terminal.wait_for_end(), 0);
}

TEST_F(Chat, AnAnswerThatCtrlCStoppedIsTakenBackByUndo) {
    Terminal terminal(words(without_end()));
    terminal.wait_for(kPrompt);
    terminal.type("Talk.\n");
    terminal.wait_for("\n");
    terminal.wait_for_bytes(200);
    terminal.type("\x03");
    terminal.wait_for(kPrompt);
    terminal.type("/undo\n");
    terminal.wait_for(kPrompt);
    terminal.type("/kept\n");
    EXPECT_NE(terminal.wait_for("tokens per head").find("(0 of 0 tokens"), std::string::npos);
    terminal.wait_for(kPrompt);
    terminal.type("/undo\n");
    terminal.wait_for("nothing to take back");
    terminal.wait_for(kPrompt);
    terminal.type("/exit\n");
    EXPECT_EQ(terminal.wait_for_end(), 0);
}

// A Ctrl-C that comes while the prompt is being shown is none that got lost.
TEST_F(Chat, CtrlCAtThePromptIsAlwaysSeen) {
    Terminal terminal(words(without_end()));
    terminal.wait_for(kPrompt);
    for (int i = 0; i < 30; ++i) {
        terminal.type("\x03");
        terminal.wait_for("Ctrl-D or /exit ends");
        terminal.wait_for(kPrompt);
    }
    terminal.type("/exit\n");
    EXPECT_EQ(terminal.wait_for_end(), 0);
}

// What /stats says of the state: what is held and in how many bytes, under which policy. The rest is what was spent so far, on
// turns that were taken back, too, and the copies for /undo.
std::string state_of(const std::string & stats) {
    std::smatch kept, bytes, policy;
    EXPECT_TRUE(std::regex_search(stats, kept, std::regex("kept +[0-9.]+ % \\([^)]*\\)"))) << stats;
    EXPECT_TRUE(std::regex_search(stats, bytes, std::regex("KV +[0-9.]+ [KM]iB instead of [0-9.]+ [KM]iB"))) << stats;
    EXPECT_TRUE(std::regex_search(stats, policy, std::regex("policy[^\r]*"))) << stats;
    return kept.str() + "; " + bytes.str() + "; " + policy.str();
}

// Every turn evicts: an /undo brings entries back that are gone.
TEST_F(Chat, AtATerminalWhatWasTakenBackLeavesNoTrace) {
    const std::vector<std::string> more = {"-n", "24",      "--policy", "snapkv:window=8", "--budget",
                                           "48", "--chunk", "16",       "--evict-every",   "8"};
    const std::vector<std::string> first = {"The river is long and the garden is old.", "Who has the letter?"};
    const std::vector<std::string> later = {"What is long?", "What is old?", "/kept", "The city is new. What is it?", "/kept"};
    Terminal plain(words(more));
    Terminal back(words(more));
    plain.wait_for_prompt();
    back.wait_for_prompt();
    for (const std::string & line : first) { EXPECT_EQ(plain.ask(line), back.ask(line)); }
    const std::string kept = back.ask("/kept");
    const std::string other = back.ask("Something else, which is then taken back again, with what was said to it.");
    EXPECT_NE(other.find("\r\n"), std::string::npos);
    EXPECT_NE(back.ask("/kept"), kept) << "the turn made a difference";
    back.ask("And one more, so that two of them go.");
    back.ask("/undo");
    back.ask("/undo");
    EXPECT_EQ(back.ask("/kept"), kept);
    EXPECT_EQ(plain.ask("/kept"), kept);
    for (const std::string & line : later) {
        EXPECT_EQ(plain.ask(line), back.ask(line)) << line;
        EXPECT_EQ(state_of(plain.ask("/stats")), state_of(back.ask("/stats"))) << line;
    }
    for (Terminal * terminal : {&plain, &back}) {
        terminal->type("/exit\n");
        EXPECT_EQ(terminal->wait_for_end(), 0);
    }
}

TEST_F(Chat, UndoBringsBackTheStateBitForBit) {
    const std::vector<std::string> more = {"-n", "12",      "--policy", "snapkv:window=8", "--budget",
                                           "48", "--chunk", "16",       "--evict-every",   "8"};
    const Outcome once = piped({"The river is long and the garden is old.", "What is long?"}, more);
    const Outcome again = piped({"The river is long and the garden is old.", "Something else, which is then taken back again.",
                                 "/undo", "What is long?"},
                                more);
    ASSERT_EQ(once.exit_code, 0) << once.err;
    ASSERT_EQ(again.exit_code, 0) << again.err;
    const auto lines = [](const std::string & text) {
        std::vector<std::string> out;
        std::stringstream stream(text);
        for (std::string line; std::getline(stream, line);) { out.push_back(line); }
        return out;
    };
    EXPECT_EQ(lines(once.out).back(), lines(again.out).back());
    EXPECT_EQ(lines(once.out).front(), lines(again.out).front());

    const Outcome all = piped({"One.", "/undo", "/undo", "/retry"}, more);
    EXPECT_EQ(all.exit_code, 0);
    EXPECT_NE(all.err.find("nothing to take back"), std::string::npos) << all.err;
}

// The last turn that is there, not the last message that was ever sent.
TEST_F(Chat, RetryBehindUndoAnswersTheTurnBefore) {
    const Outcome plain = piped({"The river is long and the garden is old.", "What is long?"}, {"-n", "12"});
    const Outcome again =
        piped({"The river is long and the garden is old.", "Who has the letter?", "/undo", "/retry", "What is long?"},
              {"-n", "012"});  // ten and two, not an octal ten
    ASSERT_EQ(plain.exit_code, 0) << plain.err;
    ASSERT_EQ(again.exit_code, 0) << again.err;
    EXPECT_TRUE(again.out.ends_with(plain.out)) << again.out << "\n--\n" << plain.out;
}

// Sanitizers keep what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsGivenBack = false;
#else
constexpr bool kMemoryIsGivenBack = true;
#endif

// "KV       96.0 KiB instead of 1.2 MiB": the bytes that the words before and behind name.
double bytes_behind(const std::string & text, const std::string & before) {
    std::smatch found;
    if (!std::regex_search(text, found, std::regex(before + " +([0-9.]+) ([KM])iB"))) {
        ADD_FAILURE() << "no '" << before << "' in: " << text;
        return 0;
    }
    return std::stod(found[1]) * (found[2] == "M" ? 1024.0 * 1024.0 : 1024.0);
}

TEST_F(Chat, AtATerminalTwoHundredTurnsStayInsideTheBudget) {
    constexpr int kBudget = 256, kEvictEvery = 32, kLayers = 3, kKvHeads = 4, kHeadDim = 64;
    RandomModelSpec spec;
    spec.n_layers = kLayers;
    spec.n_kv_heads = kKvHeads;
    spec.head_dim = kHeadDim;
    model_ = write_chat(folder_, spec);
    Terminal terminal(words({"-n", "8", "--policy", "snapkv:window=16", "--budget", std::to_string(kBudget), "--system-prompt",
                             "You are brief.", "--evict-every", std::to_string(kEvictEvery), "--chunk", "64"}));
    terminal.wait_for_prompt();
    std::vector<std::string> stats;
    std::vector<size_t> resident;
    int n_messages = 0;
    for (int turn = 1; turn <= 200; ++turn) {
        const std::string said = terminal.ask("Turn " + std::to_string(turn) + " of a long talk about rivers and gardens.");
        const size_t message = said.find("pith: ");
        if (message == std::string::npos || ++n_messages > 1) {
            ASSERT_EQ(message, std::string::npos) << said;
        } else {  // once, when the talk has passed the 2,048 tokens that the model knows
            ASSERT_NE(said.find("context shift", message), std::string::npos) << said;
        }
        if (turn == 20 || turn == 200) {
            stats.push_back(terminal.ask("/stats"));
            resident.push_back(terminal.resident_bytes());
        }
    }
    terminal.type("/exit\n");
    EXPECT_EQ(terminal.wait_for_end(), 0);
    EXPECT_EQ(n_messages, 1);
    ASSERT_EQ(stats.size(), 2U);

    // Never more than the budget and what came since the last eviction; the last page of a lane's keys, and of its values, is
    // held whole.
    constexpr double kEntryBytes = 2.0 * kHeadDim * 2;  // K and V in f16
    constexpr double kPageBytes = 4096;
    constexpr double kLanes = kLayers * kKvHeads;
    for (const std::string & one : stats) {
        std::smatch held;
        ASSERT_TRUE(std::regex_search(one, held, std::regex("\\(([0-9]+) of [0-9,]+ tokens per head\\)"))) << one;
        EXPECT_LE(std::stoi(held[1]), kBudget + kEvictEvery);
        EXPECT_GE(std::stoi(held[1]), kBudget) << "and no less";
        EXPECT_LE(bytes_behind(one, "KV"), kLanes * ((kBudget + kEvictEvery) * kEntryBytes + 2 * kPageBytes));
    }
    EXPECT_LE(std::abs(bytes_behind(stats[1], "KV") - bytes_behind(stats[0], "KV")),
              kLanes * (kEvictEvery * kEntryBytes + 2 * kPageBytes));
    // What a turn leaves behind is its tokens, its text and a line of the editor's history, and what the allocator rounds up:
    // not its entries, of which a cache that nothing leaves would keep far more.
    constexpr double kLeftByATurn = 8 * 1024;
    constexpr int kTurnsBetween = 180;
    const double unbounded = bytes_behind(stats[1], "instead of") - bytes_behind(stats[0], "instead of");
    EXPECT_GT(unbounded, kTurnsBetween * 10 * kLeftByATurn);
    if (!kMemoryIsGivenBack) { GTEST_SKIP() << "a sanitizer holds what was freed"; }
    ASSERT_GT(resident[0], 0U);
    EXPECT_LT(static_cast<double>(resident[1]) - static_cast<double>(resident[0]), kTurnsBetween * kLeftByATurn)
        << resident[0] << " bytes after 20 turns, " << resident[1] << " after 200";
}

TEST_F(Chat, TakesLlamaCppsFlagsForTheSystemPromptAndTheLength) {
    write_text(folder_.file("system.txt"), "You are brief.\n");
    const std::vector<std::string> lines = {"The river is long.", "/system", "/stats"};
    const Outcome named = piped(lines, {"-n", "5", "--system-prompt", "You are brief."});
    ASSERT_EQ(named.exit_code, 0) << named.err;
    EXPECT_NE(named.out.find("You are brief.\n"), std::string::npos);
    const auto answers = [](const Outcome & outcome) { return outcome.out.substr(0, outcome.out.find("kept ")); };
    for (const char * flag : {"-sysf", "--system-prompt-file"}) {
        const Outcome from_file = piped(lines, {"--predict", "5", flag, folder_.file("system.txt")});
        EXPECT_EQ(from_file.exit_code, 0) << from_file.err;
        EXPECT_EQ(answers(from_file), answers(named));
    }
    EXPECT_NE(answers(piped(lines, {"-n", "5"})), answers(named)) << "it makes a difference";
    expect_error(piped({}, {"-sysf", folder_.file("none.txt")}), 1, {"none.txt"});
    expect_error(piped({}, {"-sysf", folder_.file("system.txt"), "-sys", "You are brief."}), 2, {"--system-prompt"});
    write_text(folder_.file("bytes.txt"), "\xff\xfe");
    expect_error(piped({}, {"-sysf", folder_.file("bytes.txt")}), 1, {"not UTF-8"});
}

TEST_F(Chat, AnAnswerEndsAtAReversePromptAndTheUserIsAskedAgain) {
    std::vector<std::string> flags = without_end();
    flags.insert(flags.end(), {"-n", "16", "--grammar", "root ::= [a-z ]+"});
    const std::vector<std::string> lines = {"The river is long.", "What is long?"};
    const std::string whole = piped({lines[0]}, flags).out;
    ASSERT_GT(whole.size(), 12U);
    const std::string stop = whole.substr(3, 4);
    flags.insert(flags.end(), {"-r", stop});
    const Outcome outcome = piped(lines, flags);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string first = outcome.out.substr(0, outcome.out.find('\n'));
    EXPECT_NE(first.find(stop), std::string::npos) << "it is shown";
    EXPECT_EQ(first, whole.substr(0, first.size()));
    EXPECT_LT(first.size() + 1, whole.size());
    EXPECT_GT(outcome.out.size(), first.size() + 2) << "the second message was answered";
    expect_error(piped(lines, {"-r", ""}), 2, {"--reverse-prompt is empty"});
}

// What an answer leaves out of its text has a name, too. (A token that the model itself calls an end needs no flag.)
TEST_F(Chat, AnAnswerEndsAtASpecialTokenThatIsNamed) {
    RandomModelSpec spec;
    spec.n_vocab = 1024;
    const std::string plain = write_chat(folder_, spec);
    const int32_t said = Tokenizer::load(plain).value().n_vocab() - 1;
    GgufEdit edit;
    edit.metadata = [said](gguf_context * gguf) { name_control_token(gguf, said, "<|pause|>"); };
    model_ = folder_.file("named.gguf");
    ASSERT_TRUE(edit_gguf(plain, model_, edit));
    const Tokenizer tokenizer = Tokenizer::load(model_).value();
    ASSERT_EQ(tokenizer.piece(said, /*special=*/true), "<|pause|>");
    ASSERT_FALSE(tokenizer.is_end_of_generation(said));
    ASSERT_EQ(tokenizer.piece(said), "") << "its text is nothing";

    const std::vector<std::string> flags = {"-n", "8", "--logit-bias", std::to_string(said) + "+1000"};
    const auto n_decoded = [&](const std::vector<std::string> & more) {
        std::vector<std::string> all = flags;
        all.insert(all.end(), more.begin(), more.end());
        const Outcome outcome = piped({"The river is long.", "/stats", "What is long?"}, all);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        EXPECT_EQ(outcome.out.find("<|pause|>"), std::string::npos) << outcome.out;
        std::smatch found;
        EXPECT_TRUE(std::regex_search(outcome.out, found, std::regex("decode +([0-9]+) tokens"))) << outcome.out;
        return found.empty() ? -1 : std::stoi(found[1]);
    };
    EXPECT_EQ(n_decoded({}), 7) << "the last of eight is fed with the next message";
    EXPECT_EQ(n_decoded({"-r", "<|pause|>"}), 0);
    EXPECT_EQ(n_decoded({"--reverse-prompt", "<|pause|><|pause|><|pause|>"}), 2) << "three in a row";
    EXPECT_EQ(n_decoded({"-r", "<|other|>"}), 7);
}

TEST_F(Chat, EveryMessageStandsBetweenPrefixAndSuffix) {
    const Outcome said = piped({"The long river is old.", "The long garden is old."}, {"-n", "5"});
    const std::vector<std::string> short_lines = {"river", "garden"};
    const Outcome around = piped(short_lines, {"-n", "5", "--in-prefix", "The long ", "--in-suffix", " is old."});
    ASSERT_EQ(around.exit_code, 0) << around.err;
    EXPECT_EQ(around.out, said.out);
    EXPECT_EQ(piped(short_lines, {"-n", "5", "-e", "--in-prefix", "The\\x20long ", "--in-suffix", "\\x20is old."}).out,
              said.out);
    EXPECT_NE(piped(short_lines, {"-n", "5"}).out, said.out) << "it makes a difference";
    expect_error(piped(short_lines, {"--in-prefix", "\xff"}), 1, {"--in-prefix is not UTF-8"});
}

// The number after `before` in a message.
int number_after(const std::string & message, const std::string & before) {
    const size_t at = message.find(before);
    return at == std::string::npos ? 0 : std::atoi(message.c_str() + at + before.size());
}

TEST_F(Chat, ABudgetThatCannotHoldWhatIsProtectedIsRefusedBeforeTheFirstMessage) {
    std::string system = "You are brief.";
    for (int i = 0; i < 12; ++i) { system += " The river is long and the garden is old."; }
    const std::vector<std::string> lines = {"Hello. " + system, system};
    for (const std::string policy : {"snapkv:window=16", "h2o", "streaming"}) {  // a fixed window, a share of the budget, none
        SCOPED_TRACE(policy);
        const auto with = [&](const std::string & budget) {
            return piped(lines, {"--policy", policy, "--budget", budget, "--system-prompt", system, "-n", "4", "--chunk", "64",
                                 "--evict-every", "8"});
        };
        const Outcome refused = with("64");
        expect_error(refused, 1, {"--budget 64", policy, "pinned", "use --budget "});
        const int enough = number_after(refused.err, "use --budget ");
        ASSERT_GT(enough, 64);
        expect_error(with(std::to_string(enough - 1)), 1, {"use --budget " + std::to_string(enough)});
        const Outcome held = with(std::to_string(enough));
        EXPECT_EQ(held.exit_code, 0);
        EXPECT_EQ(held.err.find("pith: "), std::string::npos) << held.err;
    }
    // Nobody knows yet what `auto` will be; and there need not be a message.
    expect_error(piped({}, {"--budget", "64", "--system-prompt", system}), 1, {"--budget 64", "pinned"});
    const Outcome later = piped({"/system " + system, "Hello."}, {"--budget", "64", "-n", "4"});
    EXPECT_EQ(later.exit_code, 0);
    EXPECT_NE(later.err.find("pinned"), std::string::npos) << later.err;
    EXPECT_NE(later.out, "") << "the conversation is as before";
}

TEST_F(Chat, BytesThatCannotHoldAChunkAreRefusedBeforeTheFirstMessage) {
    for (const std::string policy : {"snapkv:window=16", "h2o"}) {
        SCOPED_TRACE(policy);
        const auto with = [&](const std::string & budget) {
            return piped({"Hello.", "The river is long and the garden is old."},
                         {"--policy", policy, "--budget", budget, "--system-prompt", "You are brief.", "-n", "4"});
        };
        const Outcome refused = with("8K");
        expect_error(refused, 1, {"--budget 8K", "chunk", "protected", "use --budget "});
        const int enough = number_after(refused.err, "use --budget ");
        ASSERT_GT(enough, 8);
        expect_error(with(std::to_string(enough - 1) + "K"), 1, {"use --budget " + std::to_string(enough) + "K"});
        const Outcome fits = with(std::to_string(enough) + "K");
        EXPECT_EQ(fits.exit_code, 0);
        EXPECT_EQ(fits.err.find("pith: "), std::string::npos) << fits.err;
    }
    expect_error(piped({}, {"--budget", "8K"}), 1, {"--budget 8K", "chunk"});
}

TEST_F(Chat, APipeWhoseEveryMessageFailedEndsInFailure) {
    const Outcome none = piped({"\xff\xfe", "\xff"}, {"-n", "4"});
    EXPECT_EQ(none.exit_code, 1);
    EXPECT_EQ(none.error_lines(), 2U) << none.err;
    EXPECT_EQ(piped({"\xff\xfe", "Hello."}, {"-n", "4"}).exit_code, 0) << "one was answered";
    EXPECT_EQ(piped({"/help"}).exit_code, 0) << "nothing was asked";
}

// A grammar is of an answer, not of the talk.
TEST_F(Chat, AGrammarHoldsForEveryAnswer) {
    const Outcome outcome = piped({"One.", "Two.", "Three."}, {"--grammar", "root ::= \"old\""});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "old\nold\nold\n");
}

// A base model goes on with what is written, as `pith run` does with it; one line says so and what else there is.
TEST_F(Chat, AModelWithoutATemplateGoesOnWithTheText) {
    const std::string base = write_model(folder_, {}, "base.gguf");
    RunLimits limits;
    limits.standard_input = "The river is long.\nThe garden is\n";
    const std::vector<std::string> command = {"chat", "-m", base, "--temp", "0", "-t", "1", "-n", "4"};
    const Outcome told = run_pith(command, limits);
    EXPECT_EQ(told.exit_code, 0);
    EXPECT_EQ(told.error_lines(), 1U) << told.err;
    for (const char * word : {"no chat template", "--chat-template", "--raw"}) {
        EXPECT_NE(told.err.find(word), std::string::npos) << word << " in: " << told.err;
    }
    const auto with = [&command](std::vector<std::string> more) {
        more.insert(more.begin(), command.begin(), command.end());
        return more;
    };
    const Outcome raw = run_pith(with({"--raw"}), limits);
    EXPECT_EQ(raw.err, "");
    EXPECT_EQ(raw.out, told.out);
    const Outcome run = run_pith({"run", "-m", base, "--temp", "0", "-t", "1", "-n", "4", "-p", "The river is long."});
    EXPECT_EQ(raw.out.substr(0, run.out.size()), run.out) << "the first answer is that of `pith run`";
    const Outcome turns = run_pith(with({"--chat-template", "chatml"}), limits);
    EXPECT_EQ(turns.err, "");
    EXPECT_NE(turns.out, raw.out);
    // A text that was saved so goes on so.
    limits.standard_input = "The river is long.\n/save " + folder_.file("talk.pith") + "\n";
    ASSERT_EQ(run_pith(with({"--raw"}), limits).exit_code, 0);
    limits.standard_input = "/load " + folder_.file("talk.pith") + "\nThe garden is\n";
    const Outcome loaded = run_pith(with({"--raw"}), limits);
    EXPECT_EQ(run.out + loaded.out, raw.out) << loaded.err;
}

TEST_F(Chat, AShareIsOfAllThatWasSaidSoFar) {
    std::string text = "The river is long and the garden is old.";
    for (int i = 0; i < 5; ++i) { text += " " + text; }
    const Outcome told = piped({"Hi.", "/policy", text, "/policy"}, {"-n", "4", "--policy", "streaming", "--budget", "20%"});
    ASSERT_EQ(told.exit_code, 0) << told.err;
    EXPECT_EQ(told.err.find("too small"), std::string::npos) << told.err;
    std::vector<long> held;
    const std::regex line("streaming, budget 20%: (\\d+)(?:,(\\d+))? of (\\d+)(?:,(\\d+))? tokens");
    std::vector<long> of;
    for (auto it = std::sregex_iterator(told.out.begin(), told.out.end(), line); it != std::sregex_iterator(); ++it) {
        held.push_back(std::stol((*it)[1].str() + (*it)[2].str()));
        of.push_back(std::stol((*it)[3].str() + (*it)[4].str()));
    }
    ASSERT_EQ(held.size(), 2U) << told.out;
    EXPECT_EQ(held[0], of[0]) << "nothing is evicted of a few words";
    EXPECT_GT(held[1], of[1] / 5 - 1);
    EXPECT_LT(held[1], of[1] / 5 + 300) << "a step of the grid besides, at most";
}

TEST_F(Chat, EndsAtTheContextSize) {
    std::vector<std::string> more = without_end();
    more.insert(more.end(), {"-c", "100"});
    const Outcome told = piped({"Hi.", "/kept", "And who is old?", "/kept"}, more);
    EXPECT_NE(told.err.find("the conversation with this message has 1"), std::string::npos) << told.err;
    EXPECT_NE(told.err.find("--ctx-size is 100"), std::string::npos) << told.err;
    EXPECT_NE(told.out.find("of 99 tokens are held"), std::string::npos) << told.out;  // the last is said, and not read
}

TEST_F(Chat, WhatCannotWorkIsSaidInOneLine) {
    RunLimits limits;
    limits.standard_input = "/save " + folder_.file("empty.pith") + "\n";
    EXPECT_NE(run_pith(words({}), limits).err.find("there is nothing to save yet"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("empty.pith")));
    expect_error(run_pith({"chat", "-m", folder_.file("none.gguf")}), 1, {"none.gguf"});
    expect_error(run_pith(words({"--raw", "--chat-template", "chatml"})), 2, {"--raw"});
    expect_error(run_pith(words({"--policy", "snapkv"})), 2, {"--budget"});
}

}  // namespace
}  // namespace pith::testing::chat_test
