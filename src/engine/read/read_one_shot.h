// read_one_shot.h - a first prompt read layer by layer: the whole prompt through one layer, its evidence, its eviction, then
// the next layer. Stage: schedule → evict.
//
// At most one layer ever holds all its entries (policies that rank across layers may later take more from earlier ones). Where
// the next layer runs on a device, its first chunk is computed there while this machine scores the one before
// (pass/layer_in_flight.h): two layers are whole meanwhile, so not under a ceiling in bytes. A unit is one chunk of the prompt
// through one layer, or through all from the first on whose keys later layers read: between two of them others may run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/pass/layer_in_flight.h"
#include "engine/pass/live_session.h"
#include "engine/read/room_there.h"
#include "evidence/evidence_state.h"
#include "policy/eviction.h"

namespace pith {

class OneShotReader {
public:
    // The session, the tokens and the hooks must live as long as this.
    OneShotReader(LiveSession & session, std::span<const int32_t> tokens, const RunHooks & hooks);

    bool done() const { return layer_ == n_layers_; }
    // Of the prompt, each layer counting its share.
    // A prompt that is read again is half done when it has been read.
    int64_t n_done() const { return rereads_ ? (n_read() + n_read_again_) / 2 : n_read(); }
    // One more unit; after a layer's last its eviction, after the prompt's last all that is left to do.
    Status advance();

private:
    int64_t n_read() const { return (int64_t{layer_} * n_ + int64_t{end_of_run() - layer_} * first_) / n_layers_; }
    Status read_again();
    Status begin_layers();
    Status run_unit();
    Status end_layer(int layer);
    int end_of_run() const;  // behind the layers that a unit goes through
    bool may_be_in_flight(int layer) const;
    Status score(const LayerEvidence & seen);
    Status apply_scored();
    Status land();
    Status reserve_layers(int end);
    Status end_prompt();
    void without_observers(int layer);

    LiveSession & session_;
    std::span<const int32_t> tokens_;
    const RunHooks & hooks_;
    int n_ = 0;  // tokens
    int n_layers_ = 0;
    RoomThere room_;
    int chunk_ = 0;  // of the layers at hand
    bool must_evict_ = false;
    bool cascade_ = false;  // a policy that must see every layer first holds the whole prompt until then; others evict by layer
    bool rereads_ = false;  // before it evicts, or where it does not, for evict(): it holds the whole prompt until then
    int64_t n_read_again_ = 0;
    std::optional<EvictionPass> pass_;
    LayerInFlight in_flight_;
    std::vector<LayerPlan> scored_;             // of a cascade, not yet applied
    std::vector<float> observing_;              // [observers][D]
    std::vector<EvidenceState::Layer> before_;  // [layer] the evidence without the observers
    RecurrentStates states_before_;             // of the layer at hand
    int layer_ = 0;                             // of the next unit
    int first_ = 0;                             // its first token
};

}  // namespace pith
