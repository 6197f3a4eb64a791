#!/usr/bin/env python3
"""Writes the hand-made seeds of the fuzz corpora beside this script; inputs that the fuzzers found are kept as they are."""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def write(corpus, seeds):
    folder = HERE / corpus
    folder.mkdir(exist_ok=True)
    for name, content in seeds.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


good = {"__metadata__": {"format": "pt"}, "a.weight": tensor("F32", [1, 2], 0, 8), "b": tensor("BF16", [2], 8, 12),
        "c": tensor("I64", [], 12, 20), "d": tensor("BOOL", [3], 20, 23), "e": tensor("F16", [0, 4], 23, 23)}
dtypes = "F64 I64 U64 F32 I32 U32 F16 BF16 I16 U16 F8_E4M3 F8_E5M2 I8 U8 BOOL".split()
sizes = [8, 8, 8, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1]
ends = [sum(sizes[: i + 1]) for i in range(15)]
write("safetensors_fuzz", {
    "good": safetensors(good, bytes(range(23))),
    "all_dtypes": safetensors({d: tensor(d, [1], e - s, e) for d, s, e in zip(dtypes, sizes, ends)}, b"\x7f" * 44),
    "padded": safetensors('{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   ', b"ab"),
    "no_tensors": safetensors("{}"),
    "empty": b"",
    "seven_bytes": b"1234567",
    "length_only": struct.pack("<Q", 0),
    "huge_header_length": safetensors("{}", length=2**64 - 1),
    "header_length_over_limit": safetensors("{}", length=100_000_001),
    "truncated_header": safetensors(good)[:40],
    "truncated_data": safetensors(good, bytes(20)),
    "trailing_data": safetensors(good, bytes(30)),
    "overlap": safetensors({"a": tensor("U8", [3], 0, 3), "b": tensor("U8", [3], 1, 4)}, b"abcd"),
    "same_place": safetensors({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 0, 4)}, b"abcd"),
    "hole": safetensors({"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 3, 4)}, b"abcd"),
    "hole_at_begin": safetensors({"a": tensor("U8", [2], 2, 4)}, b"abcd"),
    "begin_after_end": safetensors({"a": tensor("U8", [4], 4, 0)}, b"abcd"),
    "offset_overflow": safetensors({"a": tensor("U8", [4], 2**64 - 1, 3)}, b"abcd"),
    "three_offsets": safetensors({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 2, 4]}}, b"abcd"),
    "wrong_size": safetensors({"a": tensor("F32", [2], 0, 4)}, b"abcd"),
    "wrong_dtype": safetensors({"a": tensor("F99", [1], 0, 4)}, b"abcd"),
    "number_dtype": safetensors({"a": tensor(4, [1], 0, 4)}, b"abcd"),
    "negative_shape": safetensors({"a": tensor("U8", [-4], 0, 4)}, b"abcd"),
    "two_negative_shapes": safetensors({"a": tensor("U8", [-2, -2], 0, 4)}, b"abcd"),
    "float_shape": safetensors({"a": tensor("U8", [4.0], 0, 4)}, b"abcd"),
    "overflowed_shape": safetensors({"a": tensor("U8", [2**32, 2**32], 0, 0)}),
    "overflowed_bytes": safetensors({"a": tensor("F64", [2**61], 0, 0)}),
    "overflow_hidden_by_zero": safetensors({"a": tensor("F64", [2**62, 2**62, 0], 0, 0)}),
    "beyond_u64": safetensors({"a": tensor("U8", [2**64], 0, 4)}, b"abcd"),
    "beyond_double": safetensors('{"a":{"shape":[1e999]}}'),
    "scalar": safetensors({"a": tensor("F64", [], 0, 8)}, bytes(8)),
    "not_utf8": safetensors(b'{"\xff\xfe":' + json.dumps(tensor("U8", [4], 0, 4)).encode() + b"}", b"abcd"),
    "escaped_surrogate": safetensors(r'{"\ud800":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}', b"a"),
    "nul_in_name": safetensors(r'{"a\u0000b":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}', b"a"),
    "bom": safetensors(b"\xef\xbb\xbf{}"),
    "not_json": safetensors("{'a': 1}"),
    "not_an_object": safetensors("[1, 2]"),
    "two_objects": safetensors("{}{}"),
    "duplicate_names": safetensors('{"a":%s,"a":%s}' % ((json.dumps(tensor("U8", [4], 0, 4)),) * 2), b"abcd"),
    "duplicate_dtype": safetensors('{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}', b"abcd"),
    "missing_shape": safetensors({"a": {"dtype": "U8", "data_offsets": [0, 4]}}, b"abcd"),
    "unknown_property": safetensors({"a": {**tensor("U8", [4], 0, 4), "stride": [1]}}, b"abcd"),
    "metadata_number": safetensors({"__metadata__": {"step": 3}}),
    "metadata_list": safetensors({"__metadata__": ["step"]}),
    "metadata_twice": safetensors('{"__metadata__":{},"__metadata__":{}}'),
    "deep_arrays": safetensors('{"a":' + "[" * 20000),
    "deep_objects": safetensors('{"a":' * 4000),
    "deep_shape": safetensors('{"a":{"shape":' + "[" * 4000),
})

