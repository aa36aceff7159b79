#!/usr/bin/env python3
"""Prints tests/metrics_values.cpp: random examples, and what other software says of them.

Usage: metrics_values.py > metrics_values.cpp. Needs NumPy, scikit-learn (classes, rankings, regression), NLTK (edit
distances, and BLEU without smoothing), sacrebleu (BLEU) and TensorFlow (losses of tokens, top k).
"""
import math
import os
import random
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.filterwarnings("ignore")

import nltk
import numpy as np
import sacrebleu
import sklearn
import sklearn.metrics as sk
import tensorflow as tf
from nltk.translate.bleu_score import corpus_bleu
from sacrebleu.metrics import BLEU

WIDTH = 118


class Text(str):
    """What is printed as a string of C++."""


def cell(value):
    if isinstance(value, Text):
        return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
                             for b in value.encode("utf-8")) + '"'
    if isinstance(value, (list, tuple, np.ndarray)):
        return "{" + ", ".join(cell(one) for one in value) + "}"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    assert math.isfinite(value)
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text


def show(kind, name, rows):
    print(f"const std::vector<{kind}> {name} = {{")
    for row in rows:
        line, words = "    ", (cell(list(row)) + ",").split(" ")
        for word in words:
            if len(line) + len(word) + 1 > WIDTH:
                print(line.rstrip())
                line = "     "
            line += word + " "
        print(line.rstrip())
    print("};\n")


def weights_of(dice, count):
    """Multiples of 1/4, some of them 0."""
    return dice.integers(0, 9, count) / 4


def classes_row(dice, classes, count, skill):
    scores = np.array([dice.choice(4 * classes, classes, replace=False) for _ in range(count)]) / 8 - classes / 4
    labels = np.array([row.argmax() if dice.random() < skill else dice.integers(classes) for row in scores])
    guesses, weights, every = scores.argmax(1), weights_of(dice, count), list(range(classes))
    top2 = [sk.top_k_accuracy_score(labels, scores, k=2, labels=every, sample_weight=w) for w in (None, weights)]
    inside = tf.math.in_top_k(labels, scores.astype(np.float32), 2).numpy()
    assert abs(inside.mean() - top2[0]) < 1e-12  # no ties here: both must say the same
    known = dict(labels=every)

    def averages(zero_division):
        each = [sk.precision_recall_fscore_support(labels, guesses, average=a, zero_division=zero_division, **known)[:3]
                for a in ("macro", "micro", "weighted")]
        return [each[a][score] for score in range(3) for a in range(3)]

    by_class = sk.precision_recall_fscore_support(labels, guesses, zero_division=0, **known)[:3]
    return (classes, scores.ravel(), labels, weights, sk.accuracy_score(labels, guesses),
            sk.accuracy_score(labels, guesses, sample_weight=weights), *top2, sk.cohen_kappa_score(labels, guesses),
            sk.matthews_corrcoef(labels, guesses), sk.confusion_matrix(labels, guesses, **known).ravel(), *by_class,
            averages(0), averages(np.nan))


def binary_row(dice, count, steps, skill):
    scores = dice.integers(0, steps + 1, count) / steps  # few steps: many ties
    labels = np.where(dice.random(count) < skill, scores > 0.5, dice.random(count) < 0.4).astype(int)
    labels[:2] = (0, 1)
    weights = weights_of(dice, count)
    weights[:2] = (0.5, 0.25)
    guesses = scores > 0.5
    return (scores, labels, weights, sk.accuracy_score(labels, guesses),
            sk.accuracy_score(labels, guesses, sample_weight=weights),
            sk.precision_score(labels, guesses, zero_division=0), sk.recall_score(labels, guesses, zero_division=0),
            sk.f1_score(labels, guesses, zero_division=0), sk.roc_auc_score(labels, scores),
            sk.roc_auc_score(labels, scores, sample_weight=weights), sk.average_precision_score(labels, scores),
            sk.average_precision_score(labels, scores, sample_weight=weights))


def regression_row(dice, count, noise, shift):
    targets = np.round(dice.normal(size=count), 3) + shift
    targets = np.round(targets, 3)
    predictions = np.round(targets + noise * dice.normal(size=count), 3)
    weights = weights_of(dice, count)
    scores = []
    for w in (None, weights):
        squared = sk.mean_squared_error(targets, predictions, sample_weight=w)
        scores += [sk.mean_absolute_error(targets, predictions, sample_weight=w), squared, math.sqrt(squared),
                   sk.r2_score(targets, predictions, sample_weight=w)]
    return (predictions, targets, weights, *scores)


