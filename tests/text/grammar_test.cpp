// grammar_test.cpp - grammars of strangers: what is read, what is refused, and that each costs no more than a limit.
#include "text/grammar.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pith/text.h"
#include "text/grammar_choice.h"
#include "text/grammar_matcher.h"
#include "text/json_grammar.h"
#include "text/reasoning.h"
#include "text/tiny_vocabulary.h"
#include "text/tool_grammar.h"

namespace pith::grammar_test {
namespace {

using testing::TempFolder;
using testing::write_tiny;

std::string times(const std::string & text, int n) {
    std::string all;
    for (int i = 0; i < n; ++i) { all += text; }
    return all;
}

Result<Grammar> read(const std::string & text) {
    return read_grammar(text, [](std::string_view) { return std::optional<int32_t>(); });
}

TEST(Grammar, ThatIsWrongIsRefusedByOneLineThatSaysWhere) {
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"", "a rule called root"},
        {"a ::= \"x\"", "a rule called root"},
        {"root ::= nothing", "the rule 'nothing' is used"},
        {"x x", "line 1: ::= belongs"},
        {"root ::= \"a\"\n= 3", "line 2: a rule's name"},
        {"root ::= \"a\nb", "quotation marks"},
        {"root ::= [a", "brackets []"},
        {"root ::= []", "no character"},
        {"root ::= \"\\q\"", "behind a \\"},
        {"root ::= \"\\u12\"", "4 hexadecimal digits"},
        {"root ::= (\"a\"", "')' is missing"},
        {"root ::= \"a\")", "not ')'"},
        {"root ::= *", "nothing stands before '*'"},
        {"root ::= \"a\" | +", "nothing stands before '+'"},
        {"root ::= \"\"*", "nothing stands before '*'"},
        {"root ::= \"a\"{", "a number belongs"},
        {"root ::= \"a\"{1", "'}' is missing"},
        {"root ::= \"a\"{3,2}", "{3,2} is no range"},
        {"root ::= \"a\"{1000000}", "repeated 1000000 times: 10000 at most"},
        {"root ::= \"a\"{0,99999999999999999999999}", "10000 at most"},
        {"root ::= <x>", "'<x>' is no token"},
        {"root ::= <", "a token is <name>"},
        {"root ::= \"\xFF\"", "not UTF-8"},
        {std::string("root ::= \"a\"\0", 13), "a line break or the end"},
    };
    for (const auto & [text, part] : rows) {
        const auto grammar = read(text);
        ASSERT_FALSE(grammar.ok()) << text;
        EXPECT_EQ(grammar.status().code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(grammar.status().message().find(part), std::string::npos) << text << ": " << grammar.status().message();
        EXPECT_EQ(grammar.status().message().find('\n'), std::string::npos) << grammar.status().message();
    }
}

// What a reader that calls itself for every bracket and every rule would run out of stack, memory or time with.
TEST(Grammar, ThatIsLargeOrNestedWithoutEndIsRefused) {
    std::string chain = "root ::= a0\n";
    for (int i = 0; i < 120'000; ++i) { chain += "a" + std::to_string(i) + " ::= a" + std::to_string(i + 1) + "\n"; }
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"root ::= " + times("(", 17'000) + "\"a\"" + times(")", 17'000), "nested deeper than 200"},
        {"root ::= " + times("(", 17'000), "nested deeper than 200"},
        {chain + "a120000 ::= \"a\"", "bytes: 524288 at most"},
        {"root ::= " + times("\"a\"{10000} ", 100), "more than 524288 symbols"},
        {"root ::= " + times("(\"a\"{10000} ", 100), "more than 524288 symbols"},
        {"root ::= " + times("(.{9999} \"b\" ){0,10000} ", 40), "more than 524288 symbols"},
    };
    for (const auto & [text, part] : rows) {
        const auto grammar = read(text);
        ASSERT_FALSE(grammar.ok()) << text.substr(0, 50);
        EXPECT_NE(grammar.status().message().find(part), std::string::npos) << grammar.status().message();
    }
    EXPECT_TRUE(read("root ::= " + times("(", 200) + "\"a\"" + times(")", 200)).ok());
    EXPECT_TRUE(read("root ::= \"" + times("(", 5000) + "\" [" + times("(", 5000) + "] # " + times("(", 5000)).ok());
    EXPECT_TRUE(read("root ::= \"\\\"(((\" [\\](((]").ok());
}

TEST(Grammar, ThatBeginsWithItselfIsRefusedUnlessItStaysTheSame) {
    for (const char * text : {
             "root ::= root \"a\" | \"b\"",
             "root ::= a\na ::= b \"x\" | \"y\"\nb ::= a",
             "root ::= a\na ::= empty a \"x\" | \"y\"\nempty ::= also\nalso ::= | \"z\"",  // behind rules that say nothing
             "root ::= a*\na ::= (b? a) \"x\" | \"y\"\nb ::= \"z\"",
             "root ::= (root | \"a\")*",
         }) {
        const auto grammar = read(text);
        ASSERT_FALSE(grammar.ok()) << text;
        EXPECT_NE(grammar.status().message().find("begins with itself"), std::string::npos) << grammar.status().message();
    }
    for (const char * text : {"root ::= ([a-z]*)*", "root ::= ((\"a\"? \"b\"*)+)*", "root ::= ws* \"a\"\nws ::= | \" \" ws",
                              "root ::= \"(\" root \")\" | \"\"", "root ::= a | \"x\"\na ::= root"}) {
        const auto grammar = read(text);
        EXPECT_TRUE(grammar.ok()) << text << ": " << grammar.status().message();
    }
}

// Two ways into each rule: 2^60 ways in all, and each rule is looked at once.
TEST(Grammar, IsCheckedOnceHoweverManyWaysLeadToARule) {
    std::string text = "root ::= a0\n";
    for (int i = 0; i < 60; ++i) {
        const std::string next = "a" + std::to_string(i + 1);
        text += "a" + std::to_string(i) + " ::= " + next + " | " + next + "\n";
    }
    EXPECT_TRUE(read(text + "a60 ::= \"a\"").ok());
    EXPECT_FALSE(read(text + "a60 ::= a0 \"a\"").ok());
}

class Grammars : public ::testing::Test {
protected:
    static std::string path() {
        static const TempFolder folder;
        static const std::string path = write_tiny(folder);
        return path;
    }
    static const Tokenizer & tokenizer() {
        static const Tokenizer tokenizer = Tokenizer::load(path()).value();
        return tokenizer;
    }
    static const TokenTexts & texts() {
        static const TokenTexts texts(tokenizer());
        return texts;
    }
    static GrammarMatcher matcher(const std::string & text) {
        auto grammar = read(text);
        EXPECT_TRUE(grammar.ok()) << grammar.status().message();
        return GrammarMatcher::make(std::move(*grammar), texts()).value();
    }
    // The token that is this one byte.
    static int32_t byte_token(char byte) { return 3 + static_cast<int32_t>(static_cast<unsigned char>(byte)); }

    // Says it byte by byte; false: not all of it may be said.
    static bool says(GrammarMatcher & matcher, const std::string & text) {
        for (const char byte : text) {
            if (!matcher.allows(byte_token(byte)).value()) { return false; }
            EXPECT_TRUE(matcher.accept(byte_token(byte)).ok());
        }
        return true;
    }
    // All of it, and then it may end.
    static bool fits(const std::string & grammar, const std::string & text) {
        GrammarMatcher one = matcher(grammar);
        return says(one, text) && one.allows(tokenizer().eos()).value();
    }
};

// A text may hold the beginnings of the mark that ends it, which is what HTML and code are full of.
TEST_F(Grammars, OfCallsTakeTextsThatHoldPartsOfTheirMarks) {
    const ToolFunction one = {"f", R"({"properties": {"code": {"type": "string"}}, "required": ["code"]})", true};
    const auto fits_in = [&](ToolForm form, const std::string & text) {
        return fits(tool_grammar(form, std::span(&one, 1), true, {}).value(), text);
    };
    const auto in_lines = [](const std::string & code) {
        return "<tool_call>\n<function=f>\n<parameter=code>\n" + code + "\n</parameter>\n</function>\n</tool_call>";
    };
    const auto in_pairs = [](const std::string & code) {
        return "<tool_call>f\n<arg_key>code</arg_key>\n<arg_value>" + code + "</arg_value>\n</tool_call>";
    };
    for (const std::string code :
         {"", "<b>Hi</b>", "<!DOCTYPE html>\n<html>\n</html>", "a\n</para>\n<", "</arg_valu", "é\n</p"}) {
        EXPECT_TRUE(fits_in(ToolForm::kParameters, in_lines(code))) << code;
        EXPECT_TRUE(fits_in(ToolForm::kPairs, in_pairs(code))) << code;
    }
    EXPECT_FALSE(fits_in(ToolForm::kParameters, in_lines("a</parameter>b")));
    EXPECT_FALSE(fits_in(ToolForm::kPairs, in_pairs("a</arg_value>b")));
}

// What an argument's schema points to comes with it, and a root may point to the object.
TEST_F(Grammars, OfTaggedCallsFollowReferences) {
    const ToolFunction one = {"f", R"({"$ref": "#/$defs/F", "$defs": {"F": {"properties": {"n": {"$ref": "#/$defs/N"},
        "level": {"anyOf": [{"$ref": "#/$defs/L"}, {"type": "null"}]}}, "required": ["n"]}, "N": {"type": "integer"}, "L": {"const": "low"}}})",
                              true};
    const std::string grammar = tool_grammar(ToolForm::kPairs, std::span(&one, 1), true, {}).value();
    const auto call = [](const std::string & n, const std::string & level = "") {
        const std::string more = level.empty() ? "" : "<arg_key>level</arg_key>\n<arg_value>" + level + "</arg_value>\n";
        return "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>" + n + "</arg_value>\n" + more + "</tool_call>";
    };
    EXPECT_TRUE(fits(grammar, call("12")));
    EXPECT_TRUE(fits(grammar, call("12", "low")));
    EXPECT_TRUE(fits(grammar, call("12", "null")));
    EXPECT_FALSE(fits(grammar, call("12", "high")));
    EXPECT_FALSE(fits(grammar, call("x")));
    EXPECT_FALSE(fits(grammar, "<tool_call>f\n</tool_call>"));
}

