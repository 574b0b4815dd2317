// chat_template_test.cpp - a model's own Jinja is rendered, and whatever it does else costs a line.
#include "text/chat_template.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "pith/log.h"
#include "text/chat_frame.h"
#include "text/contained_work.h"
#include "text/jinja.h"
#include "text/plain_text.h"
#include "text/prompt.h"
#include "text/tiny_vocabulary.h"

namespace pith::chat_template_test {
namespace {

using testing::TempFolder;
using testing::write_tiny;

const std::vector<ChatMessage> kHello = {{"user", "Hello"}};

Result<std::string> render(const std::string & source, std::vector<ChatMessage> messages = kHello,
                           const ChatOptions & options = {}) {
    return ChatTemplate(source, "<s>", "</s>").render(messages, options);
}

// One line that holds `words`.
void expect_refused(const Result<std::string> & text, const std::string & words, ErrorCode code = ErrorCode::kUnsupported) {
    ASSERT_FALSE(text.ok()) << text->substr(0, 200);
    EXPECT_EQ(text.status().code(), code);
    const std::string & why = text.status().message();
    EXPECT_NE(why.find(words), std::string::npos) << why;
    EXPECT_TRUE(std::ranges::none_of(why, [](char c) { return static_cast<unsigned char>(c) < ' '; })) << why;
    EXPECT_LT(why.size(), 600U) << why;
}

class Jinja : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    }
};

TEST_F(Jinja, GivesTheTemplateWhatHuggingFaceGivesIt) {
    const auto text = render(
        "{{ bos_token }}{% for m in messages %}{{ m.role }}={{ m.content | trim }};{% endfor %}"
        "{{ messages | tojson }}{{ eos_token }}{% if add_generation_prompt %}A:{% endif %}",
        {{"system", "Be brief."}, {"user", " 1 < 2/3 é "}});
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text,
              "<s>system=Be brief.;user=1 < 2/3 é;[{\"role\": \"system\", \"content\": \"Be brief.\"}, "
              "{\"role\": \"user\", \"content\": \" 1 < 2/3 é \"}]</s>A:");
    EXPECT_EQ(*render("{{ strftime_now('%Y') | length }}|{% for i in range(1, 7, 2) %}{{ i }}{% endfor %}"), "4|135");
    ChatOptions options;
    options.add_assistant = false;
    EXPECT_EQ(*render("{% if add_generation_prompt %}A:{% endif %}.", kHello, options), ".");
}

TEST_F(Jinja, ShowsToolsCallsAndResultsInTheTemplatesOwnWay) {
    const std::vector<ChatMessage> chat = {
        {"user", "Rain?"},
        {"assistant", "", "It may.",
         R"([{"id": "c1", "type": "function", "function": {"name": "sky", "arguments": "{\"at\": 3}"}}])"},
        {"tool", "dry", "", "", "c1", "sky"}};
    ChatOptions options;
    options.tools = R"([{"name": "sky", "parameters": {"type": "object"}}])";
    const std::string head = "{{ tools | tojson }}{% for m in messages %}{% if m.tool_calls %}({{ m.reasoning_content }})";
    const std::string tail =
        "{% endif %}{% if m.role == 'tool' %}{{ m.tool_call_id }}{{ m.name }}{{ m.content }}{% endif %}{% endfor %}";
    const std::string call = "m.tool_calls[0].function.arguments";
    const std::string tools = R"([{"type": "function", "function": {"name": "sky", "parameters": {"type": "object"}}}])";
    // Whether the template writes JSON itself or expects it written, it is JSON once.
    for (const std::string & arguments : {"{{ " + call + " | tojson }}", "{{ " + call + " }}"}) {
        const auto text = render(head + arguments + tail, chat, options);
        ASSERT_TRUE(text.ok()) << text.status().message();
        EXPECT_EQ(*text, tools + R"((It may.){"at": 3}c1skydry)");
    }
    options.tools = "[1]";
    expect_refused(render(head + tail, chat, options), "tools", ErrorCode::kInvalidArgument);
    options.tools = "[{";
    expect_refused(render(head + tail, chat, options), "line 1", ErrorCode::kInvalidArgument);
}

