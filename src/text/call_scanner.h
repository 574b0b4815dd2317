// call_scanner.h - {"name": "…", "arguments": {…}} taken apart while it comes. Stage: text.
// Threads: one at a time. Cost: linear.
#pragma once

#include <string>

namespace pith {

class CallScanner {
public:
    // The next character. false: it belongs to no such object.
    bool add(char c);
    bool done() const { return done_; }           // the object has been closed
    bool is_foreign() const { return foreign_; }  // it has what a call as this class knows it has not
    bool has_arguments() const { return begun_; }
    const std::string & name() const { return name_; }
    // What of the arguments has come since it was last asked.
    std::string take_arguments();

private:
    bool is_arguments() const { return depth_ == 1 && in_value_ && (key_ == "arguments" || key_ == "parameters"); }
    void end_string();

    int depth_ = 0;
    bool done_ = false;
    bool foreign_ = false;
    bool in_string_ = false;
    bool escaped_ = false;
    bool in_value_ = false;  // behind the colon, at depth 1
    bool in_arguments_ = false;
    std::string key_;
    std::string string_;  // as it is written, of depth 1
    std::string name_;
    std::string arguments_;
    bool begun_ = false;    // the arguments
    bool as_text_ = false;  // they are JSON in a string
    bool taken_ = false;    // some of them
};

}  // namespace pith
