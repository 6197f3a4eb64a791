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


def lists(keys, offsets, starts, dense, shape=None, tokens="100", granularity="1", order=None, **more):
    parts = [("keys", "I32", f"<{len(keys)}i", keys), ("offsets", "I64", f"<{len(offsets)}q", offsets),
             ("group_starts", "I32", f"<{len(starts)}i", starts), ("dense_heads", "U8", f"<{len(dense)}B", dense)]
    if order is not None:
        parts.append(("order", "I32", f"<{len(order)}i", order))
    header, data = {"__metadata__": {"keys_tokens": tokens, "granularity": granularity, **more}}, b""
    for name, dtype, form, values in parts:
        begin, data = len(data), data + struct.pack(form, *values)
        header[name] = tensor(dtype, shape if name == "dense_heads" and shape else [len(values)], begin, len(data))
    return safetensors(header, data)


write("key_lists_fuzz", {
    "good": lists([0, 3, 99, 5, 7, 0, 1, 2], [0, 3, 5, 5, 8], [0, 64, 100], [0, 0], [1, 2]),
    "one_batch_item": lists([1], [0, 1], [0, 10], [0], [1]),
    "dense_head": lists([4], [0, 0, 1], [0, 10], [1, 0], [1, 2]),
    "tiles": lists([0, 1], [0, 2], [0, 100], [0], [1, 1], granularity="64"),
    "tile_beyond": lists([0, 2], [0, 2], [0, 100], [0], [1, 1], granularity="64"),
    "unsorted": lists([3, 1], [0, 2], [0, 10], [0], [1, 1]),
    "twice": lists([3, 3], [0, 2], [0, 10], [0], [1, 1]),
    "negative_key": lists([-1], [0, 1], [0, 10], [0], [1, 1]),
    "key_beyond": lists([100], [0, 1], [0, 10], [0], [1, 1]),
    "offsets_back": lists([1, 2], [0, 2, 1], [0, 5, 10], [0], [1, 1]),
    "offsets_short": lists([1, 2], [0, 2], [0, 5, 10], [0], [1, 1]),
    "offsets_beyond": lists([1, 2], [0, 2**62], [0, 10], [0], [1, 1]),
    "starts_back": lists([], [0, 0, 0], [0, 10, 5], [0], [1, 1]),
    "no_groups": lists([], [0], [0], [0], [1, 1]),
    "no_starts": lists([], [0], [], [0], [1, 1]),
    "no_heads": lists([], [0], [0, 10], [], [1, 0]),
    "scalar_dense_heads": lists([], [0], [0, 10], [0], []),
    "three_dimensions": lists([1], [0, 1], [0, 10], [0], [1, 1, 1]),
    "many_tokens": lists([1], [0, 1], [0, 10], [0], [1, 1], tokens="9223372036854775807"),
    "negative_tokens": lists([], [0, 0], [0, 10], [0], [1, 1], tokens="-5"),
    "tokens_no_number": lists([], [0, 0], [0, 10], [0], [1, 1], tokens="1e3"),
    "odd_granularity": lists([], [0, 0], [0, 10], [0], [1, 1], granularity="3"),
    "ordered": lists([0, 3, 1], [0, 2, 3], [0, 2, 4], [0], [1, 1], tokens="4", order=[3, 1, 2, 0], head_dim="64"),
    "order_names_twice": lists([1], [0, 1], [0, 4], [0], [1, 1], tokens="4", order=[3, 1, 1, 0]),
    "order_beyond": lists([1], [0, 1], [0, 4], [0], [1, 1], tokens="4", order=[3, 1, 2, 4]),
    "order_short": lists([1], [0, 1], [0, 4], [0], [1, 1], tokens="4", order=[0]),
    "negative_head_dim": lists([1], [0, 1], [0, 10], [0], [1, 1], head_dim="-1"),
    "no_metadata": safetensors({"keys": tensor("I32", [0], 0, 0)}),
    "pairs_beyond_64_bits": lists([], [0] * 4, [0, 2**31 - 1], [1, 1, 1], [1, 3], tokens=str(2**31 - 1)),
    "empty": b"",
})

