/* every_call.c - calls everything that pith.h declares, the ways that fail included, and frees what it was given.
 *   every_call MODEL.gguf     prints "ok", or the first thing that was not as it should be
 * Compiled as C, so pith.h is C; scripts/leaks runs it under valgrind. */
#include <pith/pith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "every_call: line %d: %s (%s)\n", __LINE__, #condition, pith_error()); \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

enum { kTokens = 160, kQuestion = 12, kRoom = 8192 };

static int n_lines = 0;
static const char * model_path = "";
static void count_line(int level, const char * line, size_t n_bytes, void * user) {
    (void)level, (void)line, (void)n_bytes, (void)user;
    ++n_lines;
}
static bool go_on(int64_t n_done, int64_t n_total, void * user) {
    *(int64_t *)user = n_total - n_done;
    return true;
}
static bool refuse(int64_t n_done, int64_t n_total, void * user) {
    (void)n_done, (void)n_total, (void)user;
    return false;
}
static bool loading(double fraction, void * user) {
    *(double *)user = fraction;
    return true;
}

static int models_that_fail(const char * path) {
    pith_model * model = NULL;
    EXPECT(pith_model_load("/nowhere/none.gguf", NULL, &model) == PITH_NOT_FOUND && model == NULL);
    EXPECT(strstr(pith_error(), "/nowhere/none.gguf") != NULL);
    EXPECT(pith_model_load(NULL, NULL, &model) == PITH_INVALID_ARGUMENT);
    struct pith_model_options options;
    pith_model_options_init(&options, sizeof options);
    options.gate_file = "/nowhere/gate.gguf";
    EXPECT(pith_model_load(path, &options, &model) != PITH_OK && model == NULL);
    pith_model_free(NULL);
    pith_session_free(NULL);
    pith_snapshot_free(NULL);
    pith_sampler_free(NULL);
    pith_engine_free(NULL);
    return 0;
}

