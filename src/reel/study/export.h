// Key lists in the forms that kernels of others read, one safetensors file each. B is the batch, H heads, S tokens.
// Every file also holds `order` i64 [S] where the lists are in another order than the tensors: q, k and v are to be
// taken as x[:, :, order], and the output is put back with out[:, :, order] = o.
//
// flex  torch.nn.attention.flex_attention, BlockMask.from_kv_blocks:
//         kv_num_blocks i32 [B, H, rows], kv_indices i32 [B, H, rows, columns] (behind kv_num_blocks: the columns that
//         are left out), BLOCK_SIZE i32 [2], seq_lengths i32 [2]
//       with Fit::kCover exact: blocks whose pairs are all listed are full_kv_num_blocks, full_kv_indices, and the
//         others need a mask_mod that reads token_mask u8 [B, H, groups, ceil(S / 8)], bit key % 8 of byte key / 8, and
//         group_of_query i32 [S]
// vsa   FastVideo, block_sparse_attn_from_indices: blocks are the query groups (tiles), padded to `block` tokens, 64,
// 128
//         or 256: q2k_idx i32 [B, H, tiles, most], q2k_num i32 [B, H, tiles], variable_block_sizes i32 [tiles], and
//         non_pad_index i64 [S], the place of token i of the order in the padded sequence
// dsv   DSV's artifact, sparse_group_attention: kv_index i32 [B, H, groups, most], topk_per_head i32 [B, H],
//         query_group_size i32 [1]. All groups of a head have as many keys, and their number is a multiple of 256,
//         since the published kernel reads keys 256 at a time and does not mask the rest: lists are filled with the
//         nearest keys that they lack (in the order of tokens)
// mask  plain block mask: mask bool [H, rows, columns] ([B, H, ...] for a batch), block i32 [2]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/study/block_form.h"
#include "reel/study/chosen_lists.h"

namespace reel::study {

struct ExportInput {
  const ChosenLists* chosen = nullptr;
  std::string to;                      // flex, vsa, dsv, mask
  std::int64_t rows = 0, columns = 0;  // tokens of a block; 0: 128 x 128 for flex, 64 x 64 for mask
  Fit fit = Fit::kBudget;              // flex, vsa, mask
  std::string path;
};

// What the lists become: shares of all pairs of query and key, and of the true attention (per head; empty: not known).
struct Exported {
  double listed_pairs = 0, pairs = 0;
  std::vector<double> listed_mass, mass;
  std::string what;  // "64 x 64 blocks, at most 12 of 47 a row"
};

// Throws Error where the form cannot hold these lists.
Exported export_lists(const ExportInput& in);

}  // namespace reel::study
