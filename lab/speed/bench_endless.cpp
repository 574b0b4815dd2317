// bench_endless.cpp - one session, fed to the end; beside it a young one for the last stretches.
#include "speed/bench_endless.h"

#include <algorithm>
#include <random>
#include <span>

#include "core/check.h"
#include "core/median.h"
#include "core/stopwatch.h"
#include "core/text.h"
#include "device/resident.h"
#include "speed/random_prompt.h"

namespace pith {
namespace {

constexpr int kFirstStretches = 16;  // after which the memory is what it should stay

enum class Feed { kChunks, kSingle };

class EndlessRunner {
public:
    EndlessRunner(const Model & model, const EndlessOptions & options, Session session)
        : model_(model), options_(options), session_(std::move(session)), random_(options.seed) {}

    Result<EndlessReport> run() {
        EndlessReport report;
        PITH_RETURN_IF_ERROR(fill(session_));
        const int64_t n_in_chunks = options_.n_tokens - options_.n_generate - session_.n_tokens();
        PITH_ASSIGN_OR_RETURN(report.chunks, part(Feed::kChunks, n_in_chunks));
        if (options_.n_generate > 0) { PITH_ASSIGN_OR_RETURN(report.single, part(Feed::kSingle, options_.n_generate)); }
        report.ledger = session_.ledger();
        return report;
    }

private:
    int64_t length() const { return options_.session.chunk; }  // of a stretch

    // Seconds of n tokens.
    Result<double> feed(Session & session, Feed how, int64_t n) {
        if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
        if (options_.progress) {
            options_.progress("token " + with_commas(session_.n_tokens()) + " of " + with_commas(options_.n_tokens));
        }
        const std::vector<int32_t> tokens = random_prompt(model_, n, random_());
        const Stopwatch watch;
        if (how == Feed::kChunks) {
            PITH_RETURN_IF_ERROR(session.prefill(tokens));
        } else {
            for (const int32_t token : tokens) { PITH_RETURN_IF_ERROR(session.append(token)); }
        }
        return watch.seconds();
    }

    // Until it has evicted.
    Status fill(Session & session) {
        while (session.ledger().evicted_entries == 0) {
            if (session.n_tokens() >= options_.n_tokens) {
                return {ErrorCode::kInvalidArgument,
                        "policy '" + options_.policies.front().name() + "' evicted nothing of " +
                            with_commas(session.n_tokens()) +
                            " tokens: give --endless a policy that evicts, and a smaller --budget"};
            }
            PITH_RETURN_IF_ERROR(feed(session, Feed::kChunks, length()).status());
        }
        return {};
    }

    Result<EndlessPart> part(Feed how, int64_t n) {
        EndlessPart part;
        part.n_tokens = n;
        const int64_t n_pairs = std::max<int64_t>(std::min(options_.n_compared, n / 2) / length(), 1);
        const int64_t n_alone = n - n_pairs * length();
        double seconds = 0;
        for (int64_t done = 0, i = 0; done < n_alone; ++i) {
            const int64_t m = std::min(length(), n_alone - done);
            PITH_ASSIGN_OR_RETURN(const double took, feed(session_, how, m));
            seconds += took;
            done += m;
            if (i < kFirstStretches) { part.anonymous_first_bytes = resident_bytes().anonymous; }
        }
        part.anonymous_last_bytes = resident_bytes().anonymous;
        PITH_ASSIGN_OR_RETURN(seconds, in_turns(how, n_pairs, seconds, part));
        part.all_tps = static_cast<double>(n) / seconds;
        return part;
    }

    // Returns the seconds of the long session, with those before.
    Result<double> in_turns(Feed how, int64_t n_pairs, double seconds, EndlessPart & part) {
        SessionOptions with = options_.session;
        with.policy = options_.policies.front();
        PITH_ASSIGN_OR_RETURN(Session fresh, model_.session(with));
        PITH_RETURN_IF_ERROR(fill(fresh));
        PITH_RETURN_IF_ERROR(feed(fresh, how, length()).status());  // its graphs are built
        std::vector<double> last;
        std::vector<double> young;
        std::vector<double> ratios;
        for (int64_t i = 0; i < n_pairs; ++i) {
            Session & one = i % 2 == 0 ? session_ : fresh;
            Session & other = i % 2 == 0 ? fresh : session_;
            PITH_ASSIGN_OR_RETURN(double of_session, feed(one, how, length()));
            PITH_ASSIGN_OR_RETURN(double of_fresh, feed(other, how, length()));
            if (i % 2 != 0) { std::swap(of_session, of_fresh); }
            seconds += of_session;
            last.push_back(static_cast<double>(length()) / of_session);
            young.push_back(static_cast<double>(length()) / of_fresh);
            ratios.push_back(of_fresh / of_session);
        }
        part.last_tps = median(last);
        part.fresh_tps = median(young);
        part.ratio = median(ratios);
        return seconds;
    }

    const Model & model_;
    const EndlessOptions & options_;
    Session session_;
    std::mt19937 random_;
};

Status check(const EndlessOptions & options) {
    PITH_RETURN_IF_ERROR(check_at_least("--chunk", options.session.chunk, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--n-predict", options.n_generate, 0));
    PITH_RETURN_IF_ERROR(check_at_least("the number of policies", std::ssize(options.policies), 1));
    // Each part has two stretches at least, and something fills the budget.
    const int64_t stretch = options.session.chunk;
    const bool in_entries = options.session.budget.kind == BudgetKind::kEntries;
    const int64_t budget = in_entries ? static_cast<int64_t>(options.session.budget.value) : 0;
    PITH_RETURN_IF_ERROR(check_at_least("--endless", options.n_tokens, options.n_generate + budget + 4 * stretch));
    return options.n_generate == 0 ? Status() : check_at_least("--n-predict", options.n_generate, 2 * stretch);
}

}  // namespace

Result<EndlessReport> measure_endless(const Model & model, const EndlessOptions & options) {
    PITH_RETURN_IF_ERROR(check(options));
    SessionOptions with = options.session;
    with.policy = options.policies.front();
    PITH_ASSIGN_OR_RETURN(Session session, model.session(with));
    return EndlessRunner(model, options, std::move(session)).run();
}

}  // namespace pith