TEST_F(Grammars, BehindAThoughtItIsTheModelsOwn) {
    const std::string format = "root ::= ws \"7\"\nws ::= \" \"?";
    const std::string grammar = grammar_behind_thought(format, {.open = "<think>", .close = "</think>"}).value();
    EXPECT_TRUE(fits(grammar, "7"));
    EXPECT_TRUE(fits(grammar, "<think>a < b, </thin </think>\n\n 7"));
    EXPECT_FALSE(fits(grammar, "<think>a 7"));
    EXPECT_FALSE(fits(grammar, "<think></think>8"));
    // gpt-oss: each message has a header.
    const ReasoningMarks frames = reasoning_marks("<|channel|>analysis<|message|>", "");
    const std::string framed =
        grammar_behind_thought(grammar_behind(grammar_literal(frames.answer), "", format), frames).value();
    EXPECT_TRUE(fits(framed, frames.answer + "7"));
    EXPECT_TRUE(fits(framed, frames.open + "hm" + frames.close + "<|start|>assistant" + frames.answer + "7"));
    EXPECT_FALSE(fits(framed, "7"));
}

TEST_F(Grammars, SayWhatTheirRulesSay) {
    EXPECT_TRUE(fits("root ::= \"a\" | \"b\"", "b"));
    EXPECT_FALSE(fits("root ::= \"a\" | \"b\"", "ab"));
    EXPECT_TRUE(fits("# begins\nroot ::= x-1 # here\n  x-1 ::= \"a\"\r\n  # ends", "a"));
    EXPECT_TRUE(fits("root ::= (\n \"a\" |\n \"b\"\n)+", "abba"));
    EXPECT_TRUE(fits("root ::= \"a\" |\n \"b\"", "b"));
    EXPECT_TRUE(fits("root ::= \"ab\"*", "abab"));
    EXPECT_FALSE(fits("root ::= \"ab\"*", "aba"));
    EXPECT_TRUE(fits("root ::= \"\"", ""));
    EXPECT_TRUE(fits("root ::= [^a-c\\]\\-] .", "d\n"));
    EXPECT_FALSE(fits("root ::= [^a-c\\]\\-]", "]"));
    EXPECT_TRUE(fits("root ::= [a-] \"\\x41\\u0042\\U00000043\\t\\\"\\\\\"", "-ABC\t\"\\"));
    EXPECT_TRUE(fits("root ::= \"(\" root \")\" | \"\"", times("(", 3000) + times(")", 3000)));
    EXPECT_FALSE(fits("root ::= \"(\" root \")\" | \"\"", "(()"));
    EXPECT_TRUE(fits("root ::= ([a-z]*)*", "abc"));
    EXPECT_TRUE(fits("root ::= a\na ::= \"x\"\na ::= \"y\"", "y")) << "the last rule of a name counts";
    for (const int n : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const std::string said = times("ab", n);
        EXPECT_EQ(fits("root ::= \"ab\"{3}", said), n == 3) << n;
        EXPECT_EQ(fits("root ::= \"ab\"{3,}", said), n >= 3) << n;
        EXPECT_EQ(fits("root ::= \"ab\"{2,4}", said), n >= 2 && n <= 4) << n;
        EXPECT_EQ(fits("root ::= \"ab\"{ 0 , 2 }", said), n <= 2) << n;
    }
}

