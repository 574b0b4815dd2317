// head_importance_file.cpp - writes the file, and takes it apart with an error for each thing that may be wrong.
#include "model/head_importance_file.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/json_syntax.h"
#include "file/read_file.h"
#include "file/write_file.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char * kNormsHash = "norms_hash";
constexpr double kUnits = 1e4;  // of what is written: no number of probes tells finer differences

Status bad_file(const std::string & path, const std::string & what) {
    return {ErrorCode::kBadFile,
            "'" + path + "' " + what + ": make it anew with `pith calibrate heads -m MODEL -o " + path + "`"};
}

Json describe(const ModelFile & file) {
    Json model;
    for (const auto & [key, value] : fingerprint_of(file)) {
        std::visit([&model, &key = key](const auto & v) { model[key] = v; }, value);
    }
    return model;
}

Status check_model(const std::string & path, const Json & made_for, const ModelFile & file) {
    if (!made_for.is_object()) { return bad_file(path, "does not say which model it was made for"); }
    Json wanted = describe(file);  // items() refers to it
    if (made_for.contains(kNormsHash)) { wanted[kNormsHash] = file.norms_hash(); }
    for (const auto & [key, value] : wanted.items()) {
        if (!made_for.contains(key)) { return bad_file(path, "lacks the field '" + key + "' of its model"); }
        if (made_for[key] == value) { continue; }
        return {ErrorCode::kInvalidArgument, "'" + path + "' was made for another model: its " + key + " is " +
                                                 made_for[key].dump() + ", that of '" + file.path() + "' " + value.dump() +
                                                 ": make one for this model with `pith calibrate heads`"};
    }
    return {};
}

Status read_scores(const std::string & path, const Json & json, const char * name, const Hparams & hp,
                   std::vector<double> & out) {
    if (!json.contains(name) || !json[name].is_array()) { return bad_file(path, std::string("lacks the list '") + name + "'"); }
    const Json & layers = json[name];
    if (layers.size() != static_cast<size_t>(hp.n_layers)) {
        return bad_file(path, std::string("has ") + std::to_string(layers.size()) + " layers in '" + name +
                                  "' where the model has " + std::to_string(hp.n_layers));
    }
    for (size_t l = 0; l < layers.size(); ++l) {
        const std::string where = std::string("'") + name + "', layer " + std::to_string(l);
        if (!layers[l].is_array() || layers[l].size() != static_cast<size_t>(hp.n_heads)) {
            return bad_file(path, "has " + std::to_string(layers[l].is_array() ? layers[l].size() : 0) + " heads in " + where +
                                      " where the model has " + std::to_string(hp.n_heads));
        }
        for (size_t g = 0; g < layers[l].size(); ++g) {
            const Json & value = layers[l][g];
            // JSON has no infinities: a writer's NaN comes as null, 1e999 as an infinite number.
            const double score = value.is_number() ? value.get<double>() : -1;
            if (!std::isfinite(score) || score < 0) {
                return bad_file(path, "has " + value.dump() + " for head " + std::to_string(g) + " in " + where +
                                          " where a finite number of 0 or more belongs");
            }
            out.push_back(score);
        }
    }
    return {};
}

Result<Json> parse_file(const std::string & path, std::string_view text) {
    if (const std::string problem = json_problem(text); !problem.empty()) {
        return bad_file(path, "is not whole JSON (" + problem + ")");
    }
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) { return bad_file(path, "has a number that is too large, or text that is not UTF-8"); }
    if (!json.is_object() || !json.contains("pith_heads")) { return bad_file(path, "is not a file of head importances"); }
    if (json["pith_heads"] != 1) {
        return bad_file(path, "has version " + json["pith_heads"].dump() + " where this program reads 1");
    }
    return json;
}

Result<std::shared_ptr<const HeadImportance>> read_heads(const std::string & path, const Json & json, const Hparams & hp) {
    auto heads = std::make_shared<HeadImportance>();
    PITH_RETURN_IF_ERROR(read_scores(path, json, "copy", hp, heads->copy));
    PITH_RETURN_IF_ERROR(read_scores(path, json, "reason", hp, heads->reason));
    return std::shared_ptr<const HeadImportance>(std::move(heads));
}

// A whole number of an object; 0 where there is none.
int64_t number_in(const Json & object, const char * key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

// One layer a line: a person can read it, and it stays short.
std::string rows_text(const std::vector<double> & scores, int n_heads) {
    std::string text = "[";
    for (size_t i = 0; i < scores.size(); ++i) {
        const bool first = i % static_cast<size_t>(n_heads) == 0;
        text += first ? (i == 0 ? "\n    [" : "],\n    [") : ", ";
        text += Json(std::round(scores[i] * kUnits) / kUnits).dump();
    }
    return text + "]\n  ]";
}

}  // namespace

