/* pith.h - Pith for C, and for every language that can call C: load a model, feed tokens inside a KV-cache budget, decode.
 *
 *   pith_model *model; pith_session *session; int32_t token;
 *   pith_model_load("model.gguf", NULL, &model);
 *   struct pith_session_options options; pith_session_options_init(&options, sizeof options);
 *   options.policy = "snapkv"; options.budget = "1024";
 *   pith_session_new(model, &options, &session);
 *   pith_prefill(session, tokens, n_tokens, NULL);
 *   pith_decode(session, &token);
 *
 * Errors: every call that can fail returns a pith_code; pith_error() is then one line that says what, which value, and what to
 * do. Nothing prints, throws or aborts. Handles: opaque; freeing NULL does nothing. Sessions and engines keep their model's
 * weights alive, a sampler its model's vocabulary, a request its sampler. Structs: begin with their size, as the caller's
 * header knew it: `*_init` is told it, and writes it and the defaults. A library that is newer than the caller writes no more
 * than that, and takes the defaults for the rest. Texts:  UTF-8. What a call takes is copied; what it returns lives until the
 * next call with the same handle, unless said. Threads: one at a time for a session, an engine and a sampler; a model may be
 * shared. While a call is in a session or an engine, another thread's is refused (PITH_INVALID_ARGUMENT), and so is one of its
 * own callbacks that does more than look at it (of an engine: pith_engine_step(), _run(), _free()); it is then not freed
 * either.
 */
#ifndef PITH_H
#define PITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PITH_API __declspec(dllexport)
#else
#define PITH_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pith_code {
    PITH_OK = 0,
    PITH_INVALID_ARGUMENT = 1, /* an option or value that cannot be used */
    PITH_NOT_FOUND = 2,        /* a file, tensor or name that does not exist */
    PITH_BAD_FILE = 3,         /* truncated, garbage, of another kind */
    PITH_UNSUPPORTED = 4,      /* well-formed, but not something Pith runs */
    PITH_MISSING_EVIDENCE = 5, /* a policy that the session did not observe */
    PITH_NOT_FINITE = 6,       /* NaN or infinity where a number is required */
    PITH_BUDGET = 7,           /* the budget cannot hold what is protected */
    PITH_OUT_OF_MEMORY = 8,
    PITH_IO = 9,
    PITH_CANCELLED = 10, /* a callback said no, or pith_cancel_set() */
    PITH_INTERNAL = 11   /* a bug in Pith */
} pith_code;

typedef struct pith_model pith_model;
typedef struct pith_session pith_session;
typedef struct pith_snapshot pith_snapshot;
typedef struct pith_session_file pith_session_file;
typedef struct pith_sampler pith_sampler;
typedef struct pith_engine pith_engine;
typedef struct pith_cancel pith_cancel;

PITH_API const char * pith_version(void);
/* Of the last call of this thread that failed; "" before one did. Lives until the thread's next failing call. */
PITH_API const char * pith_error(void);
/* What that line names first of what the caller sets: the field of an options struct, as "budget", or a call; it is wrong, or
 * helps when it is changed. "": none. Lives as long as the line. */
PITH_API const char * pith_error_field(void);
/* Of this thread's last call that can fail, those included that return no code: pith_logits(), pith_n_tokens() and what is
 * asked of an engine about a request return nothing (NULL, 0, false, PITH_REQUEST_FAILED) where they are refused. */
PITH_API pith_code pith_last_code(void);
PITH_API const char * pith_code_name(pith_code code); /* "invalid argument", "budget too small", … */

/* Log lines of Pith, ggml and libllama; level 0 debug, 1 information, 2 warning, 3 error. NULL: they are dropped (the default).
 * `line` is valid during the call. Set it before the first model is loaded. */
typedef void (*pith_log_fn)(int level, const char * line, size_t n_bytes, void * user);
PITH_API void pith_set_log(pith_log_fn log, void * user);

/* ---- ending long calls ---- */

/* A flag for sessions and engines (pith_session_cancel_by, pith_engine_cancel_by): soon after it is set, in the middle of a
 * chunk or of an eviction, the call that runs ends with PITH_CANCELLED, and all is as before it; pith_append() and
 * pith_decode() feed their token to its end. It stays set until it is cleared. It may be set from any thread, and from a signal
 * handler. */
