// models.cpp - `pith models`: what other programs' folders hold, and whether Pith runs it. Headers are read, no weights.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/models/info_parts.h"
#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/base/flag_names.h"
#include "common/base/ledger_report.h"
#include "common/models/model_folders.h"
#include "common/models/models_found.h"
#include "common/options/options.h"
#include "core/text.h"
#include "file/gguf_header.h"
#include "file/mapped_file.h"
#include "model/model_file.h"

namespace pith::app {
namespace {

struct ModelRow {
    FoundModel found;
    std::string architecture;  // as far as the file says
    std::string file_type;
    std::string weight_type;
    int64_t n_params = 0;
    int n_ctx_train = 0;
    std::string why_not;  // empty: it runs
};

// What the header alone says, of files that do not run, too.
std::string architecture_of(const std::string & path) {
    const auto file = MappedFile::open(path);
    if (!file.ok()) { return {}; }
    const auto header = parse_gguf(file->bytes(), path);
    return header.ok() ? header->string("general.architecture").value_or("") : std::string();
}

// The message names the file, which the row does already.
std::string without_path(std::string message, const std::string & path) {
    const std::string quoted = "'" + path + "'";
    if (message.starts_with(quoted + ": ")) { return message.substr(quoted.size() + 2); }
    if (message.starts_with(quoted + " ")) { return "it" + message.substr(quoted.size()); }
    return message;
}

ModelRow look_at(FoundModel found) {
    ModelRow row;
    row.found = std::move(found);
    row.why_not = row.found.problem;
    if (!row.why_not.empty()) { return row; }
    const std::string & path = row.found.path;
    const auto kind = kind_of_file(path);
    if (kind.ok() && *kind == FileKind::kAdapter) { row.why_not = "it is a LoRA adapter: give it with --lora"; }
    if (kind.ok() && *kind == FileKind::kGate) { row.why_not = "it holds gates: give it with --gate"; }
    if (!row.why_not.empty()) { return row; }
    const auto model = ModelFile::check(path);
    if (!model.ok()) {
        row.architecture = architecture_of(path);
        row.why_not = without_path(message_of(model.status()), path);
        return row;
    }
    row.architecture = (*model)->hparams().arch_name;
    row.file_type = (*model)->file_type();
    row.weight_type = (*model)->weight_type_name();
    row.n_params = (*model)->n_params();
    row.n_ctx_train = (*model)->hparams().n_ctx_train;
    return row;
}

Json to_json(const std::vector<ModelRow> & rows) {
    Json list = Json::array();
    for (const ModelRow & row : rows) {
        Json object = {{"name", row.found.name},
                       {"path", row.found.path},
                       {"origin", std::string(to_string(row.found.origin))},
                       {"size_bytes", row.found.size},
                       {"architecture", row.architecture},
                       {"file_type", row.file_type},
                       {"weight_type", row.weight_type},
                       {"n_params", row.n_params},
                       {"n_ctx_train", row.n_ctx_train},
                       {"runs", row.why_not.empty()}};
        if (!row.why_not.empty()) { object["why_not"] = row.why_not; }
        list.push_back(std::move(object));
    }
    return list;
}

void print_table(const std::vector<ModelRow> & rows) {
    int width = 4;
    for (const ModelRow & row : rows) { width = std::max(width, static_cast<int>(row.found.name.size())); }
    const auto print = [width](const std::string & name, const std::string & size, const std::string & type,
                               const std::string & architecture, const std::string & context, const std::string & origin,
                               const std::string & runs) {
        std::printf("%-*s  %10s  %-13s  %-12s  %7s  %-12s  %s\n", width, without_controls(name).c_str(), size.c_str(),
                    type.c_str(), without_controls(architecture).c_str(), context.c_str(), origin.c_str(),
                    without_controls(runs).c_str());
    };
    print("name", "size", "type", "architecture", "context", "kept by", "runs");
    for (const ModelRow & row : rows) {
        print(row.found.name, row.found.size > 0 ? bytes_text(row.found.size) : "", row.file_type, row.architecture,
              row.n_ctx_train > 0 ? std::to_string(row.n_ctx_train) : "", std::string(to_string(row.found.origin)),
              row.why_not.empty() ? "yes" : "no: " + row.why_not);
    }
}

// On stderr, so that a program reads an empty table.
void tell_where(const std::vector<ModelFolder> & folders) {
    std::fputs("no models in:\n", stderr);
    for (const ModelFolder & folder : folders) {
        std::fprintf(stderr, "  %s (%s)\n", without_controls(folder.path).c_str(),
                     std::string(to_string(folder.origin)).c_str());
    }
    std::fputs("`-hf USER/REPO` fetches one from Hugging Face.\n", stderr);
}

int models_command(bool json) {
    const std::vector<ModelFolder> folders = model_folders(process_environment());
    std::vector<ModelRow> rows;
    for (FoundModel & found : find_models(folders)) { rows.push_back(look_at(std::move(found))); }
    if (json) {
        print_json(to_json(rows));
    } else if (rows.empty()) {
        tell_where(folders);
    } else {
        print_table(rows);
    }
    return kExitOk;
}

}  // namespace

void add_models_command(CLI::App & root, int & exit_code) {
    auto json = std::make_shared<bool>(false);
    CLI::App * command = root.add_subcommand(
        "models", "List the models that Ollama, LM Studio, Hugging Face's tools, llama.cpp and scripts/fetch_models keep here");
    add(*command, option("--json"), *json, "One JSON array on standard output");
    command->callback([json, &exit_code] { exit_code = models_command(*json); });
}

}  // namespace pith::app
