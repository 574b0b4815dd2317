// every_call_test.cpp - what makes models, sessions and tokenisers, and what writes and reads their files, with everything in
// it failing once: it says what failed, nothing is half done, and the same call then succeeds. Calls on a session that is there
// are in transaction_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/fail_everywhere.h"
#include "engine/gated_model.h"
#include "engine/tiny_model.h"
#include "model/random_lora.h"
#include "pith/cache_file.h"
#include "pith/text.h"

namespace pith::every_call_test {
namespace {

using testing::fail_everywhere;
using testing::fail_making_everywhere;
using testing::random_tokens;
using testing::scratch_file;
using testing::SessionState;
using testing::state_of;

RandomModelSpec smallest_spec() {
    RandomModelSpec spec;
    spec.n_layers = 1;
    spec.n_embd = 32;
    spec.n_ff = 32;
    spec.n_heads = 2;
    spec.n_kv_heads = 1;
    spec.head_dim = 16;
    spec.n_vocab = 384;
    return spec;
}

SessionOptions options_of(const std::string & policy) {
    SessionOptions options;
    options.policy = policy;
    options.budget = 24;
    options.prefill = PrefillSchedule::kChunked;
    options.chunk = 16;
    options.evict_every = 4;
    options.n_threads = 1;
    return options;
}

Session read_some(const Model & model, const std::string & policy) {
    auto session = model.session(options_of(policy));
    EXPECT_TRUE(session.ok()) << session.status().message();
    EXPECT_TRUE(session->prefill(random_tokens(40, model.info().n_vocab)).ok());
    return std::move(*session);
}

std::string bytes_of(const std::string & path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Of a session that looks at the last queries, of one that sums what they pay, and of one whose model has gates.
class SavedFile : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override {
        GateConfig gate = testing::even_gate();
        gate.causal = true;
        const bool gated = std::string(GetParam()).starts_with("gate");
        auto model = gated ? testing::gated_model(smallest_spec(), gate) : testing::tiny_model(smallest_spec());
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_.emplace(std::move(*model));
        path_ = scratch_file("every-call.pith");
    }
    std::optional<Model> model_;
    std::string path_;
};

TEST_P(SavedFile, IsWrittenWholeOrLeftAsItWas) {
    Session session = read_some(*model_, GetParam());
    ASSERT_TRUE(session.save(path_).ok());
    const std::string before = bytes_of(path_);
    ASSERT_TRUE(session.append(7).ok());
    const auto n_files = [&] {
        const auto folder = std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path());
        return std::distance(begin(folder), end(folder));
    };
    const auto n_before = n_files();
    const auto save = [&](Session & each) {
        const Status status = each.save(path_);
        testing::stop_failing();  // what follows is the test's
        EXPECT_EQ(n_files(), n_before) << status.message();
        if (!status.ok()) {
            EXPECT_TRUE(bytes_of(path_) == before) << status.message();
            return status;
        }
        const auto info = read_cache_info(path_);
        EXPECT_TRUE(info.ok() && info->n_tokens == each.n_tokens());
        std::ofstream(path_, std::ios::binary) << before;
        return status;
    };
    EXPECT_GT(fail_everywhere(session, save), 20);
}

TEST_P(SavedFile, IsReadOrTheSessionIsAsItWas) {
    Session saved = read_some(*model_, GetParam());
    ASSERT_TRUE(saved.append(7).ok());
    ASSERT_TRUE(saved.save(path_).ok());
    Session session = read_some(*model_, GetParam());
    EXPECT_GT(fail_everywhere(
                  session, [&](Session & each) { return each.load(path_); }, /*voids_snapshots=*/true),
              50);
    EXPECT_TRUE(state_of(session) == state_of(saved));
    for (Session * each : {&session, &saved}) { ASSERT_TRUE(each->append(9).ok()); }
    EXPECT_TRUE(state_of(session) == state_of(saved));
}

TEST_P(SavedFile, OpensAndBeginsSessionsOrSaysWhyNot) {
    Session saved = read_some(*model_, GetParam());
    ASSERT_TRUE(saved.save(path_).ok());
    const SessionState contents = state_of(saved);
    EXPECT_GT(fail_making_everywhere([&] { return SessionFile::open(path_); },
                                     [&](SessionFile & file) { EXPECT_EQ(file.info().n_tokens, saved.n_tokens()); }),
              20);
    const auto file = SessionFile::open(path_);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto expect_saved = [&](Session & session) { EXPECT_TRUE(state_of(session) == contents); };
    EXPECT_GT(fail_making_everywhere([&] { return file->session(*model_, 1); }, expect_saved), 50);
    EXPECT_GT(fail_making_everywhere([&] { return model_->open_session(path_, 1); }, expect_saved), 50);
}

INSTANTIATE_TEST_SUITE_P(Policies, SavedFile, ::testing::Values("snapkv:window=8", "h2o:recent=8", "gated+snapkv:window=8"));

// With an adapter and gates, whose files are read behind its own.
TEST(EveryCall, AModelIsLoadedOrSaysWhyNot) {
    const auto files = testing::gated_files(smallest_spec(), testing::even_gate());
    ASSERT_TRUE(files.ok()) << files.status().message();
    const auto plain = Model::load(files->model);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    ModelOptions options;
    options.gate_file = files->gate;
    options.lora_file = scratch_file("every-call.lora.gguf");
    ASSERT_TRUE(testing::write_random_lora(file_of(*plain), options.lora_file).ok());
    for (const bool use_mmap : {true, false}) {
        options.use_mmap = use_mmap;
        EXPECT_GT(fail_making_everywhere([&] { return Model::load(files->model, options); },
                                         [](Model & model) { EXPECT_TRUE(model.info().has_gates); }),
                  100);
    }
}

TEST(EveryCall, ASessionIsMadeOrSaysWhyNot) {
    const auto model = testing::gated_model(smallest_spec(), testing::even_gate());
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (const char * policy : {"auto", "gate", "snapkv+ada"}) {
        SessionOptions options = options_of(policy);
        options.prefill = PrefillSchedule::kAuto;
        options.observe = {"h2o", "auto"};
        EXPECT_GT(fail_making_everywhere([&] { return model->session(options); },
                                         [&](Session & session) { EXPECT_EQ(session.n_tokens(), 0); }),
                  20);
    }
}

TEST(EveryCall, ATokeniserIsLoadedAndReadsOrSaysWhyNot) {
    const std::string path = scratch_file("every-call.gguf");
    ASSERT_TRUE(write_random_model(smallest_spec(), path).ok());
    const auto tokenizer = Tokenizer::load(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_GT(fail_making_everywhere([&] { return Tokenizer::load(path); },
                                     [&](Tokenizer & made) { EXPECT_EQ(made.n_vocab(), tokenizer->n_vocab()); }),
              50);

    const auto tokens = tokenizer->encode("Hello there", true, false);
    ASSERT_TRUE(tokens.ok());
    EXPECT_GT(fail_making_everywhere([&] { return tokenizer->encode("Hello there", true, false); },
                                     [&](std::vector<int32_t> & made) { EXPECT_EQ(made, *tokens); }),
              0);
}

// Rendering is left out: the JSON library's destructors ask for memory themselves, and end the process where there is none.
TEST(EveryCall, AChatTemplateIsTakenOrAllIsAsBefore) {
    const std::string path = scratch_file("every-call.gguf");
    ASSERT_TRUE(write_random_model(smallest_spec(), path).ok());
    auto tokenizer = Tokenizer::load(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    const std::string plain = "{% for message in messages %}{{ message.role + ': ' + message.content }}{% endfor %}";
    const std::string longer = plain + "{{ 'and more than a few letters behind it, so that it lies on the heap' }}";
    ASSERT_TRUE(tokenizer->set_chat_template(plain).ok());
    const auto take = [&]() -> Result<bool> {
        const Status taken = tokenizer->set_chat_template(longer);
        EXPECT_EQ(tokenizer->chat_template(), taken.ok() ? longer : plain);
        PITH_RETURN_IF_ERROR(taken);
        return true;
    };
    EXPECT_GT(fail_making_everywhere(take, [&](bool) { ASSERT_TRUE(tokenizer->set_chat_template(plain).ok()); }), 2);
}

}  // namespace
}  // namespace pith::every_call_test
