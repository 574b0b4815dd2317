// adapted_model.cpp - hands everything on to the model but what the adapter changes. Stage: model.
#include "model/adapted_model.h"

#include <ggml.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace pith {
namespace {

class AdaptedModel : public ModelFile {
public:
    AdaptedModel(std::shared_ptr<const ModelFile> model, std::shared_ptr<const LoraAdapter> adapter, float strength)
        : model_(std::move(model)),
          adapter_(std::move(adapter)),
          strength_(strength),
          weights_(adapter_->apply(model_->weights(), strength)) {}

    const std::string & path() const override { return model_->path(); }
    const Hparams & hparams() const override { return model_->hparams(); }
    const Weights & weights() const override { return weights_; }
    size_t weight_bytes() const override { return model_->weight_bytes(); }
    size_t weight_bytes_per_token() const override { return model_->weight_bytes_per_token(); }
    size_t resident_copies_bytes() const override { return model_->resident_copies_bytes(); }
    const std::string & weight_type_name() const override { return model_->weight_type_name(); }
    const std::vector<WeightShare> & weight_shares() const override { return model_->weight_shares(); }
    const std::string & file_type() const override { return model_->file_type(); }
    int64_t n_params() const override { return model_->n_params(); }
    const Placement * placement() const override { return model_->placement(); }

    ModelIdentity identity() const override {
        ModelIdentity identity = model_->identity();
        if (strength_ == 0.0F) { return identity; }  // as without one, to the bit
        char scale[32];
        std::snprintf(scale, sizeof scale, "%.9g", static_cast<double>(strength_));
        std::ranges::find(identity, kLoraItem, &ModelIdentity::value_type::first)->second =
            adapter_->hash() + " at scale " + scale;
        return identity;
    }
    std::string norms_hash() const override { return model_->norms_hash(); }
    Adapter adapter() const override { return {adapter_->path(), strength_}; }

    // rows[r][c] += scale · Σ_k b[r][k] · a[k][c]
    Result<std::vector<float>> read_output_projection(int layer) const override {
        PITH_ASSIGN_OR_RETURN(std::vector<float> rows, model_->read_output_projection(layer));
        const LoraPair & pair = weights_.layers[static_cast<size_t>(layer)].lora_o;
        if (pair.a == nullptr) { return rows; }
        const auto width = static_cast<size_t>(pair.a->ne[0]);
        const auto rank = static_cast<size_t>(pair.a->ne[1]);
        const auto n_rows = static_cast<size_t>(pair.b->ne[1]);
        const auto * a = static_cast<const float *>(pair.a->data);
        const auto * b = static_cast<const float *>(pair.b->data);
        for (size_t r = 0; r < n_rows; ++r) {
            float * row = rows.data() + r * width;
            for (size_t k = 0; k < rank; ++k) {
                const float weight = pair.scale * b[r * rank + k];
                for (size_t c = 0; c < width; ++c) { row[c] += weight * a[k * width + c]; }
            }
        }
        return rows;
    }

private:
    std::shared_ptr<const ModelFile> model_;
    std::shared_ptr<const LoraAdapter> adapter_;
    float strength_;
    Weights weights_;
};

}  // namespace

std::shared_ptr<const ModelFile> adapt_model(std::shared_ptr<const ModelFile> model, std::shared_ptr<const LoraAdapter> adapter,
                                             float strength) {
    return std::make_shared<AdaptedModel>(std::move(model), std::move(adapter), strength);
}

}  // namespace pith
