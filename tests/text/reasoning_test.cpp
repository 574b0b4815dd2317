// reasoning_test.cpp - thoughts are told from what is said, however the text arrives.
#include "text/reasoning.h"

#include <gtest/gtest.h>

#include "pith/chat.h"

namespace pith::reasoning_test {
namespace {

using Pieces = ReasoningSplitter::Pieces;

// In parts of n bytes each.
Pieces split_in(const ReasoningMarks & marks, const std::string & text, size_t n) {
    ReasoningSplitter splitter(marks);
    Pieces all;
    const auto add = [&all](const Pieces & more) {
        all.reasoning += more.reasoning;
        all.answer += more.answer;
    };
    for (size_t at = 0; at < text.size(); at += n) { add(splitter.add(std::string_view(text).substr(at, n))); }
    add(splitter.finish());
    return all;
}

void expect_split(const ReasoningMarks & marks, const std::string & text, const std::string & reasoning,
                  const std::string & answer) {
    for (const size_t n : {1U, 2U, 3U, 7U, 1000U}) {
        const Pieces pieces = split_in(marks, text, n);
        EXPECT_EQ(pieces.reasoning, reasoning) << n << " bytes of " << text;
        EXPECT_EQ(pieces.answer, answer) << n << " bytes of " << text;
    }
}

TEST(Reasoning, IsWhatStandsBetweenTheTemplatesMarks) {
    const ReasoningMarks marks = reasoning_marks("{{ '<think>' }}{{ '</think>' }}", "<|im_start|>assistant\n");
    EXPECT_FALSE(marks.begins_open);
    expect_split(marks, "<think>\nIt may.\n</think>\n\nYes.", "It may.\n", "Yes.");
    expect_split(marks, "\n<think>It may.</think>Yes, <b>.", "It may.", "Yes, <b>.");
    expect_split(marks, " Yes.\n", "", " Yes.\n");
    expect_split(marks, "Say <think>so</think>!", "", "Say <think>so</think>!");  // an answer may speak of marks
    expect_split(marks, "<think>It m", "It m", "");                               // cut short
    expect_split(marks, "<thin", "", "<thin");
}

TEST(Reasoning, BeginsWithTheAnswerWhereThePromptOpensIt) {
    const std::string source = "{{ '<think>\\n' }}{{ content.split('</think>')[-1] }}";
    const ReasoningMarks open = reasoning_marks(source, "<|Assistant|><think>\n");
    EXPECT_TRUE(open.begins_open);
    expect_split(open, "\nIt may.</think>\n\nYes.", "It may.", "Yes.");
    EXPECT_FALSE(reasoning_marks(source, "<|Assistant|><think>\n\n</think>\n\n").begins_open);
}

TEST(Reasoning, IsGoneOnWithWhereTheAnswersBeginningOpensIt) {
    const ReasoningMarks marks = reasoning_marks("{{ '<think>' }}{{ '</think>' }}", "");
    EXPECT_TRUE(marks.is_open_behind("<think>It m"));
    EXPECT_FALSE(marks.is_open_behind("<think>It may.</think>Yes"));
    EXPECT_FALSE(marks.is_open_behind("Yes"));
    EXPECT_TRUE(marks.is_in("so</think>"));
    EXPECT_FALSE(marks.is_in("Yes"));
    EXPECT_FALSE(ReasoningMarks().is_in("<think>"));
    EXPECT_EQ(marks.answer, "");
    EXPECT_EQ(reasoning_marks("<|channel|>analysis<|message|>", "").answer, "<|channel|>final<|message|>");
}

TEST(Reasoning, KnowsChannels) {
    const ReasoningMarks marks = reasoning_marks("<|start|>assistant<|channel|>analysis<|message|>", "<|start|>assistant");
    expect_split(marks, "<|channel|>analysis<|message|>It may.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
                 "It may.", "Yes.");
    expect_split(marks, "<|channel|>final<|message|>Yes.", "", "Yes.");
    EXPECT_TRUE(ReasoningSplitter(marks).is_part_of_mark("<|channel|>"));
    EXPECT_FALSE(ReasoningSplitter(marks).is_part_of_mark("<|call|>"));
}

TEST(Reasoning, ATemplateWithoutMarksHasNone) {
    const ReasoningMarks none = reasoning_marks("{{ '<think>' }}", "");  // which it never closes
    EXPECT_FALSE(none.any());
    expect_split(none, "<think>It may.</think> Yes.", "", "<think>It may.</think> Yes.");
}

TEST(ChatJson, HasWhatOpenAiCallsMessages) {
    const auto messages = chat_messages_of_json(
        R"([{"role": "user", "content": [{"type": "text", "text": "Ra"}, {"type": "text", "text": "in?"}]},
        {"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [{"id": "c"}]},
        {"role": "tool", "content": "dry", "tool_call_id": "c", "name": "sky"}])");
    ASSERT_TRUE(messages.ok()) << messages.status().message();
    ASSERT_EQ(messages->size(), 3U);
    EXPECT_EQ((*messages)[0].content, "Rain?");
    EXPECT_EQ((*messages)[1].content + (*messages)[1].reasoning + (*messages)[1].tool_calls, R"(Hm.[{"id":"c"}])");
    EXPECT_EQ((*messages)[2].tool_call_id + (*messages)[2].name, "csky");
}

TEST(ChatJson, SaysWhichMessageIsWrong) {
    for (const auto & [json, words] : std::vector<std::pair<std::string, std::string>>{
             {"[", "line 1"},
             {"{}", "array"},
             {"[{\"role\": \"user\"}, 3]", "message 2"},
             {"[{\"content\": \"x\"}]", "\"role\""},
             {"[{\"role\": \"user\", \"content\": 3}]", "\"content\""},
             {"[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]", "text"},
             {"[{\"role\": \"assistant\", \"tool_calls\": 3}]", "tool_calls"}}) {
        const auto messages = chat_messages_of_json(json);
        ASSERT_FALSE(messages.ok()) << json;
        EXPECT_EQ(messages.status().code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(messages.status().message().find(words), std::string::npos) << messages.status().message();
    }
}

Pieces told_in_pieces(ReasoningSplitter & splitter, const std::string & text, size_t n) {
    Pieces all;
    for (size_t at = 0; at < text.size(); at += n) {
        const Pieces more = splitter.add(std::string_view(text).substr(at, n));
        all.reasoning += more.reasoning;
        all.answer += more.answer;
    }
    all.answer += splitter.finish().answer;
    return all;
}

TEST(Reasoning, IsClosedByATokenWhereThereIsOne) {
    const ReasoningMarks marks = reasoning_marks("{{ '<think>' }}{{ '</think>' }}", "<think>\n");
    const std::string text = "so </think> is a mark.</think>Yes.</think>";
    for (const size_t n : {1U, 2U, 3U, 7U, 1000U}) {
        ReasoningSplitter splitter(marks, {.close = true, .silent = false});
        splitter.note_token(text.find("</think>Yes"));
        const Pieces all = told_in_pieces(splitter, text, n);
        EXPECT_EQ(all.reasoning, "so </think> is a mark.") << n;
        EXPECT_EQ(all.answer, "Yes.</think>") << n;
    }
}

// An answer that speaks of gpt-oss's frame keeps its words.
TEST(Reasoning, MarksAroundAnswersAreTokensWhereThereAreSome) {
    const ReasoningMarks marks = reasoning_marks("<|channel|>analysis<|message|>", "");
    const std::string said = "It ends with <|end|>, then <|start|>assistant.";
    const std::string text = marks.open + "hm" + marks.close + "<|start|>assistant" + marks.answer + said;
    for (const size_t n : {1U, 5U, 1000U}) {
        ReasoningSplitter splitter(marks, {.close = true, .silent = true});
        for (const std::string & mark : {marks.close + "<|start|>", std::string("<|start|>assistant<|"), marks.answer}) {
            splitter.note_token(text.find(mark));
        }
        const Pieces all = told_in_pieces(splitter, text, n);
        EXPECT_EQ(all.reasoning, "hm") << n;
        EXPECT_EQ(all.answer, said) << n;
    }
}

}  // namespace
}  // namespace pith::reasoning_test
