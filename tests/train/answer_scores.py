"""Compares the scores of answers with the published programs that define them, on drawn texts.

Usage: answer_scores.py SCORE_PROBE
"""

import ast
import importlib.util
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import types

# Only the stemmer and the sentence splitter of rouge_score need NLTK, and neither is used here.
for name in ("nltk", "nltk.stem"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["nltk.stem"].porter = types.SimpleNamespace()

from rouge_score import rouge_scorer  # noqa: E402
from transformers.data.metrics.squad_metrics import compute_f1  # noqa: E402

SEED, CASES = 11, 2000
# What the definitions treat specially: articles, numbers, contractions, marks, spaces, other scripts.
WORDS = ["a", "an", "the", "The", "A", "none", "two", "Ten", "dont", "wouldn'tve", "isn't", "yall'll",
         "cat", "Cat", "cats", "red", "1,000", "1,,5", "12", "3.5", "3.", ".5", "$3.50", "U.S.A.",
         "x-ray", "and/or", "(red)", "[1]", "\"so\"", "what?", "no!", "a_b", "e@x.org", ";", ",", "-",
         "\u00e9t\u00e9", "\u00c9T\u00c9", "stra\u00dfe", "\u4e2d\u6587", "\u0130stanbul",
         "\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2", "\u0661\u0662", "\u2167", "\u00bd",
         "\u201cthe\u201d", "a\u2013b", "n\u0303a", "\u212aelvin", "the\u0301"]
SPACES = [" ", " ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000", ""]


def draw_text(draw, words):
    text = ""
    for word in draw.choices(words, k=draw.randrange(8)):
        text += word + draw.choice(SPACES)
    return draw.choice(["", "", " ", "\n"]) + text


def draw_case(draw):
    """Few words a case, so that answers and references agree in part and often as a whole."""
    words = draw.sample(WORDS, draw.randrange(1, 7))
    references = [draw_text(draw, words) for _ in range(draw.choice([1, 1, 2, 3, 5, 10]))]
    answer = draw.choice(references) if draw.random() < 0.3 else draw_text(draw, words)
    return {"answer": answer, "references": references}


def load_lmms_eval():
    """Loads two files of the package by themselves: as a whole it needs a hundred others."""
    folder = pathlib.Path(importlib.util.find_spec("lmms_eval").origin).parent
    spec = importlib.util.spec_from_file_location(
        "vqa_eval_metric", folder / "tasks/_task_utils/vqa_eval_metric.py")
    vqa = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vqa)
    tree = ast.parse((folder / "api/metrics.py").read_text())
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef)
              and node.name in ("anls", "levenshtein_distance")]
    for node in wanted:
        node.decorator_list = []
    names = {}
    exec(compile(ast.Module(wanted, []), "metrics.py", "exec"), names)  # noqa: S102
    return vqa.EvalAIAnswerProcessor(), names["anls"]


def vqa_accuracy(processor, case):
    """The evaluation of VQAv2, as vqav2_process_results of lmms-eval has it."""
    def normal(text):
        text = text.replace("\n", " ").replace("\t", " ").strip()
        return processor.process_digit_article(processor.process_punctuation(text))

    answer, references = normal(case["answer"]), list(map(normal, case["references"]))
    if len(references) == 1:  # stands for ten that agree
        references *= 10
    return statistics.mean(
        min(1, sum(other == answer for other in references[:i] + references[i + 1:]) / 3)
        for i in range(len(references)))


def ask_probe(program, cases):
    with tempfile.TemporaryDirectory() as folder:
        questions, scores = pathlib.Path(folder, "q.jsonl"), pathlib.Path(folder, "s.jsonl")
        questions.write_text("".join(json.dumps(case) + "\n" for case in cases))
        subprocess.run([program, questions, scores], check=True)
        return [json.loads(line) for line in scores.read_text().splitlines()]


def main():
    draw = random.Random(SEED)
    cases = [draw_case(draw) for _ in range(CASES)]
    processor, anls = load_lmms_eval()
    rouge = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=False)
    oracles = {
        "token_f1": lambda case: max(compute_f1(gold, case["answer"]) for gold in case["references"]),
        "anls": lambda case: anls(case["references"], [case["answer"]])["anls"],
        "rouge_l": lambda case:
            rouge.score_multi(case["references"], case["answer"])["rougeL"].fmeasure,
        "vqa_accuracy": lambda case: vqa_accuracy(processor, case),
    }
    own = ask_probe(sys.argv[1], cases)
    for name, oracle in oracles.items():
        published = [oracle(case) for case in cases]
        for case, scored, wanted in zip(cases, own, published, strict=True):
            assert abs(scored[name] - wanted) < 1e-12, (name, case, scored[name], wanted)
        between = sum(0 < value < 1 for value in published)
        assert between > CASES / 20 and published.count(1) > CASES / 20, (name, between)
        print(f"{name}: {CASES} equal, {between} of them between 0 and 1")


main()