TEST_F(Grammars, ReadCharactersThatTokensCut) {
    EXPECT_TRUE(fits("root ::= [à-ü]+", "éü"));
    EXPECT_FALSE(fits("root ::= [à-ü]+", "éÀ"));
    EXPECT_TRUE(fits("root ::= [^a]", "\xF0\x9F\x98\x80"));  // a smile
    for (const char * no_utf8 : {"\x80", "\xC1\x81", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC3", "\xFF"}) {
        EXPECT_FALSE(fits("root ::= .*", no_utf8)) << no_utf8;
    }
    // The first byte is refused where nothing of it can follow.
    GrammarMatcher one = matcher("root ::= \"é\"");
    EXPECT_FALSE(one.allows(byte_token('\xE2')).value());
    EXPECT_TRUE(one.allows(byte_token('\xC3')).value());
    EXPECT_TRUE(one.accept(byte_token('\xC3')).ok());
    EXPECT_FALSE(one.allows(tokenizer().eos()).value()) << "in the middle of a character";
    EXPECT_FALSE(one.allows(byte_token('\xA8')).value());
    EXPECT_TRUE(one.allows(byte_token('\xA9')).value());
}

TEST_F(Grammars, NameTokens) {
    GrammarMatcher one = matcher("root ::= <[70]> !<[71]>");
    std::vector<bool> allowed;
    ASSERT_TRUE(one.allowed(allowed).ok());
    for (int32_t token = 0; token < tokenizer().n_vocab(); ++token) {
        EXPECT_EQ(allowed[static_cast<size_t>(token)], token == 70) << token;
        EXPECT_EQ(one.allows(token).value(), token == 70) << token;
    }
    ASSERT_TRUE(one.accept(70).ok());
    ASSERT_TRUE(one.allowed(allowed).ok());
    EXPECT_TRUE(allowed[72]);
    EXPECT_FALSE(allowed[71]);
    ASSERT_TRUE(one.accept(72).ok());
    EXPECT_TRUE(one.allows(tokenizer().eos()).value());
    // A token may be the first byte of a character, and the grammar want no character.
    GrammarMatcher other = matcher("root ::= !<[71]> !<[71]>");
    for (const int32_t token : {byte_token('\xE2'), 72}) {
        EXPECT_TRUE(other.allows(token).value());
        ASSERT_TRUE(other.accept(token).ok());
    }
    EXPECT_TRUE(other.allows(tokenizer().eos()).value());
}

struct FreeModel {
    void operator()(llama_model * model) const { llama_model_free(model); }
};
struct FreeSampler {
    void operator()(llama_sampler * sampler) const { llama_sampler_free(sampler); }
};

// libllama is asked about every token, at every place of random texts. What is no ASCII is left out: bytes that are no UTF-8
// are allowed there.
TEST_F(Grammars, AllowTheTokensThatLlamaAllows) {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    const std::unique_ptr<llama_model, FreeModel> model(llama_model_load_from_file(path().c_str(), params));
    ASSERT_NE(model, nullptr);
    const llama_vocab * vocab = llama_model_get_vocab(model.get());
    const auto n = static_cast<size_t>(tokenizer().n_vocab());
    std::vector<std::string> grammars = {
        "root ::= [a-z ]+",
        "root ::= (\" \" [a-z]+)* \".\"?",
        "root ::= ([a-z]+ \" \")+ \".\" | \"the\" [^x]{2,5}",
        "root ::= expr\nexpr ::= term ([-+] term)*\nterm ::= \"(\" expr \")\" | [0-9]{1,3} | \" \" [a-h]+ \"s\"",
        "root ::= \"a\"? \"b\"? \" \"? \"t\"? \"h\"? \"e\"? [^a-m]* \"!\"",
        "root ::= s \"x\"\ns ::= \"a\" s \"b\" | \" \" \"t\"",
    };
    for (const char * schema :
         {"{}", R"({"type":"object","properties":{"the":{"type":"string","maxLength":5},"n":{"type":"integer"},
            "all":{"type":"array","items":{"enum":["to","the","then"]},"maxItems":3}},"required":["n"]})"}) {
        grammars.push_back(grammar_of_json_schema(schema).value());
    }
    for (const std::string & text : grammars) {
        for (unsigned seed = 0; seed < 3; ++seed) {
            const std::unique_ptr<llama_sampler, FreeSampler> theirs(llama_sampler_init_grammar(vocab, text.c_str(), "root"));
            ASSERT_NE(theirs, nullptr) << text;
            GrammarMatcher ours = matcher(text);
            std::mt19937 random(seed);
            std::string said;
            for (int step = 0; step < 24; ++step) {
                std::vector<llama_token_data> candidates(n);
                for (size_t i = 0; i < n; ++i) { candidates[i] = {static_cast<llama_token>(i), 0.0F, 0.0F}; }
                llama_token_data_array array{candidates.data(), n, -1, false};
                llama_sampler_apply(theirs.get(), &array);
                std::vector<bool> allowed;
                ASSERT_TRUE(ours.allowed(allowed).ok());
                std::vector<int32_t> next;
                for (size_t i = 0; i < n; ++i) {
                    const auto token = static_cast<int32_t>(i);
                    const std::string piece = tokenizer().piece(token, true);
                    if (!std::ranges::all_of(piece, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) { continue; }
                    const bool there = candidates[i].logit == 0.0F;
                    ASSERT_EQ(allowed[i], there) << text << "\n" << said << " then " << piece;
                    ASSERT_EQ(ours.allows(token).value(), there) << text << "\n" << said << " then " << piece;
                    if (there && !tokenizer().is_end_of_generation(token)) { next.push_back(token); }
                }
                if (next.empty()) { break; }
                const int32_t token = next[random() % next.size()];
                said += tokenizer().piece(token, true);
                llama_sampler_accept(theirs.get(), token);
                ASSERT_TRUE(ours.accept(token).ok());
            }
        }
    }
}

