// session_gates.h - a session's gates: asked in front of a layer, their answers hidden from later queries, and taken out of the
// lanes as soon as no query to come sees them. Stage: gate → attention → compaction.
//
// A layer over new tokens is before_layer(), Forward::run_layer(), after_layer().   Threads: one at a time, as the session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/parts/session_parts.h"
#include "engine/pass/batch_part.h"
#include "engine/pass/gate_runner.h"
#include "engine/sequence/sequence.h"
#include "pith/ledger.h"

namespace pith {

class SessionGates {
public:
    SessionGates(std::shared_ptr<const ModelFile> file, std::shared_ptr<const Gate> gate, ggml_backend_t backend)
        : runner_(std::move(file), std::move(gate), backend) {}

    const Gate & gate() const { return runner_.gate(); }
    const GateConfig & config() const { return runner_.config(); }
    GateRunner & runner() { return runner_; }

    // Shown what gates say of the n tokens from first_position on: probabilities [n][K]. While it is set, gates run whatever
    // the policy is.
    using Observer = std::function<void(int layer, std::span<const float> probabilities, int n, int32_t first_position)>;
    void set_observer(Observer observer) { observer_ = std::move(observer); }
    bool has_observer() const { return static_cast<bool>(observer_); }

    // Whether they are asked about the tokens of a prompt: a gate that must see a whole one knows the first only.
    bool wants_prompt(const SequenceState & state, bool first) const;
    // Whether the prompt must come in one shot.
    bool need_whole_prompt(const Policy & policy, std::span<const EvidenceNeeds> observed) const;

    // Of a sequence without tokens.
    void reset(const CacheLayout & layout, SequenceState & state);
    void forget_answers(int n_layers) { answers_.assign(static_cast<size_t>(n_layers), {}); }
    // Whether the tokens of the call at hand are their business; which they were.
    bool set_asked(bool asked) { return std::exchange(asked_, asked); }
    bool asked() const { return asked_; }
    void end_call();

    // Asks those that read the input of `layer`: its own, or that of the layer after. Nothing, unless asked().
    Status ask(const SessionParts & parts, int layer, const GateInput & in, int32_t first_position, SequenceState & state,
               Ledger & ledger);
    // part: of this sequence, without hidden keys.
    Status before_layer(const SessionParts & parts, int layer, BatchPart & part, Sequence & seq, Ledger & ledger);
    Status after_layer(const SessionParts & parts, int layer, const BatchPart & part, Sequence & seq, Ledger & ledger);
    // Takes out of the layer's lanes what a query at next_position, or later, does not see.
    static Status drop_hidden(int layer, int32_t next_position, Sequence & seq, Ledger & ledger);

private:
    // What a layer's gate says of the run at hand.
    struct Answer {
        std::vector<float> probabilities;  // [n][K]
        int32_t first_position = 0;
    };
    bool has_gate(const CacheLayout & layout, int layer) const { return layout.governs(layer) && config().has_gate(layer); }
    std::span<const float> said_of(const CacheLayout & layout, int layer, const BatchPart & part) const;

    GateRunner runner_;
    Observer observer_;
    std::vector<Answer> answers_;  // [layer]
    bool asked_ = false;
};

// Whether the session has gates that are asked about the tokens of the call at hand.
inline bool asked(const std::unique_ptr<SessionGates> & gates) {
    return gates && gates->asked();
}

}  // namespace pith
