// qwen_server_test.cpp - Qwen2.5-Coder over HTTP: functions that it must call, and answers that must fit a schema. The grammar
// makes them valid; that they are right is the model's, so what it reads must be what its template says.
#include "real/qwen.h"
#include "serve/serving.h"

namespace pith::qwen_server_test {
namespace {

using testing::Json;
using testing::said_by;

class QwenServer : public testing::Qwen {
protected:
    static void TearDownTestSuite() { serving_.reset(); }
    static Json chat(Json body) {
        if (!serving_) {
            testing::ServingOptions options;
            options.model = &model();
            options.tokenizer = &tokenizer();
            options.api.model_name = "qwen";
            options.generator.engine.n_threads = 0;
            serving_ = std::make_unique<testing::Serving>(options);
        }
        body["temperature"] = 0;
        body["max_tokens"] = 96;
        const testing::HttpAnswer answer = serving_->chat(body);
        EXPECT_EQ(answer.status, 200) << answer.body;
        return answer.json();
    }
    static Json function(const std::string & name, const std::string & description, const Json & properties,
                         const Json & required) {
        const Json parameters = {
            {"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}};
        return {{"type", "function"},
                {"function", {{"name", name}, {"description", description}, {"parameters", parameters}, {"strict", true}}}};
    }
    // The only call of an answer: its name, and its arguments, parsed.
    static std::pair<std::string, Json> only_call(const Json & answer) {
        const Json & choice = answer["choices"][0];
        EXPECT_EQ(choice["finish_reason"], "tool_calls") << answer;
        const Json calls = choice["message"].value("tool_calls", Json::array());
        EXPECT_EQ(calls.size(), 1U) << answer;
        if (calls.empty()) { return {}; }
        const Json & of = calls[0]["function"];
        return {of["name"].get<std::string>(), Json::parse(of["arguments"].get<std::string>(), nullptr, false)};
    }

private:
    static inline std::unique_ptr<testing::Serving> serving_;
};

TEST_F(QwenServer, CallsTheFunctionThatTheQuestionWantsWhereItMustCallOne) {
    const Json text = {{"type", "string"}};
    const Json tools = {function("get_weather", "How the weather will be in a city",
                                 {{"city", text}, {"unit", {{"enum", {"celsius", "fahrenheit"}}}}}, {"city", "unit"}),
                        function("send_mail", "Sends a mail", {{"to", text}, {"subject", text}}, {"to", "subject"})};
    const auto ask = [&](const std::string & question) {
        return only_call(chat({{"messages", said_by(question)}, {"tools", tools}, {"tool_choice", "required"}}));
    };
    const auto [weather, where] = ask("What is the weather in Paris, in degrees Celsius?");
    EXPECT_EQ(weather, "get_weather");
    EXPECT_EQ(where, Json({{"city", "Paris"}, {"unit", "celsius"}}));
    const auto [mail, to] = ask("Send a mail to ada@example.com with the subject Lunch.");
    EXPECT_EQ(mail, "send_mail");
    EXPECT_EQ(to, Json({{"to", "ada@example.com"}, {"subject", "Lunch"}}));
}

TEST_F(QwenServer, SaysWhatATextHoldsInTheSchemaThatIsAskedFor) {
    const Json schema = {{"type", "object"},
                         {"properties",
                          {{"name", {{"type", "string"}}},
                           {"age", {{"type", "integer"}}},
                           {"languages", {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}}},
                           {"level", {{"enum", {"junior", "senior"}}}}}},
                         {"required", {"name", "age", "languages", "level"}},
                         {"additionalProperties", false}};
    const Json answer =
        chat({{"messages", said_by("Marta Lindqvist is 34 years old, works as a senior engineer and writes Rust and Python. "
                                   "Put this into JSON.")},
              {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "person"}, {"schema", schema}}}}}});
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop") << answer;
    const Json said = Json::parse(answer["choices"][0]["message"]["content"].get<std::string>(), nullptr, false);
    EXPECT_EQ(said, Json({{"name", "Marta Lindqvist"}, {"age", 34}, {"languages", {"Rust", "Python"}}, {"level", "senior"}}))
        << answer;
}

}  // namespace
}  // namespace pith::qwen_server_test
