// tool_calls_test.cpp - calls are told from what is said, in every form and however the text arrives.
#include "text/tool_call_splitter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/chat_template.h"
#include "text/jinja.h"
#include "text/tagged_call.h"
#include "text/tool_grammar.h"

namespace pith::tool_calls_test {
namespace {

struct Call {
    std::string name;
    std::string arguments;
    bool operator==(const Call &) const = default;
};
void PrintTo(const Call & call, std::ostream * out) {
    *out << call.name << call.arguments;
}

struct Parts {
    std::string content;
    std::vector<Call> calls;
};

Parts split_in(ToolForm form, const std::string & text, size_t n, bool only_one = false) {
    ToolCallSplitter splitter(form, {"weather", "time"}, only_one);
    Parts all;
    const auto add = [&all](const ToolCallSplitter::Pieces & more) {
        all.content += more.content;
        for (const ToolCallPiece & piece : more.calls) {
            if (!piece.name.empty()) { all.calls.push_back({piece.name, ""}); }
            ASSERT_EQ(piece.index, static_cast<int>(all.calls.size()) - 1);
            all.calls.back().arguments += piece.arguments;
        }
    };
    for (size_t at = 0; at < text.size(); at += n) { add(splitter.add(std::string_view(text).substr(at, n))); }
    add(splitter.finish());
    return all;
}

void expect_parts(ToolForm form, const std::string & text, const std::string & content, const std::vector<Call> & calls,
                  bool only_one = false) {
    for (const size_t n : {1U, 2U, 3U, 7U, 1000U}) {
        const Parts parts = split_in(form, text, n, only_one);
        EXPECT_EQ(parts.content, content) << n << " bytes of " << text;
        EXPECT_EQ(parts.calls, calls) << n << " bytes of " << text;
    }
}

const Call kElm = {"weather", R"({"city": "Elm"})"};
const Call kNow = {"time", "{}"};

TEST(ToolCalls, StandBetweenTags) {
    const ToolForm form = ToolForm::kTagged;
    const std::string one = R"(<tool_call>
{"name": "weather", "arguments": {"city": "Elm"}}
</tool_call>)";
    expect_parts(form, one, "", {kElm});
    expect_parts(form, "I look.\n\n" + one + "\n<tool_call>{\"arguments\": {}, \"name\": \"time\"}</tool_call>", "I look.",
                 {kElm, kNow});
    expect_parts(form, one + "\nThere.", "\nThere.", {kElm});
    expect_parts(form, one + one, "", {kElm}, /*only_one=*/true);
    // Braces and quotation marks inside of texts, arguments as a text that holds JSON, none at all.
    expect_parts(form, R"(<tool_call>{"name": "weather", "arguments": {"city": "}\"{", "in": [{"a": 1}]}}</tool_call>)", "",
                 {{"weather", R"({"city": "}\"{", "in": [{"a": 1}]})"}});
    expect_parts(form, R"(<tool_call>{"name": "weather", "arguments": "{\"city\": \"Elm\"}"}</tool_call>)", "", {kElm});
    expect_parts(form, R"(<tool_call>{"name": "time"}</tool_call>)", "", {kNow});
    // What is no call is said.
    expect_parts(form, "a < b, <tool> and <tool_cal", "a < b, <tool> and <tool_cal", {});
    expect_parts(form, "<tool_call>weather(Elm)</tool_call>", "<tool_call>weather(Elm)</tool_call>", {});
    expect_parts(form, R"(<tool_call>{"city": "Elm"}</tool_call>)", R"(<tool_call>{"city": "Elm"}</tool_call>)", {});
    expect_parts(form, R"({"name": "weather"})", R"({"name": "weather"})", {});
    expect_parts(form, "Blanks stay. \n", "Blanks stay. \n", {});
}

TEST(ToolCalls, AreAList) {
    for (const ToolForm form : {ToolForm::kList, ToolForm::kNamed}) {
        expect_parts(form, R"([TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Elm"}, "id": "a"}])", "", {kElm});
        expect_parts(
            form, R"(So: [TOOL_CALLS][{"name": "weather", "arguments": {"city": "Elm"}}, {"name": "time", "arguments": {}}])",
            "So:", {kElm, kNow});
        expect_parts(form, R"([TOOL_CALLS]weather[ARGS]{"city": "Elm"}[TOOL_CALLS]time[CALL_ID]x1[ARGS]{})", "", {kElm, kNow});
        expect_parts(form, R"([TOOL_CALLS]weather{"city": "Elm"})", "", {kElm});
        expect_parts(form, "[TOOL] is [TOOL_", "[TOOL] is [TOOL_", {});
    }
}

