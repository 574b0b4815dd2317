// thoughts_test.cpp - thoughts that a template opens, and grammars behind them, over HTTP: the built-in model with another
// token in its vocabulary, the one that closes a thought.
#include "model/gguf_edit.h"
#include "serve/served_completions.h"

namespace pith::testing::thoughts_test {
namespace {

constexpr int32_t kControl = 3;  // a token's type in GGUF: it has a name, and no text
const std::string kChat =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

class Thoughts : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
        GgufEdit edit;
        edit.metadata = [this](gguf_context * gguf) {
            const int64_t key = gguf_find_key(gguf, "tokenizer.ggml.tokens");
            std::vector<std::string> texts;
            for (size_t i = 0; i < gguf_get_arr_n(gguf, key); ++i) { texts.emplace_back(gguf_get_arr_str(gguf, key, i)); }
            const auto rare = std::ranges::find(texts, "\xE2\x96\x81Z");  // no test needs it
            close_ = static_cast<int32_t>(rare - texts.begin());
            *rare = "</think>";
            std::vector<const char *> names;
            for (const std::string & text : texts) { names.push_back(text.c_str()); }
            gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", names.data(), names.size());
            const int64_t types_key = gguf_find_key(gguf, "tokenizer.ggml.token_type");
            const auto * old = static_cast<const int32_t *>(gguf_get_arr_data(gguf, types_key));
            std::vector<int32_t> types(old, old + gguf_get_arr_n(gguf, types_key));
            types[static_cast<size_t>(close_)] = kControl;
            gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
        };
        ASSERT_TRUE(edit_gguf(kServedModel, folder_.file("thinks.gguf"), edit));
        tokenizer_ = std::make_unique<Tokenizer>(*Tokenizer::load(folder_.file("thinks.gguf")));
        ASSERT_EQ(*tokenizer_->encode("</think>", false, true), std::vector<int32_t>{close_});
    }

    // With a template that opens a thought, or one that leaves that to the model.
    Serving & serve(bool opens, ServingOptions options = {}) {
        EXPECT_TRUE(tokenizer_->set_chat_template(kChat + "{# <think></think> #}" + (opens ? "<think>\n" : "")).ok());
        options.tokenizer = tokenizer_.get();
        serving_ = std::make_unique<Serving>(options);
        return *serving_;
    }
    Json always(int32_t token) const { return Json::array({Json::array({token, 100})}); }

    TempFolder folder_;
    int32_t close_ = 0;
    std::unique_ptr<Tokenizer> tokenizer_;
    std::unique_ptr<Serving> serving_;
};

const Json kSchema = {
    {"type", "object"}, {"properties", {{"a", {{"enum", {1, 2}}}}}}, {"required", {"a"}}, {"additionalProperties", false}};

bool is_an_answer(const std::string & text) {
    const Json value = Json::parse(text, nullptr, false);
    return value == Json({{"a", 1}}) || value == Json({{"a", 2}});
}

TEST_F(Thoughts, EndBeforeAFormatBegins) {
    Serving & serving = serve(/*opens=*/true);
    Json body = {{"messages", said_by("x")}, {"temperature", 0}, {"max_tokens", 40}, {"json_schema", kSchema}};
    // The thought is the model's own, and the answer cannot end in it.
    body["logit_bias"] = always(tokenizer_->eos());
    body["logit_bias"].push_back({close_, false});
    const Json thinking = serving.chat(body).json()["choices"][0];
    EXPECT_EQ(thinking["message"]["content"], "");
    EXPECT_EQ(thinking["finish_reason"], "length");
    ASSERT_TRUE(thinking["message"].contains("reasoning_content")) << thinking;
    EXPECT_NE(thinking["message"]["reasoning_content"].get<std::string>().front(), '{');
    body["logit_bias"] = always(close_);
    const Json message = serving.chat(body).json()["choices"][0]["message"];
    EXPECT_TRUE(is_an_answer(message["content"])) << message;
    EXPECT_FALSE(message.contains("reasoning_content")) << message;
    body["stream"] = true;
    EXPECT_TRUE(is_an_answer(streamed_text(serving.chat(body), true)));
    body["stream"] = false;
    body.erase("json_schema");
    const Json format = {{"type", "json_schema"}, {"schema", kSchema}};
    body["output_format"] = format;
    EXPECT_TRUE(is_an_answer(post(serving.port(), "/v1/messages", body).json()["content"][0]["text"]));
    const Json responses = {{"input", "x"}, {"temperature", 0}, {"logit_bias", always(close_)}, {"text", {{"format", format}}}};
    EXPECT_TRUE(is_an_answer(post(serving.port(), "/v1/responses", responses).json()["output"][0]["content"][0]["text"]));
}

