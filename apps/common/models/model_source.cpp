// model_source.cpp - the options, and what they lead to.
#include "common/models/model_source.h"

#include <cstdio>
#include <filesystem>

#include "common/base/reference_model.h"
#include "common/models/fetch_model.h"
#include "common/models/gguf_name.h"
#include "common/models/model_folders.h"
#include "common/models/model_match.h"
#include "common/models/models_found.h"
#include "common/options/options.h"
#include "core/text.h"

namespace pith::app {
namespace {

// "/a/b", "./b", "../b": nobody calls a model so.
bool is_surely_a_path(const std::string & text) {
    return text.starts_with('/') || text.starts_with("./") || text.starts_with("../") || text.starts_with("~");
}

FetchOptions fetch_options(const ModelSource & source) {
    const Environment environment = process_environment();
    FetchOptions options;
    const std::string endpoint = environment("HF_ENDPOINT");
    if (!endpoint.empty()) { options.hub.endpoint = endpoint.substr(0, endpoint.find_last_not_of('/') + 1); }
    options.hub.token = trim(!source.hf_token.empty() ? source.hf_token : environment("HF_TOKEN"));  // read from a file
    options.file = source.hf_file;
    options.offline = source.offline;
    const std::string first = hub_cache_folder(environment);
    if (!first.empty()) { options.caches.push_back(first); }
    for (const ModelFolder & folder : model_folders(environment)) {
        if (folder.origin == ModelOrigin::kLlamaCpp && !first.empty()) { options.caches.push_back(folder.path); }
    }
    return options;
}

}  // namespace

void ModelSource::add_to(CLI::App & command, bool is_required) {
    required = is_required;
    add(command, option("--model"), path);
    add(command, option("--hf-repo"), hf_repo);
    add(command, option("--hf-file"), hf_file);
    add(command, option("--hf-token"), hf_token);
    add(command, option("--offline"), offline);
}

Status ModelSource::find() {
    if (!hf_file.empty() && hf_repo.empty()) {
        return {ErrorCode::kInvalidArgument, "--hf-file is a file of a repository: name that with --hf-repo USER/REPO"};
    }
    if (!hf_repo.empty()) {
        if (!path.empty()) { return {ErrorCode::kInvalidArgument, "--model and --hf-repo are both models: give one of them"}; }
        PITH_ASSIGN_OR_RETURN(const HfReference reference, parse_hf_reference(hf_repo));
        PITH_ASSIGN_OR_RETURN(path, fetch_model(reference, fetch_options(*this)));
        hf_repo.clear();
        hf_file.clear();
        return {};
    }
    if (path.empty() && required) {
        return {ErrorCode::kInvalidArgument, "--model is required: give -m FILE, -m NAME (`pith models`) or -hf USER/REPO"};
    }
    PITH_ASSIGN_OR_RETURN(path, path.empty() ? reference_model() : find_model_file(path));
    return {};
}

Result<std::string> find_model_file(const std::string & name) {
    std::error_code error;
    const bool is_there = std::filesystem::exists(name, error);
    const bool is_folder = is_there && std::filesystem::is_directory(name, error);  // may have the name of a model
    const bool is_hidden = error.value() != 0;                                      // what opens it says why
    if (is_surely_a_path(name) || is_hidden || (is_there && !is_folder)) { return name; }
    const auto models = find_models(model_folders(process_environment()));
    const auto match = match_model(name, models);
    if (!match.ok()) {
        if (is_folder && match.status().code() == ErrorCode::kNotFound) { return name; }  // what reads it says what it is
        const bool may_be_fetched =
            match.status().code() == ErrorCode::kNotFound && parse_hf_reference(name).ok() && !parse_gguf_name(name);
        if (!may_be_fetched) { return match.status(); }
        return {ErrorCode::kNotFound, match.status().wording() + "; `-hf " + name + "` fetches it, if Hugging Face has it"};
    }
    const FoundModel & model = *match->model;
    if (!model.problem.empty()) {
        return {ErrorCode::kBadFile, "'" + model.name + "' of " + std::string(to_string(model.origin)) + ": " + model.problem};
    }
    if (match->by_part) { std::fprintf(stderr, "-m %s is %s\n", name.c_str(), without_controls(model.name).c_str()); }
    return model.path;
}

}  // namespace pith::app
