"""Texts that the built-in model takes as its own: for scripts/soak, soak_store, kill_server, kill_replica and kill_rpc_server."""
WORDS = "the sky is blue and the grass is green so we go on to see what the sun and the rain will do".split()


def words(draw, n):
    return " ".join(draw.choice(WORDS) for _ in range(n))
