// json_schema.cpp - a JSON schema as a grammar, a rule for each place of the schema. Stage: text.
//
// What is understood: docs/run.md. Every text of the grammar fits the schema; not every value that fits is written: properties
// come in the schema's order, those that are not named where that is said alone, numbers with bounds have no exponent. Whatever
// cannot be followed is refused: a grammar that let more through than the schema would not keep its promise. Tools that are not
// strict are read so that only what cannot be followed is left out.
// Threads: pure function.
#include "core/guarded.h"
#include "core/json_syntax.h"
#include "pith/text.h"
#include "text/json_grammar.h"
#include "text/schema_writer.h"

namespace pith {
namespace {

// Between tokens at most one space, or a line break and its indentation: a model cannot fill its limit with blanks. A character
// that is written as two halves is one; no half stands alone. Numbers fit a double.
constexpr const char * kBasics = R"(ws ::= | " " | "\n" [ \t]{0,20}
char ::= [^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" unicode)
unicode ::= [0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex | [dD] [89abAB] hex hex "\\u" [dD] [c-fC-F] hex hex
hex ::= [0-9a-fA-F]
string ::= "\"" char* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,17})
number ::= integer ("." [0-9]{1,17})? ([eE] ("-" exponent | "+"? exponent))?
exponent ::= [0-9]{1,2} | "1" [0-9] [0-9] | "2" [0-8] [0-9]
boolean ::= "true" | "false"
null ::= "null"
value ::= object | array | string | number | boolean | null
object ::= "{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
)";

constexpr size_t kMostSchemaBytes = size_t{1} << 20;

Status check_size(size_t n_bytes) {
    if (n_bytes <= kMostSchemaBytes) { return {}; }
    return {ErrorCode::kInvalidArgument,
            "the JSON schema has " + std::to_string(n_bytes) + " bytes: " + std::to_string(kMostSchemaBytes) + " at most"};
}

Result<std::string> rules_of_part(const SchemaJson & document, const SchemaJson & part, const std::string & first,
                                  const std::string & prefix, RegularTexts & texts, std::vector<std::string> * notes) {
    try {
        return schema_rules(document, part, first, prefix, texts, notes);
    } catch (const SchemaJson::exception &) {
        return {ErrorCode::kInvalidArgument,
                "the JSON schema cannot be read: a keyword holds something else than JSON Schema says; correct it, or send a "
                "grammar of your own"};
    }
}

Result<std::string> rules_of(std::string_view schema, const std::string & first, const std::string & prefix,
                             RegularTexts & texts, std::vector<std::string> * notes) {
    if (const std::string problem = json_problem(schema); !problem.empty()) {
        return {ErrorCode::kInvalidArgument, "the JSON schema is no JSON: " + problem};
    }
    PITH_RETURN_IF_ERROR(check_size(schema.size()));
    const SchemaJson document = SchemaJson::parse(schema, nullptr, /*allow_exceptions=*/false);
    if (document.is_discarded()) {
        return {ErrorCode::kInvalidArgument, "the JSON schema has a number that is too large, or text that is not UTF-8"};
    }
    return rules_of_part(document, document, first, prefix, texts, notes);
}

}  // namespace

std::string grammar_literal(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') { out += '\\'; }
        if (c == '\n') {
            out += "\\n";
        } else {
            out += c;
        }
    }
    return out + "\"";
}

Result<std::string> json_schema_rules(std::string_view schema, const std::string & name, RegularTexts & texts,
                                      std::vector<std::string> * notes) {
    return rules_of(schema, name, name + '-', texts, notes);
}

Result<std::string> json_schema_rules(const SchemaJson & document, const SchemaJson & part, size_t n_bytes,
                                      const std::string & name, RegularTexts & texts, std::vector<std::string> * notes) {
    PITH_RETURN_IF_ERROR(check_size(n_bytes));
    return rules_of_part(document, part, name, name + '-', texts, notes);
}

std::string_view json_grammar_basics() {
    return kBasics;
}

Result<std::string> grammar_of_json_schema(std::string_view schema) {
    return guarded([&]() -> Result<std::string> {
        RegularTexts texts;
        PITH_ASSIGN_OR_RETURN(const std::string rules, rules_of(schema, "root", "", texts, nullptr));
        return rules + kBasics;
    });
}

}  // namespace pith
