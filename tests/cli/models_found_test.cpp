// models_found_test.cpp - where other programs keep models, how they lay their folders out, and which model a name means.
#include "common/models/models_found.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "common/models/hub_cache.h"
#include "common/models/model_folders.h"
#include "common/models/model_match.h"
#include "model/gguf_edit.h"

namespace pith::app::models_found_test {
namespace {

namespace fs = std::filesystem;

TEST(ModelFolders, FollowTheProgramsOwnVariables) {
    const auto paths = [](const std::map<std::string, std::string> & set) {
        std::map<std::string, std::string> out;
        const auto folders = model_folders([&](const char * name) {
            const auto it = set.find(name);
            return it == set.end() ? std::string() : it->second;
        });
        for (const ModelFolder & folder : folders) { out[std::string(to_string(folder.origin))] += folder.path + " "; }
        return out;
    };
    auto plain = paths({{"HOME", "/h"}});
    EXPECT_EQ(plain["Ollama"], "/h/.ollama/models /usr/share/ollama/.ollama/models ");
    EXPECT_EQ(plain["LM Studio"], "/h/.lmstudio/models /h/.cache/lm-studio/models ");
    EXPECT_EQ(plain["Hugging Face"], "/h/.cache/huggingface/hub ");
    EXPECT_EQ(plain["llama.cpp"], "/h/.cache/llama.cpp ");
    EXPECT_EQ(plain["Pith"], "/h/.cache/pith/models ");
    EXPECT_EQ(paths({{"HOME", "/h"}, {"PITH_MODELS", "/p"}})["Pith"], "/p ");
    auto set =
        paths({{"HOME", "/h"}, {"OLLAMA_MODELS", "/o"}, {"HF_HOME", "/f"}, {"LLAMA_CACHE", "/l"}, {"XDG_CACHE_HOME", "/x"}});
    EXPECT_EQ(set["Ollama"], "/o /usr/share/ollama/.ollama/models ");
    EXPECT_EQ(set["Hugging Face"], "/f/hub ");
    EXPECT_EQ(set["llama.cpp"], "/l ");
    EXPECT_EQ(paths({{"XDG_CACHE_HOME", "/x"}})["Hugging Face"], "/x/huggingface/hub ");
    EXPECT_EQ(paths({{"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/f"}})["Hugging Face"], "/c ");
    EXPECT_EQ(paths({}).count("Hugging Face"), 0U);
}

class ModelsFound : public ::testing::Test {
protected:
    void write(const std::string & path, const std::string & text = "12345") const {
        const std::string file = root_.file(path);
        fs::create_directories(fs::path(file).parent_path());
        std::ofstream(file) << text;
    }
    // A blob and the link to it.
    void write_to_hub(const std::string & repo, const std::string & revision, const std::string & path,
                      const std::string & blob) const {
        const fs::path folder = root_.file("hub/" + repo);
        write("hub/" + repo + "/blobs/" + blob);
        const fs::path link = folder / "snapshots" / revision / path;
        fs::create_directories(link.parent_path());
        fs::create_symlink((folder / "blobs" / blob).lexically_relative(link.parent_path()), link);
    }
    std::vector<FoundModel> found(ModelOrigin origin, const std::string & folder) const {
        const ModelFolder one{origin, root_.file(folder)};
        return find_models({&one, 1});
    }
    static std::string names(const std::vector<FoundModel> & models) {
        std::string text;
        for (const FoundModel & model : models) { text += (text.empty() ? "" : " ") + model.name; }
        return text;
    }

