"""Counts words."""
import re


def words(text):
    """The words of a text in small letters; an apostrophe belongs to its word."""
    return re.findall(r"[a-z']+", text.lower())


def frequencies(text):
    """How often each word stands in a text."""
    counts = {}
    for word in words(text):
        counts[word] = counts.get(word, 0) + 1
    return counts


def most_frequent(text, n):
    """The n words that stand there most often, the most frequent first; of equals the first in the alphabet."""
    counts = frequencies(text)
    return sorted(counts, key=lambda word: (-counts[word], word))[:n]