PITH_API pith_code pith_cancel_new(pith_cancel ** cancel);
PITH_API void pith_cancel_free(pith_cancel * cancel); /* whom it was given go on without */
PITH_API void pith_cancel_set(pith_cancel * cancel);
PITH_API void pith_cancel_clear(pith_cancel * cancel);

/* ---- models ---- */

struct pith_model_options {
    size_t size;
    bool use_mmap;          /* true */
    bool repack;            /* true: repacked weights where the CPU offers them */
    const char * lora_file; /* NULL: none */
    float lora_scale;       /* 1 */
    const char * gate_file; /* NULL: model.importance.gguf beside model.gguf, where it is there; "none": none */
    bool (*progress)(double fraction, void * user); /* false cancels; NULL: none */
    void * user;
    /* Which layers' weights lie on which devices (docs/devices.md); by default none do. */
    const char * rpc_servers;  /* "host:port,host:port" of ggml-rpc-servers; NULL: none */
    const char * devices;      /* "RPC0,CUDA0"; NULL: the servers', then this machine's GPUs; "none": none */
    int32_t n_device_layers;   /* -1: all, where rpc_servers, devices or tensor_split is given; else the last so many */
    const char * tensor_split; /* "3,1": each device's share of them; NULL: by the memory that is free */
    bool kv_offload;           /* keys and values lie with the layers' weights; false: in this machine's memory */
};
PITH_API void pith_model_options_init(struct pith_model_options * options, size_t size); /* size: sizeof *options */

struct pith_model_info {
    size_t size;
    const char * architecture;
    const char * name;
    const char * weight_type; /* the one that most bytes have: "q8_0" */
    int64_t n_params;
    uint64_t weight_bytes;
    int32_t n_layers, n_heads, n_kv_heads, head_dim, n_embd, n_vocab, n_ctx_train;
    const char * file_type; /* what the file says its weights are: "Q4_K - Medium"; "mostly q8_0" where it says nothing */
};

/* options may be NULL: the defaults. */
PITH_API pith_code pith_model_load(const char * path, const struct pith_model_options * options, pith_model ** model);
PITH_API void pith_model_free(pith_model * model);
/* REQUIRES: info->size is set. Texts live as long as the model. */
PITH_API pith_code pith_model_get_info(const pith_model * model, struct pith_model_info * info);

/* ---- text ---- */

/* Tokens of a text. n_tokens: in, room in `tokens`; out, how many there are. PITH_INVALID_ARGUMENT where the room is too small
 * (n_tokens then says how much is needed; `tokens` may be NULL with room 0). */
PITH_API pith_code pith_tokenize(const pith_model * model, const char * text, size_t n_bytes, bool add_special,
                                 bool parse_special, int32_t * tokens, size_t * n_tokens);
/* The text of one token; n_bytes as above. A character may need several tokens. */
PITH_API pith_code pith_token_text(const pith_model * model, int32_t token, bool special, char * text, size_t * n_bytes);
PITH_API bool pith_is_end_of_generation(const pith_model * model, int32_t token);
/* A conversation in the model's own form. roles and contents: n_messages texts each. */
PITH_API pith_code pith_chat_text(const pith_model * model, const char * const * roles, const char * const * contents,
                                  size_t n_messages, bool add_assistant, char * text, size_t * n_bytes);

struct pith_chat_options {
    size_t size;
    bool add_assistant;     /* true: up to where the answer begins */
    const char * tools;     /* a JSON array as OpenAI's; NULL: none */
    const char * variables; /* a JSON object of more that the template reads; NULL: none */
    int32_t reasoning;      /* 0: as the template has it; 1: on; -1: off */
};
PITH_API void pith_chat_options_init(struct pith_chat_options * options, size_t size);
/* The same of messages as OpenAI's: a JSON array with "role", "content", "reasoning_content", "tool_calls", "tool_call_id". */
PITH_API pith_code pith_chat_render(const pith_model * model, const char * messages, const struct pith_chat_options * options,
                                    char * text, size_t * n_bytes);
/* Jinja, or a name that libllama knows, in place of the model's own template; NULL or "": its own. Not while others use the
 * model. */
PITH_API pith_code pith_set_chat_template(pith_model * model, const char * source);

/* ---- sessions ---- */

struct pith_span { /* original positions [begin, end) */
    int32_t begin, end;
};