    testing::TempFolder root_;
};

TEST_F(ModelsFound, InOllamasManifestsLeadToBlobs) {
    const std::string hex(64, 'a');
    const std::string manifest = R"({"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:0"},)"
                                 R"({"mediaType":"application/vnd.ollama.image.model","digest":"sha256:)" +
                                 hex + R"(","size":5}]})";
    write("o/blobs/sha256-" + hex);
    write("o/manifests/registry.ollama.ai/library/llama3.2/1b", manifest);
    write("o/manifests/registry.ollama.ai/someone/tiny/latest", manifest);
    write("o/manifests/hf.co/user/repo/Q4_K_M", manifest);
    write("o/manifests/registry.ollama.ai/library/broken/latest", "{\"layers\": 7}");
    write("o/manifests/registry.ollama.ai/library/evil/latest",
          R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../etc/passwd"}]})");
    const std::string gone(64, 'b');
    write("o/manifests/registry.ollama.ai/library/gone/latest",
          R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:)" + gone + "\"}]}");
    write("o/manifests/registry.ollama.ai/library/adapted/latest",
          manifest.substr(0, manifest.rfind(']')) +
              R"(,{"mediaType":"application/vnd.ollama.image.adapter","digest":"sha256:)" + gone + "\"}]}");
    auto models = found(ModelOrigin::kOllama, "o");
    ASSERT_EQ(models.front().name, "adapted:latest");
    EXPECT_EQ(models.front().problem, "it is a model with an adapter: give -m " + root_.file("o/blobs/sha256-" + hex) +
                                          " --lora " + root_.file("o/blobs/sha256-" + gone));
    models.erase(models.begin());
    EXPECT_EQ(names(models), "broken:latest evil:latest gone:latest hf.co/user/repo:Q4_K_M llama3.2:1b someone/tiny:latest");
    for (size_t i : {0U, 1U}) { EXPECT_EQ(models[i].problem, "its manifest names no GGUF file"); }
    EXPECT_EQ(models[2].problem, "its file is gone: `ollama pull gone:latest`");
    for (size_t i : {3U, 4U, 5U}) {
        EXPECT_EQ(models[i].path, root_.file("o/blobs/sha256-" + hex));
        EXPECT_EQ(models[i].size, 5U);
        EXPECT_EQ(models[i].problem, "");
    }
    EXPECT_EQ(match_model("someone/tiny", models)->model, &models[5]);
}

TEST_F(ModelsFound, InLmStudioAreNamedByRepositoryAndQuantisation) {
    write("l/user/repo/model-Q8_0.gguf");
    write("l/user/repo/model-Q4_0.gguf");
    write("l/user/repo/mmproj-model-f16.gguf");
    write("l/user/repo/.model-Q2_K.gguf");
    write("l/user/two/a-Q8_0.gguf");
    write("l/user/two/b-Q8_0.gguf");
    write("l/user/plain/weights.gguf");
    write("l/loose.gguf");
    fs::create_symlink("nowhere", root_.file("l/user/a-dangling-link"));
    EXPECT_EQ(names(found(ModelOrigin::kLmStudio, "l")),
              "loose user/plain/weights user/repo:Q4_0 user/repo:Q8_0 user/two/a-Q8_0 user/two/b-Q8_0");
}

TEST_F(ModelsFound, OfSeveralPartsAreOne) {
    write("l/user/repo/m-Q8_0-00001-of-00003.gguf", "1");
    write("l/user/repo/m-Q8_0-00002-of-00003.gguf", "22");
    write("l/user/repo/m-Q8_0-00003-of-00003.gguf", "333");
    write("l/user/rest/m-Q8_0-00002-of-00003.gguf", "22");
    const auto models = found(ModelOrigin::kLmStudio, "l");
    ASSERT_EQ(names(models), "user/repo:Q8_0");
    EXPECT_EQ(models[0].path, root_.file("l/user/repo/m-Q8_0-00001-of-00003.gguf"));
    EXPECT_EQ(models[0].size, 6U);
}

TEST_F(ModelsFound, InTheHubsCacheAreThoseOfItsMainRevisionFirst) {
    const std::string older(40, '1'), newer(40, '2');
    write_to_hub("models--user--repo", newer, "m-Q8_0.gguf", "b1");
    write_to_hub("models--user--repo", older, "m-Q8_0.gguf", "b2");
    write_to_hub("models--user--repo", older, "folder/m-Q4_0.gguf", "b3");
    write("hub/models--user--repo/refs/main", newer);
    write_to_hub("models--user--bare", newer, "weights.gguf", "b4");
    write_to_hub("datasets--user--repo", newer, "m.gguf", "b5");
    write("hub/models--user--repo/blobs/b6.incomplete");
    fs::create_symlink("../../blobs/gone", root_.file("hub/models--user--repo/snapshots/" + newer + "/gone-Q2_K.gguf"));
    const auto models = found(ModelOrigin::kHuggingFace, "hub");
    ASSERT_EQ(names(models), "user/bare/weights user/repo:Q4_0 user/repo:Q8_0");
    EXPECT_EQ(models[2].path, root_.file("hub/models--user--repo/snapshots/" + newer + "/m-Q8_0.gguf"));
    EXPECT_EQ(models[2].size, 5U);
}

