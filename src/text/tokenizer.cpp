// tokenizer.cpp - a GGUF model's tokeniser and chat template, by libllama with the weights left on disk. Stage: text.
//
// libllama reports a bad file only in its log, aborts on some damaged headers and on a file without a vocabulary when asked to
// tokenise, and throws through its C interface where a vocabulary has no byte tokens: all are looked for when the file is
// loaded. Threads: const-safe. Cost of load: reads the metadata, no weights.
#include <llama.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/guarded.h"
#include "core/items.h"
#include "core/text.h"
#include "file/file_parts.h"
#include "file/gguf_strings.h"
#include "pith/text.h"
#include "text/llama_log.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace pith {

namespace {

// What libllama is told in place of what the file says, behind which comes an empty one.
using Overrides = std::vector<llama_model_kv_override>;

bool has_tensor(const GgufHeader & header, std::string_view name) {
    return std::ranges::find(header.tensors, name, &GgufTensor::name) != header.tensors.end();
}

// Ollama's own conversions say of some vocabularies what would cut texts otherwise than their models were trained on, and call
// some architectures by names that libllama does not know.
struct Correction {
    std::string_view architecture;
    std::string_view key;
    std::string_view value;
    bool (*applies)(const GgufHeader & header);
};
bool always(const GgufHeader & /*header*/) {
    return true;
}
constexpr Correction kCorrections[] = {
    {"gemma4", "tokenizer.ggml.model", "gemma4",  // "llama", which has no merges
     [](const GgufHeader & header) {
         return header.string("tokenizer.ggml.model") == "llama" && header.find("tokenizer.ggml.merges") != nullptr;
     }},
    {"gptoss", "general.architecture", "gpt-oss", always},
    {"gptoss", "tokenizer.ggml.pre", "gpt-4o", always},
    {"olmo3", "general.architecture", "olmo2", always},
    {"lfm2", "tokenizer.ggml.pre", "lfm2",
     [](const GgufHeader & header) {
         return has_tensor(header, "output_norm.weight") && !has_tensor(header, "token_embd_norm.weight");
     }},
};

Overrides overrides_of(const GgufHeader & header) {
    Overrides overrides;
    const std::string architecture = header.string("general.architecture").value_or("");
    for (const Correction & one : kCorrections) {
        if (one.architecture != architecture || !one.applies(header)) { continue; }
        llama_model_kv_override & made = overrides.emplace_back();
        made.tag = LLAMA_KV_OVERRIDE_TYPE_STR;
        std::ranges::copy(one.key, made.key);  // zeros follow
        std::ranges::copy(one.value, made.val_str);
    }
    if (!overrides.empty()) { overrides.emplace_back(); }
    return overrides;
}

Status no_vocabulary(const std::string & path) {
    return {ErrorCode::kUnsupported, "'" + path + "' has no vocabulary: text cannot be turned into tokens"};
}

// The kinds that architectures which run have. Of others libllama ends the process over a token or a newline that is not as it
// expects ("bert", "rwkv"), or reads tables that nobody has checked ("t5"); for none it makes up as many tokens as a key says.
Status check_vocabulary_kind(const GgufHeader & header, const std::string & path) {
    constexpr std::string_view kKinds[] = {"llama", "gpt2", "gemma4"};
    const std::optional<std::string> kind = header.string("tokenizer.ggml.model");
    if (!kind || *kind == "none" || *kind == "no_vocab") { return no_vocabulary(path); }
    if (std::ranges::find(kKinds, *kind) != std::end(kKinds)) { return {}; }
    return {ErrorCode::kUnsupported, "'" + path + "': its vocabulary (tokenizer.ggml.model) is of the kind '" + *kind + "'; " +
                                         join(kKinds, ", ") + " are read"};
}

// ggml's reader, which libllama uses, aborts on some damaged headers, of any part: ours looks first.
Result<Overrides> check_headers(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const std::vector<FilePart> parts, open_parts(path));
    PITH_RETURN_IF_ERROR(check_vocabulary_kind(parts.front().header, path));
    return overrides_of(parts.front().header);
}

