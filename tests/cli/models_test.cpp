// models_test.cpp - `pith models`, and -m NAME: folders as Ollama, LM Studio, Hugging Face's tools and llama.cpp leave them.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"

namespace pith::testing::models_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Models : public ::testing::Test {
protected:
    void SetUp() override {
        for (const char * name : {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "LLAMA_CACHE",
                                  "OLLAMA_MODELS", "PITH_MODELS"}) {
            unsetenv(name);
        }
        setenv("HOME", folder_.file("home").c_str(), 1);
        model_ = write_model(folder_);
    }

    std::string put(const std::string & below_home) {
        const std::string path = folder_.file("home/" + below_home);
        fs::create_directories(fs::path(path).parent_path());
        fs::copy_file(model_, path);
        return path;
    }

    std::string put_in_ollama(const std::string & name, const std::string & hex) {
        const std::string manifest = folder_.file("home/.ollama/models/manifests/registry.ollama.ai/" + name);
        fs::create_directories(fs::path(manifest).parent_path());
        write_text(
            manifest,
            json({{"layers",
                   {{{"mediaType", "application/vnd.ollama.image.template"}, {"digest", "sha256:" + std::string(64, '0')}},
                    {{"mediaType", "application/vnd.ollama.image.model"}, {"digest", "sha256:" + hex}}}}})
                .dump());
        return put(".ollama/models/blobs/sha256-" + hex);
    }

    static std::string found(const std::string & name) {
        const Outcome outcome = run_pith({"info", "-m", name, "--json"});
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        const json object = json::parse(outcome.out, nullptr, false);
        return object.is_object() ? object["path"].get<std::string>() : "";
    }

    TempFolder folder_;
    std::string model_;
};

