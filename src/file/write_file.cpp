// write_file.cpp - one piece of bytes, or a GGUF's header and its tensors.
#include "file/write_file.h"

#include <gguf.h>

#include "file/new_file.h"

namespace pith {

Status write_file(const std::string & path, std::string_view bytes) {
    PITH_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
    PITH_RETURN_IF_ERROR(file.write(bytes.data(), bytes.size()));
    return file.publish();
}

Status write_gguf(const std::string & path, const gguf_context * gguf, std::span<const void * const> tensors) {
    PITH_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
    std::string header(gguf_get_meta_size(gguf), '\0');
    gguf_get_meta_data(gguf, header.data());
    PITH_RETURN_IF_ERROR(file.write(header.data(), header.size()));
    const size_t alignment = gguf_get_alignment(gguf);
    const std::string zeros(alignment, '\0');
    for (size_t i = 0; i < tensors.size(); ++i) {
        const size_t size_bytes = gguf_get_tensor_size(gguf, static_cast<int64_t>(i));
        PITH_RETURN_IF_ERROR(file.write(tensors[i], size_bytes));
        PITH_RETURN_IF_ERROR(file.write(zeros.data(), (alignment - size_bytes % alignment) % alignment));
    }
    return file.publish();
}

}  // namespace pith