TEST(ToolCalls, AreBareObjects) {
    const ToolForm form = ToolForm::kBare;
    const std::string one = R"({"name": "weather", "parameters": {"city": "Elm"}})";
    expect_parts(form, one, "", {kElm});
    expect_parts(form, "<|python_tag|>" + one, "", {kElm});
    expect_parts(form, one + "; " + R"({"name": "time", "parameters": {}})", "", {kElm, kNow});
    expect_parts(form, R"({"type": "function", "name": "weather", "parameters": {"city": "Elm"}})", "", {kElm});
    // An object of another kind, a function that nobody offers, an object behind words.
    expect_parts(form, R"({"city": "Elm"} is all.)", R"({"city": "Elm"} is all.)", {});
    expect_parts(form, R"({"name": "rain", "parameters": {}})", R"({"name": "rain", "parameters": {}})", {});
    expect_parts(form, "It is " + one, "It is " + one, {});
}

TEST(ToolCalls, AreFenced) {
    const ToolForm form = ToolForm::kFenced;
    const std::string one = "```tool_code\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Elm\"}}\n```";
    expect_parts(form, one, "", {kElm});
    expect_parts(form, "Let me see.\n" + one + "\n```tool_code\n{\"name\": \"time\", \"arguments\": {}}\n```\n", "Let me see.",
                 {kElm, kNow});
    expect_parts(form, R"({"name": "weather", "arguments": {"city": "Elm"}})", "", {kElm});
    expect_parts(form, "```json\n{}\n```", "```json\n{}\n```", {});
    expect_parts(form, "```tool_code\nweather()\n```", "```tool_code\nweather()\n```", {});
}

TEST(ToolCalls, AreAChannelsMessages) {
    const ToolForm form = ToolForm::kHarmony;
    expect_parts(form, R"(<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Elm"}<|call|>)", "",
                 {kElm});
    expect_parts(form, R"(to=functions.weather<|channel|>commentary json<|message|>{"city": "Elm"})", "", {kElm});
    expect_parts(form,
                 R"(<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.time )"
                 R"(<|constrain|>json<|message|>{}<|call|>)",
                 "I look.", {kNow});
    // Whom a message is for may stand in front of its channel, and a call in the channel of thoughts.
    expect_parts(form,
                 R"(<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.time<|channel|>commentary )"
                 R"(json<|message|>{}<|call|>)",
                 "I look.", {kNow});
    expect_parts(form, R"(<|start|>assistant<|channel|>analysis to=functions.weather code<|message|>{"city": "Elm"}<|call|>)",
                 "", {kElm});
    expect_parts(form,
                 R"(<|channel|>commentary to=functions.weather json<|message|>{"city": "Elm"}<|call|><|start|>assistant )"
                 R"(to=functions.time<|channel|>commentary json<|message|>{}<|call|>)",
                 "", {kElm, kNow});
    const std::string no_call = "to=functions." + std::string(500, 'x');
    expect_parts(form, no_call, no_call, {});
    expect_parts(form, "I look.<|end|>" + no_call, "I look." + no_call, {});
    expect_parts(form, "I look.<|end|>and go to=functions.time", "I look.and go to=functions.time", {});
    expect_parts(form, "to be said", "to be said", {});
    const ToolCallSplitter splitter(form, {}, false);
    EXPECT_TRUE(splitter.is_part_of_mark("<|constrain|>"));
    EXPECT_FALSE(splitter.is_part_of_mark("<|return|>"));
}

