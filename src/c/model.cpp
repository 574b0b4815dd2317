// model.cpp - models and their text, from C. Stage: façade.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "c/handles.h"

using pith::Result;
using pith::Status;
using namespace pith::c;

namespace {

pith_chat_options default_chat_options() {
    return {0, true, nullptr, nullptr, 0};
}

pith_model_options default_model_options() {
    return {0, true, true, nullptr, 1.0F, nullptr, nullptr, nullptr, nullptr, nullptr, -1, nullptr, false};
}

Result<std::shared_ptr<pith::Tokenizer>> load_words(const char * path) {
    PITH_ASSIGN_OR_RETURN(pith::Tokenizer words, pith::Tokenizer::load(path));
    return std::make_shared<pith::Tokenizer>(std::move(words));
}

}  // namespace

void pith_model_options_init(struct pith_model_options * options, size_t size) {
    init(options, size, default_model_options());
}

pith_code pith_model_load(const char * path, const struct pith_model_options * options, pith_model ** model) {
    return guarded([&]() -> Status {
        if (path == nullptr || model == nullptr) { return missing(path == nullptr ? "path" : "model"); }
        *model = nullptr;
        PITH_ASSIGN_OR_RETURN(const pith_model_options given, with_defaults(options, default_model_options()));
        pith::ModelOptions wanted;
        wanted.use_mmap = given.use_mmap;
        wanted.repack = given.repack;
        wanted.lora_file = text_of(given.lora_file);
        wanted.lora_scale = given.lora_scale;
        wanted.gate_file = text_of(given.gate_file);
        PITH_ASSIGN_OR_RETURN(wanted.devices, pith::parse_devices(text_of(given.rpc_servers), text_of(given.devices),
                                                                  text_of(given.tensor_split)));
        wanted.devices.n_layers = given.n_device_layers;
        wanted.devices.kv_offload = given.kv_offload;
        if (given.progress != nullptr) {
            wanted.progress = [given](double fraction) { return given.progress(fraction, given.user); };
        }
        PITH_ASSIGN_OR_RETURN(pith::Model loaded, pith::Model::load(path, wanted));
        *model = new pith_model{std::move(loaded), load_words(path)};
        return {};
    });
}

void pith_model_free(pith_model * model) {
    delete model;
}

pith_code pith_model_get_info(const pith_model * model, struct pith_model_info * info) {
    return guarded([&]() -> Status {
        if (model == nullptr || info == nullptr) { return missing(model == nullptr ? "model" : "info"); }
        const pith::ModelInfo & m = model->model.info();
        const pith_model_info all{sizeof(pith_model_info),
                                  m.architecture.c_str(),
                                  m.name.c_str(),
                                  m.weight_type.c_str(),
                                  m.n_params,
                                  m.weight_bytes,
                                  m.n_layers,
                                  m.n_heads,
                                  m.n_kv_heads,
                                  m.head_dim,
                                  m.n_embd,
                                  m.n_vocab,
                                  m.n_ctx_train,
                                  m.file_type.c_str()};
        return give(all, info);
    });
}

pith_code pith_tokenize(const pith_model * model, const char * text, size_t n_bytes, bool add_special, bool parse_special,
                        int32_t * tokens, size_t * n_tokens) {
    return guarded([&]() -> Status {
        if (model == nullptr || n_tokens == nullptr) { return missing(model == nullptr ? "model" : "n_tokens"); }
        if (text == nullptr && n_bytes > 0) { return missing("text"); }
        PITH_RETURN_IF_ERROR(model->tokenizer.status());
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> all,
                              (*model->tokenizer)->encode({text == nullptr ? "" : text, n_bytes}, add_special, parse_special));
        return copy_out(all, tokens, n_tokens);
    });
}

pith_code pith_token_text(const pith_model * model, int32_t token, bool special, char * text, size_t * n_bytes) {
    return guarded([&]() -> Status {
        if (model == nullptr || n_bytes == nullptr) { return missing(model == nullptr ? "model" : "n_bytes"); }
        PITH_RETURN_IF_ERROR(model->tokenizer.status());
        return copy_out((*model->tokenizer)->piece(token, special), text, n_bytes);
    });
}

bool pith_is_end_of_generation(const pith_model * model, int32_t token) {
    return model != nullptr && model->tokenizer.ok() && (*model->tokenizer)->is_end_of_generation(token);
}

pith_code pith_chat_text(const pith_model * model, const char * const * roles, const char * const * contents, size_t n_messages,
                         bool add_assistant, char * text, size_t * n_bytes) {
    return guarded([&]() -> Status {
        if (model == nullptr || n_bytes == nullptr) { return missing(model == nullptr ? "model" : "n_bytes"); }
        if (n_messages > 0 && (roles == nullptr || contents == nullptr)) { return missing("roles or contents"); }
        PITH_RETURN_IF_ERROR(model->tokenizer.status());
        std::vector<pith::ChatMessage> messages;
        for (size_t i = 0; i < n_messages; ++i) { messages.push_back({text_of(roles[i]), text_of(contents[i])}); }
        PITH_ASSIGN_OR_RETURN(const std::string all, (*model->tokenizer)->apply_chat_template(messages, add_assistant));
        return copy_out(all, text, n_bytes);
    });
}

void pith_chat_options_init(struct pith_chat_options * options, size_t size) {
    init(options, size, default_chat_options());
}

pith_code pith_chat_render(const pith_model * model, const char * messages, const struct pith_chat_options * options,
                           char * text, size_t * n_bytes) {
    return guarded([&]() -> Status {
        if (model == nullptr || n_bytes == nullptr) { return missing(model == nullptr ? "model" : "n_bytes"); }
        if (messages == nullptr) { return missing("messages"); }
        PITH_RETURN_IF_ERROR(model->tokenizer.status());
        PITH_ASSIGN_OR_RETURN(const pith_chat_options given, with_defaults(options, default_chat_options()));
        pith::ChatOptions wanted;
        wanted.add_assistant = given.add_assistant;
        wanted.tools = text_of(given.tools);
        wanted.variables = text_of(given.variables);
        if (given.reasoning != 0) { wanted.reasoning = given.reasoning > 0 ? pith::Reasoning::kOn : pith::Reasoning::kOff; }
        PITH_ASSIGN_OR_RETURN(const std::vector<pith::ChatMessage> read, pith::chat_messages_of_json(messages));
        PITH_ASSIGN_OR_RETURN(const std::string all, (*model->tokenizer)->apply_chat_template(read, wanted));
        return copy_out(all, text, n_bytes);
    });
}

pith_code pith_set_chat_template(pith_model * model, const char * source) {
    return guarded([&]() -> Status {
        if (model == nullptr) { return missing("model"); }
        PITH_RETURN_IF_ERROR(model->tokenizer.status());
        return (*model->tokenizer)->set_chat_template(text_of(source));
    });
}
