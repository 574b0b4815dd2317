// cached_model.h - the model of a cache file: the one that is named, or the one that the file was saved with.
#pragma once

#include "common/flags/engine_flags.h"
#include "pith/cache_file.h"

namespace pith::app {

// Fills in what was not named: model, adapter and gates as the file has them. Whether they are the same to the bit is found out
// when the file is opened.
// Errors: kNotFound: what the file names is not there any more: says what to give.
Status find_model_of(const CacheFileInfo & info, const std::string & cache_file, ModelFlags & model);

}  // namespace pith::app