def perplexity_row(dice, tokens, count):
    logits = np.round(2 * dice.normal(size=(count, tokens)), 2)
    labels, weights = dice.integers(0, tokens, count), weights_of(dice, count)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.constant(logits, tf.float64)).numpy()
    return (tokens, logits.ravel(), labels, weights, math.exp(losses.mean()),
            math.exp(np.average(losses, weights=weights)))


def bleu_row(dice, sentences, vocabulary, longest, max_order):
    def changed(tokens):
        """A reference: the candidate with some tokens replaced, left out or added."""
        out = []
        for token in tokens:
            chance = dice.random()
            if chance < 0.6:
                out.append(token)
            elif chance < 0.75:
                out.append(dice.randrange(vocabulary))
            elif chance < 0.88:
                out += [token, dice.randrange(vocabulary)]
        return out or [dice.randrange(vocabulary)]

    candidates = [[dice.randrange(vocabulary) for _ in range(dice.randint(1, longest))] for _ in range(sentences)]
    count = dice.randint(1, 3)
    references = [[changed(candidate) for _ in range(count)] for candidate in candidates]
    words = [" ".join(map(str, c)) for c in candidates]
    streams = [[" ".join(map(str, r[i])) for r in references] for i in range(count)]

    def score(method, effective=False):
        bleu = BLEU(tokenize="none", smooth_method=method, max_ngram_order=max_order, effective_order=effective)
        return bleu.corpus_score(words, streams).score / 100

    none = score("none")
    if none > 0 and min(map(len, candidates)) >= max_order:  # else NLTK counts an n-gram that is not there
        assert abs(corpus_bleu(references, candidates, weights=[1 / max_order] * max_order) - none) < 1e-12
    return (max_order, candidates, references, none, score("add-k"), score("exp"), score("none", True))


def edit_row(dice, alphabet, longest):
    a = "".join(dice.choice(alphabet) for _ in range(dice.randint(0, longest)))
    b = "".join(c for c in a if dice.random() < 0.7) if dice.random() < 0.5 else ""
    b += "".join(dice.choice(alphabet) for _ in range(dice.randint(0, longest // 2)))
    return Text(a), Text(b), nltk.edit_distance(a, b)


def main():
    dice, coins = np.random.default_rng(8), random.Random(8)
    print(f"// Made by tests/metrics_values.py with scikit-learn {sklearn.__version__}, NLTK {nltk.__version__}, "
          f"sacrebleu {sacrebleu.__version__} and\n// TensorFlow {tf.__version__}. Do not edit.\n")
    print('#include "tests/metrics_values.hpp"\n\nnamespace tests {\n')
    print("// clang-format off")
    show("ClassesRow", "classes_rows", [classes_row(dice, c, n, s) for c, n, s in (
        (3, 1, 0), (3, 12, 0.5), (4, 20, 0.8), (5, 9, 0.2), (6, 30, 0.6), (8, 7, 0.5), (4, 15, 1), (3, 40, 0.1))])
    show("BinaryRow", "binary_rows", [binary_row(dice, n, steps, s) for n, steps, s in (
        (2, 4, 0), (9, 3, 0.5), (20, 4, 0.7), (30, 100, 0.5), (25, 1, 0.2), (40, 8, 0.9), (15, 1000, 0))])
    show("RegressionRow", "regression_rows", [regression_row(dice, n, noise, shift) for n, noise, shift in (
        (5, 0.1, 0), (12, 1, 0), (20, 0.5, -3), (20, 0.25, 1000))])
    show("PerplexityRow", "perplexity_rows", [perplexity_row(dice, t, n) for t, n in ((2, 4), (5, 12), (11, 6))])
    show("BleuRow", "bleu_rows", [bleu_row(coins, s, v, longest, order) for s, v, longest, order in (
        (1, 9, 12, 4), (1, 4, 3, 4), (3, 6, 10, 4), (5, 30, 14, 4), (4, 5, 8, 2), (6, 12, 20, 3), (2, 3, 9, 4),
        (3, 50, 6, 4), (2, 40, 2, 4), (4, 8, 15, 6))])
    show("EditRow", "edit_rows", [edit_row(coins, alphabet, longest) for alphabet, longest in (
        ("ab", 5), ("ab", 12), ("abc", 9), ("abcd", 20), ("a", 6), ("a\u00e4\u20ac\U0001f600", 10), ("xyz", 40),
        ("ab", 0), ("\u00e9e\u0301", 8), ("abcdefghij", 30))])
    print("// clang-format on\n\n}  // namespace tests")


if __name__ == "__main__":
    main()