struct pith_session_options {
    size_t size;
    const char * policy;             /* "auto": chosen when the prompt comes; `pith policies` lists them */
    const char * budget;             /* NULL: none; "1024" entries a lane, "20%" of the prompt, "512M" bytes, "auto" */
    const char * type_k;             /* "f16"; f32, bf16, q8_0, q4_0 */
    const char * type_v;             /* "f16" */
    const char * prefill;            /* "auto"; one-shot, chunked */
    int32_t n_threads;               /* 0: one per CPU that the process may use */
    int32_t max_context;             /* 0: the model's own */
    int32_t chunk;                   /* 512 tokens */
    int32_t evict_every;             /* 128 decoded tokens; 0: no eviction in decode */
    const struct pith_span * pinned; /* never evicted */
    size_t n_pinned;
    const char * heads_file; /* of `pith calibrate heads`; NULL: beside the model, else with Pith; "none": neither */
    const char * observe;    /* policies that pith_evict() may be asked for, separated by commas; NULL: none */
    int32_t n_snapshots;     /* 0; that will be held at a time: the budget "auto" leaves memory for their copies */
    int32_t grid;   /* 0; evict at every grid-th token and at no other time, so that what is kept depends on the tokens alone */
    bool rotate_kv; /* true; rows of q8_0 and q4_0 are rotated (Hadamard) before they are rounded, which then costs less */
    bool context_shift;   /* true; past the length that the model was trained on, where entries are evicted, kept keys turn to
                           * places side by side, so that a text may go on without end */
    const char * cold;    /* NULL: what is evicted is gone; "q4_0", "q8_0", "f16": it is kept on disk for pith_repair() */
    uint64_t cold_bytes;  /* 8 GiB; the most of it */
    int32_t draft_ngram;  /* 0; tokens at most that a decoded token's pass may run ahead, where n-grams of the text foretell
                           * them: whoever then feeds these has their logits without a pass. Logits stay the same. 0: none */
    bool look_back;       /* false; with `cold`: a prompt's tokens see what was evicted, too, layer by layer, as if nothing had
                           * been. Takes the time of a full cache, and memory for two of its layers */
    int32_t repair_every; /* 8; with `cold`, of an answer to a question that was repaired for: behind every so many of its
                           * tokens what these look for comes back, too; 0: what the question looked for is all */
};
PITH_API void pith_session_options_init(struct pith_session_options * options, size_t size); /* size: sizeof *options */

struct pith_run_options {
    size_t size;
    int32_t n_question; /* 0; tokens at the prompt's end that ask: what is kept is chosen in their sight */
    bool is_answer;     /* false; the tokens stand for what decode would add: no gate is asked about them */
    bool (*progress)(int64_t n_done, int64_t n_total, void * user); /* false cancels; NULL: none */
    void * user;
    bool repair; /* false; of a session with `look_back` (else PITH_INVALID_ARGUMENT): what these tokens look for among what was
                  * evicted comes back, as by pith_repair() before them, but chosen behind them, so that they are read once; of
                  * an empty session nothing */
};
PITH_API void pith_run_options_init(struct pith_run_options * options, size_t size); /* size: sizeof *options */

struct pith_ledger {
    size_t size;
    int64_t budget_entries;
    int64_t n_prompt, n_generated, n_evictions, evicted_entries, kept_entries, peak_lane_entries;
    uint64_t kv_needed_bytes, kv_allocated_bytes, kv_saved_bytes, kv_peak_bytes;
    uint64_t evidence_peak_bytes, activation_peak_bytes, rss_peak_bytes, rss_anonymous_bytes;
    int64_t gate_seen_entries, gate_kept_entries;
    uint64_t gate_peak_bytes;
    double prefill_s, decode_s, evidence_s, plan_s, compact_s, gate_s;
    const char * policy;        /* the one that evicts; valid until the session's next call */
    const char * policy_reason; /* why "auto" chose it; "" where it did not */
    const char * schedule;      /* "one-shot" or "in chunks", ", question seen", the grid; "" before the first prefill */
    int64_t n_lanes, n_tokens;
    uint64_t kv_full_bytes;   /* what the cache would take had nothing been evicted */
    uint64_t kv_window_bytes; /* of kv_allocated_bytes: of layers that see a window only, which no policy governs */
    uint64_t kv_state_bytes;  /* of kv_allocated_bytes: states of recurrent layers */
    int64_t n_context_shifts; /* times that kept keys turned to places side by side */
    double kv_missed; /* of the last question, with `cold`: its share of attention to evicted entries; -1: none was asked */
    int64_t n_repairs, returned_entries, cold_entries, cold_lost_entries, cold_bytes, cold_read_bytes;
    double repair_s;
    int64_t n_drafted, n_draft_accepted; /* tokens that ran ahead, and of these those that were fed (draft_ngram) */
    double look_back_s;       /* of prefill_s and repair_s: until what prompts look back at was there, and gone again */
    int64_t n_answer_repairs; /* times that what an answer looked for came back (repair_every) */
    double answer_repair_s;   /* of decode_s */
};

