// What sparse attention did in a run, as sections of its page (run_page.h).
//
// Every part may be missing and is then not shown. Shares are 0 to 1; tokens are numbered in raster order (frame, row,
// column). NaN is "not known".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reel/report/html.h"
#include "reel/report/metrics.h"
#include "reel/report/page.h"

namespace reel::report {

// The lists of one query group, to be drawn into the frames of a clip.
struct GroupKeys {
  struct Frame {
    std::int64_t number = 0;  // of the token grid
    std::string png;          // all of one size
  };
  struct Head {
    int layer = 0, head = 0;
    std::vector<std::int32_t> keys;  // tokens
    double covered = 0;              // of the attention of the group's queries
  };
  int width = 0, height = 0;           // of a frame, in pixels
  std::array<std::int64_t, 3> grid{};  // tokens: frames, rows, columns
  std::vector<Frame> frames;           // those shown
  std::vector<std::int32_t> group;     // tokens
  std::vector<Head> heads;
};

// What attention looks like, from sampled queries: of the layers of one pass, or of the heads of one layer.
struct AttentionFigures {
  struct Layer {
    std::vector<double> histogram;  // share of the scores in each bin
    double concentrated = 0;        // share of the queries whose heaviest `few` of the keys carry `mass`
    std::vector<double> carried;    // mass of the heaviest keys of a query, mean; as `curve`
    std::vector<double> within;     // as critical_within
  };
  struct Length {
    std::int64_t frames = 0, tokens = 0;
    double attention = 0;  // share of the arithmetic of a training step that is dense attention
  };
  std::string part = "layer";            // what `layers` are: layers, or heads
  std::int64_t tokens = 0, queries = 0;  // queries: of a part
  double noise = 0;                      // of the clip: 0 is clean, 1 is all noise
  double mass = 0.9, few = 0.1;
  // Scores are softmax weights. Bin i of a histogram holds those from 10^((i - bins) / bins_per_decade) on; the first
  // one those below, too.
  int bins_per_decade = 5;
  std::vector<double> kept, curve;                  // shares of keys
  std::vector<Layer> layers;                        // all of them
  std::vector<double> error_critical;               // |output over some keys - output| / |output|, mean; as `kept`
  std::vector<double> error_random;                 // the same over as many keys that were drawn
  std::vector<double> critical_within, all_within;  // share of keys no further than 0, 1, 2, ... tokens from the query
  std::vector<Length> lengths;
};

struct SparsitySummary {
  std::string mode;            // sparsity.mode
  double attention_share = 0;  // of the arithmetic of a dense step
  // Rows of sparsity.jsonl: "needed.LAYER.HEAD" and so on; as many as shall be columns of a picture.
  std::vector<MetricRow> heads;
  GroupKeys group;
  AttentionFigures figures;
};

// Adds the sections; `rows` are those of metrics.jsonl.
void add_sparsity(Page& page, const SparsitySummary& sparsity, const std::vector<MetricRow>& rows);

// Its parts, one file each: sparsity_page_keys.cpp, sparsity_page_figures.cpp.
void add_group_keys(Page& page, const SparsitySummary& sparsity);
void add_attention_figures(Page& page, const AttentionFigures& figures);
std::vector<Html> attention_charts(const AttentionFigures& figures);  // those of `layers` and of their sums

}  // namespace reel::report
