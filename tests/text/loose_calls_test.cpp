// loose_calls_test.cpp - what models really write where functions are given: a table for each family of templates. Each output
// is told whole, cut at every byte, and byte by byte; the parts are the same, and nothing of a call is ever said.
#include "text/loose_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/tool_call_splitter.h"

namespace pith::loose_calls_test {
namespace {

using Json = nlohmann::ordered_json;

struct Call {
    std::string name;
    Json arguments;
    bool operator==(const Call &) const = default;
};
void PrintTo(const Call & call, std::ostream * out) {
    *out << call.name << call.arguments.dump();
}

const std::vector<Call> kNone;
const Call kLisbon = {"get_weather", {{"city", "Lisbon"}}};
const Call kOslo = {"get_weather", {{"city", "Oslo"}}};
const Call kTime = {"get_time", Json::object()};

struct Output {
    std::string text;
    std::string content;
    std::vector<Call> calls;
};

// What an answer is told to be, in pieces.
class Told {
public:
    explicit Told(ToolForm form, bool only_one = false)
        : splitter_(form, {"get_weather", "get_time", "write_file"}, only_one, {{"get_weather", {{"city", false}}}}) {}

    void add(std::string_view text) { take(splitter_.add(text)); }
    void finish() { take(splitter_.finish()); }
    const std::string & content() const { return content_; }
    const std::vector<std::pair<std::string, std::string>> & written() const { return calls_; }
    std::vector<Call> calls() const {
        std::vector<Call> calls;
        for (const auto & [name, arguments] : calls_) { calls.push_back({name, Json::parse(arguments, nullptr, false)}); }
        return calls;
    }

private:
    void take(const ToolCallSplitter::Pieces & more) {
        content_ += more.content;
        for (const ToolCallPiece & piece : more.calls) {
            if (!piece.name.empty()) { calls_.emplace_back(piece.name, ""); }
            ASSERT_EQ(piece.index, static_cast<int>(calls_.size()) - 1);
            calls_.back().second += piece.arguments;
        }
    }