PITH_API pith_code pith_session_new(const pith_model * model, const struct pith_session_options * options,
                                    pith_session ** session);
PITH_API pith_code pith_session_free(pith_session * session);
/* From the next call on the flag ends what takes long: prefills and evictions. NULL: nothing does. */
PITH_API pith_code pith_session_cancel_by(pith_session * session, pith_cancel * cancel);
/* Feeds tokens; the first call follows the prefill schedule. After an error the session is as before the call. */
PITH_API pith_code pith_prefill(pith_session * session, const int32_t * tokens, size_t n_tokens,
                                const struct pith_run_options * run);
/* As pith_prefill() of a first prompt, for questions that will be asked of it later, each by itself. What is kept is chosen in
 * the sight of all of them; the session then holds the prompt alone, within its whole budget. Take a snapshot, and for each
 * question: prefill it, decode, restore. questions: the tokens of all of them, one question after the other. seen (NULL: not
 * wanted): whether they were in sight. They are not where nothing is evicted, where the policy needs the model's gates, and
 * where the prompt is read in chunks and they are longer than a chunk: what is kept is then what pith_prefill() keeps.
 * PITH_INVALID_ARGUMENT: no questions, a session that holds tokens, run->n_question not 0. Cost: the questions' tokens once
 * more; in chunks, with every chunk. */
PITH_API pith_code pith_prefill_for_questions(pith_session * session, const int32_t * tokens, size_t n_tokens,
                                              const int32_t * questions, size_t n_questions,
                                              const struct pith_run_options * run, bool * seen);
PITH_API pith_code pith_append(pith_session * session, int32_t token);   /* one decode step */
PITH_API pith_code pith_decode(pith_session * session, int32_t * token); /* greedy: picks, feeds, returns */
/* [n] of the newest token; n is 0 before the first prefill. Valid until the session's next call. */
PITH_API const float * pith_logits(const pith_session * session, size_t * n);
PITH_API int64_t pith_n_tokens(const pith_session * session);
/* Evicts now what a one-shot prefill under this policy and budget would have evicted. */
PITH_API pith_code pith_evict(pith_session * session, const char * policy, const char * budget);
/* The second of two stages: evicts what is left down to this budget in the sight of questions that are asked next. The
 * session goes on under this policy and budget; a snapshot taken before is the context for the next question. Their tokens run
 * behind it as observers, and are taken back. After an error the session is as before: PITH_MISSING_EVIDENCE where the policy
 * asks for what the session did not keep. */
PITH_API pith_code pith_evict_for_questions(pith_session * session, const int32_t * questions, size_t n_questions,
                                            const char * policy, const char * budget);
/* For a question that is asked next, where what is evicted is kept (options.cold): its share of attention to that comes to the
 * ledger (kv_missed). brings_back: what it looks for comes back, in place of as many entries that it does not look for. Its
 * tokens run as queries and are taken back; prefill it next. With `look_back` pith_run_options.repair does the same in less
 * time. After an error the session is as before. */
PITH_API pith_code pith_repair(pith_session * session, const int32_t * question, size_t n_question, bool brings_back);
/* Original positions of a lane's entries, ascending; valid until the session's next call. */
PITH_API pith_code pith_lane_positions(const pith_session * session, int32_t layer, int32_t kv_head, const int32_t ** positions,
                                       size_t * n);
PITH_API pith_code pith_session_snapshot(pith_session * session, pith_snapshot ** snapshot);
PITH_API pith_code pith_session_restore(pith_session * session, pith_snapshot * snapshot);
PITH_API void pith_snapshot_free(pith_snapshot * snapshot);
/* All of the session in a file (docs/caches.md), to go on from in this process or another as if it had never been saved. A file
 * that is there stays whole until the new one is. */
