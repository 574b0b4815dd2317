"""pith_test.py - python/pith.py does what libpith does.   python pith_test.py MODEL.gguf   (PITH_LIBRARY: the library)"""
import copy
import ctypes
import gc
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import pith  # noqa: E402

MODEL = sys.argv.pop()
N_CONTEXT, N_QUESTIONS, BUDGET = 164, 21, 24
POLICY = f"snapkv:window={N_QUESTIONS}"


def tokens_of(n, state):
    tokens = []
    for _ in range(n):
        state = (state * 1664525 + 1013904223) % 2**32
        tokens.append((state >> 16) % 500)
    return tokens


class Python(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.model = pith.Model(MODEL)
        cls.context, cls.questions = tokens_of(N_CONTEXT, 3), tokens_of(N_QUESTIONS, 4)

    def lanes(self, session, end):
        info = self.model.info()
        return [[p for p in session.lane_positions(layer, head) if p < end]
                for layer in range(info["n_layers"]) for head in range(info["n_kv_heads"])]

    def test_structs_are_as_large_as_the_librarys(self):
        for struct, init in ((pith._ModelOptions, pith._lib.pith_model_options_init),
                             (pith._ChatOptions, pith._lib.pith_chat_options_init),
                             (pith._SessionOptions, pith._lib.pith_session_options_init),
                             (pith._RunOptions, pith._lib.pith_run_options_init),
                             (pith._SamplerOptions, pith._lib.pith_sampler_options_init),
                             (pith._ScorerOptions, pith._lib.pith_scorer_options_init),
                             (pith._EngineOptions, pith._lib.pith_engine_options_init),
                             (pith._Request, pith._lib.pith_request_init)):
            # Of a larger struct the library fills what it knows: no field of it may lie behind the end of ours.
            n_bytes = ctypes.sizeof(struct)
            room = (ctypes.c_char * (n_bytes + 256))(*(b"x" * (n_bytes + 256)))
            given = ctypes.cast(room, ctypes.POINTER(struct))
            init(given, n_bytes + 256)
            self.assertEqual(bytes(room)[n_bytes:], bytes(256), struct.__name__)
            # Of a smaller one no byte more than it has, as for a program that was built with an older header.
            room = (ctypes.c_char * n_bytes)(*(b"x" * n_bytes))
            init(ctypes.cast(room, ctypes.POINTER(struct)), n_bytes - 8)
            self.assertEqual(bytes(room)[n_bytes - 8:], b"x" * 8, struct.__name__)

    def test_questions_in_sight_keep_what_a_prompt_that_ends_in_them_keeps(self):
        together = self.model.session(policy=POLICY, budget=BUDGET + N_QUESTIONS, prefill="one-shot", n_threads=1,
                                      pinned=[(N_CONTEXT, N_CONTEXT + N_QUESTIONS)])
        together.prefill(self.context + self.questions)
        session = self.model.session(policy=POLICY, budget=BUDGET, prefill="one-shot", n_threads=1)
        self.assertIs(session.prefill_for_questions(self.context, [self.questions[:9], self.questions[9:]]), True)
        self.assertEqual(session.n_tokens(), N_CONTEXT)
        self.assertEqual(self.lanes(session, N_CONTEXT + N_QUESTIONS), self.lanes(together, N_CONTEXT))
        later = self.model.session(policy=POLICY, budget=BUDGET, prefill="one-shot", n_threads=1)
        later.prefill(self.context)
        self.assertNotEqual(self.lanes(session, N_CONTEXT), self.lanes(later, N_CONTEXT))

    def test_every_question_is_asked_of_the_same_state(self):
        session = self.model.session(policy=POLICY, budget=BUDGET, prefill="chunked", chunk=48, evict_every=4, n_threads=1,
                                     n_snapshots=1)
        steps = []
        seen = session.prefill_for_questions(self.context, [self.questions], lambda done, total: steps.append(done) or True)
        self.assertTrue(seen)
        self.assertEqual(steps[-1], N_CONTEXT)
        self.assertEqual(session.ledger()["schedule"], "in chunks, question seen")
        compressed = session.snapshot()
        answers = []
        for begin, end in ((0, 9), (9, N_QUESTIONS), (0, 9)):
            session.restore(compressed)
            session.prefill(self.questions[begin:end])
            answers.append(list(session.generate(8)))
        self.assertEqual(answers[0], answers[2])
        self.assertEqual(session.ledger()["n_prompt"], N_CONTEXT + 9 + (N_QUESTIONS - 9) + 9)

    def test_a_saved_session_goes_on_as_the_one_that_was_not(self):
        session = self.model.session(policy=POLICY, budget=BUDGET, n_threads=1)
        session.prefill(self.context)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.pith")
            session.save(path)
            opened = self.model.open_session(path, n_threads=1)
            self.assertEqual(opened.tokens(), self.context)
            self.assertEqual(opened.logits(), session.logits())
            self.assertEqual(list(opened.generate(20)), list(session.generate(20)))
            file = pith.SessionFile(path)
            for _ in range(2):
                self.assertEqual(self.model.open_session(file, n_threads=1).tokens(), self.context)
            opened.load(path)
            self.assertEqual(opened.n_tokens(), N_CONTEXT)
            with open(path, "r+b") as file:
                file.seek(2000)
                file.write(b"?")
            with self.assertRaises(pith.Error) as damaged:
                opened.load(path)
        self.assertEqual(damaged.exception.code, "bad_file")
        self.assertEqual(opened.n_tokens(), N_CONTEXT)

    def test_failures_are_errors_with_a_code_and_a_line(self):
        session = self.model.session(policy=POLICY, budget=BUDGET, n_threads=1)
        with self.assertRaises(pith.Error) as none:
            session.prefill_for_questions(self.context, [])
        self.assertEqual(none.exception.code, "invalid_argument")
        self.assertIn("no questions", str(none.exception))
        with self.assertRaises(pith.Error) as cancelled:
            session.prefill_for_questions(self.context, [self.questions], lambda *_: False)
        self.assertEqual(cancelled.exception.code, "cancelled")
        with self.assertRaises(pith.Error) as policy:
            self.model.session(policy="nosuchpolicy", budget=BUDGET)
        self.assertIn("nosuchpolicy", str(policy.exception))
        for keyword, value in (("budget", "lots"), ("prefill", "twice"), ("type_v", "q9"), ("chunk", 0)):
            with self.assertRaises(pith.Error) as wrong:
                self.model.session(**{"policy": POLICY, "budget": BUDGET, keyword: value}).prefill(self.context)
            self.assertEqual(wrong.exception.field, keyword)
            self.assertTrue(str(wrong.exception).startswith(keyword), str(wrong.exception))
        with self.assertRaises(TypeError):
            self.model.session(polcy="full")

    def test_a_full_cache_becomes_a_policys(self):
        session = self.model.session(policy="full", observe="h2o:recent=4", n_threads=1)
        session.prefill(self.context)
        with self.assertRaises(pith.Error) as refused:
            session.evict("h2o:recent=4", 2)
        self.assertEqual(refused.exception.code, "budget")
        self.assertIn("budget 2 gives 2 tokens per head", str(refused.exception))
        self.assertNotIn("--", str(refused.exception))
        self.assertEqual(refused.exception.field, "budget")
        session.evict("h2o:recent=4", BUDGET)
        ledger = session.ledger()
        self.assertEqual(ledger["kept_entries"], BUDGET * ledger["n_lanes"])
        self.assertLess(ledger["kv_needed_bytes"], ledger["kv_full_bytes"])

    def test_an_engine_answers_as_sessions_do(self):
        options = dict(policy=POLICY, budget=BUDGET, prefill="chunked", chunk=48, evict_every=4)
        prompts = [self.context, tokens_of(90, 11), tokens_of(120, 12)]
        alone = []
        for prompt in prompts:
            session = self.model.session(n_threads=1, **options)
            session.prefill(prompt)
            alone.append([session.decode() for _ in range(8)])
        engine = self.model.engine(ceiling="64M", n_threads=1, grid=0)
        shown = []
        numbers = [engine.submit(prompt, max_tokens=8, stop_at_end=False, on_token=lambda token: shown.append(token) or True, **options)
                   for prompt in prompts]
        engine.run()
        for number in numbers:
            engine.check(number)
        self.assertEqual([engine.answer(number) for number in numbers], alone)
        self.assertEqual(sorted(shown), sorted(token for answer in alone for token in answer))
        ledger = engine.ledger()
        self.assertEqual((ledger["n_prompt"], ledger["kv_allocated_bytes"]), (N_CONTEXT + 90 + 120, 0))
        self.assertGreater(engine.ledger(numbers[0])["evicted_entries"], 0)

    def test_requests_go_on_from_one_that_is_kept(self):
        options = dict(policy=POLICY, budget=BUDGET, prefill="one-shot")
        session = self.model.session(n_threads=1, **options)
        session.prefill_for_questions(self.context, [self.questions])
        compressed, expected = session.snapshot(), []
        for begin, end in ((0, 9), (9, N_QUESTIONS)):
            session.restore(compressed)
            session.prefill(self.questions[begin:end])
            expected.append([session.decode() for _ in range(6)])
        with self.model.engine(n_threads=1, grid=0) as engine:
            base = engine.submit(self.context, keep=True, max_tokens=0, questions=[self.questions[:9], self.questions[9:]], **options)
            engine.run()
            self.assertEqual(engine.ledger(base)["schedule"], "one-shot, question seen")
            self.assertTrue(engine.questions_seen(base))
            self.assertEqual(len(engine.lane_positions(base, 0, 0)), BUDGET)
            numbers = [engine.submit(self.questions[begin:end], after=base, max_tokens=6, stop_at_end=False)
                       for begin, end in ((0, 9), (9, N_QUESTIONS))]
            self.assertEqual(engine.state(numbers[0]), "waiting")
            engine.run()
            self.assertEqual([engine.answer(number) for number in numbers], expected)
            engine.forget(base)
            with self.assertRaises(pith.Error) as gone:
                engine.check(base)
            self.assertEqual(gone.exception.code, "not_found")

    def test_a_prompt_that_begins_as_another_is_found_in_a_folder(self):
        options = dict(policy=POLICY, budget=BUDGET, chunk=32)
        answers, cached = [], []
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a", "a", "b"):
                with self.model.engine(n_threads=1, cache_dir=folder) as engine:
                    number = engine.submit(self.context, max_tokens=6, stop_at_end=False, cache_name=name, cache_at=[40], **options)
                    engine.run()
                    answers.append(engine.answer(number))
                    cached.append(engine.n_cached(number))
                    self.assertEqual(engine.n_read(number), N_CONTEXT)
                    self.assertEqual(engine.ledger()["n_cache_found"], cached[-1])
        self.assertEqual(answers, answers[:1] * 3)
        self.assertEqual(cached, [0, N_CONTEXT // 32 * 32, 0])

    def test_a_prompt_that_begins_as_another_is_found_in_memory(self):
        with self.model.engine(n_threads=1, cache_memory_bytes=64 << 20) as engine:
            answers, cached = [], []
            for _ in range(2):
                number = engine.submit(self.context, max_tokens=6, stop_at_end=False, policy=POLICY, budget=BUDGET, chunk=32)
                engine.run()
                answers.append(engine.answer(number))
                cached.append(engine.n_cached(number))
            self.assertEqual(answers[0], answers[1])
            self.assertEqual(cached, [0, N_CONTEXT // 32 * 32])
            ledger = engine.ledger()
            self.assertGreater(ledger["kv_idle_bytes"], 0)
            self.assertEqual(ledger["kv_idle_bytes"], ledger["kv_allocated_bytes"])

    def test_what_a_hook_raises_is_raised_by_run(self):
        engine = self.model.engine(n_threads=1, grid=0)
        drawn = engine.submit(self.context, max_tokens=4, sampler=self.model.sampler(seed=3), stop_at_end=False)

        def refuse(logits):
            raise KeyError(len(logits))

        bad = engine.submit(self.context, choose=refuse)
        with self.assertRaises(KeyError) as raised:
            engine.run()
        self.assertEqual(raised.exception.args, (self.model.info()["n_vocab"],))
        self.assertEqual(engine.state(bad), "failed")
        engine.run()
        self.assertEqual(len(engine.answer(drawn)), 4)
        with self.assertRaises(pith.Error) as refused:
            self.model.engine(ceiling="1024")
        self.assertIn("1024", str(refused.exception))

    def test_what_a_hook_returns_is_a_token_or_an_error(self):
        for wrong, kind in ((None, TypeError), (1.5, TypeError), ("a", TypeError), (2**31, pith.Error), (2**32 + 5, pith.Error)):
            engine = self.model.engine(n_threads=1, grid=0)
            bad = engine.submit(self.context, choose=lambda logits, wrong=wrong: wrong)
            with self.assertRaises(kind):
                engine.run()
            self.assertEqual(engine.state(bad), "failed")
        seen = []
        whole = engine.submit(self.context, max_tokens=4, stop_at_end=False, on_token=seen.append)  # which returns nothing
        engine.run()
        self.assertEqual(engine.answer(whole), seen)
        self.assertEqual(len(seen), 4)

    def test_what_progress_raises_is_raised_by_the_call(self):
        def fail_at(n):
            def progress(n_done, _):
                if n_done == n:
                    raise LookupError(n)
            return progress

        for n in (16, N_CONTEXT):  # in the middle, and when all is done
            session = self.model.session(prefill="chunked", chunk=8)
            with self.assertRaises(LookupError) as raised:
                session.prefill(self.context, progress=fail_at(n))
            self.assertEqual(raised.exception.args, (n,))
        session = self.model.session(policy=POLICY, budget=str(BUDGET), prefill="chunked", chunk=8)
        with self.assertRaises(LookupError):
            session.prefill_for_questions(self.context, [self.questions], fail_at(16))
        self.assertEqual(session.n_tokens(), 0)
        with self.assertRaises(ZeroDivisionError):
            pith.Model(MODEL, progress=lambda fraction: 1 / 0)

    def test_an_interrupt_ends_an_engines_run_which_may_go_on(self):
        engine = self.model.engine(n_threads=1, grid=0)

        def slow(token):
            if len(engine.answer(long)) == 4:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

        long = engine.submit(self.context, max_tokens=400, stop_at_end=False, on_token=slow)
        with self.assertRaises(KeyboardInterrupt):
            engine.run()
        self.assertEqual(engine.state(long), "answering")
        self.assertLess(len(engine.answer(long)), 400)
        timer = threading.Timer(0.05, engine.interrupt)
        timer.start()
        with self.assertRaises(pith.Error) as raised:
            engine.run()
        timer.join()
        self.assertEqual(raised.exception.code, "cancelled")

    def test_another_threads_look_into_an_engine_is_refused(self):
        engine, refused = self.model.engine(n_threads=1, grid=0), []

        def look():
            for call in (engine.answer, engine.state, engine.n_read, engine.n_cached, engine.questions_seen, engine.ledger):
                try:
                    call(number)
                except pith.Error as error:
                    refused.append(str(error))

        def hook(_):
            engine.answer(number)  # its own hook may
            other = threading.Thread(target=look)
            other.start()
            other.join()
            return False

        number = engine.submit(self.context, on_token=hook)
        engine.run()
        self.assertEqual(len(refused), 6)
        for line in refused:
            self.assertIn("in use", line)
        self.assertEqual(len(engine.answer(number)), 1)

    def test_what_is_closed_says_so(self):
        model = pith.Model(MODEL)
        session, engine = model.session(), model.engine(n_threads=1)
        session.prefill(self.context)
        model.close()
        with self.assertRaises(pith.Error) as gone:
            list(session.generate(4))
        self.assertIn("the Model is closed", str(gone.exception))
        session.close()
        engine.close()
        for call in (session.logits, session.n_tokens, session.tokens, lambda: engine.answer(1), lambda: engine.state(1)):
            with self.assertRaises(pith.Error) as gone:
                call()
            self.assertIn("is closed", str(gone.exception))

    def test_a_sampler_needs_neither_the_model_nor_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "moved.gguf")
            os.symlink(os.path.abspath(MODEL), path)
            model = pith.Model(path)
            os.remove(path)
            session, sampler = model.session(), model.sampler(dry_multiplier=0.5, seed=1)
            model.close()
            session.prefill(self.context)
            self.assertGreaterEqual(sampler.sample(session), 0)

    def test_numbers_that_a_field_cannot_hold_are_refused(self):
        session, engine = self.model.session(), self.model.engine(n_threads=1)
        for call, name in ((lambda: session.prefill([2**32 + 5]), "token"), (lambda: session.append(2**32), "token"),
                           (lambda: self.model.session(chunk=2**32 + 16), "chunk"),
                           (lambda: self.model.session(cold_bytes=-1), "cold_bytes"),
                           (lambda: engine.submit(self.context, max_tokens=2**32 + 1), "max_tokens"),
                           (lambda: engine.submit(self.context, after=2**64), "after")):
            with self.assertRaises(pith.Error) as wrong:
                call()
            self.assertIn(name, str(wrong.exception))

    def test_an_error_goes_from_one_process_to_another_and_a_handle_does_not(self):
        with self.assertRaises(pith.Error) as raised:
            self.model.session(budget="lots")
        error = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((error.code, error.field, str(error)), ("invalid_argument", "budget", str(raised.exception)))
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaises(TypeError):
                call(self.model)

    def test_names_that_are_no_utf8_are_errors_all_the_same(self):
        for call in (pith.Model, self.model.open_session, lambda name: self.model.session(policy="headkv", heads_file=name)):
            with self.assertRaises(pith.Error):
                call(os.fsdecode(b"/nowhere/caf\xe9.gguf"))

    def test_what_a_call_is_in_is_not_closed(self):
        session, engine = self.model.session(prefill="chunked", chunk=8), self.model.engine(n_threads=1)
        refused = []

        def close(handle):
            try:
                handle.close()
            except pith.Error as error:
                refused.append(str(error))
            return True

        session.prefill(self.context, progress=lambda n_done, n_total: close(session) if n_done == 16 else True)
        self.assertEqual(session.n_tokens(), N_CONTEXT)
        other = threading.Thread(target=close, args=(session,))
        session.prefill(self.context, progress=lambda n_done, n_total: other.is_alive() or n_done != 16 or (other.start(), other.join()))
        engine.submit(self.context, max_tokens=1, on_token=lambda token: close(engine))
        engine.run()
        self.assertEqual(len(refused), 3)
        for line in refused:
            self.assertIn("in use", line)
        session.close()
        engine.close()

    def test_an_interrupt_ends_a_prefill_in_the_middle_and_the_session_is_as_before(self):
        session, twin = (self.model.session(policy=POLICY, budget=str(BUDGET), prefill="chunked", chunk=8) for _ in range(2))

        def interrupt(n_done, n_total):
            if n_done == 16:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)  # the main thread takes the signal meanwhile
            return True

        with self.assertRaises(KeyboardInterrupt):
            session.prefill(self.context, progress=interrupt)
        self.assertEqual(session.n_tokens(), 0)
        for each in (session, twin):
            each.prefill(self.context)
        self.assertEqual(session.logits(), twin.logits())

    def test_an_interrupt_while_the_thread_begins_leaves_nothing_behind(self):
        session = self.model.session(policy=POLICY, budget=str(BUDGET), prefill="chunked", chunk=8)
        start, threads = threading.Thread.start, []

        def start_and_be_interrupted(thread):
            start(thread)
            threads.append(thread)
            raise KeyboardInterrupt

        threading.Thread.start = start_and_be_interrupted
        try:
            with self.assertRaises(KeyboardInterrupt):
                session.prefill(self.context, progress=lambda n_done, n_total: time.sleep(0.05) is None)
        finally:
            threading.Thread.start = start
        threads[0].join(1)
        self.assertFalse(threads[0].is_alive())
        self.assertEqual(session.n_tokens(), 0)
        session.prefill(self.context)

    def test_another_thread_may_cancel_a_prefill(self):
        session = self.model.session(prefill="chunked", chunk=8)
        canceller = threading.Timer(0.02, session.cancel)
        canceller.start()
        with self.assertRaises(pith.Error) as raised:
            session.prefill(self.context, progress=lambda n_done, n_total: time.sleep(0.05) is None)
        canceller.join()
        self.assertIn("cancelled", str(raised.exception))
        self.assertEqual(session.n_tokens(), 0)

    def own(self, name, score, **options):
        pith.register_scorer(name, score, **options)
        self.addCleanup(pith.unregister_scorer, name)

    def kept(self, policy, budget=BUDGET, **options):
        with self.model.session(policy=policy, budget=budget, n_threads=1, **options) as session:
            session.prefill(self.context)
            return self.lanes(session, N_CONTEXT)

    def test_a_scorer_of_ones_own_keeps_what_the_built_in_one_keeps(self):
        def window_mean(layer):
            return [[sum(float(lane.window_mean[g, j]) for g in range(layer.n_group)) / layer.n_group for j in range(lane.n)]
                    for lane in layer.lanes]

        self.own("my-window", window_mean, needs=["window_mean"], window=N_QUESTIONS, help="as SnapKV")
        for prefill in ("one-shot", "chunked"):
            for rest in ("", "+ada"):
                self.assertEqual(self.kept("my-window" + rest, prefill=prefill, chunk=48),
                                 self.kept(POLICY + ":pool=none" + rest, prefill=prefill, chunk=48))

    def test_a_scorer_is_shown_arrays_without_copies(self):
        info, seen = self.model.info(), []

        def look(layer):
            self.assertEqual(layer.n_seen, N_CONTEXT)
            self.assertEqual(tuple(layer.window_queries.shape), (8, info["n_heads"], layer.head_dim))
            for lane in layer.lanes:
                self.assertEqual(list(lane.positions), list(range(N_CONTEXT)))
                self.assertEqual(tuple(lane.keys.shape), (N_CONTEXT, layer.head_dim))
                self.assertEqual(tuple(lane.window_attention.shape), (layer.n_group, 8, N_CONTEXT))
                for j in range(0, N_CONTEXT, 10):
                    norm = sum(abs(float(lane.values[j, c])) for c in range(layer.head_dim_v))
                    self.assertAlmostEqual(norm, float(lane.value_l1[j]), places=3)
                row = sum(float(lane.window_attention[0, 7, j]) for j in range(N_CONTEXT))
                self.assertAlmostEqual(row, 1, places=3)
                with self.assertRaises((TypeError, ValueError)):
                    lane.values[0, 0] = 1  # the cache's
                with self.assertRaises(AttributeError):
                    lane.running_sum  # was not asked for
                for j in range(lane.n):
                    lane.scores[j] = float(j)
            seen.append(layer.layer)

        self.own("looks", look, needs=("window_attention", "window_queries", "keys", "values", "value_l1"), window=8)
        self.assertEqual(self.kept("looks"), self.kept("window"))
        self.assertEqual(seen, list(range(info["n_layers"])))

    def test_what_a_scorer_raises_ends_the_call_and_is_its_cause(self):
        fails = [True]

        def score(layer):
            if fails and layer.layer == 1:
                raise KeyError("no such lane")
            return [[1.0] * lane.n for lane in layer.lanes]

        self.own("torn", score)
        session = self.model.session(policy="torn", budget=40, n_threads=1)
        with self.assertRaises(pith.Error) as raised:
            session.prefill(self.context)
        self.assertEqual(str(raised.exception), "scorer 'torn', layer 1: KeyError: 'no such lane'")
        self.assertIsInstance(raised.exception.__cause__, KeyError)
        self.assertEqual(session.n_tokens(), 0)
        engine = self.model.engine(n_threads=1)
        number = engine.submit(self.context, policy="torn", budget=40, max_tokens=1, stop_at_end=False)
        engine.run()
        self.assertEqual(engine.state(number), "failed")
        with self.assertRaises(pith.Error) as failed:
            engine.check(number)
        self.assertIn("scorer 'torn'", str(failed.exception))
        self.assertIsInstance(failed.exception.__cause__, KeyError)
        with self.assertRaises(pith.Error) as used:
            pith.unregister_scorer("torn")
        self.assertIn("in use", str(used.exception))
        fails.clear()
        session.prefill(self.context)
        self.assertEqual(session.n_tokens(), N_CONTEXT)
        session.close()
        with self.assertRaises(pith.Error) as again:  # whatever went well meanwhile
            engine.check(number)
        self.assertIs(again.exception.__cause__, failed.exception.__cause__)
        self.assertEqual(str(again.exception), str(failed.exception))
        self.assertNotIn("[", str(failed.exception))
        engine.close()

    def test_what_c_has_freed_is_freed_once(self):
        session = self.model.session(policy="full", n_threads=1)
        free = session._free

        def interrupted(pointer):
            free(pointer)
            raise KeyboardInterrupt

        session._free = interrupted
        with self.assertRaises(KeyboardInterrupt):
            session.close()
        session.close()
        with self.assertRaises(pith.Error) as closed:
            session.n_tokens()
        self.assertIn("closed", str(closed.exception))

    def test_a_callback_lives_as_long_as_c_has_it(self):
        engine, said = self.model.engine(n_threads=1), []
        submit = pith._lib.pith_engine_submit

        def interrupted(*arguments):
            submit(*arguments)
            raise KeyboardInterrupt

        pith._lib.pith_engine_submit = interrupted
        try:
            with self.assertRaises(KeyboardInterrupt):
                engine.submit(self.context, max_tokens=3, stop_at_end=False, on_token=said.append)
        finally:
            pith._lib.pith_engine_submit = submit
        gc.collect()
        engine.run()
        self.assertEqual(len(said), 3)
        with self.assertRaises(pith.Error):
            engine.submit([-1], on_token=said.append)
        self.assertEqual(len(engine._hooks), 1)

    def test_a_character_of_several_tokens_comes_with_its_last(self):
        tokens = self.model.tokenize("a\U0001F333b", add_special=False)
        self.assertIn("\ufffd", "".join(self.model.text(token) for token in tokens))
        self.assertEqual("".join(self.model.texts(tokens)), self.model.detokenize(tokens))
        self.assertEqual("".join(self.model.texts(tokens[:-2])), self.model.detokenize(tokens[:-2]))  # ends within it

    def test_what_is_the_engines_is_refused_of_a_request(self):
        engine = self.model.engine(n_threads=1, type_k="bf16")
        for field, value in (("type_k", "f32"), ("type_v", "bf16"), ("rotate_kv", False), ("n_threads", 2), ("n_snapshots", 1),
                             ("observe", "h2o")):
            with self.assertRaises(pith.Error) as refused:
                engine.submit(self.context, **{field: value})
            self.assertEqual(refused.exception.field, field)
        engine.submit(self.context, type_k="bf16", n_threads=1)

    def test_numbers_of_more_bits_than_c_has_are_refused(self):
        session, engine = self.model.session(n_threads=1), self.model.engine(n_threads=1)
        number = engine.submit(self.context, max_tokens=0, keep=True)
        for wrong in (lambda: self.model.text(2**32 + 5), lambda: self.model.is_end(2**32 + 5), lambda: session.lane_positions(2**32, 0),
                      lambda: engine.state(2**64 + number), lambda: engine.forget(2**64 + number),
                      lambda: engine.lane_positions(number, 2**32, 0)):
            with self.assertRaises(pith.Error) as refused:
                wrong()
            self.assertIn("bits", str(refused.exception))
        self.assertEqual(engine.state(number), "waiting")

    def test_wrong_scorers_and_scores_are_refused(self):
        with self.assertRaises(pith.Error) as taken:
            pith.register_scorer("snapkv", lambda layer: None)
        self.assertIn("'snapkv'", str(taken.exception))
        with self.assertRaises(TypeError) as unknown:
            pith.register_scorer("mine", lambda layer: None, needs=["window_meen"])
        self.assertIn("window_mean", str(unknown.exception))
        with self.assertRaises(pith.Error):
            pith.register_scorer("mine", lambda layer: None, needs=["window_mean"])  # of which window?
        self.own("short", lambda layer: [[1.0] * (lane.n - 1) for lane in layer.lanes])
        self.own("none", lambda layer: None)
        self.own("words", lambda layer: [["a"] * lane.n for lane in layer.lanes])
        for name, line in (("short", "ValueError: scores of"), ("none", "every entry needs a finite one"), ("words", "scorer 'words'")):
            with self.assertRaises(pith.Error) as refused:
                self.kept(name, budget=40)
            self.assertIn(line, str(refused.exception))

    def test_hidden_states_are_watched(self):
        info, seen = self.model.info(), set()
        session = self.model.session(policy="knorm", budget=40, n_threads=1, prefill="chunked", chunk=48)

        def watch(layer, first, rows):
            self.assertEqual(rows.shape[1], info["n_embd"])
            seen.update((layer, first + i) for i in range(rows.shape[0]))

        session.watch_hidden(watch)
        session.prefill(self.context)
        self.assertEqual(seen, {(layer, i) for layer in range(info["n_layers"]) for i in range(N_CONTEXT)})

        def refuse(layer, first, rows):
            raise LookupError("enough")

        session.watch_hidden(refuse)
        with self.assertRaises(pith.Error) as raised:
            session.append(7)
        self.assertEqual(str(raised.exception), "watch_hidden: LookupError: enough")
        self.assertIsInstance(raised.exception.__cause__, LookupError)
        session.watch_hidden(None)
        session.append(7)
        self.assertEqual(session.n_tokens(), N_CONTEXT + 1)

    def test_conversations_are_rendered_by_the_template(self):
        source = ("{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ m.reasoning_content }}{% endfor %}"
                  "{{ tools | tojson if tools }}{{ effort }}{{ enable_thinking }}{{ 'A:' if add_generation_prompt }}")
        self.model.set_chat_template(source)
        self.assertEqual(self.model.chat_text([{"role": "user", "content": "é?"}]), "[user]é?A:")
        tools = [{"type": "function", "function": {"name": "sky"}}]
        said = self.model.chat_text([{"role": "assistant", "content": "No", "reasoning_content": "."}], add_assistant=False, tools=tools,
                               variables={"effort": 3}, reasoning=False)
        self.assertEqual(said, '[assistant]No.[{"type": "function", "function": {"name": "sky"}}]3False')
        with self.assertRaises(pith.Error):
            self.model.set_chat_template("no such name")
        self.model.set_chat_template()

    def test_text_goes_to_tokens_and_back(self):
        tokens = self.model.tokenize("The river is long.", add_special=False)
        self.assertEqual(self.model.detokenize(tokens).strip(), "The river is long.")


if __name__ == "__main__":
    unittest.main()