    ToolCallSplitter splitter_;
    std::string content_;
    std::vector<std::pair<std::string, std::string>> calls_;
};

void expect_told(ToolForm form, const Output & output, bool only_one = false) {
    const std::string_view text = output.text;
    const auto check = [&](const Told & told, const std::string & how) {
        EXPECT_EQ(told.content(), output.content) << how << " of " << text;
        EXPECT_EQ(told.calls(), output.calls) << how << " of " << text;
    };
    for (size_t cut = 0; cut <= text.size(); ++cut) {
        Told told(form, only_one);
        told.add(text.substr(0, cut));
        EXPECT_TRUE(output.content.starts_with(told.content()))
            << told.content() << " is said after " << cut << " bytes of " << text;
        told.add(text.substr(cut));
        told.finish();
        check(told, "cut at " + std::to_string(cut));
    }
    Told told(form, only_one);
    for (const char c : text) {
        told.add({&c, 1});
        EXPECT_TRUE(output.content.starts_with(told.content())) << told.content() << " is said too early in " << text;
    }
    told.finish();
    check(told, "byte by byte");
}

void expect_told_in_every_form(const Output & output) {
    for (const ToolForm form : {ToolForm::kTagged, ToolForm::kList, ToolForm::kNamed, ToolForm::kBare, ToolForm::kHarmony,
                                ToolForm::kPairs, ToolForm::kParameters, ToolForm::kFenced}) {
        SCOPED_TRACE("form " + std::to_string(static_cast<int>(form)));
        expect_told(form, output);
    }
}

// The same, and no more than n_held bytes are ever held back.
void expect_said_at_once(const std::string & text, size_t n_held) {
    expect_told_in_every_form({text, text, kNone});
    for (const ToolForm form : {ToolForm::kTagged, ToolForm::kBare, ToolForm::kFenced}) {
        Told told(form);
        for (size_t n = 1; n <= text.size(); ++n) {
            told.add(std::string_view(text).substr(n - 1, 1));
            EXPECT_LE(n - told.content().size(), n_held) << "behind " << text.substr(0, n);
        }
    }
}

const std::string kCall = R"({"name": "get_weather", "arguments": {"city": "Lisbon"}})";
const std::string kNext = R"({"name": "get_weather", "arguments": {"city": "Oslo"}})";

// Qwen2.5-Coder-1.5B-Instruct, as it answered at temperature 0, and its family in public bug reports.
TEST(LooseCalls, OfQwenAreFencedDoubledOrInOtherTags) {
    const std::vector<Output> outputs = {
        {"```json\n{\n  \"name\": \"get_weather\",\n  \"arguments\": {\n    \"city\": \"Lisbon\"\n  }\n}\n```", "", {kLisbon}},
        {"```json\n{\n  \"name\": \"get_weather\",\n  \"arguments\": {\n    \"city\": \"Lisbon\"\n  }\n}\n{\n  \"name\": "
         "\"get_weather\",\n  \"arguments\": {\n    \"city\": \"Oslo\"\n  }\n}\n```",
         "",
         {kLisbon, kOslo}},
        {"To determine the weather in Lisbon, I will call the `get_weather` function. Here's how I would structure the "
         "request:\n\n"
         "```json\n{\n  \"name\": \"get_weather\",\n  \"arguments\": {\n    \"city\": \"Lisbon\"\n  }\n}\n```\n\nThis request "
         "will instruct the tool to fetch the current weather data.",
         "To determine the weather in Lisbon, I will call the `get_weather` function. Here's how I would structure the request:"
         "\n\nThis request will instruct the tool to fetch the current weather data.",
         {kLisbon}},
        {R"({{"name": "get_weather", "arguments": {"city": "Lisbon"}}})", "", {kLisbon}},
        {R"({{"name": "get_weather", "arguments": {"city": "Lisbon"}})", "", {kLisbon}},
        {"<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Lisbon\"}}}\n</tool_call>", "", {kLisbon}},
        {"<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"Lisbon\"}}}}\n</tool_call>", "", {kLisbon}},
        {"<tool_call>\n" + kCall + "\n</tool_call>\n<tool_call>\n" + kNext + "\n</tool_call>", "", {kLisbon, kOslo}},
        {"<tool_call>\n" + kCall, "", {kLisbon}},
        {"<tools>\n" + kCall + "\n</tools>", "", {kLisbon}},
        {"<tools>\n[" + kCall + ", " + kNext + "]\n</tools>", "", {kLisbon, kOslo}},
        {"```xml\n<tool_call>\n" + kCall + "\n</tool_call>\n```", "", {kLisbon}},
        {"```xml\n<tools>\n" + kCall + "\n</tools>\n```", "", {kLisbon}},
        {"<xml><json>" + kCall + "</json></xml>", "", {kLisbon}},
        {"<response>" + kCall + "</response>", "", {kLisbon}},
        {"<function_call>\n" + kCall + "\n</function_call>", "", {kLisbon}},
        {"I look it up.\n```json\n" + kCall + "\n```", "I look it up.", {kLisbon}},
        {"I look it up:\n\n" + kCall + "\n", "I look it up:", {kLisbon}},
        {"```json\n" + kCall + "\n```\n```json\n" + kNext + "\n```", "", {kLisbon, kOslo}},
        {"```json\n" + kCall + "\n" + kNext + "\n```", "", {kLisbon, kOslo}},
        {"```json\n[\n  " + kCall + ",\n  " + kNext + "\n]\n```", "", {kLisbon, kOslo}},
        {kCall + "</tool_call>", "", {kLisbon}},
        {"<tool_call>\n" + kCall + "\n<tool_call>", "", {kLisbon}},
        {"```json\n" + kCall + "\n```\n\nIt is sunny.", "\n\nIt is sunny.", {kLisbon}},
        {"```json\n" + kCall + "\n", "", {kLisbon}},
    };
    for (const Output & output : outputs) { expect_told(ToolForm::kTagged, output); }
}

TEST(LooseCalls, AreFoundInEveryFamily) {
    const std::vector<Output> outputs = {
        {kCall, "", {kLisbon}},
        {"```json\n" + kCall + "\n```", "", {kLisbon}},
        {"```\n" + kCall + "\n```", "", {kLisbon}},
        {"```tool_code\n" + kCall + "\n```", "", {kLisbon}},
        {"   ```json\n   " + kCall + "\n   ```\n", "", {kLisbon}},
        {"Here: ```json\n" + kCall + "```", "Here:", {kLisbon}},
        {"```json " + kCall + " ```", "", {kLisbon}},
        {"Sure.\n\n<tool_call>" + kCall + "</tool_call>\n", "Sure.", {kLisbon}},
        {R"([{"name": "get_weather", "arguments": {"city": "Lisbon"}}, {"name": "get_time", "arguments": {}}])",
         "",
         {kLisbon, kTime}},
        {kCall + "\n" + kNext, "", {kLisbon, kOslo}},
        {kCall + ", " + kNext, "", {kLisbon, kOslo}},
        {R"({"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Lisbon"}}})", "", {kLisbon}},
        {R"([{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Lisbon\"}"}}])",
         "",
         {kLisbon}},
        {R"({"function": "get_weather", "arguments": {"city": "Lisbon"}})", "", {kLisbon}},
        {R"({"type": "function", "name": "get_weather", "parameters": {"city": "Lisbon"}})", "", {kLisbon}},
        {R"({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Lisbon"}})", "", {kLisbon}},
        {R"({"tool": "get_weather", "args": {"city": "Lisbon"}})", "", {kLisbon}},
        {R"({"arguments": {"city": "Lisbon"}, "name": "get_weather"})", "", {kLisbon}},
        {R"({"name": "get_time", "arguments": null})", "", {kTime}},
        {R"({"name": "get_time", "arguments": ""})", "", {kTime}},
        // A brace that was forgotten, and one too many.
        {R"({"name": "get_weather", "arguments": {"city": "Lisbon"})", "", {kLisbon}},
        {"```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Lisbon\"}\n```", "", {kLisbon}},
        {R"({"name": "get_weather", "arguments": {"city": "Lisbon"}}})", "", {kLisbon}},
        // Braces, quotation marks and tags inside of values; line breaks that JSON would escape.
        {R"({"name": "write_file", "arguments": {"path": "a}\"{", "content": "</tool_call> ``` {"}})",
         "",
         {{"write_file", {{"path", "a}\"{"}, {"content", "</tool_call> ``` {"}}}}},
        {"{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"if x:\n\ty\n\"}}",
         "",
         {{"write_file", {{"path", "a"}, {"content", "if x:\n\ty\n"}}}}},
        // A list of which the second function is not there.
        {R"([{"name": "get_weather", "arguments": {"city": "Lisbon"}}, {"name": "rain", "arguments": {}}])",
         R"(, {"name": "rain", "arguments": {}}])",
         {kLisbon}},
        {"```json\n" + kCall + "\n```\n```python\nprint(1)\n```", "\n```python\nprint(1)\n```", {kLisbon}},
    };
    for (const Output & output : outputs) { expect_told_in_every_form(output); }
}