TEST_F(Jinja, VariablesAndReasoningReachTheTemplate) {
    const std::string source = "{{ enable_thinking }}|{{ thinking }}|{{ effort }}";
    ChatOptions options;
    EXPECT_EQ(*render(source, kHello, options), "||");
    options.reasoning = Reasoning::kOff;
    EXPECT_EQ(*render(source, kHello, options), "False|False|");
    options.reasoning = Reasoning::kOn;
    options.variables = R"({"effort": "high", "thinking": 3})";
    EXPECT_EQ(*render(source, kHello, options), "True|3|high");
    options.variables = "[1]";
    expect_refused(render(source, kHello, options), "JSON object", ErrorCode::kInvalidArgument);
}

TEST_F(Jinja, FitsSystemPromptsAndContentsToWhatTheTemplateShows) {
    const std::vector<ChatMessage> chat = {{"system", "Be brief."}, {"user", "Hello"}};
    EXPECT_EQ(*render("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system!') }}{% endif %}"
                      "[{{ m.role }}]{{ m.content }}{% endfor %}",
                      chat),
              "[user]Be brief.\nHello");
    EXPECT_EQ(*render("{% for m in messages %}[{{ m.role }}]{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}",
                      chat),
              "[system]Be brief.[user]Hello");
}

TEST_F(Jinja, ReadsMembersOfWhatAFunctionReturns) {
    EXPECT_EQ(
        *render("{% macro said(m) %}{{ m.content }}.{% endmacro %}{% for m in messages %}"
                "{{ 'yes' if not said(m).endswith('lo') else 'no' }}{{ said(m).split('l')[0] }}{{ '(said(m).x' }}{% endfor %}"),
        "yesHe(said(m).x");
}

TEST_F(Jinja, RangesAreThoseOfPython) {
    for (const auto & [range, numbers] : {std::pair{"range(3)", "0 1 2 "},
                                          {"range(2, 5)", "2 3 4 "},
                                          {"range(5, 2)", ""},
                                          {"range(7, 0, -3)", "7 4 1 "},
                                          {"range(0, 7, 3)", "0 3 6 "},
                                          {"range(-2)", ""}}) {
        const auto text = render("{% for i in " + std::string(range) + " %}{{ i }} {% endfor %}|");
        ASSERT_TRUE(text.ok()) << range << ": " << text.status().message();
        EXPECT_EQ(*text, std::string(numbers) + "|") << range;
    }
    EXPECT_FALSE(render("{% for i in range(0, 5, 0) %}{% endfor %}").ok());
}

TEST_F(Jinja, WhatATemplateDoesCostsALineAndNothingElse) {
    const auto begin = std::chrono::steady_clock::now();
    expect_refused(render("{% for i in range(10**12) %}x{% endfor %}"), "million");
    expect_refused(render("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}"), "recursion");
    // By which limit is for the machine to say.
    for (const char * greedy :
         {"{% for i in range(1000000) %}{% for j in range(1000000) %}{% endfor %}{% endfor %}",
          "{% set ns = namespace(x='abcdefgh') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
          "{{ 'x' * 1000000000000 }}", "{{ 1 // 0 }}"}) {
        expect_refused(render(greedy), "the chat template");
    }
    expect_refused(render("{{ " + std::string(50000, '(') + " }}"), "the chat template");
    expect_refused(render("{{ nothing that anyone knows }}"), "cannot be read");
    expect_refused(render("{% if"), "cannot be read");
    expect_refused(render("{{ messages[7].content.x }}"), "cannot be read");
    expect_refused(render("{{ raise_exception('I \x1b[31m refuse\\nthis') }}"), "refuse", ErrorCode::kInvalidArgument);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    EXPECT_EQ(*render("still {{ messages[0].content }}"), "still Hello");
}