PITH_API pith_code pith_session_save(const pith_session * session, const char * path);
/* A new session from such a file, under the settings that it was saved with. n_threads: 0: one per CPU that the process may
 * use. PITH_BAD_FILE, PITH_UNSUPPORTED (another version of the format); PITH_INVALID_ARGUMENT: it was saved with another model,
 * adapter or gates: pith_error() names what differs. */
PITH_API pith_code pith_session_open(const pith_model * model, const char * path, int32_t n_threads, pith_session ** session);
/* The same for many sessions: the file is read and checked once, and whoever writes another in its place changes nothing. */
PITH_API pith_code pith_session_file_open(const char * path, pith_session_file ** file);
PITH_API pith_code pith_session_file_session(const pith_session_file * file, const pith_model * model, int32_t n_threads,
                                             pith_session ** session);
PITH_API void pith_session_file_free(pith_session_file * file);
/* The session becomes what was saved there under the same settings; snapshots taken before are void. After an error it is as
 * before: also PITH_INVALID_ARGUMENT for other settings. */
PITH_API pith_code pith_session_load(pith_session * session, const char * path);
/* All tokens that were fed, pith_n_tokens() of them. *n_tokens: room; then how many there are. */
PITH_API pith_code pith_session_tokens(const pith_session * session, int32_t * tokens, size_t * n_tokens);
/* REQUIRES: ledger->size is set. */
PITH_API pith_code pith_get_ledger(const pith_session * session, struct pith_ledger * ledger);

/* The states that governed layers make queries, keys and values of (after the layer's norm), shown to a callback while the
 * session reads, for whoever scores by them (pith_register_scorer): once a chunk is read they are gone. rows [n_tokens][n_embd]
 * of the positions from first_position on; layer as pith_scorer_layer has it. Tokens that run as queries only (questions in
 * sight, a second reading) are shown, too, at the positions that they stand at. Valid during the call. NULL: go on; a line that
 * says what is wrong (copied) ends the call with it, and the session is then as before. Watched, a decoded token takes longer.
 * watch: NULL: nobody is shown anything any more. Neither saved nor part of a snapshot. */
typedef const char * (*pith_hidden_fn)(int32_t layer, int32_t first_position, size_t n_tokens, size_t n_embd,
                                       const float * rows, void * user);
PITH_API pith_code pith_session_watch_hidden(pith_session * session, pith_hidden_fn watch, void * user);

/* ---- scorers of your own: a function, and its name, which is a policy from then on ----
 *
 *   struct pith_scorer_options needs; pith_scorer_options_init(&needs, sizeof needs);
 *   needs.window = 32; needs.window_mean = true; needs.value_l1 = true;
 *   pith_register_scorer("my-vatp", &needs, score, NULL);
 *   options.policy = "my-vatp+ada";
 */

struct pith_scorer_options {
    size_t size;
    const char * help; /* one line; NULL: none */
    int32_t window;    /* 0; queries observed, the last so many: 1 or more with any of the next four, else 0 */
    bool window_mean, window_max, window_attention, window_queries; /* false; fields of pith_scorer_layer, as all below */
    bool last_query, running_sum, keys, values, key_norm, value_l1, value_l2, output_l2; /* false */
    int32_t n_sinks;                                                                     /* 0; positions below are protected */
    int32_t n_recent; /* -1: as many of each lane's newest as the window, or 32 */
};
PITH_API void pith_scorer_options_init(struct pith_scorer_options * options, size_t size); /* size: sizeof *options */

/* The evidence of one layer. Lanes (KV heads) are ragged: lane h holds the entries begin[h] … begin[h + 1] - 1, ascending by
 * position; what is [n_entries] has one number for each. n_group query heads share a lane, and what is [n_group][L] for each
 * lane of length L begins at n_group · begin[h] for lane h, [n_group][n_window][L] at n_group · n_window · begin[h]. A[i,j] is
 * the softmax attention of query i to entry j. Valid during the call. NULL: was not asked for. */
