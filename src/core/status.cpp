// status.cpp - names of the error codes.
#include "pith/status.h"

namespace pith {

std::string_view to_string(ErrorCode code) {
    switch (code) {
        case ErrorCode::kOk:
            return "ok";
        case ErrorCode::kInvalidArgument:
            return "invalid argument";
        case ErrorCode::kNotFound:
            return "not found";
        case ErrorCode::kBadFile:
            return "bad file";
        case ErrorCode::kUnsupported:
            return "unsupported";
        case ErrorCode::kMissingEvidence:
            return "missing evidence";
        case ErrorCode::kNotFinite:
            return "not finite";
        case ErrorCode::kBudget:
            return "budget too small";
        case ErrorCode::kOutOfMemory:
            return "out of memory";
        case ErrorCode::kIo:
            return "input/output";
        case ErrorCode::kCancelled:
            return "cancelled";
        case ErrorCode::kInternal:
            return "internal error";
    }
    return "unknown";
}

}  // namespace pith
