// read_gguf.cpp - see read_gguf.h.
#include "fuzz/read_gguf.h"

#include <algorithm>
#include <vector>

#include "fuzz/read_gguf_headers.h"
#include "model/model_file.h"
#include "pith/model.h"
#include "pith/session.h"
#include "pith/text.h"

namespace pith::testing {
namespace {

std::string run_model(const std::string & path) {
    const auto model = Model::load(path);
    if (!model.ok()) { return fault(model.status()); }
    auto session = model->session({});
    if (!session.ok()) { return fault(session.status()); }
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 5; ++i) { tokens.push_back(std::min(i * 7, model->info().n_vocab - 1)); }
    if (const Status fed = session->prefill(tokens); !fed.ok()) { return fault(fed); }
    return fault(session->append(tokens.back()));
}

std::string use_vocabulary(const std::string & path) {
    const auto tokenizer = Tokenizer::load(path);
    if (!tokenizer.ok()) { return fault(tokenizer.status()); }
    const auto tokens = tokenizer->encode("It was 1859: the best of tïmes, <|im_start|>\n\t€.", true, true);
    if (!tokens.ok()) { return fault(tokens.status()); }
    tokenizer->decode(*tokens);
    for (const int32_t id : {-1, 0, tokenizer->n_vocab() - 1, tokenizer->n_vocab()}) { tokenizer->piece(id, true); }
    if (!tokenizer->has_chat_template()) { return {}; }
    const std::vector<ChatMessage> messages = {{.role = "user", .content = "Who?"}};
    const auto text = tokenizer->apply_chat_template(messages, true);
    return text.ok() ? "" : fault(text.status());
}

}  // namespace

std::string read_gguf(const std::string & path) {
    std::string faults = read_gguf_headers(path);
    if (ModelFile::check(path).ok()) { faults += run_model(path); }
    return faults + use_vocabulary(path);
}

}  // namespace pith::testing