struct pith_scorer_layer {
    size_t size;
    int32_t layer; /* 0, 1, … of the layers that policies govern */
    int32_t n_kv_heads, n_group;
    int32_t head_dim, head_dim_v; /* of keys and queries, and of values, where one of these or window_attention was asked for */
    int32_t n_window;             /* queries really observed, oldest first; more where questions are in sight */
    int64_t n_seen;               /* tokens so far */
    int64_t n_entries;
    const int64_t * begin;          /* [n_kv_heads + 1] */
    const int32_t * positions;      /* [n_entries] in the text */
    const float * window_mean;      /* [n_group][L] of each lane: mean over the window of A */
    const float * window_max;       /* [n_group][L]: the most that one of the window pays */
    const float * window_attention; /* [n_group][n_window][L]: A */
    const float * window_queries;   /* [n_window][n_kv_heads · n_group][head_dim], after RoPE */
    const float * last_query;       /* [n_group][L]: A of the newest query */
    const float * running_sum;      /* [n_group][L]: sum of A over all queries so far */
    const float * keys;             /* [n_entries][head_dim], after RoPE */
    const float * values;           /* [n_entries][head_dim_v] */
    const float * key_norm;         /* [n_entries] before RoPE, Euclidean */
    const float * value_l1;         /* [n_entries] sum of absolute values */
    const float * value_l2;         /* [n_entries] Euclidean */
    const float * output_l2;        /* [n_group][L]: of the value behind the query head's part of the output projection */
};

/* scores [n_entries]: higher = keep. They come as NaN, and all of them must be finite in the end (PITH_NOT_FINITE: names
 * scorer, layer, head and position). NULL: done; a line that says what is wrong (copied) ends the call that evicts with it and
 * the scorer's name, and the session is then as before. It must not feed or evict a session of such a scorer. */
typedef const char * (*pith_score_fn)(const struct pith_scorer_layer * layer, float * scores, void * user);

/* name: a letter, then letters, digits, '-', '_', '.', at most 64, and of no other policy or part. score is called on whatever
 * thread evicts, one call at a time. A name says nothing of the function elsewhere: engines keep no states of such sequences
 * for other prompts, and whoever opens a saved session registers the same scorer before. options: NULL: no evidence but the
 * positions. Threads: any. */
PITH_API pith_code pith_register_scorer(const char * name, const struct pith_scorer_options * options, pith_score_fn score,
                                        void * user);
/* PITH_NOT_FOUND; PITH_INVALID_ARGUMENT while sessions, snapshots or requests that are not forgotten use it. */
PITH_API pith_code pith_unregister_scorer(const char * name);

/* ---- samplers: llama.cpp's, with its defaults ---- */

struct pith_sampler_options {
    size_t size;
    float temperature;          /* 0.8; 0: the likeliest */
    int32_t top_k;              /* 40 */
    float top_p;                /* 0.95 */
    float min_p;                /* 0.05 */
    float typical_p;            /* 1 */
    float top_n_sigma;          /* -1 */
    float xtc_probability;      /* 0 */
    float xtc_threshold;        /* 0.1 */
    float repeat_penalty;       /* 1 */
    float presence_penalty;     /* 0 */
    float frequency_penalty;    /* 0 */
    int32_t repeat_last_n;      /* 64 */
    float dry_multiplier;       /* 0 */
    float dry_base;             /* 1.75 */
    int32_t dry_allowed_length; /* 2 */
    int32_t dry_last_n;         /* 64 */
    int32_t mirostat;           /* 0; 1, 2 */
    float mirostat_tau;         /* 5 */
    float mirostat_eta;         /* 0.1 */
    const char * grammar;       /* GBNF; NULL: any text */
    const char * json_schema;   /* instead of a grammar; NULL: none */
    uint32_t seed;              /* 0xFFFFFFFF: random */
};
PITH_API void pith_sampler_options_init(struct pith_sampler_options * options, size_t size); /* size: sizeof *options */
PITH_API pith_code pith_sampler_new(const pith_model * model, const struct pith_sampler_options * options,
                                    pith_sampler ** sampler);
PITH_API void pith_sampler_free(pith_sampler * sampler);
/* Picks from the session's logits, and remembers; feed it with pith_append(). */
PITH_API pith_code pith_sample(pith_sampler * sampler, const pith_session * session, int32_t * token);
PITH_API pith_code pith_sampler_accept(pith_sampler * sampler, int32_t token); /* a token of the prompt */
PITH_API void pith_sampler_reset(pith_sampler * sampler);

/* ---- engines: many sequences on one model, whose tokens go through the weights together, under one ceiling for all ----
 *
 *   struct pith_request request; pith_request_init(&request, sizeof request);
 *   request.tokens = tokens; request.n_tokens = n_tokens; request.options = &options;
 *   pith_engine_submit(engine, &request, &id);     and others
 *   pith_engine_run(engine, NULL, NULL);
 *   answer = pith_engine_answer(engine, id, &n);
 */