// Llama 3's small models, by public bug reports.
TEST(LooseCalls, OfLlamaAreFencedOrInTags) {
    const std::vector<Output> outputs = {
        {"```json\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Lisbon\"}}\n```", "", {kLisbon}},
        {R"(<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"city": "Lisbon"}})", "", {kLisbon}},
        {R"(<function=get_weather>{"city": "Lisbon"}</function>)", "", {kLisbon}},
        {R"({"name": "get_weather", "parameters": {"city": "Lisbon"}}; {"name": "get_time", "parameters": {}})",
         "",
         {kLisbon, kTime}},
        {"I call it.\n\n"
         R"({"name": "get_weather", "parameters": {"city": "Lisbon"}})",
         "I call it.",
         {kLisbon}},
    };
    for (const Output & output : outputs) { expect_told(ToolForm::kBare, output); }
}

// Mistral without its mark, Granite's list between tags, Phi's mark.
TEST(LooseCalls, OfOtherFamiliesLackTheirMarksOrHaveTheMarksOfOthers) {
    expect_told(ToolForm::kList, {"[" + kCall + "]", "", {kLisbon}});
    expect_told(ToolForm::kNamed, {"[TOOL_CALLS]" + kCall, "", {kLisbon}});
    expect_told(ToolForm::kFenced, {"[TOOL_CALLS] [" + kCall + "]", "", {kLisbon}});
    expect_told(ToolForm::kTagged, {"<tool_call>[" + kCall + ", " + kNext + "]</tool_call>", "", {kLisbon, kOslo}});
    expect_told(ToolForm::kFenced, {"<|tool_call|>[" + kCall + "]<|/tool_call|>", "", {kLisbon}});
    expect_told(ToolForm::kTagged,
                {R"(<tool_call>{"type": "function", "function": {"name": "get_time"}}</tool_call>)", "", {kTime}});
    expect_told(ToolForm::kHarmony, {"```json\n" + kCall + "\n```", "", {kLisbon}});
    expect_told(ToolForm::kPairs, {"<tool_call>" + kCall + "</tool_call>", "", {kLisbon}});
}