static int text(pith_model * model) {
    int32_t tokens[kTokens];
    size_t n = 0;
    EXPECT(pith_tokenize(model, "The river is long.", 18, true, false, NULL, &n) == PITH_INVALID_ARGUMENT && n > 0 &&
           n <= kTokens);
    EXPECT(pith_tokenize(model, "The river is long.", 18, true, false, tokens, &n) == PITH_OK);
    char piece[64];
    size_t n_bytes = sizeof piece;
    EXPECT(pith_token_text(model, tokens[n - 1], true, piece, &n_bytes) == PITH_OK);
    EXPECT(!pith_is_end_of_generation(model, tokens[n - 1]));
    const char * roles[] = {"user"};
    const char * contents[] = {"Hello"};
    char * talk = malloc(kRoom);
    n_bytes = kRoom;
    pith_code code = pith_chat_text(model, roles, contents, 1, true, talk, &n_bytes); /* a tiny model has no template */
    EXPECT(code == PITH_OK || strstr(pith_error(), "template") != NULL);
    struct pith_chat_options options;
    pith_chat_options_init(&options, sizeof options);
    n_bytes = kRoom;
    EXPECT(pith_chat_render(model, "[{]", &options, talk, &n_bytes) == PITH_INVALID_ARGUMENT);
    EXPECT(pith_set_chat_template(model, "no such name") == PITH_INVALID_ARGUMENT);
    EXPECT(pith_set_chat_template(model, "chatml") == PITH_OK);
    n_bytes = kRoom;
    EXPECT(pith_chat_render(model, "[{\"role\": \"user\", \"content\": \"Hello\"}]", &options, talk, &n_bytes) == PITH_OK);
    EXPECT(strncmp(talk, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", n_bytes) == 0);
    EXPECT(pith_set_chat_template(model, NULL) == PITH_OK);
    free(talk);
    return 0;
}

static int questions(const pith_model * model, const int32_t * tokens) {
    struct pith_session_options options;
    pith_session_options_init(&options, sizeof options);
    options.policy = "snapkv:window=8";
    options.budget = "32";
    options.prefill = "chunked";
    options.chunk = 48;
    options.evict_every = 4;
    options.n_snapshots = 1;
    pith_session * session = NULL;
    EXPECT(pith_session_new(model, &options, &session) == PITH_OK);
    int64_t left = -1;
    struct pith_run_options run;
    pith_run_options_init(&run, sizeof run);
    run.progress = refuse;
    bool seen = true;
    pith_cancel * cancel = NULL;
    EXPECT(pith_cancel_new(&cancel) == PITH_OK && pith_session_cancel_by(session, cancel) == PITH_OK);
    pith_cancel_set(cancel);
    EXPECT(pith_prefill(session, tokens, kTokens, NULL) == PITH_CANCELLED && pith_n_tokens(session) == 0);
    pith_cancel_clear(cancel);
    pith_cancel_free(cancel);
    EXPECT(pith_prefill_for_questions(session, tokens, kTokens, tokens, kQuestion, &run, &seen) == PITH_CANCELLED && !seen);
    run.progress = go_on;
    run.user = &left;
    EXPECT(pith_prefill_for_questions(session, tokens, kTokens, tokens, kQuestion, &run, &seen) == PITH_OK && seen &&
           left == 0);
    EXPECT(pith_prefill_for_questions(session, tokens, kTokens, tokens, kQuestion, &run, &seen) == PITH_INVALID_ARGUMENT);
    pith_snapshot * compressed = NULL;
    EXPECT(pith_session_snapshot(session, &compressed) == PITH_OK);
    int32_t first = -1, again = -2;
    for (int round = 0; round < 2; ++round) {
        if (round > 0) { EXPECT(pith_session_restore(session, compressed) == PITH_OK); }
        EXPECT(pith_prefill(session, tokens, kQuestion, NULL) == PITH_OK);
        int32_t * said = round == 0 ? &first : &again;
        for (int i = 0; i < 12; ++i) { EXPECT(pith_decode(session, said) == PITH_OK); } /* evicts: the snapshot is saved */
    }
    EXPECT(first == again);
    EXPECT(pith_evict_for_questions(session, tokens, kQuestion, "snapkv:window=4", "16") == PITH_OK);
    char path[512];
    snprintf(path, sizeof path, "%s.saved", model_path);
    EXPECT(pith_session_save(session, path) == PITH_OK);
    pith_session * opened = NULL;
    EXPECT(pith_session_open(model, path, 1, &opened) == PITH_OK);
    EXPECT(pith_session_load(opened, path) == PITH_OK);
    int32_t * fed = malloc((size_t)pith_n_tokens(opened) * sizeof *fed);
    size_t n_fed = 0;
    EXPECT(pith_session_tokens(opened, fed, &n_fed) == PITH_INVALID_ARGUMENT && n_fed == (size_t)pith_n_tokens(session));
    EXPECT(pith_session_tokens(opened, fed, &n_fed) == PITH_OK && fed[0] == tokens[0]);
    free(fed);
    EXPECT(pith_decode(session, &first) == PITH_OK && pith_decode(opened, &again) == PITH_OK && first == again);
    pith_session_free(opened);
    pith_session_file * file = NULL;
    EXPECT(pith_session_file_open(path, &file) == PITH_OK);
    EXPECT(remove(path) == 0);
    EXPECT(pith_session_file_session(file, model, 1, &opened) == PITH_OK && pith_n_tokens(opened) == (int64_t)n_fed);
    pith_session_free(opened);
    EXPECT(pith_session_file_session(NULL, model, 1, &opened) == PITH_INVALID_ARGUMENT && opened == NULL);
    pith_session_file_free(file);
    EXPECT(pith_session_file_open(path, &file) == PITH_NOT_FOUND && file == NULL);
    EXPECT(pith_session_open(model, path, 1, &opened) == PITH_NOT_FOUND && opened == NULL);
    pith_session_free(session);
    pith_snapshot_free(compressed); /* outlives its session */
    return 0;
}

static int what_was_evicted_comes_back(const pith_model * model, const int32_t * tokens) {
    struct pith_session_options options;
    pith_session_options_init(&options, sizeof options);
    options.policy = "knorm";
    options.budget = "64";
    options.cold = "f16";
    pith_session * session = NULL;
    EXPECT(pith_session_new(model, &options, &session) == PITH_OK);
    EXPECT(pith_prefill(session, tokens, kTokens, NULL) == PITH_OK);
    EXPECT(pith_repair(session, tokens, 0, true) == PITH_INVALID_ARGUMENT); /* no question */
    EXPECT(pith_repair(session, tokens, kQuestion, true) == PITH_OK);
    struct pith_ledger ledger;
    ledger.size = sizeof ledger;
    EXPECT(pith_get_ledger(session, &ledger) == PITH_OK);
    EXPECT(ledger.kv_missed > 0 && ledger.kv_missed < 1 && ledger.n_repairs == 1 && ledger.returned_entries > 0);
    EXPECT(ledger.kept_entries == 64 * ledger.n_lanes && ledger.cold_entries == (kTokens - 64) * ledger.n_lanes);
    EXPECT(pith_prefill(session, tokens, kQuestion, NULL) == PITH_OK);
    struct pith_run_options run;
    pith_run_options_init(&run, sizeof run);
    run.repair = true;
    EXPECT(pith_prefill(session, tokens, kQuestion, &run) == PITH_INVALID_ARGUMENT); /* it does not look back */
    pith_session_free(session);

    options.look_back = true;
    EXPECT(pith_session_new(model, &options, &session) == PITH_OK);
    EXPECT(pith_prefill(session, tokens, kTokens, NULL) == PITH_OK);
    EXPECT(pith_prefill(session, tokens, kQuestion, &run) == PITH_OK);
    EXPECT(pith_get_ledger(session, &ledger) == PITH_OK);
    EXPECT(ledger.kv_missed > 0 && ledger.kv_missed < 1 && ledger.n_repairs == 1 && ledger.returned_entries > 0);
    pith_session_free(session);
    return 0;
}

static int one_prefill_for_many(const pith_model * model, const int32_t * tokens) {
    struct pith_session_options options;
    pith_session_options_init(&options, sizeof options);
    options.policy = "full";
    options.observe = "h2o:recent=4,snapkv:window=8";
    pith_session * session = NULL;
    EXPECT(pith_session_new(model, &options, &session) == PITH_OK);
    int32_t token = 0;
    EXPECT(pith_decode(session, &token) == PITH_INVALID_ARGUMENT); /* nothing was read */
    EXPECT(pith_prefill(session, tokens, kTokens, NULL) == PITH_OK);
    EXPECT(pith_n_tokens(session) == kTokens);
    EXPECT(pith_evict(session, "expected:recent=4", "32") != PITH_OK); /* not observed */
    EXPECT(pith_evict(session, "h2o:recent=4", "2") == PITH_BUDGET); /* below what is protected */
    EXPECT(strstr(pith_error(), "budget 2 gives 2 tokens per head") != NULL);
    EXPECT(strstr(pith_error(), "--") == NULL && strcmp(pith_error_field(), "budget") == 0);
    EXPECT(pith_evict(session, "h2o:recent=4", "32") == PITH_OK);
    EXPECT(pith_evict_for_questions(session, tokens, 0, "snapkv:window=4", "16") == PITH_INVALID_ARGUMENT); /* no questions */
    const int32_t * positions = NULL;
    size_t n = 0;
    EXPECT(pith_lane_positions(session, 0, 0, &positions, &n) == PITH_OK && n == 32);
    EXPECT(pith_lane_positions(session, 99, 0, &positions, &n) == PITH_INVALID_ARGUMENT);
    EXPECT(pith_append(session, 1) == PITH_OK);
    EXPECT(pith_logits(session, &n) != NULL && n > 0);
    struct pith_ledger ledger;
    ledger.size = sizeof ledger;
    EXPECT(pith_get_ledger(session, &ledger) == PITH_OK && ledger.evicted_entries > 0 && ledger.n_tokens == kTokens + 1);
    pith_session_free(session);
    EXPECT(pith_logits(NULL, &n) == NULL && n == 0 && pith_last_code() == PITH_INVALID_ARGUMENT);
    options.policy = "nosuchpolicy";
    EXPECT(pith_session_new(model, &options, &session) == PITH_INVALID_ARGUMENT && session == NULL);
    const struct pith_session_options no_size = {.policy = "snapkv", .budget = "16"}; /* as if nothing were said */
    EXPECT(pith_session_new(model, &no_size, &session) == PITH_INVALID_ARGUMENT && session == NULL);
    EXPECT(strstr(pith_error(), "_init") != NULL);
    pith_session_options_init(&options, sizeof options);
    options.n_pinned = 1;
    EXPECT(pith_session_new(model, &options, &session) == PITH_INVALID_ARGUMENT && strstr(pith_error(), "pinned") != NULL);
    return 0;
}

static bool count_tokens(int32_t token, void * user) {
    (void)token;
    return ++*(int *)user < 5;
}
static int32_t first_token(const float * logits, size_t n, void * user) {
    (void)logits, (void)user;
    return n > 7 ? 7 : -1;
}
static int32_t no_token(const float * logits, size_t n, void * user) {
    (void)logits, (void)n, (void)user;
    return -1;
}
static bool never(void * user) {
    (void)user;
    return false;
}

static int many_at_once(const pith_model * model, const int32_t * tokens) {
    struct pith_engine_options options;
    pith_engine_options_init(&options, sizeof options);
    pith_engine * engine = NULL;
    options.ceiling = "1024"; /* entries bound no memory */
    EXPECT(pith_engine_new(model, &options, &engine) == PITH_INVALID_ARGUMENT && engine == NULL);
    options.ceiling = "64M";
    options.max_sequences = 2;
    EXPECT(pith_engine_new(model, &options, &engine) == PITH_OK);

    struct pith_session_options policy;
    pith_session_options_init(&policy, sizeof policy);
    policy.policy = "snapkv:window=8";
    policy.budget = "32";
    policy.chunk = 48;
    policy.evict_every = 4;
    struct pith_request request;
    pith_request_init(&request, sizeof request);
    int64_t base = 0, ids[4] = {0, 0, 0, 0};
    EXPECT(pith_engine_submit(engine, &request, &base) == PITH_INVALID_ARGUMENT); /* no tokens */
    request.tokens = tokens;
    request.n_tokens = kTokens;
    request.options = &policy;
    request.keep = true;
    request.max_tokens = 0;
    request.questions = tokens + 20;
    request.n_questions = kQuestion;
    EXPECT(pith_engine_submit(engine, &request, &base) == PITH_OK && base > 0);
    EXPECT(pith_engine_run(engine, never, NULL) == PITH_CANCELLED);
    EXPECT(pith_engine_cancel_by(engine, NULL) == PITH_OK);
    EXPECT(pith_engine_run(engine, NULL, NULL) == PITH_OK && pith_engine_state(engine, base) == PITH_REQUEST_DONE);
    struct pith_ledger ledger;
    ledger.size = sizeof ledger;
    EXPECT(pith_engine_request_ledger(engine, base, &ledger) == PITH_OK && ledger.evicted_entries > 0);
    EXPECT(strstr(ledger.schedule, "question seen") != NULL);
    EXPECT(pith_engine_questions_seen(engine, base) && !pith_engine_questions_seen(NULL, base));

    int n_shown = 0;
    int32_t stop[] = {tokens[3]};
    pith_request_init(&request, sizeof request);
    request.after = base;
    request.tokens = tokens;
    request.n_tokens = kQuestion;
    request.max_tokens = 12;
    request.stop = stop;
    request.n_stop = 1;
    request.user = &n_shown;
    request.on_token = count_tokens;
    EXPECT(pith_engine_submit(engine, &request, &ids[0]) == PITH_OK);
    request.on_token = NULL;
    request.choose = first_token;
    EXPECT(pith_engine_submit(engine, &request, &ids[1]) == PITH_OK);
    request.choose = no_token;
    EXPECT(pith_engine_submit(engine, &request, &ids[2]) == PITH_OK);
    struct pith_sampler_options drawing;
    pith_sampler_options_init(&drawing, sizeof drawing);
    drawing.seed = 7;
    pith_sampler * sampler = NULL;
    EXPECT(pith_sampler_new(model, &drawing, &sampler) == PITH_OK);
    request.sampler = sampler;
    EXPECT(pith_engine_submit(engine, &request, &ids[3]) == PITH_INVALID_ARGUMENT); /* and choose */
    request.choose = NULL;
    EXPECT(pith_engine_submit(engine, &request, &ids[3]) == PITH_OK);
    pith_sampler_free(sampler); /* the request has it */
    request.sampler = NULL;
    bool more = false;
    EXPECT(pith_engine_step(engine, &more) == PITH_OK && more);
    const int32_t * positions = NULL;
    size_t n = 0;
    EXPECT(pith_engine_lane_positions(engine, ids[0], 0, 0, &positions, &n) == PITH_OK && n > 0);
    EXPECT(pith_engine_lane_positions(engine, ids[0], 99, 0, &positions, &n) == PITH_INVALID_ARGUMENT);
    EXPECT(pith_engine_forget(engine, ids[0]) == PITH_INVALID_ARGUMENT); /* it has not ended */
    EXPECT(pith_engine_run(engine, NULL, NULL) == PITH_OK);
    EXPECT(pith_engine_answer(engine, ids[0], &n) != NULL && n == (size_t)n_shown && n <= 5);
    const int32_t * answer = pith_engine_answer(engine, ids[1], &n);
    EXPECT(n == 12 && answer[0] == 7 && answer[11] == 7);
    EXPECT(pith_engine_state(engine, ids[2]) == PITH_REQUEST_FAILED);
    EXPECT(pith_engine_status(engine, ids[2]) == PITH_INVALID_ARGUMENT && strstr(pith_error(), "vocabulary") != NULL);
    EXPECT(pith_engine_state(engine, ids[3]) == PITH_REQUEST_DONE && pith_engine_status(engine, ids[3]) == PITH_OK);
    EXPECT(pith_engine_cancel(engine, ids[3]) == PITH_NOT_FOUND); /* it has ended */
    EXPECT(pith_engine_n_read(engine, ids[3]) == kQuestion && pith_engine_n_read(NULL, 1) == 0);
    EXPECT(pith_engine_n_cached(engine, ids[3]) == 0 && pith_engine_n_cached(NULL, 1) == 0); /* there is no folder of states */
    struct pith_engine_ledger all;
    all.size = sizeof all;
    EXPECT(pith_engine_get_ledger(engine, &all) == PITH_OK && all.n_prompt == kTokens + 4 * kQuestion && all.kv_kept_bytes > 0);
    EXPECT(pith_engine_submit(engine, &request, &ids[3]) == PITH_OK && pith_engine_cancel(engine, ids[3]) == PITH_OK);
    EXPECT(pith_engine_forget(engine, base) == PITH_OK && pith_engine_status(engine, base) == PITH_NOT_FOUND);
    EXPECT(pith_engine_get_ledger(engine, &all) == PITH_OK && all.kv_allocated_bytes == 0);
    pith_engine_free(engine);
    return 0;
}

/* The model goes first: what is left keeps what it needs. */
struct scored {
    int n_calls;
    int fail_at; /* 0: never */
    int64_t n_hidden;
};

/* Attention of the window times the value's length, over the query heads that share the KV head. */
static const char * attention_times_value(const struct pith_scorer_layer * layer, float * scores, void * user) {
    struct scored * scored = (struct scored *)user;
    if (++scored->n_calls == scored->fail_at) { return "no idea"; }
    if (layer->window_mean == NULL || layer->value_l1 == NULL) { return "evidence that was asked for is missing"; }
    if (layer->keys != NULL || layer->running_sum != NULL) { return "evidence that was not asked for is there"; }
    for (int32_t h = 0; h < layer->n_kv_heads; ++h) {
        const int64_t begin = layer->begin[h], n = layer->begin[h + 1] - begin;
        const float * attention = layer->window_mean + begin * layer->n_group;
        for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int32_t g = 0; g < layer->n_group; ++g) { sum += attention[g * n + j]; }
            scores[begin + j] = sum * layer->value_l1[begin + j];
        }
    }
    return NULL;
}
static const char * look(int32_t layer, int32_t first_position, size_t n_tokens, size_t n_embd, const float * rows, void * user) {
    struct scored * scored = (struct scored *)user;
    if (layer < 0 || first_position < 0 || rows == NULL || n_embd == 0) { return "nothing to see"; }
    scored->n_hidden += (int64_t)n_tokens;
    return scored->fail_at < 0 ? "seen enough" : NULL;
}