// libllama aborts where a token is there twice. Empty ones get names of their own there.
// REQUIRES: check_headers() found nothing.
Status check_tokens_differ(const std::string & path) {
    const std::vector<std::string> tokens = gguf_strings(path, "tokenizer.ggml.tokens");
    std::unordered_map<std::string_view, size_t> ids;
    for (size_t id = 0; id < tokens.size(); ++id) {
        const auto [first, is_new] = ids.emplace(tokens[id], id);
        if (!is_new && !tokens[id].empty()) {
            return {ErrorCode::kBadFile, "the vocabulary of '" + path + "' has one token twice, as " +
                                             std::to_string(first->second) + " and as " + std::to_string(id) +
                                             ", and libllama cannot read that: convert the model again"};
        }
    }
    return {};
}

// SentencePiece vocabularies spell unknown characters byte by byte; libllama looks the byte's token up as "<0x41>", else
// as the byte itself, and throws when there is neither.
Status check_byte_tokens(const llama_vocab * vocab, const std::string & path) {
    if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_SPM) { return {}; }
    std::unordered_set<std::string> short_pieces;
    for (int32_t id = 0; id < llama_vocab_n_tokens(vocab); ++id) {
        const char * text = llama_vocab_get_text(vocab, id);
        if (text != nullptr && std::char_traits<char>::length(text) <= 6) { short_pieces.insert(text); }
    }
    for (int byte = 0; byte < 256; ++byte) {
        std::array<char, 8> name{};
        std::snprintf(name.data(), name.size(), "<0x%02X>", static_cast<unsigned>(byte));
        if (short_pieces.count(name.data()) == 0 && short_pieces.count(std::string(1, static_cast<char>(byte))) == 0) {
            return {ErrorCode::kUnsupported, "the vocabulary of '" + path + "' has no byte token '" + name.data() +
                                                 "': text outside its pieces cannot be tokenised; convert the model "
                                                 "again with byte fallback"};
        }
    }
    return {};
}

Result<std::vector<int32_t>> tokenise(const llama_vocab * vocab, std::string_view text, bool add_special, bool parse_special) {
    const auto run = [&](std::vector<int32_t> & out) {
        return llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), out.data(),
                              static_cast<int32_t>(out.size()), add_special, parse_special);
    };
    std::vector<int32_t> tokens(text.size() / 3 + 16);
    int32_t n = run(tokens);
    if (n < 0 && n != INT32_MIN) {
        tokens.resize(static_cast<size_t>(-n));
        n = run(tokens);
    }
    if (n < 0) { return {ErrorCode::kInvalidArgument, "the text has more tokens than libllama can count"}; }
    tokens.resize(static_cast<size_t>(n));
    // Where add_eos_token says so libllama appends an end token, behind an assistant's header too: nothing would follow.
    const bool has_end = add_special && llama_vocab_get_add_eos(vocab) && !tokens.empty();
    if (has_end && tokens.back() == llama_vocab_eos(vocab)) { tokens.pop_back(); }
    return tokens;
}

// The parts of LoneCharacters::cut, joined as if they were one text: the begin token once, and no blank before the later
// parts, which libllama puts in front of each.
Result<std::vector<int32_t>> tokenise_parts(const llama_vocab * vocab, const std::vector<std::string_view> & parts,
                                            bool add_special, bool parse_special) {
    std::vector<int32_t> tokens;
    if (add_special && llama_vocab_get_add_bos(vocab)) { tokens.push_back(llama_vocab_bos(vocab)); }
    for (size_t i = 0; i < parts.size(); ++i) {
        const std::string_view part = parts[i];
        size_t n_blank = 0;  // tokens: what comes in front of the first character's own, a token a byte
        if (i > 0) {
            size_t n_bytes = 1;
            while (n_bytes < part.size() && is_inside_character(part[n_bytes])) { ++n_bytes; }
            PITH_ASSIGN_OR_RETURN(const auto alone, tokenise(vocab, part.substr(0, n_bytes), false, parse_special));
            n_blank = alone.size() - n_bytes;
        }
        PITH_ASSIGN_OR_RETURN(const auto own, tokenise(vocab, part, false, parse_special));
        tokens.insert(tokens.end(), own.begin() + static_cast<std::ptrdiff_t>(n_blank), own.end());
    }
    return tokens;
}

