#!/usr/bin/env python3
"""reel beside PyTorch and OpenBLAS: same shapes, same cores, same number of threads, taking turns in one run.

    make peers                                 everything, about ten minutes on two cores
    build/venv/bin/python bench/peers.py --only gemm --rounds 5 --json FILE

Each round measures reel, then each peer, so that a slow moment of the machine hits all of them; the best round of each
counts, and the ratios of the rounds stand beside it: where they scatter, so does the best. A ratio above 1 means that
reel is faster. All f32. Peers get preallocated outputs where they accept them, and OpenBLAS the kernels of this CPU
where its own detection falls back to SSE (set OPENBLAS_CORETYPE to choose yourself).

  gemm       x W^T, dy W and dy^T x of a linear layer: torch.mm, cblas_sgemm
  attention  dense forward and backward: torch scaled_dot_product_attention
  blocks     forward over random blocks of 128 x 128, 90 % left out: torch FlexAttention, compiled, every block full
  train      one step of a Wan model of 4,096 tokens: diffusers on torch, time and memory (peers_train.py)
"""

import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers_train

REEL = Path(__file__).resolve().parent.parent / "build" / "reel"
SECONDS = 0.5  # of measuring for each peer and round, at least three calls

GEMM = [(4096, 1152, 1152), (4096, 4608, 1152)]  # m, n, k: x is m x k, W is n x k
ATTENTION = [(4, 2048, 64), (4, 8192, 64), (4, 2048, 128), (4, 8192, 128), (4, 5000, 72), (4, 5000, 96)]  # heads, S, d
BLOCKS = [(4, 8192, 64), (4, 8192, 128)]
BLOCK, SPARSITY = 128, 0.9


def best_seconds(work):
    work()
    best, end, calls = math.inf, time.perf_counter() + SECONDS, 0
    while calls < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
        calls += 1
    return best


def reel_rows(verb, threads, **options):
    """The rows of one `reel bench`, by case."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [REEL, "bench", verb, "--threads", str(threads), "--json", out.name]
        if verb != "train":
            command += ["--rounds", "3"]  # of 0.15 s for each case, about as long as peers get
        for name, value in options.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"peers: {' '.join(map(str, command))} failed:\n{run.stdout}{run.stderr}")
        return json.load(open(out.name))["rows"]


def row(rows, start):
    """The first row whose case starts so."""
    for each in rows:
        if each["case"].startswith(start + " "):
            return each
    sys.exit(f"peers: reel has no case that starts with '{start}', only {[each['case'] for each in rows]}")


class OpenBlas:
    """cblas_sgemm of libopenblas.so.0, or nothing where it is not installed."""

    # What Debian's build calls itself when it does not know the CPU.
    FALLBACKS = ("Prescott", "Core2", "Nehalem", "Penryn", "Dunnington", "Generic", "Unknown")

    def __init__(self, threads):
        self.name = None
        probe = "import ctypes as c; f = c.CDLL('libopenblas.so.0').openblas_get_corename; f.restype = c.c_char_p; print(f().decode())"
        run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
        if run.returncode != 0:
            print("peers: libopenblas.so.0 not found, OpenBLAS left out (Debian: libopenblas0-pthread)")
            return
        if "OPENBLAS_CORETYPE" not in os.environ and run.stdout.strip() in self.FALLBACKS:
            flags = Path("/proc/cpuinfo").read_text()
            better = "SKYLAKEX" if "avx512f" in flags else "HASWELL" if "avx2" in flags else None
            if better:
                os.environ["OPENBLAS_CORETYPE"] = better
        # Its own symbols first: torch brings another BLAS into the process.
        self.library = ctypes.CDLL("libopenblas.so.0", mode=os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        self.library.openblas_set_num_threads(threads)
        self.library.openblas_get_corename.restype = ctypes.c_char_p
        self.name = f"OpenBLAS {self.library.openblas_get_corename().decode()}"

    def gemm(self, a, b, out, transpose_a=False, transpose_b=False):
        """A call of out = a b for row-major torch tensors; transposed operands are given as stored."""
        m, n = out.shape
        k = a.shape[0] if transpose_a else a.shape[1]
        pointer = lambda t: ctypes.c_void_p(t.data_ptr())
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        order = [101, 112 if transpose_a else 111, 112 if transpose_b else 111, m, n, k, one]
        arguments = order + [pointer(a), a.shape[1], pointer(b), b.shape[1], zero, pointer(out), n]
        return lambda: self.library.cblas_sgemm(*arguments)


class Case:
    """One line of the table: reel and its peers on the same work. start: how the case begins in reel's rows."""

    def __init__(self, name, flops, start, peers):
        self.name, self.flops, self.start, self.peers = name, flops, start, peers
        self.gflops = {}  # the best so far
        self.rounds = {peer: [] for peer in peers}  # the ratio of each round
        self.share = None

    def play(self, rows):
        mine = row(rows, self.start)
        gflops = self.flops / mine["seconds"] / 1e9
        if gflops > self.gflops.get("reel", 0):
            self.gflops["reel"], self.share = gflops, mine["share_of_peak"]
        for peer, work in self.peers.items():
            theirs = self.flops / best_seconds(work) / 1e9
            self.gflops[peer] = max(self.gflops.get(peer, 0), theirs)
            self.rounds[peer].append(gflops / theirs)

    def ratios(self):
        return {peer: self.gflops["reel"] / self.gflops[peer] for peer in self.peers}

    def rows(self):
        """As `reel bench --json` writes them, one for each peer."""
        for peer, ratio in self.ratios().items():
            mine, theirs = self.gflops["reel"], self.gflops[peer]
            yield {
                "case": f"{self.name} against {peer}",
                "seconds": self.flops / mine / 1e9,
                "gflops": mine,
                "share_of_peak": self.share,
                "peer_seconds": self.flops / theirs / 1e9,
                "peer_gflops": theirs,
                "speedup": ratio,
                "speedup_of_rounds": self.rounds[peer],
            }


