"""Runs opst generate, chat, perplexity and plan on the bundled model.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "models/austen-moe"
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OPST_")}


def command(*arguments: str) -> list[str]:
    return [os.environ["OPST_TOOL"], *map(str, arguments)]


def run(*arguments: str, text: str | None = None, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run(
        command(*arguments),
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        env=environment(),
    )
    if done.returncode != code:
        raise AssertionError(f"{arguments} gave {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}")
    return done


class GenerationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        cls.model = cls.folder / "plain.opst"
        run("convert", BUNDLED, cls.model)
        checkpoint = cls.folder / "checkpoint"
        shutil.copytree(BUNDLED, checkpoint)
        (checkpoint / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
        cls.chat_model = cls.folder / "chat.opst"
        run("convert", checkpoint, cls.chat_model)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_prompts_of_a_file_get_the_answers_they_get_alone(self):
        prompts = ["She was", "It is a truth universally acknowledged, that", "God"]
        file, results = self.folder / "prompts.txt", self.folder / "results.json"
        file.write_text("\n".join(prompts) + "\n\n", encoding="utf-8")
        sampling = ["--max-new-tokens", 15, "--temperature", 0.9, "--seed", 5]
        together = run(
            "generate", self.model, "--prompts", file, "--result-json", results, *sampling, "--threads", 2
        ).stdout
        for prompt, result in zip(prompts, json.loads(results.read_text(encoding="utf-8")), strict=True):
            alone = run("generate", self.model, prompt, "-q", *sampling, "--threads", 1).stdout
            self.assertEqual(alone, prompt + result["text"] + "\n")
            self.assertIn(prompt + result["text"], together)
            self.assertEqual(result["stop_reason"], "max new tokens")
        run("generate", self.model, "text", "--prompts", file, code=2)

    def test_the_reason_of_the_stop_is_printed(self):
        whole = run("generate", self.model, "She was", "-n", 20)
        self.assertIn("stopped: max new tokens", whole.stderr)
        stop = whole.stdout[15:20]
        done = run("generate", self.model, "She was", "-n", 20, "--stop", "zzz", "--stop", stop)
        self.assertIn("stopped: stop string", done.stderr)
        self.assertEqual(done.stdout, whole.stdout[: whole.stdout.index(stop, 7)] + "\n")

    def test_numbers_are_decimal_and_large_seeds_are_exact(self):
        def text(seed):
            return run("generate", self.model, "She", "-q", "-n", 8, "--temperature", 5, "--seed", seed).stdout

        self.assertEqual(text("010"), text(10))
        self.assertNotEqual(text(2**64 - 1), text(2**63 - 1))

    def test_an_endless_standard_input_is_refused(self):
        for arguments in (["generate", self.model], ["chat", self.chat_model]):
            with open("/dev/zero", "rb") as zero:
                done = subprocess.run(
                    command(*arguments), stdin=zero, capture_output=True, text=True, timeout=300, env=environment()
                )
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout, "")
            self.assertIn("[standard input] a prompt must have at most 64 MB; got more", done.stderr)

    def test_a_text_that_is_no_utf_8_has_no_perplexity(self):
        text = self.folder / "latin-1.txt"
        text.write_bytes("caf\u00e9 ".encode("latin-1") * 300)
        self.assertIn("the text must be UTF-8", run("perplexity", self.model, text, code=1).stderr)

    def test_expert_flags(self):
        usage = self.folder / "usage.json"
        run("generate", self.model, "She", "-n", 3, "--mask-experts", "0,1:2", "--usage-json", usage)
        layers = json.loads(usage.read_text(encoding="utf-8"))["layers"]
        self.assertEqual({layer["counts"][0] for layer in layers}, {0})
        self.assertEqual(layers[1]["counts"][2], 0)
        run("generate", self.model, "She", "-n", 3, "--force-experts", "4", "--usage-json", usage, "--force")
        for layer in json.loads(usage.read_text(encoding="utf-8"))["layers"]:
            self.assertEqual(sum(layer["counts"]), layer["counts"][4])
        refused = run("generate", self.model, "She", "--active-experts", 9, code=2)
        self.assertIn("active experts must be 1..8; got 9", refused.stderr)
        self.assertIn('got "x"', run("generate", self.model, "She", "--mask-experts", "x", code=2).stderr)

    def test_routing_flags_change_how_many_experts_a_token_takes(self):
        text = self.folder / "routing.txt"
        text.write_text((BUNDLED / "heldout.txt").read_text(encoding="utf-8")[:4000], encoding="utf-8")

        def experts_per_token(*flags):
            done = run("perplexity", self.model, text, "--window", 64, *flags)
            return float(done.stdout.split("experts per token ")[1])

        self.assertEqual(experts_per_token(), 2)
        self.assertEqual(experts_per_token("--routing", "top-k"), 2)
        self.assertEqual(experts_per_token("--routing", "threshold", "--routing-threshold", 0.99), 1)
        self.assertEqual(experts_per_token("--routing", "top-p", "--routing-top-p", 0.001), 1)
        some = experts_per_token("--routing", "threshold")
        self.assertTrue(1 < some < 2, some)
        self.assertGreater(experts_per_token("--routing", "threshold", "--active-experts", 8), some)
        self.assertEqual(experts_per_token("--routing", "entropy", "--routing-entropy", "1:1"), 1)
        for flags, message in (
            (["--routing", "entropy"], "kEntropy needs entropy_thresholds"),
            (["--routing", "entropy", "--routing-entropy", "x"], "a step must be entropy:experts"),
            (["--routing", "threshold", "--routing-threshold", 2], "threshold must be at least 0 and below 1"),
            (["--routing", "sideways"], "sideways"),
            (["--routing-threshold", 0.1], "--routing"),
        ):
            self.assertIn(message, run("generate", self.model, "She", *flags, code=2).stderr)

    def test_the_default_threshold_saves_expert_compute_for_little_perplexity(self):
        def measure(*flags):
            done = run("perplexity", self.model, BUNDLED / "heldout.txt", *flags).stdout.split()
            return float(done[1]), float(done[-1])

        top_2, _ = measure()
        threshold, experts = measure("--routing", "threshold")
        self.assertLess(threshold, 1.01 * top_2)
        self.assertLess(experts, 0.85 * 2)

    def test_log_probs(self):
        results = self.folder / "log_probs.json"
        done = run("generate", self.model, "She was", "-n", 4, "--log-probs", 2, "--result-json", results)
        self.assertIn("log-prob", done.stdout)
        entries = json.loads(results.read_text(encoding="utf-8"))[0]["log_probs"]
        self.assertEqual(len(entries), 4)
        for entry in entries:  # greedy: the most likely token is the one that was taken
            self.assertEqual(entry["token"], entry["most_likely"][0]["token"])
            self.assertLess(entry["log_prob"], 0)

    def test_perplexity_is_one_for_both_paths(self):
        text = self.folder / "text.txt"
        text.write_text((BUNDLED / "heldout.txt").read_text(encoding="utf-8")[:4000], encoding="utf-8")
        prefill = run("perplexity", self.model, text, "--window", 64).stdout
        self.assertEqual(
            run("perplexity", self.model, text, "--window", 64, "--decode", "--batch-size", 8).stdout, prefill
        )

    def test_interrupt_ends_cleanly(self):
        arguments = command(
            "generate", self.model, "She was", "-n", 100000, "--ignore-end-tokens", "--context-length", 100000
        )
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        self.assertEqual(process.stdout.read(7), b"She was")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertTrue(out.endswith(b"\n"))
        self.assertIn(b"stopped: cancelled", errors)

    def test_a_plan_that_does_not_fit_is_refused_before_the_memory_is_taken(self):
        plan = run("plan", self.model, "--context-length", 100).stdout
        for row in ("weights", "keys and values", "workspace", "total", "rule of thumb", "available"):
            self.assertIn(row, plan)
        begin = time.monotonic()
        refused = run("generate", self.model, "She", "-n", 10**12, code=1)
        self.assertIn("the plan must fit the available memory", refused.stderr)
        self.assertIn("--ignore-memory", refused.stderr)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertIn("memory: ", run("generate", self.model, "She", "-n", 1).stderr)

    def test_chat_reads_lines_and_keeps_the_conversation(self):
        done = run("chat", self.chat_model, "-n", 6, "--system", "Be brief", "--show-prompt", text="Hi\nAnd you?\n")
        answers = done.stdout.splitlines()
        self.assertIn("system: Be brief\nuser: Hi\nassistant:", done.stderr)
        self.assertIn(f"assistant: {answers[0]}\nuser: And you?\nassistant:", done.stderr)
        self.assertIn(" kept)", done.stderr)
        reset = run(
            "chat", self.chat_model, "-n", 6, "--show-prompt", text="Hi\n/reset\n/system S\nHo\n/exit\nnot read\n"
        )
        self.assertIn("system: S\nuser: Ho\nassistant:", reset.stderr)
        self.assertNotIn("not read", reset.stderr)

    def test_chat_without_a_template_says_what_to_do(self):
        refused = run("chat", self.model, text="Hi\n", code=1)
        self.assertIn("must carry a chat template", refused.stderr)
        self.assertIn("opst generate", refused.stderr)


if __name__ == "__main__":
    unittest.main()
