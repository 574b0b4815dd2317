// tokenize.cpp - `pith tokenize`: text as the model's token ids.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/base/ledger_report.h"
#include "common/base/read_text.h"
#include "common/models/model_source.h"
#include "common/options/options.h"
#include "core/text.h"
#include "pith/text.h"

namespace pith::app {
namespace {

struct TokenizeFlags {
    ModelSource model;
    std::string file;
    std::string prompt;
    bool has_prompt = false;
    bool pieces = false;
    bool no_bos = false;
    bool no_parse_special = false;
    bool json = false;
};

Result<std::string> text_to_tokenize(const TokenizeFlags & flags) {
    if (flags.has_prompt) { return flags.prompt; }
    return read_plain_text(flags.file.empty() ? "-" : flags.file);
}

void print_tokens(const Tokenizer & tokenizer, const std::vector<int32_t> & tokens, const TokenizeFlags & flags) {
    if (flags.json) {
        Json object;
        object["n_tokens"] = tokens.size();
        object["tokens"] = tokens;
        if (flags.pieces) {
            Json pieces = Json::array();
            for (const int32_t token : tokens) { pieces.push_back(tokenizer.piece(token, true)); }
            object["pieces"] = pieces;
        }
        print_json(object);
        return;
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (flags.pieces) {
            const std::string quoted =
                Json(tokenizer.piece(tokens[i], true)).dump(-1, ' ', false, Json::error_handler_t::replace);
            std::printf("%6d  %s\n", tokens[i], without_controls(quoted).c_str());
        } else {
            std::printf("%s%d", i > 0 ? " " : "", tokens[i]);
        }
    }
    if (!flags.pieces) { std::puts(""); }
    std::fflush(stdout);
    std::fprintf(stderr, "%zu tokens\n", tokens.size());
}

int tokenize_command(TokenizeFlags flags) {
    if (flags.has_prompt && !flags.file.empty()) { return fail_usage("give either -p or -f, not both"); }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    const auto text = text_to_tokenize(flags);
    if (!text.ok()) { return fail(text.status()); }
    const auto tokens = tokenizer->encode(*text, !flags.no_bos, !flags.no_parse_special);
    if (!tokens.ok()) { return fail(tokens.status()); }
    print_tokens(*tokenizer, *tokens, flags);
    return kExitOk;
}

}  // namespace

void add_tokenize_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<TokenizeFlags>();
    CLI::App * command = root.add_subcommand("tokenize", "Show text as the model's token ids");
    flags->model.add_to(*command, /*is_required=*/true);
    add(*command, option("--file"), flags->file, "Text file ('-', or neither -f nor -p: standard input)");
    CLI::Option * prompt = add(*command, option("--prompt"), flags->prompt, "Text");
    command->add_flag("--pieces", flags->pieces, "Show each token's text, one a line");
    command->add_flag("--no-bos", flags->no_bos, "Leave out the begin-of-sequence token");
    command->add_flag("--no-parse-special", flags->no_parse_special, "Take special tokens' names as plain text");
    add(*command, option("--json"), flags->json);
    command->callback([flags, prompt, &exit_code] {
        flags->has_prompt = prompt->count() > 0;
        exit_code = tokenize_command(*flags);
    });
}

}  // namespace pith::app
