// open_files.h - how many files the process may have open.
#pragma once

namespace pith::app {

// As many as the system lets it, where that is more than it begins with: connections and states in memory take some each.
void allow_more_open_files();

}  // namespace pith::app