TEST_F(Thoughts, EndBeforeACallThatMustBeMade) {
    Serving & serving = serve(/*opens=*/true);
    const Json tools = {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", kSchema}}}}};
    const Json body = {{"messages", said_by("x")},     {"temperature", 0}, {"max_tokens", 300},
                       {"logit_bias", always(close_)}, {"tools", tools},   {"tool_choice", "required"},
                       {"parallel_tool_calls", false}};
    const Json choice = serving.chat(body).json()["choices"][0];
    ASSERT_EQ(choice["finish_reason"], "tool_calls") << choice;
    EXPECT_TRUE(is_an_answer(choice["message"]["tool_calls"][0]["function"]["arguments"])) << choice;
}

// Letters that spell the mark may be what is thought about.
TEST_F(Thoughts, AreClosedByTheVocabularysTokenAlone) {
    Serving & serving = serve(/*opens=*/false);
    Json body = {{"messages", said_by("x")},
                 {"temperature", 0},
                 {"logit_bias", Json::array({Json::array({close_, -50})})},  // where letters may come, they do
                 {"grammar", "root ::= \"<think>a</think>b\" <[" + std::to_string(close_) + "]> \"c</think>d\""}};
    for (const Json & stop : {Json::array(), Json::array({"bX", "</think>d!"})}) {  // some text is held back
        body["stop"] = stop;
        const Json answer = serving.chat(body).json();
        ASSERT_TRUE(answer.contains("choices")) << answer;
        const Json & message = answer["choices"][0]["message"];
        EXPECT_EQ(message["reasoning_content"], "a</think>b") << message;
        EXPECT_EQ(message["content"], "c</think>d") << message;
    }
}

// What the server was started with, where a request says nothing.
TEST_F(Thoughts, AreToldAsTheServerSays) {
    Json body = {{"messages", said_by("x")},
                 {"temperature", 0},
                 {"grammar", "root ::= \"<think>a\" <[" + std::to_string(close_) + "]> \"b\""}};
    const auto said = [&](const ServingOptions & options) {
        return serve(false, options).chat(body).json()["choices"][0]["message"];
    };
    ServingOptions options;
    EXPECT_EQ(said(options), (Json{{"role", "assistant"}, {"content", "b"}, {"reasoning_content", "a"}}));
    options.api.defaults.hides_reasoning = true;
    EXPECT_EQ(said(options), (Json{{"role", "assistant"}, {"content", "b"}}));
    options.api.defaults.hides_reasoning = false;
    options.api.defaults.tells_reasoning = false;
    EXPECT_EQ(said(options)["content"].get<std::string>().substr(0, 8), "<think>a");
    body["reasoning_format"] = "auto";
    EXPECT_EQ(said(options)["reasoning_content"], "a");
}

// Anthropic's answers have thoughts where they are asked for; clients read the first block's text.
TEST_F(Thoughts, StayAwayFromMessagesThatDoNotAskForThem) {
    Serving & serving = serve(/*opens=*/false);
    Json body = {{"messages", said_by("x")},
                 {"temperature", 0},
                 {"max_tokens", 100},
                 {"grammar", "root ::= \"<think>a\" <[" + std::to_string(close_) + "]> \"b\""}};
    const auto content = [&] { return post(serving.port(), "/v1/messages", body).json()["content"]; };
    const Json text = {{"type", "text"}, {"text", "b"}};
    EXPECT_EQ(content(), Json::array({text}));
    body["thinking"] = {{"type", "enabled"}, {"budget_tokens", 1024}};
    ASSERT_EQ(content().size(), 2U) << content();
    EXPECT_EQ(content()[0]["type"], "thinking");
    EXPECT_EQ(content()[0]["thinking"], "a");
    EXPECT_EQ(content()[1], text);
}

// A template that can leave thoughts out is told to, unless the request or whoever started the server says something else.
TEST_F(Thoughts, AreLeftOutByATemplateUnlessMessagesAskForThem) {
    ServingOptions options;
    options.tokenizer = tokenizer_.get();
    const std::string leaves_out = "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}";
    ASSERT_TRUE(tokenizer_->set_chat_template(kChat + leaves_out).ok());
    const auto n_tokens = [&](const Json & more) {
        const Serving serving(options);
        Json body = {{"messages", said_by("x")}, {"max_tokens", 1}};
        body.update(more);
        return post(serving.port(), "/v1/messages/count_tokens", body).json()["input_tokens"].get<int>();
    };
    const int thinks = n_tokens({{"thinking", {{"type", "adaptive"}}}});
    EXPECT_GT(n_tokens(Json::object()), thinks);
    EXPECT_GT(n_tokens({{"thinking", {{"type", "disabled"}}}}), thinks);
    EXPECT_EQ(n_tokens({{"chat_template_kwargs", {{"enable_thinking", true}}}}), thinks);
    EXPECT_EQ(n_tokens({{"output_config", {{"effort", "high"}}}}), thinks);
    options.api.chat.variables = R"({"enable_thinking": true})";
    EXPECT_EQ(n_tokens(Json::object()), thinks);
    options.api.chat = {.reasoning = Reasoning::kOn};
    EXPECT_EQ(n_tokens(Json::object()), thinks);
}

TEST_F(Thoughts, AreSwitchedOffByTheServersVariables) {
    ServingOptions options;
    options.tokenizer = tokenizer_.get();
    ASSERT_TRUE(tokenizer_->set_chat_template("{{ enable_thinking }} {{ a }} {{ b }}").ok());
    options.api.chat = {.variables = R"({"a": 1, "b": 2})", .reasoning = Reasoning::kOff};
    const Serving serving(options);
    const Json body = {{"messages", said_by("")}, {"chat_template_kwargs", {{"b", 3}}}};
    EXPECT_EQ(post(serving.port(), "/apply-template", body).json()["prompt"], "False 1 3");
}

}  // namespace
}  // namespace pith::testing::thoughts_test