std::string path_beside_model(const std::string & model_path, std::string_view end) {
    std::string stem = model_path;
    if (stem.ends_with(".gguf")) { stem.resize(stem.size() - 5); }
    constexpr std::string_view kPart = "-00001-of-00001";
    if (stem.size() > kPart.size()) {
        bool is_part = true;
        for (size_t i = 0; i < kPart.size(); ++i) {
            const char c = stem[stem.size() - kPart.size() + i];
            const bool digit = c >= '0' && c <= '9';
            is_part = is_part && (kPart[i] == '0' || kPart[i] == '1' ? digit : c == kPart[i]);
        }
        if (is_part) { stem.resize(stem.size() - kPart.size()); }
    }
    return stem + std::string(end);
}

std::string default_heads_path(const std::string & model_path) {
    return path_beside_model(model_path, ".heads.json");
}

Status check_head_importance(const HeadImportance & heads, const Hparams & hparams) {
    const size_t n = static_cast<size_t>(hparams.n_layers) * static_cast<size_t>(hparams.n_heads);
    for (const auto & [name, scores] : {std::pair{"copy", &heads.copy}, std::pair{"reason", &heads.reason}}) {
        if (scores->size() != n) {
            return {ErrorCode::kInvalidArgument, std::string("head importances: ") + std::to_string(scores->size()) + " " +
                                                     name + " scores were given, the model has " + std::to_string(n) +
                                                     " query heads in all layers"};
        }
        for (size_t i = 0; i < n; ++i) {
            if (std::isfinite((*scores)[i]) && (*scores)[i] >= 0) { continue; }
            return {ErrorCode::kInvalidArgument, std::string("head importances: the ") + name + " score of head " +
                                                     std::to_string(i) + " is " + std::to_string((*scores)[i]) +
                                                     ": give finite numbers of 0 or more"};
        }
    }
    return {};
}

Result<std::shared_ptr<const HeadImportance>> load_head_importance(const std::string & path, const ModelFile & file) {
    constexpr size_t kMostBytes = size_t{64} << 20U;
    const auto text = read_file(path, kMostBytes);
    if (text.status().code() == ErrorCode::kNotFound) {
        return {ErrorCode::kNotFound, "head importances '" + path +
                                          "' cannot be read: make them with `pith calibrate heads -m MODEL -o " + path + "`"};
    }
    PITH_RETURN_IF_ERROR(text.status());
    PITH_ASSIGN_OR_RETURN(const Json json, parse_file(path, *text));
    PITH_RETURN_IF_ERROR(check_model(path, json.contains("model") ? json["model"] : Json(), file));
    return read_heads(path, json, file.hparams());
}

Result<std::shared_ptr<const HeadImportance>> parse_head_importance(const std::string & name, std::string_view text,
                                                                    const Hparams & hparams) {
    PITH_ASSIGN_OR_RETURN(const Json json, parse_file(name, text));
    return read_heads(name, json, hparams);
}

Result<HeadsOrigin> parse_heads_origin(const std::string & name, std::string_view text) {
    PITH_ASSIGN_OR_RETURN(const Json json, parse_file(name, text));
    if (!json.contains("model") || !json["model"].is_object()) {
        return bad_file(name, "does not say which model it was made for");
    }
    HeadsOrigin origin;
    for (const auto & [key, value] : json["model"].items()) {
        if (value.is_string()) { origin.model.emplace_back(key, value.get<std::string>()); }
        if (value.is_number_integer()) { origin.model.emplace_back(key, value.get<int64_t>()); }
    }
    if (!json.contains("probes") || !json["probes"].is_object()) { return bad_file(name, "does not say how it was made"); }
    const Json & probes = json["probes"];
    origin.probes.count = static_cast<int>(number_in(probes, "count"));
    origin.probes.seed = static_cast<uint64_t>(number_in(probes, "seed"));
    if (const auto lengths = probes.find("lengths"); lengths != probes.end() && lengths->is_array()) {
        for (const Json & length : *lengths) {
            if (length.is_number_integer()) { origin.probes.lengths.push_back(length.get<int>()); }
        }
    }
    if (const auto file = probes.find("file"); file != probes.end() && file->is_string()) {
        origin.file = file->get<std::string>();
    }
    return origin;
}

Status save_head_importance(const std::string & path, const HeadImportance & heads, const HeadProbes & probes,
                            const ModelFile & file) {
    PITH_RETURN_IF_ERROR(check_head_importance(heads, file.hparams()));
    Json how;
    how["count"] = probes.count;
    how["lengths"] = probes.lengths;
    how["seed"] = probes.seed;
    how["file"] = std::filesystem::path(file.path()).filename().string();
    Json model = describe(file);
    model[kNormsHash] = file.norms_hash();
    const int n_heads = file.hparams().n_heads;
    const std::string text = "{\n  \"pith_heads\": 1,\n  \"model\": " + model.dump() +
                             ",\n  \"probes\": " + how.dump(-1, ' ', false, Json::error_handler_t::replace) +
                             ",\n  \"copy\": " + rows_text(heads.copy, n_heads) +
                             ",\n  \"reason\": " + rows_text(heads.reason, n_heads) + "\n}\n";
    return write_file(path, text);
}

}  // namespace pith