TEST_F(Jinja, ManyThreadsRenderAtOnce) {
    std::vector<std::thread> threads;
    std::vector<int> n_right(4, 0);
    for (size_t t = 0; t < n_right.size(); ++t) {
        threads.emplace_back([&n_right, t] {
            for (int i = 0; i < 20; ++i) {
                const auto text = render("{% for m in messages %}{{ m.content | upper }}{% endfor %}");
                n_right[t] += text.ok() && *text == "HELLO" ? 1 : 0;
            }
        });
    }
    for (std::thread & thread : threads) { thread.join(); }
    EXPECT_EQ(n_right, std::vector<int>(4, 20));
}

TEST(ChatTemplate, LibllamasListStandsBehindIt) {
    EXPECT_EQ(*render("chatml"), "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    std::vector<std::string> lines;
    set_log_sink([&lines](LogLevel level, std::string_view line) {
        if (level == LogLevel::kWarning) { lines.emplace_back(line); }
    });
    // Known by its pieces, and no Jinja.
    const ChatTemplate broken("{% broken %}<|im_start|>", "", "");
    for (int i = 0; i < 2; ++i) {
        const auto text = broken.render(kHello, {});
        ASSERT_TRUE(text.ok()) << text.status().message();
        EXPECT_EQ(*text, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    }
    set_log_sink({});
    ASSERT_EQ(lines.size(), 1U);  // said once
    EXPECT_EQ(lines[0], broken.problem());
    EXPECT_NE(lines[0].find("cannot be read"), std::string::npos) << lines[0];
    ChatOptions options;
    options.reasoning = Reasoning::kOff;
    EXPECT_EQ(broken.render(kHello, options).status().code(), ErrorCode::kUnsupported);  // the list has no such thing
    EXPECT_EQ(render("chatml", kHello, options).status().code(), ErrorCode::kUnsupported);
}

TEST(ChatTemplate, TakesThePlaceOfTheModelsOwn) {
    const TempFolder folder;
    auto tokenizer = Tokenizer::load(write_tiny(folder));
    ASSERT_TRUE(tokenizer.ok());
    const Status unknown = tokenizer->set_chat_template("chatlm");
    EXPECT_EQ(unknown.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(unknown.message().find("'chatml'"), std::string::npos) << unknown.message();
    ChatOptions wrong;
    wrong.tools = "{";
    EXPECT_EQ(tokenizer->set_chat_template("chatml", wrong).code(), ErrorCode::kInvalidArgument);
    EXPECT_FALSE(tokenizer->has_chat_template());  // as before
    ASSERT_TRUE(tokenizer->set_chat_template("zephyr").ok());
    EXPECT_EQ(tokenizer->chat_template(), "zephyr");
    EXPECT_EQ(*tokenizer->apply_chat_template(kHello, true), "<|user|>\nHello<|endoftext|>\n<|assistant|>\n");
    ASSERT_TRUE(tokenizer->set_chat_template("").ok());
    EXPECT_FALSE(tokenizer->has_chat_template());
}

TEST(ChatFrame, ATemplateThatRepeatsAMessageHasNoOnePlaceForIt) {
    if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    const TempFolder folder;
    const auto tokenizer =
        Tokenizer::load(write_tiny(folder, "{% for m in messages %}{{ m.content }}/{{ m.content }}{% endfor %}"));
    ASSERT_TRUE(tokenizer.ok());
    EXPECT_EQ(chat_frame(*tokenizer, false).status().code(), ErrorCode::kUnsupported);
}

TEST(PlainText, NamesOfSpecialTokensInAMessageStayText) {
    const TempFolder folder;
    const auto tokenizer = Tokenizer::load(write_tiny(folder, testing::kChatMl));
    ASSERT_TRUE(tokenizer.ok());
    const std::string sly = "say </s> and <s><s>, or <unk>";
    const auto prompt = build_prompt(*tokenizer, {sly, sly, {sly}, true});
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    std::vector<int32_t> whole = prompt->whole(0);
    ASSERT_EQ(whole.front(), tokenizer->bos());
    whole.erase(whole.begin());
    for (const int32_t token : {tokenizer->bos(), tokenizer->eos()}) { EXPECT_EQ(std::ranges::count(whole, token), 0); }
    std::string text;
    for (const int32_t token : whole) { text += tokenizer->piece(token, true); }
    size_t n_found = 0;
    for (size_t at = text.find(sly); at != std::string::npos; at = text.find(sly, at + 1)) { ++n_found; }
    EXPECT_EQ(n_found, 3U) << text;
    // Without a template the user has written all of it.
    const auto raw = build_prompt(*tokenizer, {"", "", {"a</s>"}, false});
    ASSERT_TRUE(raw.ok());
    EXPECT_EQ(raw->whole(0).back(), tokenizer->eos());
}

// Nor what stands beside the messages' words: roles, names, functions, and arguments whose JSON hides the name.
TEST(PlainText, NothingThatARequestBringsIsASpecialToken) {
    if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    const TempFolder folder;
    const auto tokenizer = Tokenizer::load(write_tiny(
        folder,
        "{{ tools | tojson }}{% for m in messages %}{{ m.role }} {{ m.name }} {{ m.tool_call_id }} {{ m.content }}"
        "{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}{% endfor %}</think> <think>"));
    ASSERT_TRUE(tokenizer.ok());
    ChatOptions options;
    options.tools = R"([{"type": "function", "function": {"name": "f", "description": "a </s> b"}}])";
    const std::vector<ChatMessage> messages = {
        {"user</s>", "hello"},
        // Behind a mark of a thought, too.
        {"assistant",
         "x </think> </s>",
         {},
         R"([{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"q\": \"\\u003c/s\\u003e \\\\u003c\"}"}}])"},
        {"tool", "r", {}, {}, "1</s>", "f</s>"}};
    const auto text = render_plain_chat(*tokenizer, messages, options);
    ASSERT_TRUE(text.ok()) << text.status().message();
    const auto tokens = encode_cut(*tokenizer, *text, false);
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ(std::ranges::count(*tokens, tokenizer->eos()), 0) << *text;
    std::string said;
    for (const int32_t token : *tokens) { said += tokenizer->piece(token, true); }
    size_t n_found = 0;
    for (size_t at = said.find("</s>"); at != std::string::npos; at = said.find("</s>", at + 1)) { ++n_found; }
    EXPECT_EQ(n_found, 6U) << said;
    EXPECT_NE(said.find("u003c"), std::string::npos) << "an escaped backslash is no escape: " << said;
}

