// tool_grammar.cpp - a rule for each function's arguments, and the form's marks around them. Stage: text.
#include "text/tool_grammar.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "text/json_grammar.h"
#include "text/tagged_call.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

std::string json_string_literal(std::string_view text) {
    return grammar_literal(nlohmann::json(text).dump());
}

// Text up to a mark: nothing that begins with the mark's first two bytes.
std::string up_to(const std::string & mark) {
    const auto escaped = [](char c) {
        char code[8];
        std::snprintf(code, sizeof code, "\\x%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
        return std::string(code);
    };
    const std::string first = escaped(mark[0]);
    if (mark.size() < 2) { return "[^" + first + "]* " + grammar_literal(mark); }
    return "([^" + first + "] | [" + first + "]+ [^" + first + escaped(mark[1]) + "])* " + grammar_literal(mark);
}

std::string thought_rule(const ReasoningMarks & marks) {
    const std::string rest = up_to(marks.close) + " ws ws";
    if (marks.begins_open) { return rest; }
    // gpt-oss begins anew behind a thought.
    const std::string again = marks.silent.empty() ? "" : " " + grammar_literal(marks.silent.front());
    return "(ws " + grammar_literal(marks.open) + " " + rest + again + ")?";
}

// What all functions of a grammar share.
struct Shared {
    RegularTexts texts;
    std::vector<std::string> notes;  // of what is left out
};

// A schema's rules. What cannot be followed is left out, or all of it where nothing can be read; strict: it is an error.
Result<std::string> rules_of_schema(const std::string & schema, const ToolFunction & function, const std::string & name,
                                    const std::string & any, Shared & shared) {
    std::vector<std::string> some;
    auto rules = json_schema_rules(schema, name, shared.texts, function.strict ? nullptr : &some);
    const std::string of = "the function " + pith::quoted(function.name) + ": ";
    for (const std::string & note : some) { shared.notes.push_back(of + note); }
    if (rules.ok()) { return rules; }
    if (function.strict) { return {rules.status().code(), of + rules.status().wording()}; }
    shared.notes.push_back(of + rules.status().message());
    return name + " ::= ws " + any + " ws\n";
}

Result<std::string> arguments_rule(const ToolFunction & function, const std::string & name, Shared & shared) {
    if (function.parameters.empty()) { return name + " ::= ws object ws\n"; }
    return rules_of_schema(function.parameters, function, name, "object", shared);
}

// A grammar's text ends at a zero, and a tag at '>'.
bool can_stand_in_tags(std::string_view text) {
    return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '<' || c == '>'; });
}

// One of these texts, as it is. Empty: one of them cannot stand between tags.
std::string any_of_texts(const Json & texts) {
    std::string any;
    for (const Json & one : texts) {
        if (!one.is_string() || !can_stand_in_tags(one.get_ref<const std::string &>())) { return {}; }
        any += (any.empty() ? "(" : " | ") + grammar_literal(one.get<std::string>());
    }
    return any.empty() ? any : any + ")";
}

// A value as it stands between tags, up to the one that closes it.
Result<std::string> tagged_value(const Json & property, bool is_text, const ToolFunction & function, const std::string & rule,
                                 const std::string & close, std::string & rules, Shared & shared) {
    const bool chooses = is_text && property.contains("enum") && property["enum"].is_array();
    const std::string any = chooses ? any_of_texts(property["enum"]) : "";
    if (!any.empty()) { return any + " " + grammar_literal(close); }
    if (is_text) { return up_to(close); }
    PITH_ASSIGN_OR_RETURN(const std::string made, rules_of_schema(property.dump(), function, rule, "value", shared));
    rules += made;
    return rule + " " + grammar_literal(close);
}

