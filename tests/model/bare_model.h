// bare_model.h - a model file without a file: what a test sets of it, nothing else.
#pragma once

#include <string>
#include <vector>

#include "model/model_file.h"

namespace pith::testing {

class BareModel : public ModelFile {
public:
    const std::string & path() const override { return name_; }
    const Hparams & hparams() const override { return hparams_; }
    const Weights & weights() const override { return weights_; }
    size_t weight_bytes() const override { return 0; }
    size_t weight_bytes_per_token() const override { return 0; }
    size_t resident_copies_bytes() const override { return 0; }
    const std::string & weight_type_name() const override { return name_; }
    const std::vector<WeightShare> & weight_shares() const override { return shares_; }
    const std::string & file_type() const override { return name_; }
    int64_t n_params() const override { return 0; }
    Result<std::vector<float>> read_output_projection(int /*layer*/) const override { return std::vector<float>{}; }
    ModelIdentity identity() const override { return {}; }
    std::string norms_hash() const override { return {}; }

protected:
    std::string name_ = "none";
    std::vector<WeightShare> shares_;
    Hparams hparams_;
    Weights weights_;
};

}  // namespace pith::testing
