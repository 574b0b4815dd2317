// build-only driver
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include "train/train.h"
using namespace pith; using namespace pith::train;
int main(int argc, char ** argv) {
    if (argc < 4) { return 2; }
    TrainOptions o; o.recipe_path = argv[2]; o.work_dir = argv[3]; if (argc > 4 && argv[1][0]=='t') { o.output = argv[4]; }
    TrainHooks h; h.note = [](const std::string & s) { printf("%s\n", s.c_str()); fflush(stdout); };
    double ema = 0;
    h.progress = [&](const TrainProgress & p) { ema = ema == 0 ? p.loss : ema + 0.05 * (p.loss - ema);
        if (p.step % 50 == 0) { time_t t = time(nullptr); char b[16]; strftime(b, 16, "%H:%M:%S", gmtime(&t));
            printf("%s st %d T %d step %ld/%ld loss %.4f (ema %.4f) |g| %.2f lr %.2e  %.1f Mtok %.0f tok/s left %.0f s\n", b, p.stage + 1, p.n_tokens, p.step, p.n_steps, p.loss, ema, p.gradient_norm, p.learning_rate, p.tokens_seen * 1e-6, p.tokens_per_second, p.stage_seconds_left); fflush(stdout); }
        return true; };
    h.validation = [](const ValidationReport & v) { printf("   valid T %d loss %.4f hits %.3f |", v.n_tokens, v.loss, v.answer_hits); for (auto & [k, x] : v.hits_by_kind) printf(" %s %.3f", k.c_str(), x); printf("\n"); fflush(stdout); };
    if (argv[1][0] == 't') { Status s = train_reference(o, h); printf("%s\n", s.ok() ? "done" : s.message().c_str()); return s.ok() ? 0 : 1; }
    auto r = read_recipe(o.recipe_path); if (!r.ok()) { puts(r.status().message().c_str()); return 1; }
    std::vector<int> lengths; for (int i = 5; i < argc; ++i) lengths.push_back(atoi(argv[i]));
    auto e = evaluate_checkpoint(*r, o, lengths, atoi(argv[4]), h.note); if (!e.ok()) { puts(e.status().message().c_str()); return 1; }
}