def gemm_groups(torch, threads):
    blas = OpenBlas(threads)
    for m, n, k in GEMM:
        x, w, dy = torch.randn(m, k), torch.randn(n, k), torch.randn(m, n)
        y, dx, dw = torch.empty(m, n), torch.empty(m, k), torch.empty(n, k)
        peers = {
            "x W^T": {"torch": lambda x=x, w=w, y=y: torch.mm(x, w.t(), out=y)},
            "dy W": {"torch": lambda dy=dy, w=w, dx=dx: torch.mm(dy, w, out=dx)},
            "dy^T x": {"torch": lambda dy=dy, x=x, dw=dw: torch.mm(dy.t(), x, out=dw)},
        }
        if blas.name:
            peers["x W^T"][blas.name] = blas.gemm(x, w, y, transpose_b=True)
            peers["dy W"][blas.name] = blas.gemm(dy, w, dx)
            peers["dy^T x"][blas.name] = blas.gemm(dy, x, dw, transpose_a=True)
        cases = [Case(f"{form} {m}x{n}x{k}", 2 * m * n * k, form, peers[form]) for form in peers]
        yield cases, lambda m=m, n=n, k=k: reel_rows("gemm", threads, m=m, n=n, k=k)


def attention_groups(torch, threads):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    for heads, tokens, d in ATTENTION:
        q, k, v = (torch.randn(1, heads, tokens, d, requires_grad=True) for _ in range(3))
        out, dout = sdpa(q, k, v), torch.randn(1, heads, tokens, d)

        def forward(q=q, k=k, v=v):
            with torch.no_grad():
                sdpa(q, k, v)

        def backward(q=q, k=k, v=v, out=out, dout=dout):
            torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

        product = 2 * heads * tokens * tokens * d  # forward has two of them, backward five
        shape = f"{heads}x{tokens}x{d}"
        cases = [
            Case(f"dense forward {shape}", 2 * product, "dense forward", {"torch": forward}),
            Case(f"dense backward {shape}", 5 * product, "dense backward", {"torch": backward}),
        ]
        yield cases, lambda h=heads, s=tokens, d=d: reel_rows("attention", threads, heads=h, tokens=s, head_dim=d)


