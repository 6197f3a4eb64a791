#!/usr/bin/env python3
"""Writes docs/validation.md: reel's predictions compared with published measurements.

Everything is asked of the program itself (simulate collective, calibrate, overlap, --table), so the page shows what a
user gets. Single figures are read from tests/published.csv, whole tables from the folder REEL_DATA. A section whose table
is not there is left out; the page and the last lines on the screen name it.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile

MEGA = 1 << 20
HOME = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


class Reel:
    def __init__(self, program):
        self.program = program
        self.temporary = tempfile.TemporaryDirectory(prefix="reel-validate-")
        self.folder = self.temporary.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words):
        done = subprocess.run([self.program, "simulate", *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"reel simulate {' '.join(words)}\n{done.stderr}")
        return done.stdout

    def table(self, rows, *words):
        """Runs a verb on a table; rows and results are dicts, in the same order."""
        write_csv(self.path("in.csv"), rows)
        self.run(*words, "--table", self.path("in.csv"), "--out", self.path("out.csv"))
        return read_csv(self.path("out.csv"))


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def figures_of(table):
    """Rows of tests/published.csv: what was measured, as a dict of keys of a job or columns of a table, and its value."""
    rows = [row for row in read_csv(os.path.join(HOME, "tests/published.csv")) if row["table"] == table]
    return [(dict(word.split("=") for word in row["what"].split()), float(row["value"])) for row in rows]


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def percent(value):
    return f"{100 * value:.1f} %"


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def score(predicted, measured):
    return [abs(p / m - 1) for p, m in zip(predicted, measured)]


STEPS = []  # rows of the summary of training steps, in the order of the sections


def steps_scored(name, predicted, measured, rates=False):
    """The sentence with a table's errors, which are kept for the summary. rates: tokens per second, not seconds."""
    errors = score(predicted, measured)
    bias = mean([p / m - 1 for p, m in zip(predicted, measured)])
    direction = "slow" if (bias < 0) == rates else "fast"
    row = (name, len(errors), percent(mean(errors)), percent(max(errors)), f"{percent(abs(bias))} too {direction}")
    STEPS.append(row)
    median = percent(statistics.median(errors))
    return f"{row[1]} rows: mean error {row[2]}, median {median}, worst {row[3]}; on average {row[4]}.\n"


# ---------------------------------------------------------------------------------------------------- collectives


def collective_errors(reel, cluster, calls):
    rows = [{"op": c["op"], "devices": c["devices"], "per_node": c["per_node"], "bytes": c["bytes"]} for c in calls]
    out = reel.table(rows, "collective", "--cluster", cluster)
    return score([float(r["seconds"]) for r in out], [c["seconds"] for c in calls])


def calibrated(reel, start, calls, name):
    write_csv(reel.path("calls.csv"), calls)
    path = reel.path(name + ".toml")
    reel.run("calibrate", "--cluster", start, "--table", reel.path("calls.csv"), "--out", path)
    return path


def left_out(reel, start, calls):
    """Error of each call, predicted by a fit on the other device counts."""
    errors = []
    for count in sorted({c["devices"] for c in calls}):
        path = calibrated(reel, start, [c for c in calls if c["devices"] != count], f"without-{count}")
        some = [c for c in calls if c["devices"] == count]
        errors += list(zip(some, collective_errors(reel, path, some)))
    return errors


def a100_calls(path):
    calls = []
    for row in read_csv(path):
        gpus, size = int(row["gpus"]), int(row["size_B"])
        if gpus == 1 or (gpus, size) == (64, 1024):  # one device; the warm-up row of a file
            continue
        calls.append({"op": "all_reduce", "devices": gpus, "per_node": min(gpus, 8), "bytes": size,
                      "seconds": float(row["oop_time_us"]) * 1e-6})
    return calls


def by_count(pairs):
    rows = []
    for count in sorted({c["devices"] for c, _ in pairs}):
        large = [e for c, e in pairs if c["devices"] == count and c["bytes"] >= MEGA]
        small = [e for c, e in pairs if c["devices"] == count and c["bytes"] < MEGA]
        rows.append((count, len(large), percent(mean(large)), percent(max(large)), len(small),
                     percent(mean(small)) if small else "-"))
    large = [e for c, e in pairs if c["bytes"] >= MEGA]
    small = [e for c, e in pairs if c["bytes"] < MEGA]
    rows.append(("all", len(large), percent(mean(large)), percent(max(large)), len(small), percent(mean(small))))
    return rows


A100_NOTE = """
What no count tells another: which algorithm NCCL takes. Its estimates for rings and trees are within 10 % of each other at
8 and 16 MB on 16 GPUs and at 64 MB on 64. That trees run at two nodes where rings would at eight was seen in these calls
(and is what two nodes allow: a tree then moves half of a ring's bytes between them), so that the shape of the model, other
than its constants, was not left out. The calls themselves scatter: on 64 GPUs the one of 64 MB takes 14 % longer than the
line between its neighbours, and that of 1 GB more than twice as long as that of 512 MB.
"""