// Models write line breaks into strings as they are; and null for no arguments.
TEST(ToolCalls, HaveArgumentsThatAreJson) {
    const Call lines = {"weather", R"({"city": "a\u000ab"})"};
    expect_parts(ToolForm::kNamed, "[TOOL_CALLS]weather[ARGS]{\"city\": \"a\nb\"}", "", {lines});
    expect_parts(ToolForm::kHarmony, "<|channel|>commentary to=functions.weather<|message|>{\"city\": \"a\nb\"}<|call|>", "",
                 {lines});
    const Call shell = {"weather", R"({"city": "a \\\u000ab"})"};  // a backslash at a line's end
    expect_parts(ToolForm::kNamed, "[TOOL_CALLS]weather[ARGS]{\"city\": \"a \\\nb\"}", "", {shell});
    expect_parts(ToolForm::kTagged, "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"a \\\nb\"}}</tool_call>",
                 "", {shell});
    expect_parts(ToolForm::kTagged, R"(<tool_call>{"name": "time", "arguments": null}</tool_call>)", "", {kNow});
    expect_parts(ToolForm::kTagged, R"(<tool_call>{"name": "time", "arguments": "null"}</tool_call>)", "", {kNow});
    expect_parts(ToolForm::kTagged, R"(<tool_call>{"name": "weather", "arguments": {"a": null}}</tool_call>)", "",
                 {{"weather", R"({"a": null})"}});
}

