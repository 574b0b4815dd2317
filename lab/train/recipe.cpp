// recipe.cpp - a training recipe as JSON. Stage: train.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/json_syntax.h"
#include "file/read_file.h"
#include "train/train.h"

namespace pith::train {
namespace {

using nlohmann::json;

// Takes known fields out of an object; what is left over is unknown.
class Fields {
public:
    Fields(json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {
        if (!object_.is_object()) { error_ = where_ + " is not an object"; }
    }
    template <class T>
    void take(const char * name, T & out) {
        if (!error_.empty() || !object_.contains(name)) { return; }
        const json & v = object_[name];
        const bool fits = std::is_same_v<T, bool>       ? v.is_boolean()
                          : std::is_integral_v<T>       ? v.is_number_integer()
                          : std::is_floating_point_v<T> ? v.is_number()
                                                        : v.is_string();
        if (!fits) {
            error_ = where_ + ": '" + name + "' has the wrong kind of value: " + v.dump();
            return;
        }
        out = v.get<T>();
        object_.erase(name);
    }
    json take_part(const char * name, json otherwise) {
        if (!error_.empty() || !object_.contains(name)) { return otherwise; }
        json part = object_[name];
        object_.erase(name);
        return part;
    }
    Status finish(const std::string & path) const {
        if (!error_.empty()) { return {ErrorCode::kBadFile, "recipe '" + path + "': " + error_}; }
        if (!object_.empty()) {
            return {ErrorCode::kBadFile,
                    "recipe '" + path + "': " + where_ + " has an unknown field '" + object_.begin().key() + "'"};
        }
        return {};
    }

private:
    json object_;
    std::string where_;
    std::string error_;
};

Status read_stage(const json & object, const std::string & path, size_t index, Stage & stage) {
    Fields f(object, "stage " + std::to_string(index + 1));
    f.take("tokens", stage.n_tokens);
    f.take("sequences", stage.n_sequences);
    f.take("accumulate", stage.accumulate);
    f.take("steps", stage.n_steps);
    f.take("learning_rate", stage.learning_rate);
    stage.final_rate = stage.learning_rate;
    f.take("final_rate", stage.final_rate);
    f.take("stop_after", stage.stop_after);
    f.take("bf16", stage.bf16);
    f.take("until_hit", stage.until_hit);
    const json tasks = f.take_part("tasks", json::object());
    const json documents = f.take_part("documents", json::object());
    const json also = f.take_part("also", json::array());
    PITH_RETURN_IF_ERROR(f.finish(path));
    for (const auto & [kind, share] : documents.items()) {
        if (!share.is_number()) {
            return {ErrorCode::kBadFile, "recipe '" + path + "': the share of documents '" + kind + "' is not a number"};
        }
        stage.documents[kind] = share.get<double>();
    }
    for (const json & length : also) {
        if (!length.is_number_integer()) {
            return {ErrorCode::kBadFile, "recipe '" + path + "': 'also' holds something else than lengths: " + length.dump()};
        }
        stage.also.push_back(length.get<int>());
    }
    for (const auto & [id, share] : tasks.items()) {
        if (!share.is_number()) {
            return {ErrorCode::kBadFile, "recipe '" + path + "': the share of task '" + id + "' is not a number"};
        }
        stage.tasks.push_back({id, share.get<double>()});
    }
    return {};
}

Status read_model(const json & object, const std::string & path, ModelShape & s) {
    Fields f(object, "model");
    f.take("layers", s.n_layers);
    f.take("width", s.n_embd);
    f.take("heads", s.n_heads);
    f.take("kv_heads", s.n_kv_heads);
    f.take("head_dim", s.head_dim);
    f.take("ff", s.n_ff);
    f.take("context", s.n_ctx);
    f.take("rope_base", s.rope_base);
    f.take("tied", s.tied);
    return f.finish(path);
}

Status read_adamw(const json & object, const std::string & path, AdamW & a) {
    Fields f(object, "adamw");
    f.take("beta1", a.beta1);
    f.take("beta2", a.beta2);
    f.take("epsilon", a.epsilon);
    f.take("weight_decay", a.weight_decay);
    f.take("clip_norm", a.clip_norm);
    return f.finish(path);
}

}  // namespace

Result<Recipe> read_recipe(const std::string & path) {
    const auto text = read_file(path);
    if (text.status().code() == ErrorCode::kNotFound) { return {ErrorCode::kNotFound, "no recipe '" + path + "'"}; }
    PITH_RETURN_IF_ERROR(text.status());
    if (const std::string problem = json_problem(*text); !problem.empty()) {
        return {ErrorCode::kBadFile, "recipe '" + path + "' is not JSON: " + problem};
    }
    const json root = json::parse(*text, nullptr, false);
    if (root.is_discarded()) { return {ErrorCode::kBadFile, "recipe '" + path + "' is not JSON text in UTF-8"}; }
    Recipe r;
    Fields f(root, "the recipe");
    f.take("name", r.name);
    f.take("seed", r.seed);
    f.take("vocabulary", r.vocabulary_size);
    f.take("warmup_steps", r.warmup_steps);
    f.take("validate_every", r.validate_every);
    f.take("checkpoint_every", r.checkpoint_every);
    f.take("validation_documents", r.n_validation);
    PITH_RETURN_IF_ERROR(read_model(f.take_part("model", json::object()), path, r.shape));
    PITH_RETURN_IF_ERROR(read_adamw(f.take_part("adamw", json::object()), path, r.adamw));
    const json stages = f.take_part("stages", json::array());
    PITH_RETURN_IF_ERROR(f.finish(path));
    if (!stages.is_array()) { return {ErrorCode::kBadFile, "recipe '" + path + "': 'stages' is not a list"}; }
    for (const json & s : stages) {
        r.stages.emplace_back();
        PITH_RETURN_IF_ERROR(read_stage(s, path, r.stages.size() - 1, r.stages.back()));
    }
    PITH_RETURN_IF_ERROR(check(r));
    return r;
}

Status check(const Recipe & recipe) {
    const auto bad = [](const std::string & what) { return Status(ErrorCode::kInvalidArgument, "recipe: " + what); };
    if (recipe.stages.empty()) { return bad("no stages"); }
    if (recipe.validate_every < 1 || recipe.checkpoint_every < 1 || recipe.n_validation < 1 || recipe.warmup_steps < 0) {
        return bad("validate_every, checkpoint_every and validation_documents must be positive, warmup_steps not negative");
    }
    for (size_t i = 0; i < recipe.stages.size(); ++i) {
        const Stage & s = recipe.stages[i];
        const std::string where = "stage " + std::to_string(i + 1) + ": ";
        if (s.n_tokens < 48) { return bad(where + "tokens is " + std::to_string(s.n_tokens) + ": at least 48 are needed"); }
        for (const int n : s.also) {
            if (n < 48) { return bad(where + "also holds " + std::to_string(n) + ": at least 48 tokens are needed"); }
        }
        double shares = 0;
        for (const auto & [kind, share] : s.documents) {
            const auto known = corpus::document_kinds();
            if (std::find(known.begin(), known.end(), kind) == known.end()) {
                return bad(where + "no documents '" + kind + "'");
            }
            if (!(share >= 0)) { return bad(where + "the share of documents '" + kind + "' is negative"); }
            shares += share;
        }
        if (!s.documents.empty() && !(shares > 0)) { return bad(where + "the shares of its documents are all 0"); }
        if (s.n_sequences < 1 || s.accumulate < 1 || s.n_steps < 1) {
            return bad(where + "sequences, accumulate and steps must be positive");
        }
        if (s.stop_after < 0 || s.stop_after > s.n_steps) { return bad(where + "stop_after must lie between 0 and steps"); }
        for (const TaskShare & t : s.tasks) {
            const auto known = corpus::task_list();
            if (std::none_of(known.begin(), known.end(), [&](const auto & k) { return k.id == t.id; })) {
                return bad(where + "no task '" + t.id + "'");
            }
        }
        if (!(s.learning_rate > 0) || !(s.final_rate >= 0)) { return bad(where + "the learning rate must be positive"); }
    }
    return {};
}

std::string fingerprint(const Recipe & r, int n_threads) {
    const ModelShape & s = r.shape;
    const AdamW & a = r.adamw;
    char text[512];
    std::snprintf(text, sizeof(text),
                  "seed %llu vocabulary %d model %d %d %d/%d %d %d %g %d adamw %g %g %g %g %g warmup %d threads %d",
                  static_cast<unsigned long long>(r.seed), r.vocabulary_size, s.n_layers, s.n_embd, s.n_heads, s.n_kv_heads,
                  s.head_dim, s.n_ff, static_cast<double>(s.rope_base), s.tied ? 1 : 0, static_cast<double>(a.beta1),
                  static_cast<double>(a.beta2), static_cast<double>(a.epsilon), static_cast<double>(a.weight_decay),
                  static_cast<double>(a.clip_norm), r.warmup_steps, n_threads);
    return text;
}

}  // namespace pith::train