def a100_section(reel, path):
    calls = a100_calls(path)
    head = ("GPUs", "calls from 1 MB on", "mean", "worst", "calls below", "mean")
    text = "## All-reduce on A100\n\nnccl-tests on Azure ND A100 v4, out of place (NetX-lab/Echo, nccl-test-log). "
    text += "Fitted: `a100-azure`, on these counts.\n\n"
    text += markdown(head, by_count(list(zip(calls, collective_errors(reel, "a100-azure", calls)))))
    text += ("\nLeft out: each count predicted by `simulate calibrate` on the others, starting from `a100-selene`, which"
             " was not fitted to these calls. With 16 or 64 left out, the network rests on a single count.\n\n")
    text += markdown(head, by_count(left_out(reel, "a100-selene", calls)))
    return text + A100_NOTE


def lut_section(reel, path):
    calls = []
    for row in read_csv(path):
        size = int(row["size_B"])
        if row["gpu"] == "a100" and (size // MEGA) & (size // MEGA - 1) == 0:
            calls.append({"op": "all_reduce", "devices": int(row["ngpus"]), "per_node": int(row["ngpus"]),
                          "bytes": size, "seconds": float(row["oop_time_ns"]) * 1e-9})
    pairs = list(zip(calls, collective_errors(reel, "a100-selene", calls)))
    rows = []
    for count in sorted({c["devices"] for c in calls}):
        some = [e for c, e in pairs if c["devices"] == count]
        rows.append((count, len(some), percent(mean(some)), percent(max(some))))
    text = "## All-reduce inside a node of A100\n\nvTrain's table (VIA-Research/vTrain), powers of two from 1 MB to 1 GB; "
    return text + "`a100-selene`, fitted on them.\n\n" + markdown(("GPUs", "calls", "mean", "worst"), rows)


def h800_with_links_of_h100(reel):
    """Where fits to H100 begin: nominal links, and the NVLS bandwidth that ml-engineering published."""
    links = {"nvlink": "370e9", "nvls_bandwidth": "473e9", "intra_bandwidth": "[8e9, 320e9, 350e9]"}
    with open(os.path.join(HOME, "clusters/h800.toml"), encoding="utf-8") as file:
        lines = file.read().split("\n")
    path = reel.path("start.toml")
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            key = line.split(" = ")[0]
            file.write((f"{key} = {links[key]}" if key in links else line) + "\n")
    return path


def h100_section(reel, path):
    names = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
    calls = []
    for row in read_csv(path):
        op = row["collective"].removesuffix("_perf")
        per_node = int(row["gpus_per_node"])
        calls.append({"op": names.get(op, op), "devices": int(row["nodes"]) * per_node, "per_node": per_node,
                      "bytes": int(row["size_B"]), "seconds": float(row["oop_time_us"]) * 1e-6})
    fitted = list(zip(calls, collective_errors(reel, "h100-ndr400", calls)))
    left = left_out(reel, h800_with_links_of_h100(reel), calls)
    rows = []
    for op in sorted({c["op"] for c in calls}):
        def pick(pairs, large, op=op):
            return [e for c, e in pairs if c["op"] == op and (c["bytes"] >= 255 * MEGA) == large]
        rows.append((op, percent(mean(pick(fitted, True))), percent(max(pick(fitted, True))),
                     percent(mean(pick(left, True))), percent(max(pick(left, True))), percent(mean(pick(fitted, False)))))
    text = ("## Collectives on H100\n\nnccl-tests on 1 and 10 nodes with NDR400 (xxrjun/nccl-tests-cluster). Fitted: "
            "`h100-ndr400`. Left out: each device count predicted by a fit on the others, which starts from `h800` with"
            " the nominal links of H100.\n\n")
    return text + markdown(("op", "fitted, from 256 MB on", "worst", "left out", "worst", "fitted, 32 to 128 MB"), rows)


# -------------------------------------------------------------------------------------------------------- overlap


def slowdown_section(reel):
    rows = []
    for what, measured in figures_of("echo-slowdown"):
        call = {k: what[k] for k in ("op", "devices", "per_node", "bytes")}
        words = [w for k, v in call.items() for w in ("--" + k.replace("_", "-"), v)]
        out = reel.table([{"kernel": what["kernel"], "alone": 1}], "overlap", "--cluster", "a100-azure", *words)
        predicted = float(out[0]["slowdown"])
        rows.append((what["kernel"], f"{measured:.2f}", f"{predicted:.2f}", percent(predicted / measured - 1)))
    text = ("## Compute beside communication\n\nSlowdown of a kernel next to an all-reduce of 25 MB on eight A100 (arXiv"
            " 2412.12487). A sum is slowed far too little.\n\n")
    return text + markdown(("kernel", "published", "predicted", "error"), rows)


def overlap_section(reel, path):
    rows = [r for r in read_csv(path) if float(r["overlap_ratio"]) > 0]
    alone = [float(r["ground_truth"]) for r in rows]
    overlapped = [float(r["duration"]) for r in rows]
    names = [r["kShortName"] for r in rows]
    ratio = [o / a for o, a in zip(overlapped, alone)]
    table = [{"kernel": n, "alone": a, "sms": float(r["Compute throughput"]) / 100,
              "memory": float(r["DRAM throughput"]) / 100, "overlap": r["overlap_ratio"], "taken_sms": 2 / 108,
              "taken_memory": 2.5 * 20e9 / 1.555e12} for n, a, r in zip(names, alone, rows)]
    contended = reel.table(table, "overlap", "--cluster", "a100-azure")
    contention = score([float(r["overlapped"]) for r in contended], overlapped)
    none = score(alone, overlapped)
    unseen_constant = []
    for name, a, o in zip(names, alone, overlapped):
        others = statistics.median(r for n, r in zip(names, ratio) if n != name)
        unseen_constant.append(abs(a * others / o - 1))
    constant = statistics.median(ratio)
    # Seen: every second row of each kernel is given as a measured table, the others are predicted.
    seen, rest, count = [], [], {}
    for i, name in enumerate(names):
        count[name] = count.get(name, 0) + 1
        (seen if count[name] % 2 == 1 else rest).append(i)
    write_csv(reel.path("seen.csv"), [{"kernel": names[i], "alone": alone[i], "overlapped": overlapped[i]} for i in seen])
    known = [dict(table[i], overlap=1) for i in rest]
    out = reel.table(known, "overlap", "--cluster", "a100-azure", "--measured", reel.path("seen.csv"))
    measured = score([float(r["overlapped"]) for r in out], [overlapped[i] for i in rest])
    slowed = sum(float(r["slowdown"]) > 1 for r in contended)
    text = (f"### Kernels of a training step\n\n{len(rows)} kernels of GPT-2, data parallel on two A100 (NetX-lab/Echo-slowdown); mean"
            " relative error of a kernel's time. Two channels and 20 GB/s of PCIe are assumed for the collective."
            f" Contention slows {slowed} of the kernels: here it is no better than to predict no slowdown. Only other"
            " measurements of the same kernel help, and little.\n\n")
    text += markdown(("prediction", "kernels", "mean error"), [
        ("no slowdown", len(rows), percent(mean(none))),
        ("constant, median of all", len(rows), percent(mean(score([a * constant for a in alone], overlapped)))),
        ("unseen: constant, median of all other kernels", len(rows), percent(mean(unseen_constant))),
        ("unseen: contention", len(rows), percent(mean(contention))),
        ("seen: constant, on every second row of a kernel", len(rest), percent(mean([none[i] for i in rest]))),
        ("seen: medians of a kernel's other rows (`--measured`)", len(rest), percent(mean(measured))),
    ])
    return text


# ---------------------------------------------------------------------------------------------------------- steps


def step_seconds(reel, cluster, jobs):
    return [float(r["step_seconds"]) for r in reel.table(jobs, "--cluster", cluster)]


def gpt(hidden, layers, heads, tensor, pipeline, data, batch, micro, **more):
    job = {"model.kind": "gpt", "model.hidden": hidden, "model.layers": layers, "model.heads": heads,
           "model.vocab": 51200, "model.sequence": 2048, "model.flash": "false", "parallel.tensor": tensor,
           "parallel.pipeline": pipeline, "parallel.data": data, "parallel.interleave": 1,
           "parallel.sequence_parallel": "false", "batch.global": batch, "batch.micro": micro,
           "memory.recompute": "full", "memory.gradients": "bf16", "overlap.gradients": "false"}
    return job | more


def vtrain_section(reel, path):
    rows = read_csv(path)
    measured = [float(r["iteration time (ms)"]) / 1e3 for r in rows]
    names = ("hidden size", "# layers", "attention heads", "tensor parallelism", "pipeline parallelism", "data parallelism",
             "global batch", "micro batch")
    predicted = step_seconds(reel, "a100-selene", [gpt(*(int(r[n]) for n in names)) for r in rows])
    errors = score(predicted, measured)
    groups = []
    for size in ("3.6", "39.1"):
        for tensor in sorted({int(r["tensor parallelism"]) for r in rows if r["Parameters (billion)"] == size}):
            at = [i for i, r in enumerate(rows)
                  if r["Parameters (billion)"] == size and int(r["tensor parallelism"]) == tensor]
            groups.append((f"{size}B, tensor {tensor}", len(at), percent(mean([errors[i] for i in at])),
                           percent(mean([predicted[i] / measured[i] - 1 for i in at]))))
    groups.append(("all", len(rows), percent(mean(errors)), percent(mean([p / m - 1 for p, m in zip(predicted, measured)]))))
    text = ("## Training steps: vTrain, 64 and 512 A100\n\nMeasured Megatron iterations (VIA-Research/vTrain), full"
            " recompute, `a100-selene`. vTrain itself publishes 14.7 % on its 109 rows.\n\n")
    text += steps_scored("vTrain, 64 and 512 A100", predicted, measured) + "\n"
    text += markdown(("rows", "count", "mean error", "mean bias"), groups)
    worst = sorted(range(len(rows)), key=lambda i: -errors[i])[:8]
    text += "\nThe eight worst:\n\n" + markdown(
        ("model", "tensor x data x pipeline", "micro-batch", "measured s", "predicted s", "error"),
        [(rows[i]["Parameters (billion)"] + "B", f'{rows[i]["tensor parallelism"]} x {rows[i]["data parallelism"]} x '
          f'{rows[i]["pipeline parallelism"]}', rows[i]["micro batch"], f"{measured[i]:.2f}", f"{predicted[i]:.2f}",
          percent(predicted[i] / measured[i] - 1)) for i in worst])
    return text


MEGATRON_NOTE = """Table 1 of arXiv 2104.04473, seconds from its TFLOP/s; `a100-selene`. These runs used the interleaved
schedule with scatter and gather of the messages (section 5.1 of the paper). Not published are the micro-batches and how many
chunks of layers a stage had: of micro-batches of 1 to 16 and of 1 to 4 chunks those that are predicted to be fastest and
fit in memory are taken. All rows are then predicted too fast.

"""


def megatron_seconds(job, teraflops):
    """Equation 3 of the paper."""
    h, l, batch = (int(job[k]) for k in ("model.hidden", "model.layers", "batch.global"))
    work = 96 * batch * 2048 * l * h**2 * (1 + 2048 / (6 * h) + 51200 / (16 * l * h))
    return work / (devices_of(job) * teraflops * 1e12)


def devices_of(job):
    return int(job["parallel.tensor"]) * int(job["parallel.pipeline"]) * int(job["parallel.data"])


def schedules(job):
    """The job with every legal micro-batch of 1 to 16 and 1 to 4 chunks."""
    stages = int(job["parallel.pipeline"])
    slice_, stage_layers = int(job["batch.global"]) // int(job["parallel.data"]), int(job["model.layers"]) // stages
    for micro in (1, 2, 4, 8, 16):
        for chunks in (1, 2, 3, 4) if stages > 1 else (1,):
            if slice_ % micro == 0 and stage_layers % chunks == 0 and (chunks == 1 or slice_ // micro % stages == 0):
                yield job | {"batch.micro": micro, "parallel.interleave": chunks}


def megatron_section(reel):
    rows, predicted, measured = [], [], []
    for job, teraflops in figures_of("megatron-2021"):
        jobs = list(schedules(job))
        results = [r for r in reel.table(jobs, "--cluster", "a100-selene") if r["fits"] == "true"]
        best = min(results, key=lambda r: float(r["step_seconds"]))
        predicted.append(float(best["step_seconds"]))
        measured.append(megatron_seconds(job, teraflops))
        size = 12 * int(job["model.layers"]) * int(job["model.hidden"]) ** 2 / 1e9
        rows.append((f"{size:.1f}B", devices_of(job), f'{job["parallel.tensor"]} x {job["parallel.pipeline"]}',
                     best["batch.micro"], best["parallel.interleave"], f"{measured[-1]:.2f}", f"{predicted[-1]:.2f}",
                     percent(predicted[-1] / measured[-1] - 1)))
    text = "## Training steps: Megatron-LM of 2021, 32 to 3,072 A100\n\n" + MEGATRON_NOTE
    text += steps_scored("Megatron-LM of 2021, interleaved, 32 to 3,072 A100", predicted, measured) + "\n"
    return text + markdown(("model", "GPUs", "tensor x pipeline", "micro-batch", "chunks", "published s", "predicted s",
                            "error"), rows)


# model, hidden, layers, heads, tensor, pipeline, interleave, GPUs, batch, micro; recompute: seconds, Calculon's.
# Published: arXiv 2205.05198, table 5. Calculon: its own `llm-validation`, commit caa4b11.
SELECTIVE = [
    ("22B", 6144, 48, 64, 8, 1, 1, 8, 4, 4, 1.42, 1.40, 1.10, 1.14),
    ("175B", 12288, 96, 96, 8, 8, 3, 64, 64, 1, 18.13, 18.03, 13.75, 13.64),
    ("530B", 20480, 105, 128, 8, 35, 3, 280, 280, 1, 49.05, 49.89, 37.83, 34.47),
    ("1T", 25600, 128, 160, 8, 64, 1, 512, 512, 1, 94.42, 90.08, 71.49, 66.04),
]


def selective_section(reel):
    jobs, measured, calculon, names = [], [], [], []
    for name, h, l, a, t, p, v, n, b, m, full, calc_full, selective, calc_selective in SELECTIVE:
        common = {"parallel.interleave": v}
        jobs.append(gpt(h, l, a, t, p, n // (t * p), b, m, **common))
        jobs.append(gpt(h, l, a, t, p, n // (t * p), b, m, **common, **{
            "memory.recompute": "selective", "parallel.sequence_parallel": "true"}))
        measured += [full, selective]
        calculon += [calc_full, calc_selective]
        names += [f"{name}, full recompute", f"{name}, selective, sequence parallel"]
    predicted = step_seconds(reel, "a100-selene", jobs)
    rows = [(n, f"{m:.2f}", f"{p:.2f}", percent(p / m - 1), percent(c / m - 1))
            for n, m, p, c in zip(names, measured, predicted, calculon)]
    text = ("## Training steps: selective recompute, 8 to 512 A100\n\nTable 5 of arXiv 2205.05198, the table that"
            " Calculon was validated with.\n\n")
    text += steps_scored("Megatron-LM of 2022, full and selective recompute, 8 to 512 A100", predicted, measured)
    text += f"Calculon: mean error {percent(mean(score(calculon, measured)))}.\n\n"
    return text + markdown(("model", "published s", "predicted s", "error", "Calculon"), rows)


# Models of Megatron-Bridge's table: hidden, layers, heads, kv_heads, head_dim, ffn (of an expert), vocabulary, experts,
# top_k. GPT OSS attends to 128 tokens in every other layer; here to all.
BRIDGE = {"LLAMA3_8B": (4096, 32, 32, 8, 128, 14336, 128256, 0, 1),
          "LLAMA3_70B": (8192, 80, 64, 8, 128, 28672, 128256, 0, 1),
          "LLAMA3.1_405B": (16384, 126, 128, 8, 128, 53248, 128256, 0, 1),
          "GPT OSS 120B": (2880, 36, 64, 8, 64, 2880, 201088, 128, 4),
          "Qwen3_30B_a3B": (2048, 48, 32, 4, 128, 768, 151936, 128, 8),
          "Qwen3_235B_a22B": (4096, 94, 64, 4, 128, 1536, 151936, 128, 8)}


def bridge_job(row):
    """The job of a row, or why there is none."""
    h, l, a, kv, d, ffn, vocab, experts, top_k = BRIDGE[row["model"]]
    n = {k: int(row[k]) if row[k].isdigit() else 1 for k in ("TP", "PP", "CP", "VP", "EP", "GBS", "MBS", "#-GPUs")}
    layers = -(-l // (n["PP"] * n["VP"])) * n["PP"] * n["VP"]  # uneven cuts are rounded up
    job = {"model.kind": "gpt", "model.hidden": h, "model.layers": layers, "model.heads": a, "model.kv_heads": kv,
           "model.head_dim": d, "model.ffn": ffn, "model.gated": "true", "model.vocab": vocab, "model.tied": "false",
           "model.experts": experts, "model.top_k": top_k, "model.sequence": row["Sequence Length"],
           "parallel.tensor": n["TP"], "parallel.pipeline": n["PP"], "parallel.context": n["CP"],
           "parallel.interleave": n["VP"], "parallel.expert": n["EP"] if experts else 1,
           "parallel.expert_tensor": 1 if experts else 0, "parallel.devices": n["#-GPUs"], "parallel.zero": 1,
           "batch.global": n["GBS"], "batch.micro": n["MBS"],
           "memory.precision": "bf16" if row["Precision"] == "BF16" else "fp8", "parallel.sequence_parallel": "true",
           "overlap.gradients": "true", "overlap.parameters": "true", "overlap.tensor": "true"}
    copies = n["#-GPUs"] // (n["TP"] * n["PP"] * n["CP"])
    legal = n["GBS"] % (copies * n["MBS"]) == 0 and (n["VP"] == 1 or n["GBS"] // (copies * n["MBS"]) % n["PP"] == 0)
    return job if legal else None


def bridge_section(reel, path):
    jobs = {}
    for row in read_csv(path):
        cluster = {"DGX-H100": "h100-ndr400", "DGX-B200": "b200"}.get(row["System"])
        sharded = row["FSDP"] not in ("", "0")
        if cluster is None or sharded or row["model"] not in BRIDGE or row["task"] != "Pre-Training Performance":
            continue
        job = bridge_job(row) if row["Precision"] in ("BF16", "FP8", "MXFP8") else None
        if job is not None:
            jobs.setdefault(cluster, []).append((row, job))
    kinds = {"dense": [], "experts": []}
    for cluster, some in jobs.items():
        out = reel.table([job for _, job in some], "--cluster", cluster)
        for (row, job), result in zip(some, out):
            rate, published = float(result["tokens_per_second_per_device"]), float(row["Tokens / sec / GPU"])
            cut = f'{row["TP"]} x {row["PP"]} x {row["CP"]} x {row["EP"]}'
            kinds["experts" if job["model.experts"] else "dense"].append(
                (row["model"], row["System"], row["#-GPUs"], cut, row["MBS"], row["Precision"], row["release"].split()[0],
                 f"{published:.0f}", f"{rate:.0f}", rate / published - 1))
    head = ("model", "system", "GPUs", "tensor x pipeline x context x expert", "micro-batch", "precision", "release",
            "published", "predicted", "error")
    text = ("## Training steps: Megatron-Bridge on H100 and B200\n\nTokens per second and device"
            " (NVIDIA-NeMo/Megatron-Bridge); what is recomputed and overlapped is not in the table. Reported, not a"
            " goal.\n")
    for kind, title, name in (("dense", "Dense models", "dense, H100"),
                              ("experts", "Mixtures of experts", "mixtures of experts, H100 and B200")):
        ratios = [1 + row[-1] for row in kinds[kind]]
        runs = len({row[:6] for row in kinds[kind]})  # the others are the same job in another release
        text += f"\n### {title}\n\n"
        text += steps_scored(f"Megatron-Bridge, {name}, {runs} jobs", ratios, [1] * len(ratios), rates=True)
        text += f"The rows are {runs} jobs, some of them in several releases.\n\n"
        if kind == "experts":
            text += EXPERTS_NOTE
        text += markdown(head, [(*row[:-1], percent(row[-1])) for row in kinds[kind]])
    return text


EXPERTS_NOTE = """Rates of one model on the same devices differ by up to 2.8 times between rows with the same cut, by
micro-batch, dispatcher, CUDA graphs and release. Predicted is the plain all-to-all dispatcher in eager mode, nothing
overlapped; the host is the limit of the small micro-batches (device.operation, 100 us, which was read off the output of
vTrain's simulator). The worst row is of release 26.02, half as fast as the same model in 25.09.

"""

# MosaicML llm-foundry, scripts/train/benchmarking/README.md: PyTorch FSDP (everything sharded), MPT models of vocabulary
# 50368. Model, sequence, GPUs, micro-batch, micro-batches, whether layers are run again, tokens/s per GPU.
MPT = {"760m": (1536, 24, 12), "1b": (2048, 24, 16), "3b": (2560, 32, 20), "7b": (4096, 32, 32), "13b": (5120, 40, 40),
       "30b": (7168, 48, 56), "70b": (8192, 80, 64)}
FOUNDRY = {
    "a100-selene": [
        ("70b", 2048, 64, 8, 4, True, 410), ("70b", 2048, 32, 2, 16, True, 373), ("30b", 8192, 8, 1, 21, True, 574),
        ("30b", 4096, 8, 1, 21, True, 814), ("30b", 2048, 8, 3, 21, True, 916), ("30b", 1024, 8, 6, 21, True, 946),
        ("30b", 512, 8, 12, 21, True, 967), ("13b", 32768, 8, 1, 3, True, 1016), ("13b", 16384, 8, 3, 3, True, 1431),
        ("13b", 8192, 8, 5, 3, True, 1795), ("13b", 4096, 8, 10, 3, True, 2060), ("13b", 2048, 8, 2, 3, False, 2262),
        ("13b", 1024, 8, 40, 3, True, 2330), ("7b", 65536, 8, 1, 2, True, 1013), ("7b", 16384, 8, 4, 2, True, 2453),
        ("7b", 8192, 8, 8, 2, True, 3206), ("7b", 4096, 8, 16, 2, True, 3684), ("7b", 2048, 8, 6, 2, False, 4641),
        ("7b", 1024, 8, 64, 2, True, 4357), ("3b", 32768, 8, 3, 6, True, 3029), ("3b", 8192, 8, 3, 6, False, 7695),
        ("3b", 2048, 8, 10, 2, False, 10811), ("3b", 512, 8, 40, 6, False, 12127), ("1b", 32768, 8, 1, 4, False, 6275),
        ("1b", 8192, 8, 3, 4, False, 13814), ("1b", 2048, 8, 14, 4, False, 20513), ("1b", 512, 8, 56, 4, False, 23148),
        ("760m", 8192, 8, 6, 2, False, 20933), ("760m", 2048, 8, 24, 2, False, 32434)],
    "h100-ndr400": [
        ("70b", 2048, 64, 8, 4, True, 1039), ("70b", 2048, 32, 2, 16, True, 882), ("30b", 8192, 8, 1, 21, True, 1384),
        ("30b", 4096, 8, 1, 21, True, 1802), ("30b", 2048, 32, 14, 3, True, 2308), ("30b", 2048, 16, 10, 3, True, 2263),
        ("30b", 2048, 8, 3, 21, True, 2002), ("30b", 1024, 8, 6, 21, True, 2084), ("13b", 16384, 8, 3, 3, True, 2985),
        ("13b", 4096, 8, 10, 3, True, 4717), ("13b", 2048, 64, 2, 1, False, 4800), ("13b", 2048, 8, 2, 1, False, 4792),
        ("13b", 1024, 8, 40, 3, True, 5502), ("7b", 32768, 8, 2, 2, True, 3318), ("7b", 8192, 8, 8, 2, True, 6935),
        ("7b", 4096, 8, 16, 2, True, 8611), ("7b", 2048, 8, 6, 1, False, 10643), ("7b", 1024, 8, 64, 2, True, 10203),
        ("3b", 8192, 8, 3, 6, False, 16578), ("3b", 2048, 64, 6, 3, False, 22525), ("3b", 512, 8, 40, 6, False, 27965),
        ("1b", 8192, 8, 3, 4, False, 29157), ("1b", 2048, 64, 20, 1, False, 44402), ("1b", 512, 8, 56, 4, False, 52275)],
}


def with_first_flash_attention(reel, cluster):
    """A cluster's file with attention as of 2022: half of FlashAttention-2's rates (arXiv 2307.08691 says 2 times)."""
    shares = {"a100-selene": {"forward_128": 0.36, "backward_128": 0.31, "forward_64": 0.30, "backward_64": 0.27},
              "h100-ndr400": {"forward_128": 0.19, "backward_128": 0.16, "forward_64": 0.16, "backward_64": 0.14}}[cluster]
    folder = os.path.join(HOME, "clusters")
    path = reel.path(cluster + "-2022.toml")
    with open(os.path.join(folder, cluster + ".toml"), encoding="utf-8") as file, open(path, "w", encoding="utf-8") as out:
        for line in file.read().split("\n"):
            key = line.split(" = ")[0]
            out.write((f"{key} = {shares[key]}" if key in shares else line) + "\n")
    return path


def foundry_section(reel):
    text = ("## Training steps: everything sharded, 8 to 64 A100 and H100\n\nMPT models with PyTorch's FSDP, tokens per"
            " second and device (mosaicml/llm-foundry, scripts/train/benchmarking). The A100 nodes had 1,600 Gb/s of RoCE,"
            " here InfiniBand of the same rate. The runs are of early 2023: attention has half of the rates of the cluster"
            " files, which are of FlashAttention-2 and -3 (the paper of FlashAttention-2 gives that factor to the one"
            " before). For H100 that was the first software at all.\n")
    for cluster, rows in FOUNDRY.items():
        jobs = []
        for model, length, gpus, micro, passes, again, _ in rows:
            h, l, a = MPT[model]
            jobs.append({"model.kind": "gpt", "model.hidden": h, "model.layers": l, "model.heads": a, "model.vocab": 50368,
                         "model.sequence": length, "model.flash": "true", "parallel.data": gpus, "parallel.zero": 3,
                         "batch.global": gpus * micro * passes, "batch.micro": micro,
                         "memory.recompute": "full" if again else "none", "overlap.gradients": "true",
                         "overlap.parameters": "true"})
        old = with_first_flash_attention(reel, cluster)
        rates = [float(r["tokens_per_second_per_device"]) for r in reel.table(jobs, "--cluster", old)]
        published = [r[-1] for r in rows]
        name = f"MPT with FSDP, 8 to 64 {cluster.split('-', maxsplit=1)[0].upper()}"
        text += f"\n### `{cluster}`\n\n" + steps_scored(name, rates, published, rates=True) + "\n"
        text += markdown(("model", "sequence", "GPUs", "micro-batch", "recompute", "published", "predicted", "error"),
                         [(r[0], r[1], r[2], r[3], "full" if r[5] else "none", r[6], f"{p:.0f}", percent(p / r[6] - 1))
                          for r, p in zip(rows, rates)])
    return text


# Llama 3 405B (arXiv 2407.21783), table 4: GPUs, tensor, context, pipeline, data, sequence, samples of a copy, TFLOP/s
# per GPU. 126 layers on 16 stages: the first and the last have one fewer, here all have eight.
LLAMA = [(8192, 8, 1, 16, 64, 8192, 32, 430), (16384, 8, 1, 16, 128, 8192, 16, 400)]


def llama_section(reel):
    jobs, published = [], []
    for gpus, t, c, p, d, length, samples, teraflops in LLAMA:
        jobs.append({"model.kind": "gpt", "model.hidden": 16384, "model.layers": 128, "model.heads": 128,
                     "model.kv_heads": 8, "model.ffn": 53248, "model.gated": "true", "model.vocab": 128256,
                     "model.tied": "false", "model.sequence": length, "parallel.tensor": t, "parallel.context": c,
                     "parallel.pipeline": p, "parallel.data": d, "parallel.interleave": 8, "parallel.zero": 1,
                     "parallel.sequence_parallel": "true", "batch.global": d * samples, "batch.micro": 1,
                     "overlap.gradients": "true", "overlap.parameters": "true"})
        # forward and backward of 405e9 weights, and of half of all pairs of attention
        work = 6 * 405e9 + 6 * length * 16384 * 126
        published.append(teraflops * 1e12 / work)
    rates = [float(r["tokens_per_second_per_device"]) for r in reel.table(jobs, "--cluster", "h100-ndr400")]
    rows = [(r[0], f"{r[1]} x {r[3]} x {r[4]}", r[7], f"{m:.0f}", f"{p:.0f}", percent(p / m - 1))
            for r, m, p in zip(LLAMA, published, rates)]
    text = ("## Training steps: Llama 3 405B, 8,192 and 16,384 H100\n\nTable 4 of arXiv 2407.21783, bf16, sequences of"
            " 8,192; tokens per second and device from its TFLOP/s with half of the pairs of attention. How deep its"
            " pipeline is interleaved is not in the table (here 8, one layer a chunk); its network is RoCE.\n\n")
    text += steps_scored("Llama 3 405B, 8,192 and 16,384 H100", rates, published, rates=True) + "\n"
    return text + markdown(("GPUs", "tensor x pipeline x data", "TFLOP/s", "published", "predicted", "error"), rows)


SECTIONS = [
    ("nccl_a100_echo_allreduce.csv", a100_section),
    ("vtrain_allreduce_lut.csv", lut_section),
    ("nccl_h100_ndr400_xxrjun.csv", h100_section),
    ("", slowdown_section),
    ("echo_slowdown_merged_features.csv", overlap_section),
    ("vtrain_ground_truth_multi.csv", vtrain_section),
    ("", megatron_section),
    ("", selective_section),
    ("", foundry_section),
    ("", llama_section),
    ("megatron_bridge_perf.csv", bridge_section),
]

HEAD = """# Validation

What `reel simulate` predicts compared with what others measured. Written by `make validate`; not edited by hand. Errors are
relative, |predicted / measured - 1|; a bias keeps its sign. Figures that tests assert stand in tests/published.csv with their
sources, others in scripts/validate.py. Whole tables are parts of what was published, read from the folder REEL_DATA; they are
not part of this repository.
"""

SUMMARY = """## Training steps in short

Nothing was fitted to a training step. Constants of devices come from published kernel figures; the time that a host takes
for an operation of a mixture of experts was read off the output of vTrain's simulator. Networks: A100, inside a node fitted
to vTrain's table of all-reduces, between nodes NVIDIA's 192 GB/s; H100, fitted to nccl-tests on 1 and 10 nodes; B200,
published figures of one node, between nodes as H100. Where a table does not say how its runs were set up, the section
says what was taken.

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reel", default="build/reel")
    parser.add_argument("--data", default=os.environ.get("REEL_DATA") or "../shared/data")
    parser.add_argument("--out", default="docs/validation.md")
    parser.add_argument("--only", default="", help="sections whose name contains this, to the screen")
    options = parser.parse_args()
    reel = Reel(os.path.abspath(options.reel))
    parts, missing = [], []
    for name, section in SECTIONS:
        if options.only not in section.__name__:
            continue
        path = os.path.join(options.data, name)
        if name and not os.path.exists(path):
            parts.append(f"*Left out: the section of {name}, which is not in REEL_DATA.*\n")
            missing.append(path)
            continue
        parts.append(section(reel, path) if name else section(reel))
        print(section.__name__, file=sys.stderr)
    if options.only:
        print("\n".join(parts))
    else:
        table = markdown(("published training steps", "rows", "mean error", "worst", "bias"), STEPS)
        summary = SUMMARY + table
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join([HEAD, summary, *parts]))
        with open(os.path.join(HOME, "README.md"), encoding="utf-8") as file:
            if not missing and table not in file.read():
                print("README.md does not show this summary of training steps", file=sys.stderr)
    for path in missing:
        print(f"left out: {path} is not there (REEL_DATA names the folder)", file=sys.stderr)


if __name__ == "__main__":
    main()