// Of the 400 letters any may be left out: the ways to read ten of them are more than 10^19, and the places 400.
TEST_F(Grammars, MayHaveManyWaysToReadATextThatLeadToFewPlaces) {
    for (const char * part : {"\"a\"? ", "[a-z]? ", "([a-z]|[a-z]|.)? ", "([a-z] [a-z]? )? "}) {
        GrammarMatcher one = matcher("root ::= " + times(part, 400));
        std::vector<bool> allowed;
        for (int i = 0; i < 30; ++i) {
            ASSERT_TRUE(one.allowed(allowed).ok()) << part;
            ASSERT_TRUE(allowed[static_cast<size_t>(byte_token('a'))]);
            ASSERT_TRUE(one.accept(byte_token('a')).ok());
        }
    }
}

// Of many characters in one class, or in as many alternatives, each leads to one place.
TEST_F(Grammars, MayHaveManyCharacters) {
    std::string characters;
    std::string words;
    for (int i = 0; i < 6000; ++i) {
        const auto c = static_cast<unsigned>(0x4E00 + i * 3);
        const std::string one = {static_cast<char>(0xE0U | (c >> 12U)), static_cast<char>(0x80U | ((c >> 6U) & 0x3FU)),
                                 static_cast<char>(0x80U | (c & 0x3FU))};
        characters += one;
        words += (i > 0 ? "|\"" : "\"") + one + "\"";
    }
    for (const std::string & grammar : {"root ::= [" + characters + "]+", "root ::= (" + words + ")+"}) {
        GrammarMatcher one = matcher(grammar);
        std::vector<bool> allowed;
        for (size_t i = 0; i < 300; ++i) {
            const char byte = characters[(i / 3 * 57 + i % 3) % characters.size()];
            ASSERT_TRUE(one.allowed(allowed).ok()) << i;
            ASSERT_TRUE(allowed[static_cast<size_t>(byte_token(byte))]) << i;
            ASSERT_FALSE(allowed[static_cast<size_t>(byte_token('a'))]) << i;
            ASSERT_TRUE(one.accept(byte_token(byte)).ok()) << i;
        }
    }
}