TEST_F(ModelsFound, InLlamaCppsFolderLieInOneOrAsTheHubsCache) {
    write("hub/user_repo_m-Q8_0.gguf");
    write("hub/user_repo_m-Q4_0.gguf.downloadInProgress");
    write("hub/manifest=user=repo=latest.json");
    write_to_hub("models--user--repo", std::string(40, '1'), "m-Q6_K.gguf", "b1");
    EXPECT_EQ(names(found(ModelOrigin::kLlamaCpp, "hub")), "user/repo:Q6_K user_repo_m-Q8_0");
}

TEST_F(ModelsFound, InTwoFoldersAreListedOnceAndNamesAreUnique) {
    write("a/user/repo/m-Q8_0.gguf");
    write("b/user/repo/m-Q8_0.gguf");
    fs::create_directory_symlink(root_.file("a"), root_.file("c"));
    const std::vector<ModelFolder> folders = {{ModelOrigin::kLmStudio, root_.file("a")},
                                              {ModelOrigin::kLmStudio, root_.file("b")},
                                              {ModelOrigin::kLmStudio, root_.file("c")},
                                              {ModelOrigin::kLmStudio, root_.file("nowhere")}};
    EXPECT_EQ(names(find_models(folders)), "user/repo:Q8_0 " + root_.file("b/user/repo/m-Q8_0.gguf"));
}

TEST_F(ModelsFound, FoldersThatLeadInCirclesEnd) {
    write("l/user/repo/m-Q8_0.gguf");
    fs::create_directory_symlink(root_.file("l"), root_.file("l/user/again"));
    EXPECT_EQ(names(found(ModelOrigin::kLmStudio, "l")), "user/repo:Q8_0");
}

FoundModel model(const std::string & name, const std::vector<std::string> & aliases = {}) {
    FoundModel one;
    one.name = name;
    one.aliases = aliases;
    return one;
}

TEST(MatchModel, TakesTheStrictestMatch) {
    const std::vector<FoundModel> models = {model("llama", {"small"}), model("Llama-big", {"LLAMA"}), model("qwen:1b"),
                                            model("qwen:2b")};
    EXPECT_EQ(match_model("llama", models)->model, &models[0]);
    EXPECT_FALSE(match_model("llama", models)->by_part);
    EXPECT_EQ(match_model("SMALL", models)->model, &models[0]);
    EXPECT_FALSE(match_model("SMALL", models)->by_part);
    EXPECT_EQ(match_model("ma-B", models)->model, &models[1]);
    EXPECT_TRUE(match_model("ma-B", models)->by_part);
    const auto several = match_model("Llama", models);  // an alias of one, the name of another
    EXPECT_EQ(several.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(several.status().message().find("llama, Llama-big"), std::string::npos) << several.status().message();
    EXPECT_EQ(match_model("qwen", models).status().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(match_model("mistral", models).status().code(), ErrorCode::kNotFound);
    EXPECT_EQ(match_model("", models).status().code(), ErrorCode::kNotFound);
}

TEST(HubCache, KeepsWhatItIsGiven) {
    const testing::TempFolder root;
    const HubCache cache(root.file("hub"));
    const HubFile file{.path = "folder/m-Q8_0.gguf", .size = 3, .sha256 = std::string(64, 'a'), .blob = std::string(64, 'a')};
    const std::string revision(40, '1');
    fs::create_directories(cache.blob("user/repo", ""));
    std::ofstream(cache.blob("user/repo", file.blob)) << "abc";
    ASSERT_TRUE(cache.add_to_snapshot("user/repo", revision, file).ok());
    ASSERT_TRUE(cache.add_to_snapshot("user/repo", revision, file).ok());
    ASSERT_TRUE(cache.set_main("user/repo", revision).ok());
    EXPECT_EQ(cache.repos(), std::vector<std::string>{"user/repo"});
    const auto entries = cache.files("user/repo");
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_EQ(entries[0].path, "folder/m-Q8_0.gguf");
    EXPECT_EQ(fs::read_symlink(entries[0].on_disk).string(), "../../../blobs/" + file.blob);
    EXPECT_EQ(fs::file_size(entries[0].on_disk), 3U);
}

}  // namespace
}  // namespace pith::app::models_found_test