static int own_scorers(const pith_model * model, const int32_t * tokens) {
    struct scored scored = {0, 0, 0};
    struct pith_scorer_options needs;
    pith_scorer_options_init(&needs, sizeof needs);
    EXPECT(needs.window == 0 && !needs.keys && needs.n_recent == -1);
    needs.help = "attention times the value's length";
    needs.window = 8;
    needs.window_mean = needs.value_l1 = true;
    EXPECT(pith_register_scorer(NULL, &needs, attention_times_value, &scored) == PITH_INVALID_ARGUMENT);
    EXPECT(pith_register_scorer("my-vatp", &needs, NULL, &scored) == PITH_INVALID_ARGUMENT);
    EXPECT(pith_register_scorer("snapkv", &needs, attention_times_value, &scored) == PITH_INVALID_ARGUMENT);
    EXPECT(pith_unregister_scorer("my-vatp") == PITH_NOT_FOUND && pith_unregister_scorer(NULL) == PITH_INVALID_ARGUMENT);
    EXPECT(pith_register_scorer("my-vatp", &needs, attention_times_value, &scored) == PITH_OK);
    EXPECT(pith_register_scorer("my-vatp", &needs, attention_times_value, &scored) == PITH_INVALID_ARGUMENT);

    struct pith_session_options options;
    pith_session_options_init(&options, sizeof options);
    options.policy = "my-vatp+ada";
    options.budget = "32";
    options.prefill = "chunked";
    options.chunk = 32;
    pith_session * session = NULL;
    EXPECT(pith_session_new(model, &options, &session) == PITH_OK);
    EXPECT(pith_session_watch_hidden(NULL, look, &scored) == PITH_INVALID_ARGUMENT);
    EXPECT(pith_session_watch_hidden(session, look, &scored) == PITH_OK);
    scored.fail_at = 3;
    EXPECT(pith_prefill(session, tokens, kTokens, NULL) == PITH_INVALID_ARGUMENT);
    EXPECT(strstr(pith_error(), "scorer 'my-vatp', layer ") != NULL && strstr(pith_error(), "no idea") != NULL);
    EXPECT(pith_n_tokens(session) == 0);
    scored.fail_at = -1;
    EXPECT(pith_prefill(session, tokens, kTokens, NULL) == PITH_INVALID_ARGUMENT);
    EXPECT(strcmp(pith_error(), "watch_hidden: seen enough") == 0 && pith_n_tokens(session) == 0);
    scored.n_hidden = scored.fail_at = 0;
    EXPECT(pith_prefill(session, tokens, kTokens, NULL) == PITH_OK);
    EXPECT(pith_n_tokens(session) == kTokens && scored.n_hidden >= kTokens && scored.n_hidden % kTokens == 0);
    struct pith_ledger ledger;
    ledger.size = sizeof ledger;
    EXPECT(pith_get_ledger(session, &ledger) == PITH_OK && strcmp(ledger.policy, "my-vatp+ada") == 0);
    EXPECT(ledger.evicted_entries > 0 && ledger.kept_entries == 32 * ledger.n_lanes);
    EXPECT(pith_session_watch_hidden(session, NULL, NULL) == PITH_OK);
    EXPECT(pith_unregister_scorer("my-vatp") == PITH_INVALID_ARGUMENT && strstr(pith_error(), "in use") != NULL);
    EXPECT(pith_session_free(session) == PITH_OK);
    EXPECT(pith_unregister_scorer("my-vatp") == PITH_OK);
    EXPECT(pith_session_new(model, &options, &session) == PITH_INVALID_ARGUMENT);
    return 0;
}

