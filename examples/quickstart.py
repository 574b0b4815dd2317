"""quickstart.py - the same as quickstart.cpp, through Python.   python quickstart.py MODEL.gguf "some text" """
import sys

import pith


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: quickstart.py MODEL.gguf TEXT")
    model = pith.Model(sys.argv[1])
    session = model.session(policy="snapkv", budget="256")
    session.prefill(model.tokenize(sys.argv[2]))
    for token in session.generate(32):
        sys.stdout.buffer.write(model.piece(token))
    print(f"\n{session.ledger()['kv_allocated_bytes']} bytes of KV cache")


if __name__ == "__main__":
    try:
        main()
    except pith.Error as error:
        sys.exit(f"error: {error}")
