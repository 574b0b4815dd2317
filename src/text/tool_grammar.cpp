// tool_grammar.cpp - a rule for each function's arguments, and the form's marks around them. Stage: text.
#include "text/tool_grammar.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "text/argument_schema.h"
#include "text/grammar_choice.h"
#include "text/json_grammar.h"
#include "text/regular_grammar.h"
#include "text/schema_writer.h"
#include "text/tagged_call.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

std::string json_string_literal(std::string_view text) {
    return grammar_literal(nlohmann::json(text).dump());
}

// What all functions of a grammar share.
struct Shared {
    RegularTexts texts;
    std::vector<std::string> notes;                           // of what is left out
    std::map<std::string, std::string, std::less<>> without;  // by a mark: the rule for texts that do not hold it
    std::string rules;
};

// Text that a mark ends, which does not stand in it: without the lines around it, which a reader does not ask for.
Result<std::string> up_to(const std::string & mark, Shared & shared) {
    constexpr size_t kMostStates = 256;
    const std::string_view bare = trim(mark);
    if (const auto made = shared.without.find(bare); made != shared.without.end()) {
        return made->second + " " + grammar_literal(mark);
    }
    RegularTexts & texts = shared.texts;
    const RegularTexts::Id it = texts.literal(std::u32string(bare.begin(), bare.end()));
    const RegularTexts::Id with_it = texts.then(RegularTexts::kAll, texts.then(it, RegularTexts::kAll));
    PITH_ASSIGN_OR_RETURN(const TextAutomaton automaton, texts.automaton(texts.all_but(with_it), kMostStates));
    const std::string name = "text" + std::to_string(shared.without.size());
    GrammarRules own(name + "-");
    own.define(name, expression_of(automaton, /*in_json=*/false, own));
    shared.rules += own.text();
    shared.without.emplace(bare, name);
    return name + " " + grammar_literal(mark);
}

Result<std::string> thought_rule(const ReasoningMarks & marks, Shared & shared) {
    PITH_ASSIGN_OR_RETURN(std::string rest, up_to(marks.close, shared));
    rest += " ws ws";
    if (marks.begins_open) { return rest; }
    // gpt-oss begins anew behind a thought.
    const std::string again = marks.silent.empty() ? "" : " " + grammar_literal(marks.silent.front());
    return "(ws " + grammar_literal(marks.open) + " " + rest + again + ")?";
}

// The rule `name` as `rules` makes it. What cannot be followed is left out, or all of it where nothing can be read; strict: it
// is an error.
using MakeRules = std::function<Result<std::string>(std::vector<std::string> * notes)>;
Result<std::string> rules_as_followed(const MakeRules & make, const ToolFunction & function, const std::string & name,
                                      const std::string & any, Shared & shared) {
    std::vector<std::string> some;
    auto rules = make(function.strict ? nullptr : &some);
    const std::string of = "the function " + pith::quoted(function.name) + ": ";
    for (const std::string & note : some) { shared.notes.push_back(of + note); }
    if (rules.ok()) { return rules; }
    if (function.strict) { return {rules.status().code(), of + rules.status().wording()}; }
    shared.notes.push_back(of + rules.status().message());
    return name + " ::= ws " + any + " ws\n";
}

Result<std::string> arguments_rule(const ToolFunction & function, const std::string & name, Shared & shared) {
    if (function.parameters.empty()) { return name + " ::= ws object ws\n"; }
    const auto make = [&](std::vector<std::string> * notes) {
        return json_schema_rules(function.parameters, name, shared.texts, notes);
    };
    return rules_as_followed(make, function, name, "object", shared);
}

// A grammar's text ends at a zero, and a tag at '>'.
bool can_stand_in_tags(std::string_view text) {
    return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '<' || c == '>'; });
}