// By the definition: a cut behind a character where what follows, that character included, begins with a name.
TEST(PlainText, IsCutInsideOfEveryName) {
    const std::vector<std::string> names = {"<|a", "<|a|>", "<|ab|>", "<|b|>", "<t>", "<tool>", "<", "</t>", "é|"};
    const PlainText plain(names);
    std::mt19937 random(3);
    for (int i = 0; i < 1000; ++i) {
        std::string text;
        while (text.size() < 60) {
            const std::string & name = names[random() % names.size()];
            text += random() % 2 == 0 ? name : random() % 2 == 0 ? "<|" : "<";
        }
        std::string wanted;
        for (size_t at = 0; at < text.size();) {
            const size_t n_bytes = text.compare(at, 2, "é") == 0 ? 2 : 1;
            const auto begins = [&](const std::string & name) {
                return name.size() > n_bytes && std::string_view(text).substr(at).starts_with(name);
            };
            wanted += text.substr(at, n_bytes);
            if (std::ranges::any_of(names, begins)) { wanted += '+'; }
            at += n_bytes;
        }
        EXPECT_EQ(plain.cut(text, "+"), wanted) << text;
    }
}

TEST(PlainText, TextsWithoutSuchNamesHaveTheTokensThatTheyHad) {
    const TempFolder folder;
    const auto tokenizer = Tokenizer::load(write_tiny(folder));
    ASSERT_TRUE(tokenizer.ok());
    for (const std::string text : {"", "The sky < the sea > 3", " <s", "</ s>", "é 日本"}) {
        const auto cut = as_plain_text(*tokenizer, text);
        ASSERT_TRUE(cut.ok());
        EXPECT_EQ(*cut, text);
        EXPECT_EQ(*encode_cut(*tokenizer, *cut, true), *tokenizer->encode(text, true, true));
    }
    EXPECT_EQ(as_plain_text(*tokenizer, "a\xFF").status().code(), ErrorCode::kInvalidArgument);
}

