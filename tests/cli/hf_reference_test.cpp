// hf_reference_test.cpp - references, names of GGUF files, and which files of a repository are the model that was asked for.
#include "common/models/hf_reference.h"

#include <gtest/gtest.h>

#include "common/models/gguf_name.h"
#include "common/models/hub_files.h"

namespace pith::app::hf_reference_test {
namespace {

TEST(HfReference, IsUserRepositoryAndMaybeAQuantisation) {
    const std::pair<std::string, std::string> good[] = {
        {"user/repo", "user/repo"},
        {"user/Repo-1.5_x:Q4_K_M", "user/Repo-1.5_x:Q4_K_M"},
        {"https://huggingface.co/user/repo", "user/repo"},
        {"hf.co/user/repo:q8_0", "user/repo:q8_0"},
    };
    for (const auto & [text, expected] : good) {
        const auto reference = parse_hf_reference(text);
        ASSERT_TRUE(reference.ok()) << text;
        EXPECT_EQ(reference->text(), expected);
    }
    for (const char * text : {"", "repo", "user/", "/repo", "user/repo/file", "user/repo:", "../repo", "user/..", "user/a..b",
                              "user/a--b", "user/re po", "user/repo?x", "user/repo:Q8_0/x", "user/\nrepo"}) {
        const auto reference = parse_hf_reference(text);
        EXPECT_FALSE(reference.ok()) << text;
        EXPECT_EQ(reference.status().code(), ErrorCode::kInvalidArgument);
    }
}

TEST(GgufName, HoldsQuantisationAndPart) {
    struct Case {
        const char * path;
        const char * stem;
        const char * quant;
        int part;
        int n_parts;
    };
    const Case cases[] = {
        {"Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Llama-3.2-1B-Instruct-Q4_K_M", "Q4_K_M", 1, 1},
        {"llama-2-7b.Q8_0.gguf", "llama-2-7b.Q8_0", "Q8_0", 1, 1},
        {"folder/ggml-model-iq2_xxs.gguf", "folder/ggml-model-iq2_xxs", "IQ2_XXS", 1, 1},
        {"model_q4_0.gguf", "model_q4_0", "Q4_0", 1, 1},
        {"x-UD-Q4_K_XL.gguf", "x-UD-Q4_K_XL", "Q4_K_XL", 1, 1},
        {"x-BF16-00002-of-00003.gguf", "x-BF16", "BF16", 2, 3},
        {"stories260K.gguf", "stories260K", "", 1, 1},
        {"qwen.gguf", "qwen", "", 1, 1},
        {"Q8_0/big.GGUF", "Q8_0/big", "", 1, 1},
    };
    for (const Case & c : cases) {
        const auto name = parse_gguf_name(c.path);
        ASSERT_TRUE(name) << c.path;
        EXPECT_EQ(name->stem, c.stem);
        EXPECT_EQ(name->quant, c.quant);
        EXPECT_EQ(name->part, c.part);
        EXPECT_EQ(name->n_parts, c.n_parts);
    }
    EXPECT_FALSE(parse_gguf_name("model.gguf.downloadInProgress"));
    EXPECT_FALSE(parse_gguf_name(".gguf"));
}

TEST(GgufName, OfWhatLiesBesideAModelIsNoModels) {
    EXPECT_TRUE(is_model_name("a/model-Q8_0.gguf"));
    for (const char * path : {"mmproj-model-f16.gguf", "model-mmproj.gguf", "imatrix.gguf", "mtp-model.gguf", "README.md"}) {
        EXPECT_FALSE(is_model_name(path)) << path;
    }
    EXPECT_TRUE(is_model_name("mmproj/model.gguf"));  // the file's name counts
}

TEST(GgufName, HasATagAsAWord) {
    EXPECT_TRUE(name_has_tag("model-Q4_K_M.gguf", "q4_k_m"));
    EXPECT_TRUE(name_has_tag("Q8_0/model-00001-of-00002.gguf", "Q8_0"));
    EXPECT_FALSE(name_has_tag("model-Q4_K_M.gguf", "Q4_K"));
    EXPECT_FALSE(name_has_tag("model-IQ4_0.gguf", "Q4_0"));
}

std::vector<HubFile> files_of(const std::vector<std::string> & paths) {
    std::vector<HubFile> files;
    for (const std::string & path : paths) { files.push_back({.path = path, .size = 1, .sha256 = "", .blob = ""}); }
    return files;
}

std::string chosen(const std::vector<std::string> & paths, const std::string & reference, const std::string & file = "") {
    const auto files = choose_model(files_of(paths), *parse_hf_reference(reference), file);
    if (!files.ok()) { return files.status().message(); }
    std::string text;
    for (const HubFile & one : *files) { text += (text.empty() ? "" : " ") + one.path; }
    return text;
}

TEST(ChooseModel, PrefersQ4KMThenQ80ThenTheFirst) {
    EXPECT_EQ(chosen({"a-F16.gguf", "a-Q4_K_M.gguf", "a-Q8_0.gguf"}, "u/r"), "a-Q4_K_M.gguf");
    EXPECT_EQ(chosen({"a-F16.gguf", "a-Q8_0.gguf"}, "u/r"), "a-Q8_0.gguf");
    EXPECT_EQ(chosen({"README.md", "mmproj-F16.gguf", "a-F16.gguf", "a-Q2_K.gguf"}, "u/r"), "a-F16.gguf");
    EXPECT_EQ(chosen({"a-F16.gguf", "a-Q8_0.gguf"}, "u/r:f16"), "a-F16.gguf");
    EXPECT_EQ(chosen({"a-F16.gguf", "a-Q8_0.gguf"}, "u/r:Q4_0"), "'u/r' has no 'Q4_0': it has F16, Q8_0");
    EXPECT_EQ(chosen({"README.md"}, "u/r:Q4_0"), "'u/r' has no GGUF model: choose a repository with GGUF files");
    EXPECT_EQ(chosen({"a-F16.gguf", "mmproj-F16.gguf"}, "u/r", "mmproj-f16.gguf"), "mmproj-F16.gguf");
}

TEST(ChooseModel, TakesAllPartsInOrder) {
    EXPECT_EQ(chosen({"Q8_0/a-00002-of-00002.gguf", "Q8_0/a-00001-of-00002.gguf", "b-00001-of-00002.gguf"}, "u/r"),
              "Q8_0/a-00001-of-00002.gguf Q8_0/a-00002-of-00002.gguf");
    EXPECT_EQ(chosen({"a-00002-of-00002.gguf", "a-00001-of-00002.gguf"}, "u/r", "a-00002-of-00002.gguf"),
              "a-00001-of-00002.gguf a-00002-of-00002.gguf");
    EXPECT_NE(chosen({"a-00001-of-00002.gguf"}, "u/r").find("not part 2 of 2"), std::string::npos);
}

TEST(HubTree, LeavesOutWhatIsNoFileOfThatFolder) {
    const std::string sha(64, 'A'), oid(40, '1');
    const auto entry = [&](const std::string & path) {
        return R"({"type":"file","path":")" + path + R"(","size":5,"oid":")" + oid + R"("},)";
    };
    const auto files =
        parse_hub_tree("[" + entry("ok.gguf") + entry("../up") + entry("/top") + entry("a//b") + entry("a/../b") + entry("") +
                       entry("a\\u001b[31m") + R"({"type":"file","path":"no-size.gguf","size":"5","oid":")" + oid + R"("},)" +
                       R"({"type":"directory","path":"d","oid":")" + oid + R"("}, 7, {"type":"file"},)" +
                       R"({"type":"file","path":"big.gguf","size":1,"oid":"x","lfs":{"oid":")" + sha + R"(","size":99}}])");
    ASSERT_TRUE(files.ok());
    ASSERT_EQ(files->size(), 2U);
    EXPECT_EQ((*files)[0].path, "ok.gguf");
    EXPECT_EQ((*files)[0].blob, oid);
    EXPECT_EQ((*files)[0].sha256, "");
    EXPECT_EQ((*files)[1].size, 99U);
    EXPECT_EQ((*files)[1].sha256, std::string(64, 'a'));
    for (const char * text : {"", "{}", "[", "null", "<html>"}) { EXPECT_FALSE(parse_hub_tree(text).ok()) << text; }
}

}  // namespace
}  // namespace pith::app::hf_reference_test