// One of these, texts as they are. Empty: one of them cannot stand between tags, or there are none.
std::string any_of_texts(const std::vector<Json> & values) {
    std::string any;
    for (const Json & one : values) {
        const std::string text = one.is_null() ? "null" : one.is_string() ? one.get<std::string>() : "<";
        if (!can_stand_in_tags(text)) { return {}; }
        any += (any.empty() ? "(" : " | ") + grammar_literal(text);
    }
    return any.empty() ? any : any + ")";
}

// A value as it stands between tags, up to the one that closes it. property: a part of root.
Result<std::string> tagged_value(const Json & property, const Json & root, bool is_text, const ToolFunction & function,
                                 const std::string & rule, const std::string & close, Shared & shared) {
    if (!is_text) {
        const auto make = [&](std::vector<std::string> * notes) {
            return json_schema_rules(root, property, function.parameters.size(), rule, shared.texts, notes);
        };
        PITH_ASSIGN_OR_RETURN(const std::string made, rules_as_followed(make, function, rule, "value", shared));
        shared.rules += made;
        return rule + " " + grammar_literal(close);
    }
    const std::vector<Json> values = values_of_schema(property, root);
    if (const std::string any = any_of_texts(values); !any.empty()) { return any + " " + grammar_literal(close); }
    const auto note = [&](const std::string & what) {
        shared.notes.push_back("the function " + pith::quoted(function.name) + ": " + what +
                               " of a text is not followed where a model writes texts as they are, between tags");
    };
    if (!values.empty()) { note("'enum'"); }
    for (const char * keyword : {"pattern", "format", "minLength", "maxLength"}) {
        if (property.contains(keyword)) { note(pith::quoted(keyword)); }
    }
    return up_to(close, shared);
}

// Each argument between its own tags, in the schema's order.
Result<std::string> tagged_arguments_rule(ToolForm form, const ToolFunction & function, const std::string & name,
                                          Shared & shared) {
    const Json root = Json::parse(function.parameters, nullptr, /*allow_exceptions=*/false);
    const TextsOfFunction texts = texts_of_schema(root);
    const ArgumentList arguments = arguments_of(root);
    std::string all;
    int n = 0;
    for (const auto & [key, property] : arguments.properties) {
        if (!can_stand_in_tags(key)) { continue; }
        const std::string rule = name + "p" + std::to_string(n++);
        const ArgumentText text = argument_text(form, key);
        PITH_ASSIGN_OR_RETURN(const std::string value,
                              tagged_value(*property, root, texts.contains(key), function, rule, text.close, shared));
        const std::string one = grammar_literal(text.open) + " " + value;
        all += arguments.required.contains(key) ? " " + one : " (" + one + ")?";
    }
    return name + " ::=" + (all.empty() ? " ws" : all) + "\n";
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
    std::string calls;
    std::string rules;
    if (reasoning.any()) {
        PITH_ASSIGN_OR_RETURN(const std::string thought, thought_rule(reasoning, shared));
        grammar += "thought ::= " + thought + "\n";
    }
    for (size_t i = 0; i < functions.size(); ++i) {
        const std::string name = "a" + std::to_string(i);
        PITH_ASSIGN_OR_RETURN(const std::string arguments, has_tagged_arguments(form)
                                                               ? tagged_arguments_rule(form, functions[i], name, shared)
                                                               : arguments_rule(functions[i], name, shared));
        rules += arguments;
        calls += (i > 0 ? " | " : "") + call_of(form, functions[i], name);
    }
    if (notes != nullptr) { notes->insert(notes->end(), shared.notes.begin(), shared.notes.end()); }
    return grammar + "call ::= " + calls + "\n" + rules + shared.rules + std::string(json_grammar_basics());
}

Result<std::string> grammar_behind_thought(std::string_view grammar, const ReasoningMarks & reasoning) {
    Shared shared;
    PITH_ASSIGN_OR_RETURN(const std::string thought, thought_rule(reasoning, shared));
    return grammar_behind("thought", "thought ::= " + thought + "\n" + shared.rules + std::string(json_grammar_basics()),
                          grammar);
}

}  // namespace pith