TEST(ContainedWork, KeepsItsLimits) {
    ContainedLimits limits;
    limits.cpu_seconds = 1;
    limits.wall_seconds = 60;  // a busy machine gives it that second late
    limits.output_bytes = 1000;
    EXPECT_EQ(*run_contained([] { return std::string(1000, 'x'); }, limits), std::string(1000, 'x'));
    expect_refused(run_contained([] { return std::string(1001, 'x'); }, limits), "wrote more than");
    expect_refused(run_contained(
                       []() -> std::string {
                           for (volatile bool on = true; on;) {}
                           return {};
                       },
                       limits),
                   "more than 1 s of processor time");
    limits.wall_seconds = 2;
    expect_refused(run_contained(
                       []() -> std::string {
                           std::this_thread::sleep_for(std::chrono::seconds(30));
                           return {};
                       },
                       limits),
                   "longer than 2 s");
    expect_refused(run_contained([]() -> std::string { throw std::runtime_error("said so"); }, limits), "said so");
    expect_refused(run_contained([]() -> std::string { std::abort(); }, limits), "gave up");
    expect_refused(run_contained([]() -> std::string { throw std::bad_alloc(); }, limits), "256 MiB");
}

// A server's port, for one, which would stay taken.
TEST(ContainedWork, HoldsNoFileOfItsParentOpen) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    const auto text = run_contained(
        [&] { return std::string(fcntl(ends[0], F_GETFD) < 0 && fcntl(ends[1], F_GETFD) < 0 ? "closed" : "open"); }, {});
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, "closed");
    close(ends[0]);
    close(ends[1]);
}

// Such a process holds the end that is written to open.
TEST(ContainedWork, IsDoneWhenItsTextIsThereWhateverOtherProcessesHold) {
    ContainedLimits limits;
    limits.wall_seconds = 2;
    const auto text = run_contained(
        [] {
            if (fork() == 0) {
                std::this_thread::sleep_for(std::chrono::seconds(4));
                _exit(0);
            }
            return std::string(200000, 'x');
        },
        limits);
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, std::string(200000, 'x'));
}

// What leaves no text is told by the pipe's end alone, which processes of other threads must not hold.
TEST(ContainedWork, OfOtherThreadsDoesNotHoldItUp) {
    ContainedLimits quick;
    quick.wall_seconds = 2;
    std::vector<std::thread> others;
    for (int i = 0; i < 8; ++i) {
        others.emplace_back([i] {
            std::this_thread::sleep_for(std::chrono::milliseconds(40 * i));
            const auto text = run_contained(
                [] {
                    std::this_thread::sleep_for(std::chrono::seconds(4));
                    return std::string("awake");
                },
                {});
            EXPECT_EQ(text.ok() ? *text : text.status().message(), "awake");
        });
    }
    for (int i = 0; i < 300; ++i) {
        expect_refused(run_contained([]() -> std::string { std::abort(); }, quick), "gave up");
    }
    for (std::thread & one : others) { one.join(); }
}

}  // namespace
}  // namespace pith::chat_template_test
