/* quickstart.c - the same as quickstart.cpp, through the C interface.
 *   quickstart-c MODEL.gguf "some text" */
#include <pith/pith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pith_code say(const pith_model * model, int32_t token) {
    char text[256];
    size_t n = sizeof text;
    const pith_code code = pith_token_text(model, token, false, text, &n);
    if (code == PITH_OK) { fwrite(text, 1, n, stdout); }
    return code;
}

static pith_code run(const char * path, const char * text, pith_model ** model, pith_session ** session, int32_t ** tokens) {
    pith_code code = pith_model_load(path, NULL, model);
    if (code != PITH_OK) { return code; }
    struct pith_session_options options;
    pith_session_options_init(&options, sizeof options);
    options.policy = "snapkv";
    options.budget = "256";
    code = pith_session_new(*model, &options, session);
    if (code != PITH_OK) { return code; }
    size_t n = 0;
    pith_tokenize(*model, text, strlen(text), true, false, NULL, &n); /* how many there are */
    *tokens = malloc((n + 1) * sizeof **tokens);
    if (*tokens == NULL) { return PITH_OUT_OF_MEMORY; }
    code = pith_tokenize(*model, text, strlen(text), true, false, *tokens, &n);
    if (code == PITH_OK) { code = pith_prefill(*session, *tokens, n, NULL); }
    for (int i = 0; code == PITH_OK && i < 32; ++i) {
        int32_t token = 0;
        code = pith_decode(*session, &token);
        if (code != PITH_OK || pith_is_end_of_generation(*model, token)) { break; }
        code = say(*model, token);
    }
    struct pith_ledger ledger;
    ledger.size = sizeof ledger;
    if (code == PITH_OK) { code = pith_get_ledger(*session, &ledger); }
    if (code == PITH_OK) { printf("\n%llu bytes of KV cache\n", (unsigned long long)ledger.kv_allocated_bytes); }
    return code;
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: quickstart-c MODEL.gguf TEXT\n");
        return 2;
    }
    pith_model * model = NULL;
    pith_session * session = NULL;
    int32_t * tokens = NULL;
    const pith_code code = run(argv[1], argv[2], &model, &session, &tokens);
    if (code != PITH_OK) { fprintf(stderr, "error: %s\n", pith_error()); }
    free(tokens);
    pith_session_free(session);
    pith_model_free(model);
    return code == PITH_OK ? 0 : 1;
}