// A rendered template may begin with the begin token itself: it is there once.
void drop_doubled_bos(const llama_vocab * vocab, std::vector<int32_t> & tokens) {
    const bool doubled = tokens.size() > 1 && tokens[0] == llama_vocab_bos(vocab) && tokens[1] == tokens[0];
    if (doubled && llama_vocab_get_add_bos(vocab)) { tokens.erase(tokens.begin()); }
}

std::string exception_text(const char * what, const std::exception & error) {
    return std::string("libllama failed to ") + what + ": " + error.what();
}

}  // namespace

std::unique_ptr<const ChatTemplate> Tokenizer::Impl::make_chat(const std::string & source) const {
    const auto text_of = [this](llama_token token) {
        const char * text = token == LLAMA_TOKEN_NULL ? nullptr : llama_vocab_get_text(vocab, token);
        return std::string(text == nullptr ? "" : text);
    };
    const char * own = llama_model_chat_template(model, nullptr);
    return std::make_unique<const ChatTemplate>(source.empty() && own != nullptr ? own : source,
                                                text_of(llama_vocab_bos(vocab)), text_of(llama_vocab_eos(vocab)));
}

Result<Tokenizer> Tokenizer::load(const std::string & gguf_path) {
    return guarded([&] { return Impl::load(gguf_path); });
}

Result<Tokenizer> Tokenizer::Impl::load(const std::string & gguf_path) {
    PITH_ASSIGN_OR_RETURN(const Overrides overrides, check_headers(gguf_path));
    PITH_RETURN_IF_ERROR(check_tokens_differ(gguf_path));
    route_llama_log();
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    if (!overrides.empty()) { params.kv_overrides = overrides.data(); }
    auto impl = std::make_unique<Impl>();
    const LlamaErrorCapture capture;
    try {
        impl->model = llama_model_load_from_file(gguf_path.c_str(), params);
    } catch (const std::bad_alloc &) { throw; } catch (const std::exception & error) {
        return {ErrorCode::kBadFile, "'" + gguf_path + "': " + exception_text("load the vocabulary", error)};
    }
    if (impl->model == nullptr) {
        const std::string why = capture.first_error().empty() ? "" : " (" + capture.first_error() + ")";
        return {ErrorCode::kBadFile, "'" + gguf_path + "': libllama cannot read its vocabulary" + why};
    }
    impl->vocab = llama_model_get_vocab(impl->model);
    if (llama_vocab_type(impl->vocab) == LLAMA_VOCAB_TYPE_NONE || llama_vocab_n_tokens(impl->vocab) == 0) {
        return no_vocabulary(gguf_path);
    }
    PITH_RETURN_IF_ERROR(check_byte_tokens(impl->vocab, gguf_path));
    impl->lone_characters = LoneCharacters(impl->vocab);
    impl->plain_text = PlainText(impl->vocab);
    impl->chat = impl->make_chat("");
    return Tokenizer(std::move(impl));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
    return guarded([&] { return impl_->encode(text, add_special, parse_special); });
}