TEST(ToolCalls, ThatAreCutOffAreToldSoFar) {
    const Parts parts = split_in(ToolForm::kTagged, R"(<tool_call>{"name": "weather", "arguments": {"ci)", 3);
    ASSERT_EQ(parts.calls.size(), 1U);
    EXPECT_EQ(parts.calls[0].arguments, R"({"ci)");
    EXPECT_EQ(split_in(ToolForm::kTagged, R"(<tool_call>{"na)", 3).content, R"(<tool_call>{"na)");
}

// Values are texts where the schema says so, else JSON; what is no JSON is a text all the same.
TEST(ToolCalls, HaveArgumentsBetweenTagsOfTheirOwn) {
    const TextParameters texts = {{"weather", {{"city", false}, {"code", true}}}};
    const auto expect = [&](ToolForm form, const std::string & text, const std::string & content,
                            const std::vector<Call> & calls) {
        for (const size_t n : {1U, 3U, 1000U}) {
            ToolCallSplitter splitter(form, {"weather", "time"}, false, texts);
            Parts all;
            const auto add = [&all](const ToolCallSplitter::Pieces & more) {
                all.content += more.content;
                for (const ToolCallPiece & piece : more.calls) {
                    if (!piece.name.empty()) { all.calls.push_back({piece.name, ""}); }
                    all.calls.back().arguments += piece.arguments;
                }
            };
            for (size_t at = 0; at < text.size(); at += n) { add(splitter.add(std::string_view(text).substr(at, n))); }
            add(splitter.finish());
            EXPECT_EQ(all.content, content) << n << " bytes of " << text;
            EXPECT_EQ(all.calls, calls) << n << " bytes of " << text;
        }
    };
    const Call two = {"weather", R"({"city":"12","days":3,"in":{"a":[1]}})"};
    const ToolForm pairs = ToolForm::kPairs;
    expect(
        pairs,
        "I look.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>12</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3"
        "</arg_value>\n<arg_key>in</arg_key>\n<arg_value>{\"a\": [1]}</arg_value>\n</tool_call>\n<tool_call>time\n</tool_call>",
        "I look.", {two, kNow});
    expect(pairs, "<tool_call>weather<arg_key>city</arg_key><arg_value> a\n\"b\" </arg_value></tool_call>", "",
           {{"weather", R"({"city":" a\n\"b\" "})"}});
    expect(pairs, "<tool_call>weather<arg_key>days</arg_key></tool_call>.",
           "<tool_call>weather<arg_key>days</arg_key></tool_call>.", {});
    expect(pairs, "<tool_call>wea", "<tool_call>wea", {});
    // A value may hold what ends a call; one that was never closed ends with its call.
    expect(pairs, "<tool_call>weather<arg_key>code</arg_key><arg_value>say(\"</tool_call>\")</arg_value></tool_call>.", ".",
           {{"weather", "{\"code\":\"say(\\\"</tool_call>\\\")\"}"}});
    const std::string open = "<tool_call>weather<arg_key>code</arg_key><arg_value>a</tool_call>";
    expect(pairs, open + "<tool_call>time\n</tool_call>", open, {kNow});
    expect(pairs,
           "<tool_call>weather<arg_key>code</arg_key><arg_value>null</arg_value><arg_key>city</arg_key><arg_value>null"
           "</arg_value></tool_call>",
           "", {{"weather", R"({"code":null,"city":"null"})"}});

    const ToolForm lines = ToolForm::kParameters;
    expect(
        lines,
        "<tool_call>\n<function=weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n3\n</"
        "parameter>\n<parameter=in>\n"
        "{\"a\": [1]}\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=time>\n</function>\n</tool_call>\nDone.",
        "\nDone.", {two, kNow});
    expect(lines,
           "<tool_call>\n<function=weather>\n<parameter=code>\nif a < b:\n    <p>\n\n</parameter>\n</function>\n</tool_call>",
           "", {{"weather", R"({"code":"if a < b:\n    <p>\n"})"}});
    expect(lines, "<tool_call>{\"name\": \"rain\"}</tool_call>", "<tool_call>{\"name\": \"rain\"}</tool_call>", {});
    EXPECT_EQ(text_parameters(
                  R"({"properties": {"a": {"type": "string"}, "b": {"type": ["null", "string"]}, "c": {"type": "integer"}}})"),
              (TextsOfFunction{{"a", false}, {"b", true}}));
    // Through branches, references and values, as pydantic and zod write them.
    EXPECT_EQ(text_parameters(R"({"$ref": "#/definitions/F", "definitions": {"F": {"properties": {
                  "a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "b": {"$ref": "#/definitions/L"},
                  "c": {"allOf": [{"$ref": "#/definitions/L"}]}, "d": {"const": "x"}, "e": {"enum": [1, 2]},
                  "h": {"type": "string", "nullable": true},
                  "f": {"$ref": "#/definitions/none"}, "g": {"$ref": "#/definitions/R"}}},
                  "L": {"enum": ["low", "high"]}, "R": {"$ref": "#/definitions/R"}}})"),
              (TextsOfFunction{{"a", true}, {"b", false}, {"c", false}, {"d", false}, {"h", true}}));
    // Where something else may stand as well, JSON is what it is.
    EXPECT_TRUE(text_parameters(R"({"properties": {"a": {"enum": [1, "auto"]}, "b": {"type": ["string", "integer"]},
                    "c": {"anyOf": [{"type": "array"}, {"type": "string"}]}, "d": {}}})")
                    .empty());
    // More ways than anybody could go, and a way that is longer than a stack.
    std::string ways = R"({"properties": {"a": {"$ref": "#/$defs/R"}}, "$defs": {"R": {"anyOf": [)";
    for (int i = 0; i < 8; ++i) { ways += std::string(i > 0 ? "," : "") + R"({"$ref": "#/$defs/R"})"; }
    EXPECT_TRUE(text_parameters(ways + "]}}}").empty());
    std::string chain = R"({"properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": {)";
    for (int i = 0; i < 3000; ++i) {
        chain += "\"" + std::to_string(i) + R"(": {"$ref": "#/$defs/)" + std::to_string(i + 1) + "\"},";
    }
    EXPECT_TRUE(text_parameters(chain + R"("3000": {"type": "string"}}})").empty());
    EXPECT_TRUE(text_parameters("").empty());
    EXPECT_TRUE(text_parameters("[5").empty());
}

TEST(ToolCalls, HaveTheFormOfTheTemplate) {
    const auto form_of = [](const std::string & name) {
        std::ifstream in(std::string(PITH_SOURCE_DIR "/tests/text/templates/") + name + ".jinja");
        std::stringstream text;
        text << in.rdbuf();
        EXPECT_FALSE(text.str().empty()) << name;
        return tool_form(text.str());
    };
    EXPECT_EQ(form_of("qwen2.5-tools"), ToolForm::kTagged);
    EXPECT_EQ(form_of("qwen3-thinking"), ToolForm::kTagged);
    EXPECT_EQ(form_of("hermes3-tools"), ToolForm::kTagged);
    EXPECT_EQ(form_of("mistral-v3-tools"), ToolForm::kList);
    EXPECT_EQ(form_of("llama3.1-tools"), ToolForm::kBare);
    EXPECT_EQ(form_of("gpt-oss"), ToolForm::kHarmony);
    EXPECT_EQ(form_of("gemma3-folded"), ToolForm::kFenced);
    EXPECT_EQ(form_of("glm4.5"), ToolForm::kPairs);
    EXPECT_EQ(form_of("seed-oss"), ToolForm::kFenced);  // tags of its own
    EXPECT_EQ(tool_form("<tool_call> <function= <parameter= tools"), ToolForm::kParameters);
    EXPECT_EQ(form_of("chatml"), ToolForm::kFenced);
    EXPECT_EQ(tool_form("[TOOL_CALLS] [ARGS]"), ToolForm::kNamed);
    EXPECT_EQ(tool_form("chatml"), ToolForm::kFenced);
}

// A form that is known promises that its template shows the functions, earlier calls and what they returned.
TEST(ToolCalls, AreShownByTheTemplatesThatHaveTheirForm) {
    if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    ChatOptions options;
    options.tools = R"([{"type": "function", "function": {"name": "weather", "description": "How it will be", "parameters":
        {"type": "object", "properties": {"city": {"type": "string", "description": "Where"}}, "required": ["city"]}}}])";
    const std::vector<ChatMessage> messages = {
        {"user", "Rain?"},
        {"assistant",
         "",
         {},
         R"([{"id": "call12345", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Elm\"}"}}])"},
        {"tool", "it is dry", {}, {}, "call12345"}};
    size_t n = 0;
    for (const auto & file : std::filesystem::directory_iterator(PITH_SOURCE_DIR "/tests/text/templates")) {
        std::ifstream in(file.path());
        std::stringstream source;
        source << in.rdbuf();
        const ToolForm form = tool_form(source.str());
        if (!shows_tools(form)) { continue; }
        SCOPED_TRACE(file.path().string());
        const ChatTemplate chat(source.str(), "<s>", "</s>");
        const auto asked = chat.render(std::span(messages).first(1), options);
        ASSERT_TRUE(asked.ok()) << asked.status().message();
        EXPECT_NE(asked->find("weather"), std::string::npos) << *asked;
        const auto told = chat.render(messages, options);
        ASSERT_TRUE(told.ok()) << told.status().message();
        EXPECT_NE(told->find("it is dry"), std::string::npos) << *told;
        // Its own writing of a call is read as one.
        const size_t at = told->find("Rain?") + 5;
        const size_t end = told->find("it is dry");
        ToolCallSplitter splitter(form, {"weather"}, true);
        std::vector<ToolCallPiece> calls = splitter.add(std::string_view(*told).substr(at, end - at)).calls;
        if (form != ToolForm::kBare &&
            form != ToolForm::kHarmony) {  // these begin an answer, and other text stands before it here
            ASSERT_FALSE(calls.empty()) << *told;
            EXPECT_EQ(calls[0].name, "weather");
        }
        ++n;
    }
    EXPECT_GE(n, 5U);
}

