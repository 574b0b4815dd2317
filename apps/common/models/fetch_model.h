// fetch_model.h - a model of Hugging Face's hub as a file on this machine: looked for in the caches, else fetched into the
// first.
#pragma once

#include <string>
#include <vector>

#include "common/models/hf_reference.h"
#include "common/models/hub_api.h"
#include "pith/status.h"

namespace pith::app {

struct FetchOptions {
    Hub hub;
    std::string file;                 // of the repository, instead of a quantisation
    bool offline = false;             // what is there, without asking anybody
    std::vector<std::string> caches;  // folders as hub_cache.h has them
};

// The path of the model's first part. Tells on stderr what it fetches. Where the hub cannot be asked, what is there of the
// reference is taken, with a warning. Ctrl-C stops it; what came is kept.
// Errors: those of ask_hub(), choose_model(), download(); kIo: the disk has too little room.
Result<std::string> fetch_model(const HfReference & reference, const FetchOptions & options);

}  // namespace pith::app
