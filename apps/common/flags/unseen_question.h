// unseen_question.h - a policy that was named, and a question that comes later: one line where the two do not fit.
#pragma once

#include <span>
#include <string>

#include "pith/model.h"
#include "pith/session.h"

namespace pith::app {

// On stderr, where a policy among them judges by the newest tokens, which will not be the question; once in a process.
// heads_file: as --heads; remedy: what else the user can do, "leave out --question-later".
void warn_of_unseen_question(std::span<const PolicyChoice> policies, const Model & model, const std::string & heads_file,
                             const std::string & remedy);

// A line where a session of these options will read its text twice, so that nobody wonders about the time.
void tell_of_second_reading(const Model & model, const SessionOptions & options);
void tell_read_twice();  // that line

}  // namespace pith::app
