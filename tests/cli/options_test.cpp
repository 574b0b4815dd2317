// options_test.cpp - the table of options: its rows are true of the commands' options, and arguments are read by it.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "app/shell/commands.h"
#include "app/shell/llama_flags.h"
#include "common/base/args.h"
#include "common/base/flag_names.h"
#include "common/options/options.h"
#include "common/options/read_arguments.h"
#include "common/shell/option_values.h"

namespace pith::app::options_test {
namespace {

// pith's own commands.
struct Commands {
    CLI::App root{"", "pith"};
    int exit_code = 0;
    std::vector<std::string> none;

    Commands() {
        root.fallthrough();
        add_run_command(root, exit_code);
        add_chat_command(root, exit_code);
        add_serve_command(root, exit_code);
        add_compress_command(root, exit_code);
        add_ask_command(root, exit_code);
        add_cache_command(root, exit_code);
        add_info_command(root, exit_code);
        add_tokenize_command(root, exit_code);
        add_bench_command(root, exit_code, none);
        add_demo_command(root, exit_code, none);
    }

    Words read(const Words & arguments, const LlamaFlags & llama = llama_flags()) const {
        const auto read = read_arguments(root, arguments, llama);
        return read.ok() ? *read : Words{read.status().message()};
    }
};

std::vector<const CLI::Option *> options_of(const CLI::App & command) {
    auto all = command.get_options([](const CLI::Option *) { return true; });
    for (const CLI::App * below : command.get_subcommands([](const CLI::App *) { return true; })) {
        for (const CLI::Option * one : options_of(*below)) { all.push_back(one); }
    }
    return all;
}

bool is_options(const OptionRow & row, const CLI::Option & option) {
    return any_word(row.names, ',', [&](std::string_view name) { return option.check_name(std::string(name)); });
}

TEST(OptionTable, HasNoRowThatNoCommandUses) {
    const Commands commands;
    const auto options = options_of(commands.root);
    const std::set<std::string_view> elsewhere = {"--causal", "--verbose"};  // the laboratory's; of the program itself
    const bool can_serve = commands.root.get_subcommand("serve")->get_option_no_throw("--host") != nullptr;
    for (const OptionRow & row : kOptions) {
        if (!can_serve && std::ranges::find(kServingRows, row.names, &OptionRow::names) != kServingRows.end()) { continue; }
        const bool is_there = std::ranges::any_of(options, [&](const CLI::Option * one) { return is_options(row, *one); });
        EXPECT_NE(is_there, elsewhere.contains(long_name(row))) << row.names;
    }
}

TEST(OptionTable, SaysOfEachValueWhatItIs) {
    const Commands commands;
    for (const CLI::Option * one : options_of(commands.root)) {
        const OptionRow * row = one->nonpositional() ? find_option("--" + one->get_lnames().front()) : nullptr;
        if (row == nullptr) { continue; }
        const bool takes_value = one->get_items_expected_max() > 0;
        EXPECT_EQ(row->kind != ValueKind::kNone, takes_value) << row->names;
        const bool is_number = takes_value && !one->get_type_name().starts_with("TEXT");
        EXPECT_TRUE(!is_number || row->kind == ValueKind::kText) << row->names << ": " << one->get_type_name();
        const bool has_choices = row->kind == ValueKind::kOneOf || row->kind == ValueKind::kPolicies;
        EXPECT_EQ(!choices_of(*row).empty(), has_choices) << row->names;
    }
}

TEST(OptionTable, TellsWhenANameStandsTwice) {
    EXPECT_FALSE(has_name_twice(kOptions));
    EXPECT_FALSE(has_name_twice(std::array<OptionRow, 2>{{{.names = "-a,--able"}, {.names = "-b,--baker"}}}));
    EXPECT_TRUE(has_name_twice(std::array<OptionRow, 2>{{{.names = "-a,--able"}, {.names = "-b,--able"}}}));
    EXPECT_TRUE(has_name_twice(std::array<OptionRow, 2>{{{.names = "-a,--able"}, {.names = "-b", .llama_names = "-x -a"}}}));
}

TEST(OptionTable, NamesTheLibrarysItemsInMessages) {
    EXPECT_EQ(flag_of(item::kContext.name), "--ctx-size");
    EXPECT_EQ(flag_of(item::kDeviceLayers.name), "-ngl");
    EXPECT_EQ(flag_of(item::kPrompt.name), "-p or -f");
    EXPECT_EQ(flag_of("no item"), "no item");
    EXPECT_EQ(flag_of(""), "");
    EXPECT_EQ(message_of({ErrorCode::kInvalidArgument, item::kTypeK + " is 'q9'"}), "--cache-type-k is 'q9'");
}

TEST(OptionTable, GivesACommandNamesAndHelp) {
    CLI::App command;
    std::string model, prompt;
    bool raw = false;
    const CLI::Option * one = add(command, option("--model"), model);
    EXPECT_EQ(one->get_name(false, true), "-m,--model");
    EXPECT_EQ(one->get_description(), option("-m").help);
    EXPECT_EQ(add(command, option("--prompt"), prompt, "Text")->get_description(), "Text");
    EXPECT_EQ(add(command, option("--raw"), raw)->get_items_expected_max(), 0);
    command.parse("-m a.gguf --prompt hello --raw", false);
    EXPECT_EQ(model, "a.gguf");
    EXPECT_EQ(prompt, "hello");
    EXPECT_TRUE(raw);
}

TEST(OptionTable, SaysWhichValuesMayBeEmpty) {
    const auto may_be_empty = [](const std::string & name) {
        CLI::App command;
        std::string model, budget;
        add(command, option("--model"), model);
        add(command, option("--budget"), budget);
        refuse_empty_values(command);
        try {
            command.parse(std::vector<std::string>{"", name});
            return true;
        } catch (const CLI::ParseError &) { return false; }
    };
    EXPECT_TRUE(may_be_empty("--budget"));
    EXPECT_FALSE(may_be_empty("--model"));
}

TEST(OptionTable, OffersValuesWhereAProgramHasNoRowOfItsOwn) {
    const OwnOptions own = {{"pith eval", "--prefill", ValueKind::kOneOf, these({"chunked"})},
                            {"", "--data", ValueKind::kFolder}};
    EXPECT_EQ(values_of(own, "pith eval", "--prefill", "TEXT").choices, Words{"chunked"});
    EXPECT_EQ(values_of(own, "pith run", "--prefill", "TEXT").choices, (Words{"auto", "one-shot", "chunked"}));
    EXPECT_EQ(values_of(own, "pith run", "--data", "TEXT").kind, ValueKind::kFolder);
    EXPECT_EQ(values_of(own, "pith run", "--unknown", "TEXT").kind, ValueKind::kFile);
    EXPECT_EQ(values_of(own, "pith run", "--heads", "TEXT").kind, ValueKind::kFile);
    EXPECT_EQ(values_of(own, "pith train gate", "--heads", "INT:POSITIVE").kind, ValueKind::kText);
    EXPECT_EQ(values_of(own, "pith run", "--reasoning", "TEXT:{on,off,auto}").kind, ValueKind::kOneOf);
}

TEST(ReadArguments, GivesLlamaCppsNamesPiths) {
    const Commands commands;
    EXPECT_EQ(commands.read({"run", "-ctk", "q8_0", "-ngl=99"}), (Words{"run", "--cache-type-k", "q8_0", "--n-gpu-layers=99"}));
    EXPECT_EQ(commands.read({"bench", "-ngl=99", "-nr"}), (Words{"bench", "--n-gpu-layers=99", "--no-repack"}));
    EXPECT_EQ(commands.read({"run", "-temp", "0.5", "--gpu-layers", "3"}),
              (Words{"run", "--temp", "0.5", "--n-gpu-layers", "3"}));
    EXPECT_EQ(commands.read({"ask", "a.pith", "-jf", "b.json"}), (Words{"ask", "a.pith", "--json-schema-file", "b.json"}));
}

TEST(ReadArguments, TakesSomeOfItsNamesInSomeCommandsOnly) {
    const Commands commands;
    EXPECT_EQ(commands.read({"run", "-np", "4"}), (Words{"run", "--parallel", "4"}));
    EXPECT_EQ(commands.read({"demo", "-np", "4"}), (Words{"demo", "-np", "4"}));
    EXPECT_EQ(commands.read({"serve", "-cram", "512"}), (Words{"serve", "--cache-ram", "512"}));
    EXPECT_NE(commands.read({"run", "-cram", "512"}).front().find("-cram is llama.cpp's"), std::string::npos);
    EXPECT_EQ(commands.read({"run", "-no-cnv"}), (Words{"run", "--raw"}));
    EXPECT_NE(commands.read({"chat", "-no-cnv"}).front().find("`pith run` answers"), std::string::npos);
}

TEST(ReadArguments, LeavesAValueAsItIs) {
    const Commands commands;
    EXPECT_EQ(commands.read({"serve", "--draft-max", "8", "--spec-draft-n-max=4"}),
              (Words{"serve", "--draft-ngram", "8", "--draft-ngram=4"}));
    EXPECT_EQ(commands.read({"run", "-p", "-ngl", "-ctk", "f16"}), (Words{"run", "-p", "-ngl", "--cache-type-k", "f16"}));
    EXPECT_EQ(commands.read({"tokenize", "-p", "-ctk"}), (Words{"tokenize", "-p", "-ctk"}));
    EXPECT_EQ(commands.read({"run", "-p", "--mlock"}), (Words{"run", "-p", "--mlock"}));
    // A value that may be left out is none where a flag follows.
    EXPECT_EQ(commands.read({"bench", "--policies", "-ctk", "f16"}), (Words{"bench", "--policies", "--cache-type-k", "f16"}));
}

TEST(ReadArguments, JoinsANegativeNumberToItsFlag) {
    const Commands commands;
    EXPECT_EQ(commands.read({"run", "--budget", "-5", "-n", "-1"}), (Words{"run", "--budget=-5", "-n-1"}));
    EXPECT_EQ(commands.read({"run", "-ngl", "-1"}), (Words{"run", "--n-gpu-layers=-1"}));
    EXPECT_EQ(commands.read({"run", "--unknown", "-5"}), (Words{"run", "--unknown=-5"}));
    EXPECT_EQ(commands.read({"run", "--budget=1", "-5"}), (Words{"run", "--budget=1", "-5"}));
    EXPECT_EQ(commands.read({"run", "--", "-5"}), (Words{"run", "--", "-5"}));
}

TEST(ReadArguments, LeavesOutWhatPithDoesAnyway) {
    const Commands commands;
    EXPECT_EQ(commands.read({"run", "-fa", "on", "--no-perf", "-fa", "--mmap"}), Words{"run"});
    EXPECT_EQ(commands.read({"run", "--keep=0", "-s", "-1", "-s", "7"}), (Words{"run", "-s", "7"}));
    EXPECT_EQ(commands.read({"serve", "--metrics"}), Words{"serve"});
    EXPECT_EQ(commands.read({"demo", "-fa", "on"}), (Words{"demo", "-fa", "on"})) << "no program of llama.cpp's is like it";
    EXPECT_EQ(commands.read({"run", "-fa", "on"}, {}), (Words{"run", "-fa", "on"})) << "without the tables";
}

TEST(ReadArguments, RefusesByNameWhatPithLacks) {
    const Commands commands;
    const auto message = [&](const Words & arguments) { return commands.read(arguments).front(); };
    EXPECT_EQ(message({"run", "-b", "512"}),
              "-b is llama.cpp's: use --chunk N, the tokens read at once (and between two evictions)");
    EXPECT_EQ(message({"run", "--flash-attn=off"}),
              "--flash-attn is llama.cpp's: Pith's attention is always fused; leave it out");
    EXPECT_EQ(
        message({"chat", "--spec-draft-max", "3"}),
        "--spec-draft-max is llama.cpp's: of speculative decoding Pith has --draft-ngram N alone: use that, or leave it out");
    EXPECT_EQ(message({"serve", "-f", "x"}), "serve") << "neither Pith's nor llama.cpp's there: CLI11 says so";
}

TEST(ReadArguments, KnowsTheCommandBelowACommand) {
    const Commands commands;
    // `verify` has -m, which takes what follows; `list` has not.
    EXPECT_EQ(commands.read({"cache", "verify", "-m", "-ctk"}), (Words{"cache", "verify", "-m", "-ctk"}));
    EXPECT_EQ(commands.read({"cache", "list", "-m", "-ctk"}), (Words{"cache", "list", "-m", "--cache-type-k"}));
}

}  // namespace
}  // namespace pith::app::options_test