typedef enum pith_request_state {
    PITH_REQUEST_WAITING = 0, /* for room */
    PITH_REQUEST_READING = 1, /* its prompt */
    PITH_REQUEST_ANSWERING = 2,
    PITH_REQUEST_SET_ASIDE = 3, /* one of higher priority needs the room: its lanes are in a temporary file */
    PITH_REQUEST_DONE = 4,
    PITH_REQUEST_FAILED = 5, /* pith_engine_status() says why */
    PITH_REQUEST_CANCELLED = 6
} pith_request_state;

struct pith_engine_options {
    size_t size;
    const char * type_k;    /* "f16"; f32, bf16, q8_0, q4_0 */
    const char * type_v;    /* "f16" */
    const char * ceiling;   /* of all KV caches together: "512M", "auto" (what memory allows now); NULL: none */
    int32_t n_threads;      /* 0: one per CPU that the process may use */
    int32_t max_rows;       /* 512 tokens of a step */
    int32_t max_sequences;  /* 0; that run at a time; 0: as many as fit */
    int32_t grid;           /* 256; of requests whose own is 0; 0: none */
    const char * cache_dir; /* NULL: none. A folder of states: a prompt that begins as one that was read before, by this process
                             * or another, goes on from there (docs/caches.md); */
    uint64_t cache_bytes;   /* 8 GiB: what all of them may take; the one that nobody used for longest goes first */
    uint64_t cache_memory_bytes; /* 0; what such states may take in memory, evidence and positions included, with a folder or
                                  * without, when nobody goes on from them; inside the ceiling. 0: none stays there */
    bool rotate_kv;              /* true; as pith_session_options has it */
};
PITH_API void pith_engine_options_init(struct pith_engine_options * options, size_t size); /* size: sizeof *options */

struct pith_request {
    size_t size;
    const int32_t * tokens;
    size_t n_tokens;
    /* type_k, type_v, rotate_kv and n_threads are the engine's, n_snapshots and observe are for sessions: values that are
     * neither the defaults nor the engine's are refused. NULL: the defaults. */
    const struct pith_session_options * options;
    int32_t n_question; /* 0; tokens at the prompt's end that ask */
    /* The request to go on from, which must be done and have been submitted with `keep`: the tokens come behind what it holds,
     * and its options count. Any number may go on from one: they read its entries where they lie. 0: begin anew. */
    int64_t after;
    bool keep;                 /* false; its entries stay when it is done, until pith_engine_forget() */
    const int32_t * questions; /* with `keep`: tokens of questions that others will ask behind it: it is compressed in */
    size_t n_questions;        /* their sight (pith_engine_questions_seen() says whether), and they are taken back */
    int32_t max_tokens;        /* 256, of the answer; 0 with `keep`: the prompt is read, no more */
    bool stop_at_end;          /* true: tokens that end the model's answers end this one */
    const int32_t * stop;      /* others that do; none of them is a part of it */
    size_t n_stop;
    int32_t priority; /* 0; higher first */
    /* Draws the answer's tokens; of one request at a time. Show it the prompt with pith_sampler_accept(). NULL: the likeliest.
     */
    pith_sampler * sampler;
    /* Or who chooses: the next token by the logits of the newest. */
    int32_t (*choose)(const float * logits, size_t n, void * user);
    /* Shown every token of the answer at once; false ends it. Both may submit and cancel, but not step, run, forget or free. */
    bool (*on_token)(int32_t token, void * user);
    void * user;
    const char * cache_name;  /* with a folder of states: found and left by requests of the same name alone; NULL: "" */
    const int32_t * cache_at; /* tokens behind which prompts that begin like this one may part: a state is kept before each */
    size_t n_cache_at;
    bool use_cache; /* true; false: no state is looked for, in memory or in a folder, and none is left */
    /* true: with options.cold, what the prompt's newest tokens look for among what was evicted comes back within the budget;
     * false: it is only told (pith_ledger's kv_missed); with max_tokens 0 nothing is looked for */
    bool repair;
};
PITH_API void pith_request_init(struct pith_request * request, size_t size); /* size: sizeof *request */