static int sampling(pith_model * model, const int32_t * tokens) {
    pith_session * session = NULL;
    EXPECT(pith_session_new(model, NULL, &session) == PITH_OK);
    struct pith_sampler_options options;
    pith_sampler_options_init(&options, sizeof options);
    options.seed = 7;
    options.grammar = "root ::= [a-z]+";
    pith_sampler *sampler = NULL, *other = NULL;
    EXPECT(pith_sampler_new(model, &options, &sampler) == PITH_OK);
    options.json_schema = "{\"type\": \"integer\"}";
    EXPECT(pith_sampler_new(model, &options, &other) == PITH_INVALID_ARGUMENT && other == NULL);
    options.grammar = NULL;
    EXPECT(pith_sampler_new(model, &options, &other) == PITH_OK);
    pith_model_free(model);
    int32_t token = 0;
    EXPECT(pith_sample(sampler, session, &token) == PITH_INVALID_ARGUMENT); /* nothing was read */
    EXPECT(pith_prefill(session, tokens, kTokens, NULL) == PITH_OK);
    for (int i = 0; i < 4; ++i) {
        EXPECT(pith_sample(sampler, session, &token) == PITH_OK);
        EXPECT(pith_append(session, token) == PITH_OK);
    }
    pith_sampler_reset(other);
    EXPECT(pith_sampler_accept(NULL, 1) == PITH_INVALID_ARGUMENT);
    pith_sampler_free(sampler);
    pith_sampler_free(other);
    pith_session_free(session);
    return 0;
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: every_call MODEL.gguf\n");
        return 2;
    }
    EXPECT(strlen(pith_version()) > 0 && strcmp(pith_error(), "") == 0 && strcmp(pith_error_field(), "") == 0);
    EXPECT(strcmp(pith_code_name(PITH_OK), "") != 0 && pith_last_code() == PITH_OK);
    pith_set_log(count_line, NULL);
    model_path = argv[1];
    if (models_that_fail(argv[1]) != 0) { return 1; }

    double fraction = -1;
    struct pith_model_options options;
    pith_model_options_init(&options, sizeof options);
    options.progress = loading;
    options.user = &fraction;
    pith_model * model = NULL;
    EXPECT(pith_model_load(argv[1], &options, &model) == PITH_OK && fraction >= 0);
    struct pith_model_info info;
    info.size = sizeof info;
    EXPECT(pith_model_get_info(model, &info) == PITH_OK && info.n_layers > 0 && info.n_vocab > 64);
    int32_t tokens[kTokens];
    for (int i = 0; i < kTokens; ++i) { tokens[i] = (i * 37 + 11) % 400 % info.n_vocab; }
    if (text(model) != 0) { return 1; }
    EXPECT(n_lines > 0); /* libllama has told of the vocabulary */
    if (questions(model, tokens) != 0 || one_prefill_for_many(model, tokens) != 0) { return 1; }
    if (what_was_evicted_comes_back(model, tokens) != 0) { return 1; }
    if (many_at_once(model, tokens) != 0 || own_scorers(model, tokens) != 0) { return 1; }
    if (sampling(model, tokens) != 0) { return 1; } /* frees the model */
    pith_set_log(NULL, NULL);
    puts("ok");
    return 0;
}
