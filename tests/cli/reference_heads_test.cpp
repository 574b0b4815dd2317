// reference_heads_test.cpp - the reference model's head importances, as they are shipped.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_process.h"

namespace pith::testing::reference_heads_test {
namespace {

using Json = nlohmann::json;

const std::string kModel = PITH_SOURCE_DIR "/models/pith-reference.gguf";
const std::string kHeads = PITH_SOURCE_DIR "/models/pith-reference.heads.json";

std::vector<double> flat(const Json & layers) {
    std::vector<double> all;
    for (const Json & layer : layers) {
        if (layer.is_number()) {
            all.push_back(layer);
        } else {
            for (const Json & score : layer) { all.push_back(score); }
        }
    }
    return all;
}

TEST(ReferenceHeads, AreThoseThatTheCommandMeasures) {
    if (!std::filesystem::exists(kModel)) { GTEST_SKIP() << "no reference model"; }
    const TempFolder folder;
    const Outcome outcome = run_pith({"calibrate", "heads", "-m", kModel, "-o", folder.file("heads.json"), "--samples", "9",
                                      "--tokens", "512", "--seed", "5", "-t", "1", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json measured = Json::parse(outcome.out);
    const Json shipped = Json::parse(read_text_file(kHeads));
    EXPECT_GT(measured["foretold"].get<double>(), 0.9);  // the model retrieves, so that its heads can be told apart
    for (const char * name : {"copy", "reason"}) {
        const auto a = flat(measured[name]);
        const auto b = flat(shipped[name]);
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); ++i) { EXPECT_NEAR(a[i], b[i], 0.2) << name << " of head " << i; }
        // Other probes, the same heads: those that retrieve stand far above the rest.
        EXPECT_GT(*std::ranges::max_element(a), 0.5) << name;
    }
}

TEST(ReferenceHeads, MakeHeadKvWorkWithoutAFlag) {
    if (!std::filesystem::exists(kModel)) { GTEST_SKIP() << "no reference model"; }
    const Outcome outcome =
        run_pith({"inspect", "--policy", "headkv,snapkv", "--budget", "20%", "--tokens", "512", "-t", "1", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json said = Json::parse(outcome.out);
    ASSERT_EQ(said["cases"].size(), 2U);
    // The layer of the heads that retrieve most gets most under headkv, and that of those that retrieve least little.
    std::vector<double> of_layers;
    const Json shipped = Json::parse(read_text_file(kHeads));
    for (const Json & heads : shipped["reason"]) {
        double sum = 0;
        for (const Json & score : heads) { sum += score.get<double>(); }
        of_layers.push_back(sum);
    }
    const auto [least, most] = std::ranges::minmax_element(of_layers);
    const auto kept = [&](size_t c, auto layer) {
        int n = 0;
        for (const Json & lane : said["cases"][c]["layers"][static_cast<size_t>(layer - of_layers.begin())]["kept"]) {
            n += lane.get<int>();
        }
        return n;
    };
    EXPECT_GT(kept(0, most), kept(1, most));
    EXPECT_GT(kept(0, most), 2 * kept(0, least));
}

}  // namespace
}  // namespace pith::testing::reference_heads_test
