"""Kinds of arguments that the scripts of this folder take, for argparse."""
import argparse


def at_least_one(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 on")
    return int(text)