TEST_F(Models, AreListedWithWhatTheyAreAndWhetherTheyRun) {
    put_in_ollama("library/llama3.2/1b", std::string(64, 'a'));
    put(".lmstudio/models/user/repo/model-Q8_0.gguf");
    const std::string torn = put(".cache/llama.cpp/user_torn-Q4_0.gguf");
    fs::resize_file(torn, fs::file_size(torn) / 2);
    const Outcome outcome = run_pith({"models", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const json list = json::parse(outcome.out);
    ASSERT_EQ(list.size(), 3U) << outcome.out;
    EXPECT_EQ(list[0]["name"], "llama3.2:1b");
    EXPECT_EQ(list[0]["origin"], "Ollama");
    EXPECT_EQ(list[0]["runs"], true);
    EXPECT_EQ(list[0]["architecture"], "llama");
    EXPECT_EQ(list[0]["n_ctx_train"], 2048);
    EXPECT_EQ(list[0]["file_type"], "mostly f32");
    EXPECT_EQ(list[0]["weight_type"], "f32");
    EXPECT_EQ(list[0]["size_bytes"], fs::file_size(model_));
    EXPECT_EQ(list[1]["name"], "user/repo:Q8_0");
    EXPECT_EQ(list[1]["origin"], "LM Studio");
    EXPECT_EQ(list[2]["name"], "user_torn-Q4_0");
    EXPECT_EQ(list[2]["runs"], false);
    EXPECT_NE(list[2]["why_not"].get<std::string>().find("is no usable GGUF file"), std::string::npos) << list[2];
    const std::string table = run_pith({"models"}).out;
    EXPECT_NE(table.find("user/repo:Q8_0"), std::string::npos) << table;
    EXPECT_NE(table.find("  yes\n"), std::string::npos) << table;
    EXPECT_NE(table.find("  no: it is no usable GGUF file"), std::string::npos) << table;
}

// Of names in strangers' files a terminal would obey some.
TEST_F(Models, NamesOfStrangersStayTextOnTheirLine) {
    const std::string evil =
        "red\x1b[31m\nline\a\xC2\x9B"
        "2J";
    const std::string safe = "red?[31m?line??2J";
    const auto count_lines = [](const std::string & text) { return std::ranges::count(text, '\n'); };
    const auto expect_safe = [&](const Outcome & outcome, std::ptrdiff_t n_lines) {
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        EXPECT_NE(outcome.out.find(safe), std::string::npos) << outcome.out;
        EXPECT_EQ(outcome.out.find_first_of("\x1b\a"), std::string::npos);
        EXPECT_EQ(outcome.out.find("\xC2\x9B"), std::string::npos);
        EXPECT_EQ(count_lines(outcome.out), n_lines) << outcome.out;
    };
    const std::string named = folder_.file("named.gguf");
    ASSERT_TRUE(edit_gguf(model_, named, {[&](gguf_context * g) { gguf_set_val_str(g, "general.name", evil.c_str()); }, {}}));
    expect_safe(run_pith({"info", named}), count_lines(run_pith({"info", model_}).out));
    EXPECT_EQ(json::parse(run_pith({"info", named, "--json"}).out)["name"], evil);
    const std::string text = folder_.file("text.txt");
    const std::string saved = folder_.file("saved.pith");
    const std::string other = folder_.file("other.pith");
    write_text(text, "Once upon a time");
    ASSERT_EQ(run_pith({"compress", "-m", named, "-f", text, "-o", saved}).exit_code, 0);
    ASSERT_EQ(run_pith({"compress", "-m", model_, "-f", text, "-o", other}).exit_code, 0);
    expect_safe(run_pith({"cache", "info", saved}), count_lines(run_pith({"cache", "info", other}).out));
    expect_safe(run_pith({"cache", "list", folder_.file("")}), 2);

    fs::create_directories(folder_.file("home/.cache/llama.cpp"));
    const std::string strange = folder_.file("home/.cache/llama.cpp/strange.gguf");
    ASSERT_TRUE(
        edit_gguf(model_, strange, {[&](gguf_context * g) { gguf_set_val_str(g, "general.architecture", evil.c_str()); }, {}}));
    fs::copy_file(model_, folder_.file("home/.cache/llama.cpp/" + evil + ".gguf"));
    expect_safe(run_pith({"models"}), 3);
    expect_error(run_pith({"info", strange}), 1, {safe});
}

TEST_F(Models, OfNobodySaysWhereItLooked) {
    const Outcome outcome = run_pith({"models"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.out, "");
    for (const char * folder :
         {".ollama/models", ".lmstudio/models", ".cache/huggingface/hub", ".cache/llama.cpp", ".cache/pith/models"}) {
        EXPECT_NE(outcome.err.find(folder_.file(std::string("home/") + folder)), std::string::npos) << outcome.err;
    }
    EXPECT_EQ(run_pith({"models", "--json"}).out, "[]\n");
}

TEST_F(Models, AreFoundByName) {
    const std::string in_ollama = put_in_ollama("library/tiny/latest", std::string(64, 'b'));
    const std::string in_studio = put(".lmstudio/models/Maker/Repo/model-Q8_0.gguf");
    const std::string fetched = put(".cache/pith/models/Smol-Instruct.Q4_1.gguf");
    put(".cache/pith/models/Smol-Instruct.Q4_1.importance.gguf");  // of `pith calibrate importance`: no model
    EXPECT_EQ(found("smol"), fetched);
    EXPECT_EQ(found("tiny:latest"), in_ollama);
    EXPECT_EQ(found("tiny"), in_ollama);
    EXPECT_EQ(found("maker/repo"), in_studio);
    EXPECT_EQ(found("model-Q8_0.gguf"), in_studio);
    EXPECT_EQ(found(in_studio), in_studio);
    fs::create_directory(folder_.file("tiny"));
    const fs::path before = fs::current_path();
    fs::current_path(folder_.file(""));
    EXPECT_EQ(found("tiny"), in_ollama);  // a folder is no model
    EXPECT_EQ(found("model.gguf"), "model.gguf");
    fs::current_path(before);
    EXPECT_EQ(run_pith({"info", "tiny"}).exit_code, 0);
    EXPECT_EQ(run_pith({"tokenize", "-m", "tiny", "-p", "Once"}).exit_code, 0);
    EXPECT_EQ(run_pith({"run", "-m", "tiny", "-p", "Once", "-n", "1"}).exit_code, 0);
    const Outcome by_part = run_pith({"info", "-m", "repo:q8"});
    EXPECT_NE(by_part.err.find("-m repo:q8 is Maker/Repo:Q8_0"), std::string::npos) << by_part.err;
}

TEST_F(Models, OfSeveralThatANameMayMeanNoneIsTaken) {
    put(".lmstudio/models/user/repo/model-Q8_0.gguf");
    put(".lmstudio/models/user/repo/model-Q4_0.gguf");
    expect_error(run_pith({"info", "-m", "user/repo"}), 2, {"'user/repo'", "user/repo:Q4_0, user/repo:Q8_0"});
}

TEST_F(Models, ThatAreNotThereAreAnErrorThatSaysWhereItLooked) {
    put_in_ollama("library/tiny/latest", std::string(64, 'c'));
    expect_error(run_pith({"info", "-m", "huge"}), 1,
                 {"'huge'", "Ollama, LM Studio, Hugging Face, llama.cpp and scripts/fetch_models", "`pith models`"});
    expect_error(run_pith({"info", "-m", "tinx:latest"}), 1, {"'tinx:latest'", "did you mean 'tiny:latest'?"});
    expect_error(run_pith({"info", "-m", "user/repo:Q8_0"}), 1, {"'user/repo:Q8_0'", "`-hf user/repo:Q8_0`"});
    expect_error(run_pith({"run", "-m", "/nowhere.gguf", "-p", "x"}), 1, {"/nowhere.gguf"});
    const Outcome file = run_pith({"info", "-m", "models/nowhere.gguf"});
    EXPECT_EQ(file.err.find("-hf"), std::string::npos) << file.err;
    fs::remove_all(folder_.file("home/.ollama/models/blobs"));
    expect_error(run_pith({"info", "-m", "tiny"}), 1, {"'tiny:latest'", "Ollama", "its file is gone", "ollama pull"});
}

}  // namespace
}  // namespace pith::testing::models_test
