// gguf_edit.h - temporary files, and GGUF files changed in one place: material for bad-input tests.
#pragma once

#include <ggml.h>
#include <gguf.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace pith::testing {

// A folder of this test's own, removed with the object.
class TempFolder {
public:
    TempFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "pith-test-").string() + std::string(6, 'X');  // mkdtemp's
        path_ = mkdtemp(name.data()) != nullptr ? name : ".";
    }
    TempFolder(const TempFolder &) = delete;
    TempFolder & operator=(const TempFolder &) = delete;
    ~TempFolder() {
        std::error_code ignored;
        if (path_ != ".") { std::filesystem::remove_all(path_, ignored); }
    }
    std::string file(const std::string & name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

inline std::vector<char> read_file(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::string & path, const std::vector<char> & bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

struct GgufEdit {
    std::function<void(gguf_context *)> metadata;  // may set and remove keys
    std::function<bool(ggml_tensor *)> tensor;     // may rename, retype or reshape; false drops the tensor
    std::vector<const ggml_tensor *> added = {};   // behind the file's own
};

// Copies `from` to `to` with the edit. False when ggml cannot read or write.
inline bool edit_gguf(const std::string & from, const std::string & to, const GgufEdit & edit) {
    ggml_context * data = nullptr;
    gguf_context * in = gguf_init_from_file(from.c_str(), {false, &data});
    if (in == nullptr) { return false; }
    gguf_context * out = gguf_init_empty();
    gguf_set_kv(out, in);
    if (edit.metadata) { edit.metadata(out); }
    for (int64_t i = 0; i < gguf_get_n_tensors(in); ++i) {
        ggml_tensor * tensor = ggml_get_tensor(data, gguf_get_tensor_name(in, i));
        if (!edit.tensor || edit.tensor(tensor)) { gguf_add_tensor(out, tensor); }
    }
    for (const ggml_tensor * tensor : edit.added) { gguf_add_tensor(out, tensor); }
    const bool written = gguf_write_to_file(out, to.c_str(), false);
    gguf_free(out);
    gguf_free(in);
    ggml_free(data);
    return written;
}

}  // namespace pith::testing