// Each argument between its own tags, in the schema's order.
Result<std::string> tagged_arguments_rule(ToolForm form, const ToolFunction & function, const std::string & name,
                                          Shared & shared) {
    const std::set<std::string> texts = text_parameters(function.parameters);
    const Json schema = Json::parse(function.parameters, nullptr, /*allow_exceptions=*/false);
    const bool has_any = schema.is_object() && schema.contains("properties") && schema["properties"].is_object();
    const Json properties = has_any ? schema["properties"] : Json::object();
    const Json required = has_any ? schema.value("required", Json::array()) : Json::array();
    std::string all;
    std::string rules;
    int n = 0;
    for (const auto & [key, property] : properties.items()) {
        if (!can_stand_in_tags(key)) { continue; }
        const std::string rule = name + "p" + std::to_string(n++);
        const ArgumentText text = argument_text(form, key);
        PITH_ASSIGN_OR_RETURN(const std::string value,
                              tagged_value(property, texts.contains(key), function, rule, text.close, rules, shared));
        const std::string one = grammar_literal(text.open) + " " + value;
        const bool must = std::ranges::find(required, Json(key)) != required.end();
        all += must ? " " + one : " (" + one + ")?";
    }
    return name + " ::=" + (all.empty() ? " ws" : all) + "\n" + rules;
}

// One call of the i-th function, without the marks around all calls.
std::string call_of(ToolForm form, const ToolFunction & function, const std::string & arguments) {
    switch (form) {
        case ToolForm::kHarmony:
            return grammar_literal("<|channel|>commentary to=functions." + function.name + " <|constrain|>json<|message|>") +
                   " " + arguments;
        case ToolForm::kNamed:
            return grammar_literal("[TOOL_CALLS]" + function.name + "[ARGS]") + " " + arguments;
        case ToolForm::kPairs:
            return grammar_literal("<tool_call>" + function.name + "\n") + " " + arguments + " \"</tool_call>\"";
        case ToolForm::kParameters:
            return grammar_literal("<tool_call>\n<function=" + function.name + ">\n") + " " + arguments +
                   " \"</function>\\n</tool_call>\"";
        default:
            return "\"{\" ws \"\\\"name\\\"\" ws \":\" ws " + json_string_literal(function.name) + " ws \",\" ws " +
                   json_string_literal(arguments_key(form)) + " ws \":\" " + arguments + " \"}\"";
    }
}

std::string root_of(ToolForm form, bool only_one) {
    const auto repeated = [only_one](const std::string & one, const std::string & next) {
        return only_one ? one : one + " (" + next + ")*";
    };
    switch (form) {
        case ToolForm::kTagged: {
            const std::string one = "\"<tool_call>\" ws call ws \"</tool_call>\"";
            return repeated(one, "ws " + one);
        }
        case ToolForm::kList:
            return "\"[TOOL_CALLS]\" ws \"[\" ws " + repeated("call", "ws \",\" ws call") + " ws \"]\"";
        case ToolForm::kFenced: {
            const std::string one = "\"```tool_code\\n\" call \"\\n```\"";
            return repeated(one, "\"\\n\" " + one);
        }
        case ToolForm::kNamed:
            return repeated("call", "call");
        case ToolForm::kPairs:
        case ToolForm::kParameters:
            return repeated("call", "\"\\n\" call");
        case ToolForm::kBare:     // a second one would be a message of its own
        case ToolForm::kHarmony:  // each call ends the message
            return "call";
    }
    return "call";
}

}  // namespace

Result<std::string> tool_grammar(ToolForm form, std::span<const ToolFunction> functions, bool only_one,
                                 const ReasoningMarks & reasoning, std::vector<std::string> * notes) {
    Shared shared;
    std::string grammar = "root ::= " + std::string(reasoning.any() ? "thought " : "") + root_of(form, only_one) + "\n";
    if (reasoning.any()) { grammar += "thought ::= " + thought_rule(reasoning) + "\n"; }
    std::string calls;
    std::string rules;
    for (size_t i = 0; i < functions.size(); ++i) {
        const std::string name = "a" + std::to_string(i);
        PITH_ASSIGN_OR_RETURN(const std::string arguments, has_tagged_arguments(form)
                                                               ? tagged_arguments_rule(form, functions[i], name, shared)
                                                               : arguments_rule(functions[i], name, shared));
        rules += arguments;
        calls += (i > 0 ? " | " : "") + call_of(form, functions[i], name);
    }
    if (notes != nullptr) { notes->insert(notes->end(), shared.notes.begin(), shared.notes.end()); }
    return grammar + "call ::= " + calls + "\n" + rules + std::string(json_grammar_basics());
}

}  // namespace pith