// A place that wants a token costs what any other does, and so do characters that overlap, or that none is.
TEST_F(Grammars, CountTheirTokensToo) {
    std::string tokens = "<[70]>";
    for (int i = 0; i < 10'000; ++i) { tokens += "|<[70]>"; }
    GrammarStates states(read("root ::= (t | [^\\x00-\\x7F] | [z-a] | [b-de-gc-f])*\nt ::= " + tokens).value());
    states.allow(10'000'000);
    const uint32_t start = states.start();
    for (const auto & [c, is_there] : {std::pair(U'a', false), std::pair(U'b', true), std::pair(U'g', true),
                                       std::pair(U'h', false), std::pair(U'z', false), std::pair(U'\u4E00', true)}) {
        EXPECT_EQ(states.goes_on(start, c, c), is_there);
        EXPECT_EQ(states.next(start, c) != GrammarStates::kDead, is_there);
    }
    EXPECT_FALSE(states.goes_on(start, U'h', U'\x7F'));
    EXPECT_TRUE(states.goes_on(start, U'h', U'\x80'));
    EXPECT_TRUE(states.goes_on(start, U'\0', U'b'));
    const int64_t left = states.n_left();
    EXPECT_NE(states.next_token(start, 70), GrammarStates::kDead);
    EXPECT_LE(states.n_left(), left - 10'000);
}

TEST_F(Grammars, ForgetPlacesThatTheyHaveLeft) {
    const std::string grammar = "root ::= " + times("\"a\"? ", 2000);  // as many states, each of up to 2,000 places
    EXPECT_TRUE(fits(grammar, times("a", 2000)));
    EXPECT_FALSE(fits(grammar, times("a", 2001)));
    GrammarMatcher one = matcher(grammar);
    EXPECT_TRUE(says(one, times("a", 1500)));
    EXPECT_TRUE(one.reset().ok());
    EXPECT_TRUE(says(one, times("a", 2000)));
    EXPECT_FALSE(says(one, "a"));
}

// Every "a" doubles the ways to read the text, and what may follow is the same for all of them.
TEST_F(Grammars, KeepOnePlaceForAllWaysThatLeadToIt) {
    const std::string doubles = "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"d\"";
    EXPECT_TRUE(fits(doubles, times("a", 300) + "d" + times("bc", 150)));
    EXPECT_FALSE(fits(doubles, times("a", 300) + "d" + times("bc", 150) + "b"));
    EXPECT_FALSE(fits(doubles, times("a", 300) + "d" + times("bc", 149)));
    std::string deep = "root ::= a0\n";  // 2^40 ways to begin
    for (int i = 0; i < 40; ++i) {
        const std::string next = "a" + std::to_string(i + 1);
        deep += "a" + std::to_string(i) + " ::= " + next + " \"x\" | " + next + " \"y\"\n";
    }
    EXPECT_TRUE(fits(deep + "a40 ::= \"z\"", "z" + times("xy", 20)));
    EXPECT_FALSE(fits(deep + "a40 ::= \"z\"", "z" + times("xy", 19) + "x"));
    // Rules that say one another, and nothing.
    const std::string round = "root ::= a \"!\"\na ::= b | \"x\" a?\nb ::= a | e \"y\"\ne ::= \"z\"? f\nf ::= \"w\"*";
    for (const char * text : {"x!", "y!", "zy!", "wwy!", "xzwy!", "xxxx!", "xxy!"}) { EXPECT_TRUE(fits(round, text)) << text; }
    for (const char * text : {"!", "z!", "yx!", "xyy!", "wz!"}) { EXPECT_FALSE(fits(round, text)) << text; }
}

// As many places as letters, all of which a token must be held against: the request that brings such a grammar fails, by name,
// and nobody waits for it.
TEST_F(Grammars, WithTooManyPlacesEndWithAnError) {
    SamplerOptions options;
    options.grammar = "root ::= " + times("[a-z]? ", 30'000);
    auto sampler = Sampler::make(options, &tokenizer());
    ASSERT_TRUE(sampler.ok()) << sampler.status().message();
    std::vector<float> logits(static_cast<size_t>(tokenizer().n_vocab()));
    logits[static_cast<size_t>(byte_token('a'))] = 50.0F;
    Result<int32_t> token = 0;
    int n_said = 0;
    while (n_said < 1000 && (token = sampler->sample(logits)).ok()) { ++n_said; }
    ASSERT_FALSE(token.ok());
    EXPECT_GT(n_said, 5);
    EXPECT_EQ(token.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(token.status().message().find("too many ways"), std::string::npos) << token.status().message();
}

// What a token leads to inside of a rule is remembered, and what follows the rule is another matter.
TEST_F(Grammars, AllowTheSameTokensAtOnceAsOneByOne) {
    for (const char * text : {"root ::= s\ns ::= \"(\" s \")\" | \"[\" s \"]\" | [a-z]+ \" \"?",
                              "root ::= \"a\" x \" the\" | \"b\" x \".\"\nx ::= [a-z ]{0,3} | \"(\" x \")\"",
                              "root ::= ([a-z]+ | \"é\" | <[70]>)* \"!\""}) {
        GrammarMatcher one = matcher(text);
        std::mt19937 random(7);
        for (int step = 0; step < 60; ++step) {
            std::vector<bool> allowed;
            ASSERT_TRUE(one.allowed(allowed).ok());
            std::vector<int32_t> next;
            for (int32_t token = 0; token < tokenizer().n_vocab(); ++token) {
                ASSERT_EQ(allowed[static_cast<size_t>(token)], one.allows(token).value()) << text << " " << token;
                const bool ends = tokenizer().is_end_of_generation(token);
                if (allowed[static_cast<size_t>(token)] && !ends) { next.push_back(token); }
            }
            if (next.empty()) { break; }
            ASSERT_TRUE(one.accept(next[random() % next.size()]).ok());
        }
    }
}

// What users send goes on as before.
TEST_F(Grammars, OfLongSchemasAreFollowed) {
    std::string properties;
    for (int i = 0; i < 300; ++i) {
        properties += (i > 0 ? ",\"" : "\"") + ("name" + std::to_string(i)) + R"(":{"type":"string","maxLength":50})";
    }
    std::string values = "\"v0\"";
    for (int i = 1; i < 5000; ++i) { values += ",\"value " + std::to_string(i) + "\""; }
    for (const std::string & schema :
         {std::string(R"({"type":"string","maxLength":5000})"), std::string(R"({"type":"array","maxItems":5000})"),
          R"({"type":"object","properties":{)" + properties + "}}", R"({"enum":[)" + values + "]}"}) {
        const auto grammar = grammar_of_json_schema(schema);
        ASSERT_TRUE(grammar.ok()) << grammar.status().message();
        SamplerOptions options;
        options.grammar = *grammar;
        options.seed = 7;
        auto sampler = Sampler::make(options, &tokenizer());
        ASSERT_TRUE(sampler.ok()) << sampler.status().message();
        std::vector<float> logits(static_cast<size_t>(tokenizer().n_vocab()));
        for (int32_t token = 0; token < tokenizer().n_vocab(); ++token) {  // letters alone
            const std::string piece = tokenizer().piece(token);
            const bool letters = !piece.empty() && std::ranges::all_of(piece, [](char c) { return c >= 'a' && c <= 'z'; });
            logits[static_cast<size_t>(token)] = letters ? 5.0F : 0.0F;
        }
        for (int i = 0; i < 100; ++i) {
            const auto token = sampler->sample(logits);
            ASSERT_TRUE(token.ok()) << token.status().message() << " " << schema.substr(0, 60);
            if (tokenizer().is_end_of_generation(*token)) { break; }
        }
    }
}

}  // namespace
}  // namespace pith::grammar_test
