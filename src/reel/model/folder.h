// Model folders as diffusers writes them: config.json and diffusion_pytorch_model.safetensors, or
// diffusion_pytorch_model.safetensors.index.json with shards. As transformers writes them (model.safetensors), they are
// read, too.
//
// Weights are read memory-mapped, f32, bf16 or f16, by name. Wan is known under its official and its diffusers names,
// also with the prefix model.diffusion_model. that repackaged files have. Whatever is missing, unexpected or of another
// shape is listed in one Error. Saving writes the names that belong to config.json, so that the result loads where it
// came from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reel/files/safetensors.h"
#include "reel/model/denoiser.h"

namespace reel::model {

ModelConfig load_config(const std::string& folder);
std::unique_ptr<Denoiser> load_model(const std::string& folder, tape::Parameters::With with);

// Fills the parameters of `model` from the files of a folder, or from one file.
void load_weights(Denoiser& model, const std::string& path);
// From tensors of one file, each name of the model's preceded by `prefix` ("ema."); everything in the file that begins
// with the prefix must be used.
void load_weights(tape::Parameters& parameters, const SafetensorsFile& file, const std::string& prefix);

void save_model(const Denoiser& model, const std::string& folder);

// The name of a parameter in the model's own files.
std::string file_name_of(const ModelConfig& config, const std::string& parameter);

}  // namespace reel::model
