// train_figure.h - a training run's curve as a figure.
#pragma once

#include <string>

namespace pith::app {

// Reads the CSV that a run wrote and writes the SVG. Returns the exit code; says what is wrong on standard error.
int draw_training_curve(const std::string & csv, const std::string & name, const std::string & svg);

}  // namespace pith::app