// Qwen3-Coder forgets <tool_call>, most of all behind words, and keeps </tool_call>.
TEST(LooseCalls, OfQwen3CoderLackTheTagInFront) {
    const std::string call = "<function=get_weather>\n<parameter=city>\nLisbon\n</parameter>\n</function>";
    expect_told(ToolForm::kParameters, {"I look.\n\n" + call + "\n</tool_call>", "I look.", {kLisbon}});
    expect_told(ToolForm::kParameters, {call, "", {kLisbon}});
    expect_told(ToolForm::kParameters, {"<tool_call>\n" + kCall + "\n</tool_call>", "", {kLisbon}});
    const std::string other = "<function=rain>\n<parameter=city>\nLisbon\n</parameter>\n</function>";
    expect_told(ToolForm::kParameters, {other, other, kNone});
    const std::string prose = "`<function=get_weather>` begins a call, and <function=get_weather> too.";
    expect_told(ToolForm::kParameters, {prose, prose, kNone});
    const std::string example = "An example:\n\n```text\nHe writes\n" + call + "\n```\n";
    expect_told(ToolForm::kParameters, {example, example, kNone});
}

TEST(LooseCalls, OfUnknownFunctionsAreSaid) {
    for (const std::string & text : std::vector<std::string>{
             R"({"name": "rain", "arguments": {"city": "Lisbon"}})",
             "```json\n{\"name\": \"rain\", \"arguments\": {\"city\": \"Lisbon\"}}\n```",
             "<tool_call>\n{\"name\": \"rain\", \"arguments\": {\"city\": \"Lisbon\"}}\n</tool_call>",
             "[TOOL_CALLS] [{\"name\": \"rain\", \"arguments\": {\"city\": \"Lisbon\"}}]",
             "[TOOL_CALLS]rain[ARGS]{\"city\": \"Lisbon\"}",
             "<|channel|>commentary to=functions.rain <|constrain|>json<|message|>{\"city\": \"Lisbon\"}",
             "<tool_call>rain\n<arg_key>city</arg_key>\n<arg_value>Lisbon</arg_value>\n</tool_call>",
             "<tool_call>\n<function=rain>\n<parameter=city>\nLisbon\n</parameter>\n</function>\n</tool_call>",
             "{{\"name\": \"rain\", \"arguments\": {\"city\": \"Lisbon\"}}}",
         }) {
        expect_told_in_every_form({text, text, kNone});
    }
}

