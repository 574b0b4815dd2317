// documents.cpp - see documents.h.
#include "benchmarks/files/documents.h"

#include <unordered_set>
#include <utility>

#include "benchmarks/files/records.h"

namespace pith::benchmarks {

Result<std::vector<std::string>> read_documents(std::string_view text, const std::string & file) {
    std::vector<std::string> documents;
    std::unordered_set<std::string> seen;
    const auto use = [&](const Record & record) -> Status {
        const char * const field = record.has("chapter") ? "chapter" : "text";
        PITH_ASSIGN_OR_RETURN(std::string document, record.text(field));
        if (document.empty()) { return record.bad(field, "is empty: delete the line"); }
        if (seen.insert(document).second) { documents.push_back(std::move(document)); }
        return {};
    };
    PITH_RETURN_IF_ERROR(for_each_record(text, file, 0, use));
    return documents;
}

}  // namespace pith::benchmarks
