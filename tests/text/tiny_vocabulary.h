// tiny_vocabulary.h - tiny models whose vocabulary, and chat template if wanted, libllama reads.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "model/gguf_edit.h"
#include "model/random/random_model.h"

namespace pith::testing {

inline constexpr const char * kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% "
    "endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

inline std::string write_tiny(const TempFolder & folder, const std::string & chat_template = "", bool byte_tokens = true) {
    RandomModelSpec spec;
    spec.byte_tokens = byte_tokens;
    const std::string plain = folder.file("plain.gguf");
    const Status status = write_random_model(spec, plain);
    EXPECT_TRUE(status.ok()) << status.message();
    if (chat_template.empty()) { return plain; }
    const std::string chat = folder.file("chat.gguf");
    GgufEdit edit;
    edit.metadata = [&](gguf_context * gguf) { gguf_set_val_str(gguf, "tokenizer.chat_template", chat_template.c_str()); };
    EXPECT_TRUE(edit_gguf(plain, chat, edit));
    return chat;
}

}  // namespace pith::testing