TEST(LooseCalls, AreNotWhatOnlyLooksLikeThem) {
    for (
        const std::string & text : std::vector<std::string>{
            // What Qwen2.5-Coder answered, with the same functions at hand.
            "```json\n{\n  \"name\": \"John Doe\",\n  \"age\": 30\n}\n```",
            "```python\ndef reverse_string(s):\n    return s[::-1]\n```",
            // A name by itself, what describes the function, arguments that are none.
            R"({"name": "get_time"})",
            R"({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {}}}}})",
            R"({"name": "get_weather", "description": "The weather", "parameters": {"city": "Lisbon"}})",
            R"({"name": "get_weather", "arguments": "Lisbon"})",
            R"({"name": "get_weather", "arguments": ["Lisbon"]})",
            // In a sentence, in a block of code, in JSON that is something else.
            "It is " + kCall,
            "Write `" + kCall + "` to call it.",
            "```python\nimport json\n" + kCall + "\n```",
            "```json\n{\"calls\": [\n" + kCall + "\n]}\n```",
            "{\"calls\": [\n" + kCall + "\n]}",
            "[1, 2]\n[\"a\"]",
            "{}",
            "[]",
            "[]\n{}",
            "```\n```",
            "```",
            "`",
            "<tool_call>",
            "<tool_call></tool_call>",
            "<tools> and <tool_calls>",
            "{{",
            "```json\n",
            "1 < 2, a <b> c, x[1], {y}: [link](there) and a `word`, ``two`` and ```three```.\n",
            "Blanks \n\n stay. \n",
            "\n\n```c++\nint a[] = {1};\n```\n\n- [ ] {a}\n",
        }) {
        expect_told_in_every_form({text, text, kNone});
    }
}

// A call in the template's own form is told while it comes, broken or not; in another it has to be whole.
TEST(LooseCalls, AreNotBroken) {
    for (const std::string & text : std::vector<std::string>{
             R"({"name": "get_weather", "arguments": {"city": Lisbon}})",
             R"({"name": "get_weather", "arguments": {'city': 'Lisbon'}})",
             R"({"name": "get_weather", "arguments": {"city": "Lis)",
             "```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Lisbon\"",
         }) {
        for (const ToolForm form : {ToolForm::kTagged, ToolForm::kList, ToolForm::kFenced, ToolForm::kHarmony}) {
            expect_told(form, {text, text, kNone});
        }
    }
}

// Only as long as they may still be calls.
TEST(LooseCalls, HoldOrdinaryAnswersBackForAFewBytes) {
    expect_said_at_once("It takes a few steps: first, x < y; then a[0] = {1, 2}. That is <b>all</b>.\nAnd more.", 12);
    expect_said_at_once("```python\ndef reverse_string(s):\n    return s[::-1]\n```\nIt reverses it.", 18);
    expect_said_at_once("```json\n{\n  \"title\": \"A list of ten\",\n  \"entries\": [1, 2, 3]\n}\n```", 22);
    expect_said_at_once("{\"city\": \"Lisbon\", \"name\": \"get_weather\", \"arguments\": {\"a\": 1}}", 8);
    expect_said_at_once("{\"name\": \"John Doe\", \"age\": 30}", 20);
    expect_said_at_once("[\n  {\"id\": 1, \"title\": \"a\"},\n  {\"id\": 2, \"title\": \"b\"}\n]", 24);
}

