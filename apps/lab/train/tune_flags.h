// tune_flags.h - what `pith train gate` and `pith train sft` share: flags, the plan, progress, the run itself.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/model_file.h"
#include "train/data/samples.h"
#include "train/tune.h"

namespace pith::app {

struct TuneFlags {
    std::string model;
    std::vector<std::string> texts;
    std::string work_dir;
    std::string kind = "attention";
    std::string source = "own";
    int n_heads = 0;       // 0: an eighth of the model's, at least 2
    int head_dim = 0;      // 0: the model's
    int first_layer = -1;  // -1: 0, or 1 for the previous layer's gates
    int n_tokens = 1024;
    int n_threads = 0;
    bool f32 = false;
    bool restart = false;
    train::TuneOptions options;

    void add_gate_options(CLI::App & command);
    void add_run_options(CLI::App & command);
    // The model, opened for training; fills in the built-in one's path.
    Result<std::shared_ptr<ModelFile>> load();
    // "model.gguf" → "model".
    std::string stem() const;
    // What the flags say goes into `options`. Errors: as train::check.
    Status complete(const Hparams & hparams);
};

// Trains, with the plan, the progress and what it comes to on the terminal; returns the exit code.
int run_tune(const ModelFile & file, train::Samples & samples, const train::TuneOptions & options);

}  // namespace pith::app
