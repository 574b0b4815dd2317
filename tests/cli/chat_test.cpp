// chat_test.cpp - `pith chat` at a pseudo-terminal, as a user types, and through a pipe.
#include <poll.h>
#include <pty.h>
#include <termios.h>

#include <chrono>
#include <regex>
#include <thread>

#include "cli/run_process.h"
#include "pith/text.h"
#include "text/tiny_vocabulary.h"

namespace pith::testing {
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
    void wait_for_prompt() {
        wait_for(kPrompt);
        const auto end = Clock::now() + std::chrono::seconds(60);
        termios mode{};
        do {
            ASSERT_EQ(tcgetattr(fd_, &mode), 0);
            if ((mode.c_lflag & ICANON) == 0) { return; }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        } while (Clock::now() < end);
        FAIL() << "the prompt came, but the terminal still edits lines itself";
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

TEST_F(Chat, TwoHundredTurnsStayInsideTheBudget) {
    std::vector<std::string> lines;
    for (int turn = 0; turn < 200; ++turn) {
        lines.push_back("Turn " + std::to_string(turn) + " of a long talk about rivers and gardens.");
        if (turn == 49 || turn == 199) { lines.emplace_back("/stats"); }
    }
    const Outcome outcome = piped(lines, {"-n", "8", "--policy", "snapkv:window=16", "--budget", "256", "--system-prompt",
                                          "You are brief.", "--evict-every", "32", "--chunk", "64"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    std::vector<std::string> kept;  // "KV       96.0 KiB instead of …": what is held stays the same
    const std::regex line("KV +[^\n]* instead");
    for (std::sregex_iterator at(outcome.out.begin(), outcome.out.end(), line), end; at != end; ++at) {
        kept.push_back(at->str());
    }
    ASSERT_EQ(kept.size(), 2U) << outcome.out.substr(outcome.out.size() - 600);
    EXPECT_EQ(kept[0], kept[1]);
    std::vector<double> resident;
    const std::regex rss("([0-9.]+) MiB resident");
    for (std::sregex_iterator at(outcome.out.begin(), outcome.out.end(), rss), end; at != end; ++at) {
        resident.push_back(std::stod((*at)[1].str()));
    }
    ASSERT_EQ(resident.size(), 2U) << outcome.out.substr(outcome.out.size() - 600);
    EXPECT_LT(resident[1], resident[0] * 1.1) << "memory is flat";
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

TEST_F(Chat, WhatCannotWorkIsSaidInOneLine) {
    expect_error(run_pith({"chat", "-m", folder_.file("none.gguf")}), 1, {"none.gguf"});
    const std::string plain = write_model(folder_, {}, "plain.gguf");
    expect_error(run_pith({"chat", "-m", plain}), 1, {"no chat template"});
    expect_error(run_pith(words({"--policy", "snapkv"})), 2, {"--budget"});
}

}  // namespace
}  // namespace pith::testing
