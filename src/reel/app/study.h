// What `reel study` says about the heads of a layer, as a table, as JSON and as a page.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reel/study/qk_file.h"
#include "reel/study/study.h"

namespace reel::app {

struct Study {
  std::string path;
  std::int64_t tokens = 0, head_dim = 0;
  std::vector<std::int64_t> grid, tile;  // empty: tokens in order, groups of 64
  double mass = 0.9, size = 0.1;
  std::int64_t groups = 0, queries = 0;  // looked at, of each head
  double break_even = 0;                 // share of keys; NaN: not known
  std::string break_even_note;           // why not
  std::vector<study::HeadStudy> heads;

  // The predictor that lists are made with: the highest rank up to 32.
  std::string best_rank() const;
  double mean(const std::function<double(const study::HeadStudy&)>& value) const;
  // Share of the heads whose lists, as predicted by best_rank(), are below break-even; NaN where that is not known.
  double paying_heads() const;
};

void print_study(const Study& study);
nlohmann::ordered_json study_json(const Study& study);
void write_page(const Study& study, const std::string& path);

// reel study RUN: predictors of every kind and rank against the true scores of a trained model.
void study_run(const std::string& run, const std::string& json, int threads);

}  // namespace reel::app
