// scorer.cpp - scorers of their own for callers of C, and hidden states as they pass. Stage: façade.
#include "c/handles.h"
#include "pith/custom_scorer.h"

using pith::ErrorCode;
using pith::Status;
using namespace pith::c;

namespace {

const pith_scorer_options kDefaults{.size = sizeof(pith_scorer_options), .help = nullptr, .n_recent = -1};

const float * pointer(std::span<const float> rows) {
    return rows.empty() ? nullptr : rows.data();
}

pith_scorer_layer layer_of(const pith::ScorerLayer & layer) {
    return {.size = sizeof(pith_scorer_layer),
            .layer = layer.layer,
            .n_kv_heads = layer.n_kv_heads,
            .n_group = layer.n_group,
            .head_dim = layer.head_dim,
            .head_dim_v = layer.head_dim_v,
            .n_window = layer.n_window,
            .n_seen = layer.n_seen,
            .n_entries = static_cast<int64_t>(layer.n_entries()),
            .begin = layer.begin.data(),
            .positions = layer.positions.data(),
            .window_mean = pointer(layer.window_mean),
            .window_max = pointer(layer.window_max),
            .window_attention = pointer(layer.window_attention),
            .window_queries = pointer(layer.window_queries),
            .last_query = pointer(layer.last_query),
            .running_sum = pointer(layer.running_sum),
            .keys = pointer(layer.keys),
            .values = pointer(layer.values),
            .key_norm = pointer(layer.key_norm),
            .value_l1 = pointer(layer.value_l1),
            .value_l2 = pointer(layer.value_l2),
            .output_l2 = pointer(layer.output_l2)};
}

// before: what the line is about, where nobody else says that.
Status said(const char * wrong, const char * before = "") {
    return wrong == nullptr ? Status() : Status(ErrorCode::kInvalidArgument, std::string(before) + wrong);
}

}  // namespace

void pith_scorer_options_init(struct pith_scorer_options * options, size_t size) {
    init(options, size, kDefaults);
}

pith_code pith_register_scorer(const char * name, const struct pith_scorer_options * options, pith_score_fn score,
                               void * user) {
    return guarded([&]() -> Status {
        if (name == nullptr || score == nullptr) { return missing(name == nullptr ? "name" : "score"); }
        PITH_ASSIGN_OR_RETURN(const pith_scorer_options given, with_defaults(options, kDefaults));
        pith::CustomScorer own{.name = name, .help = text_of(given.help), .n_sinks = given.n_sinks, .n_recent = given.n_recent};
        own.needs = {.window = given.window,
                     .window_mean = given.window_mean,
                     .window_max = given.window_max,
                     .window_attention = given.window_attention,
                     .window_queries = given.window_queries,
                     .last_query = given.last_query,
                     .running_sum = given.running_sum,
                     .keys = given.keys,
                     .values = given.values,
                     .key_norm = given.key_norm,
                     .value_l1 = given.value_l1,
                     .value_l2 = given.value_l2,
                     .output_l2 = given.output_l2};
        own.score = [score, user](const pith::ScorerLayer & layer, std::span<float> scores) {
            const pith_scorer_layer shown = layer_of(layer);
            return said(score(&shown, scores.data(), user));
        };
        return pith::register_scorer(std::move(own));
    });
}

pith_code pith_unregister_scorer(const char * name) {
    return guarded([&]() -> Status { return name == nullptr ? missing("name") : pith::unregister_scorer(name); });
}

pith_code pith_session_watch_hidden(pith_session * session, pith_hidden_fn watch, void * user) {
    return alone(session, [&]() -> Status {
        if (session == nullptr) { return missing("session"); }
        if (watch == nullptr) {
            session->session.watch_hidden({});
            return {};
        }
        session->session.watch_hidden([watch, user](const pith::HiddenRows & hidden) {
            return said(watch(hidden.layer, hidden.first_position, static_cast<size_t>(hidden.n_tokens),
                              static_cast<size_t>(hidden.n_embd), hidden.rows.data(), user),
                        "watch_hidden: ");
        });
        return {};
    });
}
