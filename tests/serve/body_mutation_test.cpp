// body_mutation_test.cpp - bodies, schemas and answers with something wrong in them, by seed: each is read, or refused by one
// line.
#include <cstdlib>
#include <random>

#include "serve/read_body.h"
#include "serve/serving.h"

namespace pith::testing {
namespace {

const std::vector<std::string> kBodies = {
    R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant",)"
    R"("tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","content":"dry"}],)"
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}],)"
    R"("tool_choice":"required","max_tokens":5,"temperature":0.5,"stop":["a","b"],"logit_bias":{"5":-100},"kv_pin":["system",[0,3]]})",
    R"({"system":[{"type":"text","text":"y"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"z"},)"
    R"({"type":"text","text":"x"}]}],"max_tokens":5,"tools":[{"name":"f","input_schema":{"$ref":"#"}}],"tool_choice":{"type":"any"}})",
    R"({"prompt":["a",[5,6]],"n":2,"response_format":{"type":"json_schema","json_schema":{"schema":{"anyOf":[{"type":"string"}]}}}})",
    R"({"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"},"maxItems":3},"b":{"enum":[1,"x",null]}},"required":["a"]})",
    R"(So.<tool_call>{"name": "f", "arguments": {"a": "}\"{"}}</tool_call>[TOOL_CALLS][{"name": "weather", "arguments": {}}])"
    R"(```tool_code\n{"name": "f"}\n```)",
    R"({"name": "f", "parameters": {"a": [1, {"b": 2}]}}; <|python_tag|>{"name": "weather"})",
    "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Elm</arg_value>\n</tool_call>\n<tool_call>\n<function=f>\n"
    "<parameter=a>\n{\"b\": 1}\n</parameter>\n</function>\n</tool_call>",
    R"(<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|><|start|>assistant<|channel|>commentary<|message|>x)",
};

// One to three edits: bytes changed, taken out, doubled, moved in from another text.
std::string mutated(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
    std::string text = kBodies[below(kBodies.size())];
    for (size_t n = 1 + below(3); n > 0 && !text.empty(); --n) {
        const size_t at = below(text.size());
        const size_t length = 1 + below(std::min<size_t>(12, text.size() - at));
        const std::string & other = kBodies[below(kBodies.size())];
        switch (below(5)) {
            case 0:
                text[at] = static_cast<char>(below(256));
                break;
            case 1:
                text.erase(at, length);
                break;
            case 2:
                text.insert(at, text.substr(at, length));
                break;
            case 3:
                text.insert(at, other.substr(below(other.size()), length));
                break;
            default:
                text.resize(at);
        }
    }
    return text;
}

TEST(Bodies, WithSomethingWrongAreReadOrRefused) {
    if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
    for (const std::string & body : kBodies) { EXPECT_EQ(read_body_fault(served_tokenizer(), body), "") << body; }
    const char * asked = std::getenv("PITH_MUTATIONS");
    const uint64_t n = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 2000;
    for (uint64_t seed = 0; seed < n; ++seed) {
        const std::string body = mutated(seed);
        ASSERT_EQ(read_body_fault(served_tokenizer(), body), "") << "seed " << seed << ": " << body;
    }
}

}  // namespace
}  // namespace pith::testing