write("metrics_fuzz", {
    "good": '{"step":1,"loss":0.5,"learning_rate":0.0003}\n{"step":2,"loss":0.25,"gradient_norm":null}\n',
    "one_step_twice": '{"step":5,"loss":1}\n{"step":5,"validation_loss":2}\n{"step":6,"loss":3}\n',
    "torn": '{"step":1,"loss":0.5}\n{"step":2,"lo',
    "spaces_and_crlf": ' { "step" : 1 , "loss" : 2.5 } \r\n\t\r\n',
    "heads": '{"step":9,"heads.0.0.needed":0.1,"heads.0.1.needed":0.2,"heads.1.0.sparse":1}\n',
    "extremes": '{"step":9223372036854775807,"loss":1.7976931348623157e308,"a":-1e-320}\n{"step":-1,"loss":-0}\n',
    "too_large": '{"step":9223372036854775808}\n{"step":1,"loss":1e999}\n{"step":1.5}\n',
    "steps_back": '{"step":9,"loss":1}\n{"step":3,"loss":2}\n{"step":9,"loss":3}\n',
    "words": '{"step":1,"a":nan,"b":inf}\n{"step":1,"a":-inf}\n{"step":1,"a":true}\n',
    "names": '{"step":1,"<b>&\'":1,"\u00e4\u20ac":2,"a b":3}\n{"step":1,"":1}\n{"step":1,"\\u0041":1}\n',
    "not_utf8": b'{"step":1,"\xff":1}\n',
    "nul": b'{"step":1,"a\0b":1}\n\0\n',
    "name_twice": '{"step":1,"loss":1,"loss":2,"step":2}\n',
    "no_step": '{"loss":1}\n{}\n[]\n1\n',
    "empty": "",
})

wan = {"_class_name": "WanTransformer3DModel", "num_layers": 2, "num_attention_heads": 2, "attention_head_dim": 16,
       "in_channels": 4, "out_channels": 4, "patch_size": [1, 2, 2], "ffn_dim": 64, "text_dim": 8, "freq_dim": 32}
write("model_config_fuzz", {
    "wan": json.dumps(wan),
    "wan_official": json.dumps({"_class_name": "WanModel", "dim": 32, "ffn_dim": 64, "num_heads": 2, "num_layers": 2,
                                "in_dim": 4, "out_dim": 4, "text_len": 16, "freq_dim": 32, "eps": 1e-6}),
    "latte": json.dumps({"_class_name": "LatteTransformer3DModel", "num_layers": 2, "num_attention_heads": 2,
                         "attention_head_dim": 16, "in_channels": 4, "out_channels": 8, "patch_size": 2,
                         "sample_size": 8, "video_length": 16, "caption_channels": 8}),
    "stdit3": json.dumps({"architectures": ["STDiT3"], "depth": 2, "num_heads": 2, "hidden_size": 32, "in_channels": 4,
                          "caption_channels": 8, "model_max_length": 16, "patch_size": [1, 2, 2], "qk_norm": True}),
    "class_alone": '{"_class_name": "WanTransformer3DModel"}',
    "latte_alone": '{"_class_name": "LatteTransformer3DModel"}',
    "stdit3_alone": '{"architectures": ["STDiT3"]}',
    "official_alone": '{"_class_name": "WanModel"}',
    "two_classes": '{"architectures": ["STDiT3", "STDiT3"]}',
    "unknown_class": '{"_class_name": "UNet"}',
    "nulls": json.dumps({key: None if key != "_class_name" else name for key, name in wan.items()}),
    "huge_numbers": json.dumps({**wan, "num_attention_heads": 2**20, "attention_head_dim": 2**20, "ffn_dim": 2**63}),
    "negative": json.dumps({**wan, "num_layers": -1}),
    "fraction": json.dumps({**wan, "num_layers": 2.5}),
    "words": json.dumps({**wan, "num_layers": "two", "eps": "small"}),
    "odd_head_dim": json.dumps({**wan, "attention_head_dim": 7}),
    "long_patch": json.dumps({**wan, "patch_size": [1, 2, 2, 2]}),
    "infinite_eps": json.dumps(wan)[:-1] + ', "eps": 1e400}',
    "rope": json.dumps({**wan, "reel_rope_theta": -1, "reel_heads_without_rope": 3}),
    "list": "[]",
    "deep": "[" * 5000,
    "not_utf8": b'{"_class_name": "\xff"}',
    "empty": "",
})
