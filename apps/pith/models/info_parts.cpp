// info_parts.cpp - what a gate file and an adapter say of themselves.
#include "app/models/info_parts.h"

#include <cmath>
#include <cstdio>
#include <variant>
#include <vector>

#include "core/text.h"
#include "file/gguf_header.h"
#include "file/mapped_file.h"
#include "gate/gate_file.h"
#include "model/lora_file.h"

namespace pith::app {
namespace {

void line(const char * label, const std::string & text) {
    std::printf("%-14s%s\n", label, without_controls(text).c_str());
}

std::string integer(const Json & object, const char * key) {
    return std::to_string(object[key].get<int64_t>());
}

// "0.5", "2", "0.478": six digits at most.
std::string real(const Json & object, const char * key) {
    char text[24];
    std::snprintf(text, sizeof text, "%g", object[key].get<double>());
    return text;
}

// 0.4F as 0.4.
double tidy(float value) {
    return std::round(static_cast<double>(value) * 1e6) / 1e6;
}

std::string form_text(const Json & gate) {
    if (gate["kind"] == "linear") { return "linear: each token by itself"; }
    if (gate["kind"] == "mlp") { return "MLP of " + integer(gate, "hidden") + ": each token by itself"; }
    return integer(gate, "heads") + (gate["heads"] == 1 ? " head" : " heads") + " of size " + integer(gate, "head_dim") +
           " over " + (gate["causal"].get<bool>() ? "the tokens before" : "all tokens of the prompt");
}

std::string layers_text(const Json & gate) {
    const auto layers = gate["layers"].get<std::vector<int>>();
    std::string text = "layers " + list_of_numbers(layers);
    if (std::ssize(layers) < gate["model"]["n_layers"].get<int64_t>()) { text += "; the others keep everything"; }
    return text + (gate["source"] == "previous" ? "; each reads the input of the layer before" : "");
}

std::string training_text(const Json & gate) {
    const Json & training = gate["training"];
    if (training["steps"] == 0) { return "not at all: weights as training would begin with them"; }
    char kept[48];
    std::snprintf(kept, sizeof kept, "; kept %.1f %% at the end", 100 * training["retention"].get<double>());
    return integer(training, "steps") + " steps, " + integer(training, "tokens") + " tokens, alpha " + real(training, "alpha") +
           ", beta " + real(training, "beta") + kept;
}

}  // namespace

Result<FileKind> kind_of_file(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
    PITH_ASSIGN_OR_RETURN(const GgufHeader header, parse_gguf(file.bytes(), path));
    if (header.string("general.architecture") == "pith-gate") { return FileKind::kGate; }
    return header.string("general.type") == "adapter" ? FileKind::kAdapter : FileKind::kModel;
}

Result<Json> describe_gate(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const GateFileInfo info, read_gate_info(path));
    const GateConfig & config = info.config;
    Json object;
    object["path"] = path;
    object["type"] = "gate";
    object["kind"] = std::string(to_string(config.kind));
    object["purpose"] = std::string(to_string(config.purpose));
    object["source"] = std::string(to_string(config.source));
    if (config.kind == GateKind::kMlp) { object["hidden"] = config.n_hidden; }
    object["heads"] = config.n_heads;
    object["head_dim"] = config.head_dim;
    object["causal"] = config.causal;
    object["works_in_chunks"] = config.works_in_chunks();
    object["recent"] = config.n_recent;
    object["first_layer"] = config.first_layer;
    object["layers"] = info.layers;
    object["tau"] = tidy(config.tau);
    object["gamma"] = tidy(config.gamma);
    object["n_params"] = info.n_params;
    object["model"] = Json::object();
    for (const auto & [key, value] : info.model) {
        std::visit([&, &name = key](const auto & v) { object["model"][name] = v; }, value);
    }
    object["training"] = {{"steps", info.training.n_steps},
                          {"tokens", info.training.n_tokens},
                          {"alpha", tidy(info.training.alpha)},
                          {"beta", tidy(info.training.beta)},
                          {"retention", tidy(info.training.retention)}};
    return object;
}

namespace {
void print_weights(const Json & gate) {
    line("weights", integer(gate, "n_params") + " parameters, " +
                        bytes_text(static_cast<size_t>(gate["n_params"].get<int64_t>()) * sizeof(float)));
}
}  // namespace

void print_gate(const Json & gate) {
    const Json & model = gate["model"];
    line("gates", gate["path"].get<std::string>());
    line("for", "a " + model["architecture"].get<std::string>() + " of " + integer(model, "n_params") +
                    " parameters: " + integer(model, "n_layers") + " layers of width " + integer(model, "n_embd") + ", " +
                    integer(model, "n_heads") + " heads over " + integer(model, "n_kv_heads") + " KV heads of size " +
                    integer(model, "head_dim") + ", " + integer(model, "n_vocab") + " tokens of vocabulary, norm " +
                    model["norm_hash"].get<std::string>());
    line("form", form_text(gate));
    line("where", layers_text(gate));
    line("prefill", gate["works_in_chunks"].get<bool>() ? "one-shot or in chunks" : "one-shot: it needs the whole prompt");
    if (gate["purpose"] == to_string(GatePurpose::kRank)) {
        line("ranks", "entries; a budget decides how many stay (policy gate)");
        line("learnt", "from " + integer(gate["training"], "tokens") + " tokens (`pith calibrate importance`)");
        return print_weights(gate);
    }
    line("keeps", "entries with sigmoid(logit + " + real(gate, "gamma") + ") > " + real(gate, "tau") +
                      (gate["recent"] == 1 ? ", and a query's own"
                                           : ", and the " + integer(gate, "recent") + " most recent of a query"));
    line("trained", training_text(gate));
    print_weights(gate);
}

Result<Json> describe_adapter(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const LoraFileInfo info, read_lora_info(path));
    Json object;
    object["path"] = path;
    object["type"] = "adapter";
    object["architecture"] = info.architecture;
    object["rank"] = info.rank;
    object["alpha"] = info.alpha;
    object["n_layers"] = info.n_layers;
    object["n_params"] = info.n_params;
    object["size_bytes"] = info.size_bytes;
    object["targets"] = Json::array();
    for (const LoraFileInfo::Target & target : info.targets) {
        bool usable = false;
        for (const LoraTarget & known : lora_targets()) { usable = usable || target.name == known.name; }
        object["targets"].push_back({{"name", target.name},
                                     {"n_pairs", target.n_pairs},
                                     {"n_in", target.n_in},
                                     {"n_out", target.n_out},
                                     {"usable", usable}});
    }
    return object;
}

void print_adapter(const Json & adapter) {
    line("adapter", adapter["path"].get<std::string>());
    line("for", "architecture " + adapter["architecture"].get<std::string>() + ", " + integer(adapter, "n_layers") + " layers");
    const double alpha = adapter["alpha"];
    line("rank", integer(adapter, "rank") + (alpha == 0 ? ", counts once" : ", alpha " + real(adapter, "alpha")));
    for (const Json & target : adapter["targets"]) {
        line("adapts", target["name"].get<std::string>() + " [" + integer(target, "n_in") + ", " + integer(target, "n_out") +
                           "], " + integer(target, "n_pairs") + (target["n_pairs"] == 1 ? " pair" : " pairs") +
                           (target["usable"].get<bool>() ? "" : "; --lora refuses it"));
    }
    line("weights", integer(adapter, "n_params") + " parameters, " + bytes_text(adapter["size_bytes"].get<size_t>()));
}

}  // namespace pith::app