def key_lists(torch, chosen, tokens):
    """The blocks [1, heads, query blocks, kept] as a file of key lists (src/reel/lists/key_lists.h), in tiles of 64 keys."""
    tiles = BLOCK // 64
    keys = (chosen[..., None] * tiles + torch.arange(tiles)).flatten(3)
    _, heads, groups, kept = keys.shape
    tensors = {
        "keys": (keys.flatten().to(torch.int32), "I32"),
        "offsets": (torch.arange(heads * groups + 1) * kept, "I64"),
        "group_starts": (torch.arange(0, tokens + 1, BLOCK, dtype=torch.int32), "I32"),
        "dense_heads": (torch.zeros(1, heads, dtype=torch.uint8), "U8"),
    }
    header, data = {"__metadata__": {"keys_tokens": str(tokens), "granularity": "64"}}, b""
    for name, (tensor, dtype) in tensors.items():
        more = tensor.numpy().tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def blocks_groups(torch, threads):
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    compiled = torch.compile(flex_attention)
    for heads, tokens, d in BLOCKS:
        q, k, v = (torch.randn(1, heads, tokens, d) for _ in range(3))
        blocks = tokens // BLOCK
        kept = round(blocks * (1 - SPARSITY))
        # Each row of blocks gets its kept key blocks first, sorted; the rest of the row is not read. All of them are
        # full blocks, which is FlexAttention's fastest kind: no mask is evaluated.
        chosen = torch.argsort(torch.rand(1, heads, blocks, blocks), dim=-1)[..., :kept].sort(-1).values
        indices = torch.zeros(1, heads, blocks, blocks, dtype=torch.int32)
        indices[..., :kept] = chosen
        counts = torch.full((1, heads, blocks), kept, dtype=torch.int32)
        mask = BlockMask.from_kv_blocks(
            torch.zeros_like(counts), torch.zeros_like(indices), counts, indices, BLOCK, seq_lengths=(tokens, tokens)
        )

        def forward(q=q, k=k, v=v, mask=mask):
            with torch.no_grad():
                return compiled(q, k, v, block_mask=mask)

        keep = torch.zeros(1, heads, blocks, blocks, dtype=torch.bool).scatter_(3, chosen, True)
        keep = keep[:, :1].repeat_interleave(BLOCK, 2).repeat_interleave(BLOCK, 3)
        expected = torch.nn.functional.scaled_dot_product_attention(q[:, :1], k[:, :1], v[:, :1], attn_mask=keep)
        difference = (forward()[:, :1] - expected).abs().max().item()
        if difference > 1e-4:
            sys.exit(f"peers: FlexAttention does not compute this mask (off by {difference})")

        flops = 4 * heads * blocks * kept * BLOCK * BLOCK * d
        name = f"sparse forward {heads}x{tokens}x{d}, blocks of {BLOCK}"
        case = Case(name, flops, "sparse forward", {"FlexAttention": forward})
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(key_lists(torch, chosen, tokens))
            file.flush()
            yield [case], lambda file=file, d=d: reel_rows("attention", threads, lists=file.name, head_dim=d)


def print_table(cases):
    width = max(len(case.name) for case in cases)
    print(f"\n{'case':{width}}  reel GFLOP/s  of peak   peer                   GFLOP/s  reel/peer  rounds: median (range)")
    for case in cases:
        head = f"{case.name:{width}}  {case.gflops['reel']:12.1f}  {case.share:7.2f}"
        for peer, ratio in case.ratios().items():
            rounds = case.rounds[peer]
            print(
                f"{head}   {peer:20}  {case.gflops[peer]:8.1f}  {ratio:9.2f}"
                f"  {statistics.median(rounds):14.2f} ({min(rounds):.2f}-{max(rounds):.2f})"
            )
            head = " " * len(head)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["gemm", "attention", "blocks", "train"], help="one of the comparisons")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    options = parser.parse_args()
    if not REEL.exists():
        sys.exit(f"peers: {REEL} is not there; run `make build`")
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    print(f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), {options.threads} threads, {options.rounds} rounds")

    cases = []
    for kind, groups in [("gemm", gemm_groups), ("attention", attention_groups), ("blocks", blocks_groups)]:
        if options.only not in (None, kind):
            continue
        first = len(cases)
        for group, measure_reel in groups(torch, options.threads):
            for _ in range(options.rounds):
                rows = measure_reel()
                for case in group:
                    case.play(rows)
                time.sleep(0.2)  # idle threads of the peers spin for a while; reel's next round shall not meet them
            cases += group
        print_table(cases[first:])
        ratios = [ratio for case in cases[first:] for ratio in case.ratios().values()]
        medians = [statistics.median(rounds) for case in cases[first:] for rounds in case.rounds.values()]
        for what, values in [(kind, ratios), ("medians of the rounds", medians)]:
            print(f"{what}: geometric mean {statistics.geometric_mean(values):.2f}, lowest {min(values):.2f}")

    train = []
    if options.only in (None, "train"):
        measure_reel = lambda: row(reel_rows("train", options.threads), "train")
        train.append(peers_train.compare(measure_reel, options.threads, options.rounds))

    if options.json:
        machine = {"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability(), "threads": options.threads}
        result = {"machine": machine, "rows": [each for case in cases for each in case.rows()], "train": train}
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
