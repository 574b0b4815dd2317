// quickstart.cpp - the library in ten lines: a text, a budget of 256 entries a lane, 32 tokens of what comes next.
//   quickstart MODEL.gguf "some text"
#include <pith/engine.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

pith::Status run(const std::string & path, const std::string & text) {
    PITH_ASSIGN_OR_RETURN(const auto tokenizer, pith::Tokenizer::load(path));
    PITH_ASSIGN_OR_RETURN(const auto model, pith::Model::load(path));
    PITH_ASSIGN_OR_RETURN(auto session, model.session({.policy = "snapkv", .budget = 256}));
    PITH_ASSIGN_OR_RETURN(const auto prompt, tokenizer.encode(text, true, false));
    PITH_RETURN_IF_ERROR(session.prefill(prompt));
    for (int i = 0; i < 32; ++i) {
        PITH_ASSIGN_OR_RETURN(const int32_t token, session.decode());
        if (tokenizer.is_end_of_generation(token)) { break; }
        std::printf("%s", tokenizer.piece(token).c_str());
    }
    std::printf("\n%zu bytes of KV cache\n", session.ledger().kv_allocated_bytes);
    return {};
}

}  // namespace

int main(int argc, char ** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: quickstart MODEL.gguf TEXT\n");
        return 2;
    }
    const pith::Status status = run(argv[1], argv[2]);
    if (!status.ok()) { std::fprintf(stderr, "error: %s\n", status.message().c_str()); }
    return status.ok() ? 0 : 1;
}
