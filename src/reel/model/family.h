// The families of models. What differs between them stands here, one Family each; everybody else treats them alike.
//
// To add one: its layers in NAME.{h,cpp}, its Family in NAME_family.cpp, and a line in family.cpp. The numbers that it
// alone needs are fields of ModelConfig (config.h) with a key each.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reel/model/denoiser.h"

namespace reel::model {

class ConfigReader;

// A class of somebody's program that writes config.json, and how the defaults of that class are read.
struct ConfigClass {
  std::string name;  // _class_name
  void (*read)(const ConfigReader& reader, ModelConfig& config);
};

struct Family {
  std::string name;                  // model.family
  std::vector<ConfigClass> classes;  // whose files describe models of the family
  nlohmann::ordered_json (*config_json)(const ModelConfig& config);
  void (*check)(const ModelConfig& config);  // calls refuse() where the family cannot have such numbers
  std::unique_ptr<Denoiser> (*make)(const ModelConfig& config);
  // The official name of a parameter, where files have either set of names (ModelConfig::official_names).
  std::string (*official_name)(const std::string& parameter) = nullptr;

  // Each layer attends to space and time at once; attention can be sparse. Otherwise `layers` counts pairs of a spatial
  // and a temporal block, and plans may switch between cuts of space and of time (dsp).
  bool full_attention = false;
  bool pads = false;              // what does not fill a patch is padded; otherwise it is left out
  bool knows_length = false;      // ModelConfig::frames has to be the length of the clips
  bool wants_size = false;        // Input has fps, height and width
  bool takes_text_mask = false;   // Input may have text_mask
  bool ddpm = false;              // published with DDPM and a learned variance; otherwise with rectified flow
  bool data_minus_noise = false;  // the sign of its velocity; otherwise it is noise minus data
};

const std::vector<const Family*>& families();  // in the order in which they are listed for users
const Family& family_of(const ModelConfig& config);
std::string names_of_families(bool full_attention);  // those with it or without it, for hints: "stdit3" or "latte"

// The Error of a Family::check.
[[noreturn]] void refuse(const std::string& what, const std::string& hint);

}  // namespace reel::model
