// What is in a file or a folder, for `reel inspect`. Everything is looked at as JSON; the text for people is made of
// that, so both say the same. No weights are read, only headers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace reel::app {

using Json = nlohmann::ordered_json;

// A safetensors file: {"kind": "safetensors", path, bytes, metadata, tensors, parameters,
//   "dtypes": [{dtype, tensors, parameters, bytes}], "groups": [{name, dtype, shape, count, parameters}]}
// Tensors of one dtype and shape whose names differ in a running number are one group,
// "blocks.{0..29}.attn1.to_q.bias"; with `all` every tensor is its own. A file of key lists: {"kind": "key lists",
// path, bytes, batch, heads, queries, keys, granularity, "groups": {count,
//   least, most}, "lists": {least, mean, most}, density, dense_heads, "density_of_heads": {least, median, most}}
// and with `all` "of_heads", the density of each, [batch][heads].
Json look_at_file(const std::string& path, bool all);

// A model folder: {"kind": "model", path, family, layers, width, heads, head_dim, ffn, patch, channels, out_channels,
//   text_width, parameters, trained, "files": [{name, bytes, tensors, dtypes}], fits, "problems": [text]}
// The folder of a run: {"kind": "run", path, step, steps, "checkpoints": [name], latest, "metrics": {step, ...}, model}
// with `latest`, `metrics` and `model` null where there are none yet.
Json look_at_folder(const std::string& path);

}  // namespace reel::app