struct pith_engine_ledger { /* of all sequences together */
    size_t size;
    int64_t n_waiting, n_running, n_set_aside, n_steps;
    int64_t n_prompt, n_generated;                 /* tokens read, and tokens of answers that were fed */
    uint64_t ceiling_bytes;                        /* 0: none */
    uint64_t kv_reserved_bytes;                    /* what the running ones may come to need */
    uint64_t kv_allocated_bytes, kv_kept_bytes;    /* pages held now, each counted once; of these: of `keep` */
    uint64_t kv_peak_bytes, activation_peak_bytes; /* the most that was ever held */
    double step_s, pass_s, evict_s, schedule_s;    /* all of it; in passes; behind them; choosing who runs */
    double prefill_s, decode_s, evidence_s;        /* of step_s: for prompts, for answers; inside of both: evidence */
    double longest_unit_s;                         /* of a prompt that is read layer by layer */
    int64_t n_cache_sought, n_cache_found;         /* tokens of prompts looked for in the folder of states, and found there */
    int64_t n_cache_kept;                          /* states put there */
    uint64_t kv_idle_bytes;                        /* of kv_allocated_bytes: of states that nobody goes on from now */
};

PITH_API pith_code pith_engine_new(const pith_model * model, const struct pith_engine_options * options, pith_engine ** engine);
PITH_API pith_code pith_engine_free(pith_engine * engine);
/* Takes a request, which pith_engine_step() or _run() serve, and gives its number. PITH_BUDGET: it may come to need more than
 * the ceiling. */
PITH_API pith_code pith_engine_submit(pith_engine * engine, const struct pith_request * request, int64_t * id);
/* Ends a request that has not ended; its pages are free at once. */
PITH_API pith_code pith_engine_cancel(pith_engine * engine, int64_t id);
/* Forgets a request that has ended, and frees what it kept as soon as nobody reads it who went on from it. */
PITH_API pith_code pith_engine_forget(pith_engine * engine, int64_t id);
/* From the next call on the flag ends passes in the middle: pith_engine_run() with PITH_CANCELLED, pith_engine_step() with more
 * to do. What the pass had begun is taken back, and a later step does it. NULL: nothing does. pith_engine_cancel() ends a
 * single request. */
PITH_API pith_code pith_engine_cancel_by(pith_engine * engine, pith_cancel * cancel);
/* One pass over the weights. more: there is something left to do. A request that fails ends alone. */
PITH_API pith_code pith_engine_step(pith_engine * engine, bool * more);
/* Until nothing is left to do. go_on (NULL: always) is asked before each step; false: PITH_CANCELLED, and everything stays as
 * it is. */
PITH_API pith_code pith_engine_run(pith_engine * engine, bool (*go_on)(void * user), void * user);
/* Of a number that submit did not give, or forget took: PITH_REQUEST_FAILED, PITH_NOT_FOUND, no answer. */
PITH_API pith_request_state pith_engine_state(const pith_engine * engine, int64_t id);
PITH_API pith_code pith_engine_status(const pith_engine * engine, int64_t id); /* why it failed */
/* [n] tokens so far; valid until the engine's next call. */
PITH_API const int32_t * pith_engine_answer(const pith_engine * engine, int64_t id, size_t * n);
/* Original positions of a lane's entries, of a request that runs or is kept; valid until the engine's next call. */
PITH_API pith_code pith_engine_lane_positions(const pith_engine * engine, int64_t id, int32_t layer, int32_t kv_head,
                                              const int32_t ** positions, size_t * n);
/* REQUIRES of both: ledger->size is set. Of a request: texts are valid until the engine's next call. */
PITH_API pith_code pith_engine_request_ledger(pith_engine * engine, int64_t id, struct pith_ledger * ledger);
PITH_API int64_t pith_engine_n_cached(const pith_engine * engine, int64_t id); /* of its prompt, from the folder of states */
/* Of its prompt, those of the folder included; of one that is read layer by layer each layer counts its share. */
PITH_API int64_t pith_engine_n_read(const pith_engine * engine, int64_t id);
/* Of a request whose prompt has been read: whether it was compressed in the sight of its questions. */
PITH_API bool pith_engine_questions_seen(const pith_engine * engine, int64_t id);
PITH_API pith_code pith_engine_get_ledger(const pith_engine * engine, struct pith_engine_ledger * ledger);

#ifdef __cplusplus
}
#endif

#endif