TEST(ToolsAsText, StandInTheSystemPromptAndResultsInTurns) {
    const std::string tools = R"([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])";
    const std::vector<ChatMessage> messages = {
        {"system", "Be brief."},
        {"user", "Rain?"},
        {"assistant",
         "",
         {},
         R"([{"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Elm\"}"}}])"},
        {"tool", "dry", {}, {}, "a"},
        {"tool", "late", {}, {}, "b"}};
    const auto text = with_tools_as_text(messages, tools);
    ASSERT_TRUE(text.ok()) << text.status().message();
    ASSERT_EQ(text->size(), 4U);
    EXPECT_TRUE((*text)[0].content.starts_with("Be brief.\n\nYou can call"));
    EXPECT_NE((*text)[0].content.find(R"({"name":"weather","parameters")"), std::string::npos);
    EXPECT_EQ((*text)[2].content, "```tool_code\n{\"name\":\"weather\",\"arguments\":{\"city\":\"Elm\"}}\n```");
    EXPECT_TRUE((*text)[2].tool_calls.empty());
    EXPECT_EQ((*text)[3].role, "user");
    EXPECT_EQ((*text)[3].content, "```tool_output\ndry\n```\n```tool_output\nlate\n```");
    // What the model is asked to write is what is understood.
    expect_parts(ToolForm::kFenced, (*text)[2].content, "", {{"weather", R"({"city":"Elm"})"}});
    EXPECT_EQ(with_tools_as_text(messages, "")->front().content, "Be brief.");
    EXPECT_FALSE(with_tools_as_text(messages, "[").ok());
}

TEST(ToolGrammar, RefusesAStrictSchemaThatIsNotUnderstood) {
    ToolFunction function = {"f", R"({"type": "string", "contains": 3})", true};
    const auto refused = tool_grammar(ToolForm::kTagged, std::span(&function, 1), true, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("'f'"), std::string::npos);
    EXPECT_NE(refused.status().message().find("contains"), std::string::npos);
    function.strict = false;
    EXPECT_TRUE(tool_grammar(ToolForm::kTagged, std::span(&function, 1), true, {}).ok());
}

}  // namespace
}  // namespace pith::tool_calls_test