run = """# a run
seed = 1
[train]
steps = 2_000          # optimizer steps
rate = 1e-4
betas = [0.9, 0.95]
resume = false
[model]
name = "wan"
sizes = [16, 32, 64]
tags = ["a", 'b', \"\"\"c\"\"\"]
[[level]]
name = "nvlink"
[[level]]
name = "ib"
[device."a100.80"]
memory = inf
"""
write("toml_fuzz", {
    "good": "train.steps=5\n" + run,
    "empty": "",
    "only_override": "train.steps=5",
    "override_string": "parallel.plan=ulysses=2,ring=4\n[parallel]\nplan = 'x'\n",
    "override_array": "model.sizes=[1, 2\n" + run,
    "override_new_table": "a.b.c.d={x=1}\n",
    "override_into_value": "seed.x=1\n" + run,
    "override_table": "train=3\n" + run,
    "override_element": "level[1].name=\"eth\"\n" + run,
    "override_out_of_range": "level[7].name=1\n" + run,
    "override_no_value": "train.steps\n" + run,
    "override_bad_key": "train..steps=1\n" + run,
    "override_quoted_key": 'device."a100.80".memory=1\n' + run,
    "wrong_types": "x=1\ninteger = 'many'\nnumber = true\nboolean = 1\nstring = 2\nintegers = [1, 'a']\n",
    "dates": "x=1\nstring = 1979-05-27T07:32:00Z\ninteger = 07:32:00\nnumber = 1979-05-27\n",
    "large_numbers": "x=1\ninteger = 9223372036854775807\nnumber = 1e308\nnumbers = [nan, -inf]\n",
    "overflow": "x=1\ninteger = 9223372036854775808\n",
    "duplicate_keys": "x=1\na = 1\na = 2\n",
    "duplicate_tables": "x=1\n[a]\n[a]\n",
    "truncated_string": 'x=1\na = "abc',
    "truncated_array": "x=1\na = [1, 2",
    "not_utf8": b"x=1\na = '\xff\xfe'\n",
    "nul": b"x=1\na = 'b\0c'\n",
    "bom": b"\xef\xbb\xbfa = 1\n",
    "crlf": "x=1\r\n[train]\r\nsteps = 1\r\n",
    "deep_arrays": "x=1\na = " + "[" * 5000,
    "closed_deep_arrays": "x=1\na = " + "[" * 250 + "]" * 250,
    "deep_inline_tables": "x=1\na = " + "{a=" * 5000,
    "deep_dotted_key": "x=1\n" + "a." * 5000 + "a = 1\n",
    "deep_header": "x=1\n[" + "a . " * 2000 + "a]\n",
    "deep_quoted_key": "x=1\n" + '"a".' * 2000 + "a = 1\n",
    "deep_override": "a." * 5000 + "a=1\n",
    "deep_both": "x=1\na = " + ("{" + "a." * 30 + "a=") * 60 + "1" + "}" * 60,
    "deep_override_value": "a=" + "[" * 3000 + "\n",
})

write("csv_fuzz", {
    "good": "step,loss,note\n1,0.5,start\n2,0.25,\"a, \"\"b\"\"\nc\"\n",
    "crlf_and_bom": b"\xef\xbb\xbfa,b\r\n1,2\r\n",
    "no_last_newline": "a,b\n1,2",
    "blank_lines": "\n\na,b\n\n1,2\n\n\n",
    "header_only": "a,b\n",
    "empty": "",
    "only_newlines": "\n\r\n\n",
    "only_bom": b"\xef\xbb\xbf",
    "ragged": "a,b\n1,2\n3\n",
    "too_many": "a,b\n1,2,3\n",
    "open_quote": 'a,b\n1,"2\n3\n',
    "truncated_quote": 'a,b\n1,"',
    "text_after_quote": 'a,b\n"1"x,2\n',
    "quote_inside": 'a,b\n1"2,3\n',
    "quoted_empty": 'a\n""\n"x"\n',
    "lone_cr": "a,b\r1,2\r",
    "nul": b"a,b\n1,\0\n",
    "not_utf8": b"a,b\n1,2\n3,\xff\n",
    "truncated_utf8": b"a\n\xe2\x82",
    "duplicate_header": "a,a\n1,2\n",
    "empty_header": "a,,c\n1,2,3\n",
    "quoted_header": '"a b","c,d"\n1,2\n',
    "numbers": "a\n1e308\n-0\n nan \ninf\n0x10\n1e999\n+5\n1 2\n\"\"\n",
    "many_columns": ",".join(f"c{i}" for i in range(300)) + "\n" + ",".join("1" for _ in range(300)) + "\n",
})