Result<std::vector<int32_t>> Tokenizer::Impl::encode(std::string_view text, bool add_special, bool parse_special) const {
    if (const auto bad = invalid_utf8_offset(text)) {
        std::array<char, 8> byte{};
        std::snprintf(byte.data(), byte.size(), "0x%02X", static_cast<unsigned>(static_cast<uint8_t>(text[*bad])));
        return {ErrorCode::kInvalidArgument,
                "the text is not UTF-8: byte " + std::to_string(*bad) + " is " + byte.data() + "; convert it to UTF-8"};
    }
    if (text.size() > static_cast<size_t>(INT_MAX) - 16) {
        return {ErrorCode::kInvalidArgument, "the text has " + std::to_string(text.size()) + " bytes: at most 2 GiB"};
    }
    try {
        const std::vector<std::string_view> parts = lone_characters.cut(text);
        PITH_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, parts.size() == 1
                                                               ? tokenise(vocab, text, add_special, parse_special)
                                                               : tokenise_parts(vocab, parts, add_special, parse_special));
        if (add_special && parse_special) { drop_doubled_bos(vocab, tokens); }
        return tokens;
    } catch (const std::bad_alloc &) {
        return {ErrorCode::kOutOfMemory, "out of memory while tokenising " + std::to_string(text.size()) + " bytes"};
    } catch (const std::exception & error) { return {ErrorCode::kUnsupported, exception_text("tokenise", error)}; }
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
    // Behind a begin token libllama would leave the space in that it put before the first word.
    if (!tokens.empty() && tokens.front() == bos()) { tokens = tokens.subspan(1); }
    const auto n_tokens = static_cast<int32_t>(tokens.size());
    std::string text(tokens.size() * 6 + 16, '\0');
    for (int attempt = 0; attempt < 2; ++attempt) {
        const int32_t n = llama_detokenize(impl_->vocab, tokens.data(), n_tokens, text.data(),
                                           static_cast<int32_t>(text.size()), true, false);
        if (n >= 0) {
            text.resize(static_cast<size_t>(n));
            return text;
        }
        text.resize(static_cast<size_t>(-n));
    }
    return {};
}

std::string Tokenizer::piece(int32_t token, bool special) const {
    if (token < 0 || token >= n_vocab()) { return {}; }
    std::string text(32, '\0');
    for (int attempt = 0; attempt < 2; ++attempt) {
        const int32_t n = llama_token_to_piece(impl_->vocab, token, text.data(), static_cast<int32_t>(text.size()), 0, special);
        if (n >= 0) {
            text.resize(static_cast<size_t>(n));
            return text;
        }
        text.resize(static_cast<size_t>(-n));
    }
    return {};
}

int Tokenizer::n_vocab() const {
    return llama_vocab_n_tokens(impl_->vocab);
}

int32_t Tokenizer::bos() const {
    const llama_token token = llama_vocab_bos(impl_->vocab);
    return token == LLAMA_TOKEN_NULL ? -1 : token;
}

int32_t Tokenizer::eos() const {
    const llama_token token = llama_vocab_eos(impl_->vocab);
    return token == LLAMA_TOKEN_NULL ? -1 : token;
}

bool Tokenizer::is_end_of_generation(int32_t token) const {
    return token >= 0 && token < n_vocab() && llama_vocab_is_eog(impl_->vocab, token);
}

std::vector<int32_t> Tokenizer::end_of_generation_tokens() const {
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < n_vocab(); ++token) {
        if (is_end_of_generation(token)) { tokens.push_back(token); }
    }
    return tokens;
}

bool Tokenizer::has_chat_template() const {
    return impl_->chat->has();
}

const std::string & Tokenizer::chat_template() const {
    return impl_->chat->source();
}

std::string Tokenizer::chat_template_problem() const {
    return impl_->chat->problem();
}

Status Tokenizer::set_chat_template(const std::string & source, const ChatOptions & defaults) {
    return guarded([&]() -> Status {
        PITH_RETURN_IF_ERROR(check_chat_template(source));
        PITH_RETURN_IF_ERROR(check_chat_options(defaults));
        ChatOptions options = defaults;
        impl_->chat = impl_->make_chat(source);
        impl_->chat_defaults = std::move(options);
        return {};
    });
}

Result<std::string> Tokenizer::apply_chat_template(std::span<const ChatMessage> messages, const ChatOptions & options) const {
    return guarded([&]() -> Result<std::string> {
        if (!has_chat_template()) {
            return {ErrorCode::kUnsupported,
                    "the model has no chat template: give one (" + item::kChatTemplate + "), or the text as it is"};
        }
        return impl_->chat->render(messages, options);
    });
}

Result<std::string> Tokenizer::apply_chat_template(std::span<const ChatMessage> messages, bool add_assistant) const {
    return guarded([&]() -> Result<std::string> {
        ChatOptions options = impl_->chat_defaults;
        options.add_assistant = add_assistant;
        return apply_chat_template(messages, options);
    });
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer & Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

}  // namespace pith
