// library.cpp - version, errors and log of the C interface. Stage: façade.
#include "c/handles.h"

using namespace pith::c;

const char * pith_version(void) {
    return PITH_VERSION;
}

pith_code pith_last_code(void) {
    return last_code;
}

const char * pith_error(void) {
    return last_error.c_str();
}

const char * pith_error_field(void) {
    return last_error_field.c_str();
}

const char * pith_code_name(pith_code code) {
    return pith::to_string(static_cast<pith::ErrorCode>(code)).data();  // of a literal: ends with a zero
}

void pith_set_log(pith_log_fn log, void * user) {
    if (log == nullptr) {
        pith::set_log_sink({});
        return;
    }
    pith::set_log_sink([log, user](pith::LogLevel level, std::string_view line) {
        log(static_cast<int>(level), line.data(), line.size(), user);
    });
}