TEST(LooseCalls, EndTheAnswerWhereOnlyOneMayBe) {
    expect_told(ToolForm::kTagged, {"So:\n```json\n" + kCall + "\n```\n" + kNext + " and more", "So:", {kLisbon}},
                /*only_one=*/true);
    ToolCallSplitter splitter(ToolForm::kTagged, {"get_weather"}, /*only_one=*/true);
    splitter.add("```json\n" + kCall);
    EXPECT_TRUE(splitter.is_over());
}

TEST(LooseCalls, StandAmongCallsInTheTemplatesForm) {
    expect_told(ToolForm::kTagged,
                {"<tool_call>" + kCall + "</tool_call>\n```json\n" + kNext + "\n```\n<tool_call>" + kCall + "</tool_call>",
                 "",
                 {kLisbon, kOslo, kLisbon}});
    expect_told(ToolForm::kTagged,
                {"```json\n" + kCall + "\n```\n<tool_call>" + kNext + "</tool_call>\nThere.", "\nThere.", {kLisbon, kOslo}});
    expect_told(ToolForm::kTagged, {R"({"name": "get_weather", "arguments": {"city": "Lisbon"})"
                                    "\n<tool_call>" +
                                        kNext + "</tool_call>",
                                    "",
                                    {kLisbon, kOslo}});
}

TEST(LooseCalls, DoNotDependOnHowAnyTextIsCut) {
    const std::vector<std::string> parts = {"```",
                                            "```json\n",
                                            "\n```\n",
                                            "`",
                                            "<tool_call>",
                                            "</tool_call>",
                                            "<tools>",
                                            "<",
                                            "[",
                                            "]",
                                            "{",
                                            "}",
                                            "{{",
                                            ",",
                                            ";",
                                            " ",
                                            "\n",
                                            "\n\n",
                                            "words",
                                            kCall,
                                            kNext,
                                            "{" + kCall + "}",
                                            R"({"name": "rain", "arguments": {}})",
                                            R"({"name": "get_time", "arguments": {})",
                                            R"({"name": "get_weather", "arguments": )",
                                            "<function=get_weather>",
                                            "<parameter=city>",
                                            "Lisbon</parameter>",
                                            "</function>",
                                            "[TOOL_CALLS]",
                                            "get_time[ARGS]{}",
                                            "<|python_tag|>",
                                            "<|channel|>commentary to=functions.get_time<|message|>{}",
                                            "\"",
                                            "\\"};
    std::mt19937 random(47);
    for (int i = 0; i < 4000; ++i) {
        const auto form = static_cast<ToolForm>(random() % 8);
        std::string text;
        for (size_t n = 1 + random() % 9; n > 0; --n) { text += parts[random() % parts.size()]; }
        Told whole(form);
        whole.add(text);
        whole.finish();
        Told cut(form);
        for (size_t at = 0; at < text.size();) {
            const size_t n = 1 + random() % 7;
            cut.add(std::string_view(text).substr(at, n));
            at += n;
        }
        cut.finish();
        ASSERT_EQ(cut.content(), whole.content()) << "form " << static_cast<int>(form) << ": " << text;
        ASSERT_EQ(cut.written(), whole.written()) << "form " << static_cast<int>(form) << ": " << text;
    }
}

TEST(LooseCalls, TakeTimeInProportionToTheText) {
    const auto said = [](const std::string & text) {
        Told told(ToolForm::kTagged);
        told.add(text);
        told.finish();
        return told.content().size();
    };
    std::string tags;
    for (int i = 0; i < 20000; ++i) { tags += "<tool_call>"; }
    const std::string open = R"({"name": "get_weather", "arguments": {"city": ")" + tags;
    EXPECT_EQ(said(open), open.size());
    const std::string braces(200000, '{');
    EXPECT_EQ(said(braces), braces.size());
    EXPECT_EQ(said(tags), tags.size());
    std::string ticks;
    for (int i = 0; i < 20000; ++i) { ticks += "```json\n"; }
    EXPECT_EQ(said(ticks), ticks.size());
}

}  // namespace
}  // namespace pith::loose_calls_test
